"""A scene that is loaded and run under the eyes of a person: what `run` and `check` have in common."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from toile.cli.options import Device
from toile.cli.progress import Bar
from toile.cli.streams import console, errors
from toile.cli.telling import Terminated

if TYPE_CHECKING:
    from rich.console import Console

    from toile.runs import RunResult
    from toile.scene.schema import Scene


def load(scene: str, changes: list[str] | None, allow_outside: bool) -> Scene:
    from toile.scene.load import load as read

    return read(scene, overrides=changes or (), allow_outside=allow_outside)


def simulate(
    scene: Scene,
    out: Path | None,
    device: Device,
    quiet: bool,
    frames: int | None = None,
    audit: str | None = None,
    strict: bool = False,
) -> RunResult:
    """Run with a progress bar; a run that is stopped shows what it could complete."""
    from toile.runs import Interrupted, run

    folder = Path("out", scene.name) if out is None else out
    signal.signal(signal.SIGTERM, _terminate)
    with Bar(scene.time.frames if frames is None else frames, hidden=quiet) as bar:
        try:
            return run(
                scene,
                folder,
                device=device.value,
                frames=frames,
                audit=audit,
                strict=strict,
                progress=bar.show,
                warn=bar.warn,
            )
        except Interrupted as stop:
            bar.close()
            print_result(stop.result, to=errors)
            raise stop.__cause__ or stop from None


def print_result(result: RunResult, to: Console = console) -> None:
    summary = result.report["summary"]
    to.print(
        f"{summary['frames']} frames, {summary['steps']} steps, {summary['rejected']} rejected, "
        f"{figure(summary['ms_per_frame'])} ms a frame, largest strain {100 * summary['max_strain']:.1f} %"
        f"{_intersections(summary)}"
    )
    for path in result.written:
        to.print(f"  {path}")
    if not summary["ok"] and "stopped" not in result.report:
        errors.print("The certificate is not ok: report.json says what is wrong.")


def figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value).lower()


def _terminate(*_: object) -> NoReturn:
    raise Terminated


def _intersections(summary: dict[str, Any]) -> str:
    """At the start, at most and at the end, where they were counted and there were any."""
    most = summary.get("intersections")
    if most is None:
        return ""
    start, end = summary["intersections_start"], summary["intersections_end"]
    if not (most or start):
        return ", no intersections"
    return f", {start} intersections at the start, {most} at most and {end} at the end"
