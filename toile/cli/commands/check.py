"""`toile check`: compares a run with the expectations of its scene."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import toile
from toile.cli import completion
from toile.cli.console import error_console
from toile.cli.options import (
    DebugOption,
    Device,
    DeviceOption,
    JsonOption,
    OutFolder,
    OutsideOption,
    Precision,
    PrecisionOption,
    QuietOption,
    ThreadsOption,
)
from toile.cli.reporter import NOT_MET, reporting, show
from toile.cli.run_scene import format_value, load, result_line, simulate

if TYPE_CHECKING:
    from rich.table import Table

    from toile.runs.expectations import Finding


def command(
    scene: Annotated[
        str,
        typer.Argument(
            metavar="SCENE|RUN",
            help="a scene to run, or the folder of a finished run",
            autocompletion=completion.scenes_or_runs,
        ),
    ],
    out: OutFolder = None,
    device: DeviceOption = Device.cpu,
    threads: ThreadsOption = None,
    precision: PrecisionOption = Precision.double,
    allow_outside: OutsideOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare a run with the expectations of its scene."""
    with reporting(debug, quiet, as_json) as reporter:
        from toile.runs.expectations import check, read_report

        if Path(scene).is_dir():
            folder = scene
            expect, report = read_report(Path(scene))
        else:
            toile.use_precision(precision)
            loaded = load(scene, None, allow_outside, quiet)
            result = simulate(loaded, out, device, reporter)
            expect, report, folder = loaded.expect, result.report, str(result.folder)
            reporter.print(f"{folder}: {result_line(report['summary'])}")
            reporter.document["written"] = [str(path) for path in result.written]
        findings = check(expect, report)
        failed = sum(not finding.ok for finding in findings)
        complete = report["summary"]["ok"]
        listed = [asdict(finding) for finding in findings]
        reporter.document.update(folder=folder, ok=complete and not failed, findings=listed)
        if findings and failed and quiet and not as_json:
            show(_table(findings))
        elif findings:
            reporter.print(_table(findings))
        if not findings:
            error_console.print(f"{scene}: no expectations, because its expect block is empty.")
        if failed:
            error_console.print(f"{failed} of {len(findings)} expectations not met.")
        if not complete:
            reason = report.get("stopped", "its certificate is not ok.")
            error_console.print(f"{scene}: the run is not complete: {reason}")
        if failed or not complete:
            raise typer.Exit(NOT_MET)


def _table(findings: list[Finding]) -> Table:
    from rich.table import Table

    table = Table()
    for name in ("key", "expected", "value", "at frame", ""):
        table.add_column(name, overflow="fold")  # a narrow terminal wraps values instead of cutting them off
    for finding in findings:
        frame = "" if finding.frame is None else str(finding.frame)
        result = "met" if finding.ok else "NOT MET"
        table.add_row(finding.key, finding.bound, format_value(finding.value), frame, result)
    return table
