"""Shows the progress of a command on the error stream; the output stream holds results only.

On a terminal one line is updated in place; parts are dropped, the least important first, until it fits. In files, pipes
and CI a plain line is printed after three seconds and then at growing intervals, at most a minute apart, even while
nothing advances, so that a log shows what the command is waiting for.

    frame 12/75 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━  24 steps, 0 rejected, strain 1.2 %, 8 s left
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from toile.cli.console import error_console
from toile.cli.time_left import TimeLeft, format_duration

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from toile.model.frame import Frame

FIRST_LINE, GROWTH, LONGEST_SILENCE = 3.0, 1.5, 60.0  # [s], [-], [s]
SHORTEST_BAR, LONGEST_BAR = 10, 40  # [columns]
REFRESHES = 5  # [1/s]


class Progress:
    """The progress line of a command; `quiet` shows nothing."""

    def __init__(self, phase: str = "preparing", quiet: bool = False):
        self.quiet = quiet
        self.prefix = ""
        self._lock = threading.RLock()  # reentrant, because a signal handler may set the phase while it is held
        self._live: Live | None = None
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None
        self.phase(phase)

    def __enter__(self) -> Self:
        if self.quiet:
            return self
        if error_console.is_terminal and not error_console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(
                console=error_console,
                refresh_per_second=REFRESHES,
                transient=True,
                redirect_stdout=False,
                get_renderable=self._fitted_line,
            )
            self._live.start(refresh=True)
        else:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the line; the result of the command is printed instead."""
        self._ended.set()
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()
        if self._ticker is not None:
            ticker, self._ticker = self._ticker, None
            ticker.join()

    def phase(self, name: str) -> None:
        """Begins a phase whose progress cannot be counted."""
        with self._lock:
            self._name, self._since = name, time.monotonic()
            self._left: TimeLeft | None = None
            self._state: tuple[str, ...] = ()

    def count(self, name: str, done: int, total: int, *state: str) -> None:
        """Shows how many items are done, and the state. If the line is too long, the last parts are dropped first."""
        now = time.monotonic()
        with self._lock:
            if self._left is None or self._name != name or self._left.total != total:
                self._name, self._left = name, TimeLeft(total, now, done)
                self._since = now
            self._left.reach(done, now)
            self._state = state

    def line(self) -> str:
        """Returns the whole line, without a bar."""
        return ", ".join(self._parts())

    def _parts(self) -> list[str]:
        now = time.monotonic()
        with self._lock:
            if self._left is None:
                waited = now - self._since
                name = self.prefix + self._name
                return [name] if waited < 1.0 else [name, format_duration(waited)]
            left = self._left.seconds(now)
            parts = [f"{self.prefix}{self._name} {self._left.done}/{self._left.total}", *self._state]
            return parts if left is None else [*parts, f"{format_duration(left)} left"]

    def _tick(self) -> None:
        wait = FIRST_LINE
        while not self._ended.wait(wait):
            error_console.print(self.line())
            wait = min(GROWTH * wait, LONGEST_SILENCE)

    def _fitted_line(self) -> Text:
        """Returns the parts that fit in one line of the terminal, with a bar if there is space for one."""
        from rich.text import Text

        width = error_console.width - 1
        head, *state = self._parts()
        left = self._left
        time_left = [state.pop()] if state and state[-1].endswith(" left") else []
        while state and len(", ".join([head, *state, *time_left])) > width:
            state.pop()
        tail = ", ".join([*state, *time_left])
        space = width - len(head) - len(tail) - 3
        if left is None or not left.total or space < SHORTEST_BAR:
            return Text(", ".join([head, *state, *time_left])[:width], no_wrap=True, overflow="crop")
        columns = min(space, LONGEST_BAR)
        full = columns * left.done // left.total
        full_mark, empty_mark = ("━", "━") if error_console.encoding.startswith("utf") else ("#", "-")
        bar = ((full_mark * full, "green"), (empty_mark * (columns - full), "dim"))
        if error_console.no_color or error_console.color_system is None:
            bar = ((full_mark * full, ""), (("╌" if full_mark == "━" else "-") * (columns - full), ""))
        return Text.assemble(head, " ", *bar, "  ", tail, no_wrap=True, overflow="crop")


class RunProgress(Progress):
    """Progress of a run: frames, steps, rejected steps, the largest strain so far and the time left."""

    def __init__(self, frames: int, quiet: bool = False):
        self.begin("", frames)
        super().__init__(quiet=quiet)

    def begin(self, name: str, frames: int) -> None:
        """Begins a run; where there are several, its name precedes the number of the frame."""
        self.item, self.frames = f"{name} frame".strip(), frames
        self.steps = self.rejected = 0
        self.strain = 0.0

    def show(self, frame: Frame) -> None:
        """Shows a frame that was computed."""
        entry = frame.certificate or {}
        self.steps += entry.get("steps", 0)
        self.rejected += entry.get("rejected", 0)
        strains = entry.get("strain", {})
        self.strain = max(self.strain, *(strains.get(f"{kind}_max") or 0.0 for kind in ("warp", "weft", "edge")))
        state = (f"{self.steps} steps, {self.rejected} rejected", f"strain {100 * self.strain:.1f} %")
        self.count(self.item, frame.number, self.frames, *state)
        if frame.number == self.frames:
            self.phase("completing the results")


@contextlib.contextmanager
def show_compilation(progress: Progress) -> Iterator[None]:
    """Shows when Warp compiles kernels, which only the first run of a version waits for."""
    import warp as wp

    from toile.math import types  # noqa: F401  sets Warp's options, which would overwrite those below

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
    """Shows the progress of outputs: a film is drawn after the last frame, and that takes time."""
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
            self.progress.phase(f"compiling kernels, only the first time: {self.modules} modules done")

    def warning(self, message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
        self.logger.warning(message, category, stacklevel=stacklevel)  # type: ignore[attr-defined]

    def error(self, message: str) -> None:
        self.logger.error(message)  # type: ignore[attr-defined]
