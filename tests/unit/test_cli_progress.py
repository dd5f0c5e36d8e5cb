"""The progress line: its estimate of the remaining time, its width, and its form in a log."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toile.cli import progress as progress_module
from toile.cli.console import ErrorConsole
from toile.cli.progress import Progress, RunProgress
from toile.cli.time_left import TimeLeft, format_duration
from toile.model.frame import Frame

WIDTHS = (5, 12, 20, 33, 40, 60, 80, 200)


def left_after(durations: list[float], total: int) -> float | None:
    """The estimate right after the last of these frames."""
    estimate, now = TimeLeft(total, 0.0), 0.0
    for frame, duration in enumerate(durations, 1):
        now += duration
        estimate.reach(frame, now)
    return estimate.seconds(now)


def test_there_is_no_estimate_before_the_first_frame() -> None:
    assert left_after([], 75) is None


def test_the_estimate_of_equal_frames_is_exact() -> None:
    assert left_after([0.5] * 20, 75) == pytest.approx(0.5 * 55)


def test_a_slow_first_frame_is_ignored_after_the_second() -> None:
    # 30 s and then 0.1 s each: a mean over all would give 30.1 / 2 * 73 = 1,100 s after the second.
    assert left_after([30.0, 0.1], 75) == pytest.approx(0.1 * 73)


def test_the_estimate_follows_a_change_of_pace() -> None:
    # Contact between cloths makes frames three times as long. Half of the weight belongs to the last 8 frames,
    # so 24 frames later an eighth of the change is still missing: (1/8 * 1 + 7/8 * 3) / 3 = 0.92
    slower = left_after([1.0] * 40 + [3.0] * 24, 100)
    assert slower == pytest.approx(0.92 * 3.0 * 36, rel=0.02)


def test_a_single_slow_frame_changes_the_estimate_by_its_weight() -> None:
    # The weight of the newest of many is 1 - 2^(-1/8) = 0.083: a frame of 5 s among those of 1 s adds 0.33 to the mean.
    assert left_after([1.0] * 40 + [5.0], 100) == pytest.approx(59 * 1.33, rel=0.01)


def test_the_estimate_counts_down_within_a_frame() -> None:
    estimate = TimeLeft(10, 0.0)
    estimate.reach(1, 7.0)
    estimate.reach(2, 9.0)  # 2 s a frame, 8 frames to come
    assert estimate.seconds(9.0) == pytest.approx(16.0)
    assert estimate.seconds(10.0) == pytest.approx(15.0)
    assert estimate.seconds(99.0) == pytest.approx(14.0)


def test_a_resumed_run_counts_only_computed_frames() -> None:
    estimate = TimeLeft(100, 0.0, done=60)
    estimate.reach(61, 9.0)
    estimate.reach(62, 10.0)
    assert estimate.seconds(10.0) == pytest.approx(38.0)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (185.0, "3:05"), (3600.0, "1:00:00"), (7265.0, "2:01:05")],
)
def test_durations_are_printed_as_hours_minutes_and_seconds(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


def frame(number: int, **certificate: object) -> Frame:
    import numpy as np

    return Frame(number, 0.0, np.zeros((0, 3)), np.zeros((0, 3)), certificate or None)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ErrorConsole]:
    """Replaces the error stream by a terminal of this width."""

    def make(width: int, **options: object) -> ErrorConsole:
        console = ErrorConsole(file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False, **options)
        monkeypatch.setattr(progress_module, "error_console", console)
        return console

    return make


@pytest.mark.parametrize("width", WIDTHS)
def test_the_line_fits_every_terminal(width: int, terminal: Callable[..., ErrorConsole]) -> None:
    terminal(width)
    bar = RunProgress(75)
    for number in range(1, 13):
        bar.show(frame(number, steps=3, rejected=1, strain={"warp_max": 0.0123}))
    line = bar._fitted_line().plain
    assert len(line) < width
    assert line.startswith("frame 12/75"[: width - 1])


def test_a_narrow_terminal_shows_the_frame_and_the_time_left(terminal: Callable[..., ErrorConsole]) -> None:
    terminal(28)
    bar = RunProgress(75)
    for number in range(13):
        bar.show(frame(number, steps=3, strain={"warp_max": 0.01}))
    assert re.fullmatch(r"frame 12/75, 0 s left", bar._fitted_line().plain)


def test_a_wide_terminal_has_everything(terminal: Callable[..., ErrorConsole]) -> None:
    terminal(120)
    bar = RunProgress(75)
    bar.show(frame(0))
    for number in (1, 2):
        bar.show(frame(number, steps=3, rejected=1, strain={"warp_max": 0.01, "weft_max": 0.034, "edge_max": None}))
    line = bar._fitted_line().plain
    assert line.startswith("frame 2/75 ━")
    assert line.endswith("6 steps, 2 rejected, strain 3.4 %, 0 s left")


def test_a_terminal_without_utf8_or_color_shows_a_bar(terminal: Callable[..., ErrorConsole]) -> None:
    class Latin(io.StringIO):
        encoding = "latin-1"

    console = terminal(100, no_color=True)
    console.file = Latin()
    bar = RunProgress(4)
    for number in range(3):
        bar.show(frame(number))
    line = bar._fitted_line().plain
    assert line.isascii()
    assert "#" * 20 + "-" * 20 in line


def test_a_phase_shows_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now)
    bar = Progress("compiling kernels")
    assert bar.line() == "compiling kernels"
    now = 65.0
    assert bar.line() == "compiling kernels, 1:05"


def test_a_log_gets_plain_lines_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_module, "FIRST_LINE", 0.02)
    with RunProgress(75) as bar:
        bar.show(frame(0))
        bar.show(frame(1, steps=2))
        time.sleep(0.5)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert all(re.fullmatch(r"frame 1/75, 2 steps, 0 rejected, strain 0.0 %, \d+ s left", line) for line in lines)
    # The first line is after 0.02 s, and intervals grow by a half: 0.02 (1.5^n - 1) / 0.5 = 0.5 s gives n = 6.4.
    assert 1 <= len(lines) <= 8
    assert "\x1b" not in printed.err


def test_a_short_command_writes_nothing_to_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading the run") as bar:
        bar.count("frame", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_quiet_prints_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress_module, "FIRST_LINE", 0.01)
    with RunProgress(75, quiet=True) as bar:
        bar.show(frame(1))
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_compilation_of_kernels_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import warp as wp

    from toile.math import types  # noqa: F401  it configures Warp

    @wp.kernel(module="unique")
    def count(a_out: wp.array(dtype=int)):  # type: ignore[no-untyped-def,valid-type]
        a_out[wp.tid()] = wp.tid()

    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))  # no kernel is compiled yet
    values = wp.zeros(3, dtype=int, device="cpu")
    with Progress() as bar, progress_module.show_compilation(bar):
        wp.launch(count, 3, outputs=[values], device="cpu")
        assert bar.line() == "compiling kernels, only the first time: 1 modules done"
        bar.phase("running")
        wp.launch(count, 3, outputs=[values], device="cpu")
        assert bar.line() == "running"
    assert list(values.numpy()) == [0, 1, 2]
    assert wp.config.log_level == wp.LOG_WARNING
