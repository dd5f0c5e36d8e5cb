"""`toile run`: simulates a scene and writes its results into a folder."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from typing import Annotated

import typer

import toile
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
    SceneArgument,
    SetOption,
    ThreadsOption,
)
from toile.cli.reporter import reporting
from toile.cli.run_scene import load, print_result, simulate


class Audit(StrEnum):
    """When to count intersecting triangles."""

    none = "none"
    frame = "frame"
    step = "step"


def command(
    scene: SceneArgument,
    frames: Annotated[int | None, typer.Option(min=0, help="number of frames, instead of the scene's")] = None,
    out: OutFolder = None,
    device: DeviceOption = Device.cpu,
    threads: ThreadsOption = None,
    precision: PrecisionOption = Precision.double,
    changes: SetOption = None,
    audit: Annotated[
        Audit | None,
        typer.Option(help="when to count intersecting triangles; by default every frame if cloth collides with cloth"),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="refuse a scene whose cloths intersect at the start")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="continue the run in the folder; start one if there is none")
    ] = False,
    allow_outside: OutsideOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Simulate a scene and write its results."""
    with reporting(debug, quiet, as_json) as reporter:
        toile.use_precision(precision)
        loaded = load(scene, changes, allow_outside, quiet)
        counted = None if audit is None else audit.value
        try:
            print_result(simulate(loaded, out, device, reporter, frames, counted, strict, resume), reporter)
        except KeyboardInterrupt:
            arguments = sys.argv[1:] if resume else [*sys.argv[1:], "--resume"]
            error_console.print(f"Resume with: {shlex.join(['toile', *arguments])}")
            raise
