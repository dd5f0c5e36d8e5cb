"""`toile check`: a run beside what its scene expects of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import toile
from toile.cli.options import (
    DebugOption,
    Device,
    DeviceOption,
    OutFolder,
    OutsideOption,
    Precision,
    PrecisionOption,
    QuietOption,
)
from toile.cli.simulating import figure, load, simulate
from toile.cli.streams import console, errors
from toile.cli.telling import NOT_MET, told


def command(
    scene: Annotated[str, typer.Argument(metavar="SCENE|RUN", help="a scene to run, or the folder of a finished run")],
    out: OutFolder = None,
    device: DeviceOption = Device.cpu,
    precision: PrecisionOption = Precision.double,
    allow_outside: OutsideOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare a run with what its scene expects of it."""
    with told(debug):
        from toile.check import check, read_report

        if Path(scene).is_dir():
            expect, report = read_report(Path(scene))
        else:
            toile.use_precision(precision)
            loaded = load(scene, None, allow_outside)
            expect, report = loaded.expect, simulate(loaded, out, device, quiet).report
        findings = check(expect, report)
        table = Table("figure", "expected", "found", "at frame", "")
        for finding in findings:
            frame = "" if finding.frame is None else str(finding.frame)
            table.add_row(finding.key, finding.bound, figure(finding.value), frame, "met" if finding.ok else "NOT MET")
        failed = sum(not finding.ok for finding in findings)
        if findings and (failed or not quiet):
            console.print(table)
        if not findings:
            errors.print(f"{scene} expects nothing: its expect block is empty.")
        if failed:
            errors.print(f"{failed} of {len(findings)} expectations not met.")
        complete = report["summary"]["ok"]
        if not complete:
            errors.print(f"{scene}: the run is not complete: {report.get('stopped', 'its certificate is not ok.')}")
        if failed or not complete:
            raise typer.Exit(NOT_MET)
