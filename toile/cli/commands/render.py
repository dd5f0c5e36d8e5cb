"""`toile render`: a picture or a film of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toile.cli.options import DebugOption, RunArgument
from toile.cli.streams import console
from toile.cli.telling import told


def command(
    run: RunArgument,
    frame: Annotated[int | None, typer.Option(min=0, help="frame to show; the last when not given")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="a .png for one frame, or a .mp4 for all; a picture in RUN when not given"),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Make a picture or a film of a finished run."""
    with told(debug):
        from toile.run_folder import render_run

        console.print(str(render_run(run, out, frame)))
