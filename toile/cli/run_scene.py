"""Loads and runs a scene with progress, and reports its results, for the commands `run` and `check`."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toile.cli.console import error_console
from toile.cli.options import Device
from toile.cli.progress import Progress, RunProgress, show_compilation, show_outputs
from toile.cli.reporter import Reporter, shortened

if TYPE_CHECKING:
    from toile.runs.run import RunResult
    from toile.scene.schema import Scene


def load(scene: str, changes: list[str] | None, allow_outside: bool, quiet: bool = False) -> Scene:
    """Loads a scene with these overrides."""
    with Progress("reading the scene", quiet):
        from toile.scene.load import load as read

        return read(scene, overrides=changes or (), allow_outside=allow_outside)


def simulate(
    scene: Scene,
    out: Path | None,
    device: Device,
    reporter: Reporter,
    frames: int | None = None,
    audit: str | None = None,
    strict: bool = False,
    resume: bool = False,
) -> RunResult:
    """Runs a scene with a progress bar; an interrupted run reports the results that it completed."""
    folder = Path("out", scene.name) if out is None else out
    with RunProgress(scene.time.frames if frames is None else frames, reporter.quiet) as bar:
        from toile.runs.run import Interrupted, run

        try:
            with show_compilation(bar), show_outputs(bar), _show_stop(bar):
                return run(
                    scene,
                    folder,
                    device=device.value,
                    frames=frames,
                    audit=audit,
                    strict=strict,
                    resume=resume,
                    progress=bar.show,
                    warn=reporter.warn,
                )
        except Interrupted as stop:
            if "stopped" not in stop.result.report:  # it came after the last frame, so that the results are complete
                return stop.result
            bar.close()
            reporter.document.update(result_document(stop.result))
            error_console.print(result_line(stop.result.report["summary"]))
            for line in shortened(stop.result.written):
                error_console.print(f"  {line}")
            raise stop.__cause__ or stop from None


def result_document(result: RunResult) -> dict[str, Any]:
    """Returns the JSON document of a run."""
    written = [str(path) for path in result.written]
    resumed = {} if result.resumed is None else {"resumed": result.resumed}
    return {"folder": str(result.folder), "written": written, **resumed, "summary": result.report["summary"]}


def print_result(result: RunResult, reporter: Reporter) -> None:
    """Reports the results of a run."""
    summary = result.report["summary"]
    reporter.document.update(result_document(result))
    if result.resumed is not None:
        message = f"resumed from frame {result.resumed}" if result.written else "already complete, nothing to do"
        reporter.print(f"{result.folder}: {message}.")
    reporter.print("\n  ".join([result_line(summary), *shortened(result.written)]))
    if not summary["ok"] and "stopped" not in result.report:
        error_console.print("The certificate is not ok: see report.json.")


def result_line(summary: dict[str, Any]) -> str:
    """Formats the summary of a certificate in one line."""
    return (
        f"{summary['frames']} frames, {summary['steps']} steps, {summary['rejected']} rejected, "
        f"{format_value(summary['ms_per_frame'])} ms a frame, largest strain {100 * summary['max_strain']:.1f} %"
        f"{_intersections(summary)}"
    )


def format_value(value: float | bool | None) -> str:
    """Formats a value of the certificate."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value).lower()


@contextlib.contextmanager
def _show_stop(progress: Progress) -> Iterator[None]:
    """Shows after Ctrl-C that the run completes its outputs before it ends, and that a second Ctrl-C discards them."""

    def stop(*_: object) -> None:
        first = not progress.prefix
        progress.prefix = "stopping (Ctrl-C again to discard): " if first else "discarding "
        progress.phase("completing the results" if first else "incomplete results")
        raise KeyboardInterrupt

    # A run in the background was started with Ctrl-C ignored, and keeps ignoring it.
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _intersections(summary: dict[str, Any]) -> str:
    """Formats the numbers of intersections, if they were counted."""
    largest = summary.get("intersections")
    if largest is None:
        return ""
    start, end = summary["intersections_start"], summary["intersections_end"]
    if not (largest or start):
        return ", no intersections"
    return f", {start} intersections at the start, {largest} at most and {end} at the end"
