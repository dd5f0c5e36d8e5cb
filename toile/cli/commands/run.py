"""`toile run`: a scene into a folder."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from typing import Annotated

import typer

import toile
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
from toile.cli.simulating import load, print_result, simulate
from toile.cli.streams import errors


class Audited(StrEnum):
    none = "none"
    frame = "frame"
    step = "step"


def command(
    scene: SceneArgument,
    frames: Annotated[int | None, typer.Option(min=0, help="frames to simulate instead of the scene's number")] = None,
    out: OutFolder = None,
    device: DeviceOption = Device.cpu,
    threads: ThreadsOption = None,
    precision: PrecisionOption = Precision.double,
    changes: SetOption = None,
    audit: Annotated[
        Audited | None,
        typer.Option(help="when to count intersecting triangles; every frame when cloth meets cloth, if not given"),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="refuse a scene whose cloths intersect at the start")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="go on with the run in the folder; begin one if there is none")
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
            words = sys.argv[1:] if resume else [*sys.argv[1:], "--resume"]
            errors.print(f"Go on with: {shlex.join(['toile', *words])}")
            raise
