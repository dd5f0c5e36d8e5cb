"""Arguments and options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from toile.cli import completion
from toile.device import threads


class Device(StrEnum):
    cpu = "cpu"
    cuda = "cuda"


class Precision(StrEnum):
    double = "double"
    single = "single"


def _use_threads(count: int | None) -> int | None:
    if count is not None:
        threads.use(count)
    return count


SceneArgument = Annotated[
    str,
    typer.Argument(metavar="SCENE", help="a shipped scene by name, or a scene file", autocompletion=completion.scenes),
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="the folder of a finished run", autocompletion=completion.runs)
]
OutFolder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="folder for the results; out/NAME when not given")
]
DeviceOption = Annotated[Device, typer.Option(help="where to compute")]
PrecisionOption = Annotated[Precision, typer.Option(envvar="TOILE_PRECISION", help="number type of the kernels")]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads", metavar="N", min=1, help="cores to use on the CPU; all when not given", callback=_use_threads
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="change a value of the scene; may be repeated",
        autocompletion=completion.changes,
    ),
]
OutsideOption = Annotated[bool, typer.Option("--allow-outside", help="let the scene read files outside its folder")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="print warnings and errors only")]
JsonOption = Annotated[bool, typer.Option("--json", help="print the result as one JSON document")]
DebugOption = Annotated[
    bool, typer.Option("--debug", envvar="TOILE_DEBUG", help="show where in the code an error arose")
]
