"""How far a command is, on the error stream, so that the output stream holds results only.

On a terminal one line stays and changes; it gives up its parts, the least needed first, until it fits. Elsewhere
(files, pipes, CI) a plain line comes after three seconds and then at growing intervals, at most a minute apart: also
while nothing moves, so that whoever waits knows what for.

    frame 12/75 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━  24 steps, 0 rejected, strain 1.2 %, 8 s left
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from toile.cli.estimate import TimeLeft, clock
from toile.cli.streams import errors

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from toile.model.frame import Frame

FIRST_LINE, GROWTH, LONGEST_SILENCE = 3.0, 1.5, 60.0  # [s], [-], [s]
SHORTEST_BAR, LONGEST_BAR = 10, 40  # [columns]
REFRESHES = 5  # [1/s]


class Progress:
    """One line that says how far it is. `quiet` keeps it to itself."""

    def __init__(self, phase: str = "preparing", quiet: bool = False):
        self.quiet = quiet
        self.prefix = ""
        self._lock = threading.RLock()  # a signal may come while it is held, and has something to tell too
        self._live: Live | None = None
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None
        self.phase(phase)

    def __enter__(self) -> Self:
        if self.quiet:
            return self
        if errors.is_terminal and not errors.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(
                console=errors,
                refresh_per_second=REFRESHES,
                transient=True,
                redirect_stdout=False,
                get_renderable=self._fitting,
            )
            self._live.start(refresh=True)
        else:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The line vanishes: the result says what there is to keep."""
        self._ended.set()
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()
        if self._ticker is not None:
            ticker, self._ticker = self._ticker, None
            ticker.join()

    def phase(self, name: str) -> None:
        """Something that cannot be counted begins."""
        with self._lock:
            self._what, self._since = name, time.monotonic()
            self._left: TimeLeft | None = None
            self._state: tuple[str, ...] = ()

    def count(self, what: str, done: int, total: int, *state: str) -> None:
        """So many of so many are there. Parts of `state` that come last are given up first."""
        now = time.monotonic()
        with self._lock:
            if self._left is None or self._what != what or self._left.total != total:
                self._what, self._left = what, TimeLeft(total, now, done)
                self._since = now
            self._left.reach(done, now)
            self._state = state

    def line(self) -> str:
        """The whole line, without a bar."""
        return ", ".join(self._parts())

    def _parts(self) -> list[str]:
        now = time.monotonic()
        with self._lock:
            if self._left is None:
                waited = now - self._since
                what = self.prefix + self._what
                return [what] if waited < 1.0 else [what, clock(waited)]
            left = self._left.seconds(now)
            parts = [f"{self.prefix}{self._what} {self._left.done}/{self._left.total}", *self._state]
            return parts if left is None else [*parts, f"{clock(left)} left"]

    def _tick(self) -> None:
        wait = FIRST_LINE
        while not self._ended.wait(wait):
            errors.print(self.line())
            wait = min(GROWTH * wait, LONGEST_SILENCE)

    def _fitting(self) -> Text:
        """What fits in one line of the terminal."""
        from rich.text import Text

        width = errors.width - 1
        head, *rest = self._parts()
        left = self._left
        known = [rest.pop()] if rest and rest[-1].endswith(" left") else []
        while rest and len(", ".join([head, *rest, *known])) > width:
            rest.pop()
        words = ", ".join([*rest, *known])
        space = width - len(head) - len(words) - 3
        if left is None or not left.total or space < SHORTEST_BAR:
            return Text(", ".join([head, *rest, *known])[:width], no_wrap=True, overflow="crop")
        columns = min(space, LONGEST_BAR)
        full = columns * left.done // left.total
        full_mark, empty_mark = ("━", "━") if errors.encoding.startswith("utf") else ("#", "-")
        bar = ((full_mark * full, "green"), (empty_mark * (columns - full), "dim"))
        if errors.no_color or errors.color_system is None:
            bar = ((full_mark * full, ""), (("╌" if full_mark == "━" else "-") * (columns - full), ""))
        return Text.assemble(head, " ", *bar, "  ", words, no_wrap=True, overflow="crop")


class RunProgress(Progress):
    """Frames, steps, rejected steps, the largest strain so far and the time left."""

    def __init__(self, frames: int, quiet: bool = False):
        self.begin("", frames)
        super().__init__(quiet=quiet)

    def begin(self, name: str, frames: int) -> None:
        """Another run; its name stands before its frames where there are several."""
        self.what, self.frames = f"{name} frame".strip(), frames
        self.steps = self.rejected = 0
        self.strain = 0.0

    def show(self, frame: Frame) -> None:
        entry = frame.certificate or {}
        self.steps += entry.get("steps", 0)
        self.rejected += entry.get("rejected", 0)
        strains = entry.get("strain", {})
        self.strain = max(self.strain, *(strains.get(f"{way}_max") or 0.0 for way in ("warp", "weft", "edge")))
        state = (f"{self.steps} steps, {self.rejected} rejected", f"strain {100 * self.strain:.1f} %")
        self.count(self.what, frame.number, self.frames, *state)
        if frame.number == self.frames:
            self.phase("completing the results")


@contextlib.contextmanager
def show_compilation(progress: Progress) -> Iterator[None]:
    """Tell when Warp compiles kernels: the first run of a version waits for it, and later ones do not."""
    import warp as wp

    from toile.math import types  # noqa: F401  sets Warp's options, which would replace those below

    level, logger = wp.config.log_level, wp.get_logger()
    wp.config.log_level = wp.LOG_INFO
    wp.set_logger(_Compiling(progress, logger))
    try:
        yield
    finally:
        wp.config.log_level = level
        wp.set_logger(logger)


@contextlib.contextmanager
def show_outputs(progress: Progress) -> Iterator[None]:
    """Tell how far outputs are: a film is drawn when all of its frames are known."""
    from toile.outputs.base import progress_reported_to

    with progress_reported_to(progress.count):
        yield


class _Compiling:
    """A logger that turns Warp's "Module ... took ... ms (compiled)" into a phase."""

    def __init__(self, progress: Progress, logger: object):
        self.progress, self.logger, self.modules = progress, logger, 0

    def debug(self, message: str) -> None:
        pass

    def info(self, message: str) -> None:
        if "(compiled)" in message:
            self.modules += 1
            self.progress.phase(f"compiling kernels, only this once: {self.modules} modules done")

    def warning(self, message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
        self.logger.warning(message, category, stacklevel=stacklevel)  # type: ignore[attr-defined]

    def error(self, message: str) -> None:
        self.logger.error(message)  # type: ignore[attr-defined]
