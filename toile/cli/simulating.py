"""A scene that is loaded and run under the eyes of a person: what `run` and `check` have in common."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toile.cli.options import Device
from toile.cli.progress import Progress, RunProgress, show_compilation, show_outputs
from toile.cli.reporter import Reporter, shortened
from toile.cli.streams import errors

if TYPE_CHECKING:
    from toile.runs.run import RunResult
    from toile.scene.schema import Scene


def load(scene: str, changes: list[str] | None, allow_outside: bool, quiet: bool = False) -> Scene:
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
    """Run with a progress bar; a run that is stopped tells what it could complete."""
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
            if "stopped" not in stop.result.report:  # it came after the last frame: all is there
                return stop.result
            bar.close()
            reporter.document.update(result_document(stop.result))
            errors.print(result_line(stop.result.report["summary"]))
            for line in shortened(stop.result.written):
                errors.print(f"  {line}")
            raise stop.__cause__ or stop from None


def result_document(result: RunResult) -> dict[str, Any]:
    written = [str(path) for path in result.written]
    resumed = {} if result.resumed is None else {"resumed": result.resumed}
    return {"folder": str(result.folder), "written": written, **resumed, "summary": result.report["summary"]}


def print_result(result: RunResult, reporter: Reporter) -> None:
    summary = result.report["summary"]
    reporter.document.update(result_document(result))
    if result.resumed is not None:
        message = f"went on from frame {result.resumed}" if result.written else "complete already, nothing was to be done"
        reporter.print(f"{result.folder}: {message}.")
    reporter.print("\n  ".join([result_line(summary), *shortened(result.written)]))
    if not summary["ok"] and "stopped" not in result.report:
        errors.print("The certificate is not ok: report.json says what is wrong.")


def result_line(summary: dict[str, Any]) -> str:
    return (
        f"{summary['frames']} frames, {summary['steps']} steps, {summary['rejected']} rejected, "
        f"{format_value(summary['ms_per_frame'])} ms a frame, largest strain {100 * summary['max_strain']:.1f} %"
        f"{_intersections(summary)}"
    )


def format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value).lower()


@contextlib.contextmanager
def _show_stop(progress: Progress) -> Iterator[None]:
    """Ctrl-C does not end a run at once: its outputs are completed. Who waits is told, and what a second one does."""

    def stop(*_: object) -> None:
        first = not progress.prefix
        progress.prefix = "stopping (Ctrl-C again gives up): " if first else "giving up "
        progress.phase("completing what there is" if first else "what is not complete")
        raise KeyboardInterrupt

    # A run in the background was started deaf to Ctrl-C, and stays so.
    in_charge = threading.current_thread() is threading.main_thread()
    if not in_charge or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _intersections(summary: dict[str, Any]) -> str:
    """At the start, at most and at the end, where they were counted and there were any."""
    most = summary.get("intersections")
    if most is None:
        return ""
    start, end = summary["intersections_start"], summary["intersections_end"]
    if not (most or start):
        return ", no intersections"
    return f", {start} intersections at the start, {most} at most and {end} at the end"
