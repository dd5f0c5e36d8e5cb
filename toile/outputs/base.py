"""What every output does: open once, take each frame, and finish completely or leave nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import ClassVar

from toile.model.frame import Frame, Surface
from toile.plugins import Plugin

Watcher = Callable[[str, int, int], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Within the block, `watcher` is called with what is done, how many of it, and of how many."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def advanced(what: str, done: int, total: int) -> None:
    """For what takes long, such as drawing a film: `advanced("frames drawn", 3, 75)`."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(what, done, total)


class Output(Plugin):
    """One format of result. `writer` starts it for one run; the plugin itself is only its settings."""

    distinct_fields: ClassVar[tuple[str, ...]] = ()  # two outputs of a type that differ in these write different files

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        """Something that takes the frames of one run, starting with frame 0, and writes into `folder`.

        InputError when the format needs a package that is not installed; ToileError when the folder cannot be written.
        """
        raise NotImplementedError


class Writer:
    """Takes frames in order. Files appear under their final name only in `close`."""

    def write(self, frame: Frame) -> None:
        raise NotImplementedError

    def close(self) -> list[Path]:
        """Finish and return what was written. When it raises, nothing of this run is left."""
        raise NotImplementedError

    def discard(self) -> None:
        """Remove whatever is half written; called instead of `close` when the run failed."""
        raise NotImplementedError
