"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from toile.cli import completion
from toile.device import threads


class Device(StrEnum):
    """Devices that `--device` takes."""

    cpu = "cpu"
    cuda = "cuda"


class Precision(StrEnum):
    """Precisions that `--precision` takes."""

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
    Path | None, typer.Option("--out", metavar="DIR", help="folder for the results; out/NAME by default")
]
DeviceOption = Annotated[Device, typer.Option(help="device to compute on")]
PrecisionOption = Annotated[Precision, typer.Option(envvar="TOILE_PRECISION", help="precision of the kernels")]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", min=1, help="CPU threads; all cores by default", callback=_use_threads),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="override a value of the scene; may be repeated",
        autocompletion=completion.overrides,
    ),
]
OutsideOption = Annotated[bool, typer.Option("--allow-outside", help="let the scene read files outside its folder")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="print warnings and errors only")]
JsonOption = Annotated[bool, typer.Option("--json", help="print the result as one JSON document")]
DebugOption = Annotated[bool, typer.Option("--debug", envvar="TOILE_DEBUG", help="show the traceback of an error")]
