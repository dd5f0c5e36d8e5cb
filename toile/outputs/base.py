"""Base classes of outputs: a writer opens once, gets each frame, and finishes completely or leaves nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import ClassVar

from toile.model.frame import Frame, Surface
from toile.plugins import Plugin

ProgressCallback = Callable[[str, int, int], None]  # what is counted, the number done, the total
_progress_callback: ContextVar[ProgressCallback | None] = ContextVar("progress_callback", default=None)


@contextlib.contextmanager
def progress_reported_to(callback: ProgressCallback) -> Iterator[None]:
    """Within the block, outputs report their progress to `callback`."""
    token = _progress_callback.set(callback)
    try:
        yield
    finally:
        _progress_callback.reset(token)


def report_progress(what: str, done: int, total: int) -> None:
    """Reports the progress of a long operation, such as drawing a film: `report_progress("frames drawn", 3, 75)`."""
    callback = _progress_callback.get()
    if callback is not None:
        callback(what, done, total)


class Output(Plugin):
    """The settings of one format of results. `writer` starts it for one run."""

    # Fields that are part of the file name: a scene may list the type once per value.
    distinct_fields: ClassVar[tuple[str, ...]] = ()

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        """Returns the writer of one run, which gets its frames, starting with frame 0, and writes into `folder`.

        A resumed run makes new writers and replays its frames from 0, so that a writer needs no state of its own.
        Raises InputError if the format needs a package that is not installed, and ToileError if the folder cannot be
        written.
        """
        raise NotImplementedError


class Writer:
    """Gets frames in order. Files appear under their final name only in `close`.

    `_atomic.Draft` gives one file, and `_file_sequence.FileSequence` one file per frame, a hidden name until then.
    """

    def write(self, frame: Frame) -> None:
        """Adds a frame.

        `frame.velocities` are those of the cloths only. `frame.solids` may be (), which means that all solids are at
        rest: `surface.solids_at(frame)` returns their positions in either case.
        """
        raise NotImplementedError

    def close(self) -> list[Path]:
        """Finishes and returns the files written. If it raises, it first removes its own drafts."""
        raise NotImplementedError

    def discard(self) -> None:
        """Removes whatever is half written; called instead of `close` if the run failed."""
        raise NotImplementedError
