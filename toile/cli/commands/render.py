"""`toile render`: a picture or a film of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toile.cli.options import DebugOption, JsonOption, QuietOption, RunArgument
from toile.cli.progress import Progress, show_outputs
from toile.cli.reporter import reporting


def command(
    run: RunArgument,
    frame: Annotated[int | None, typer.Option(min=0, help="frame to show; the last when not given")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="a .png of one frame, .mp4 or .gif of all; a picture in RUN when not given"),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make a picture or a film of a finished run."""
    with reporting(debug, quiet, as_json) as reporter:
        with Progress("reading the run", quiet) as progress:
            from toile.runs.folder import render_run

            with show_outputs(progress):
                picture = render_run(run, out, frame)
        reporter.wrote([picture])
