"""`toile render`: draws a picture or a film of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toile.cli.finished_run import converting_run
from toile.cli.options import DebugOption, JsonOption, QuietOption, RunArgument
from toile.cli.reporter import reporting


def command(
    run: RunArgument,
    frame: Annotated[int | None, typer.Option(min=0, help="frame to draw; the last by default")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="a .png of one frame, .mp4 or .gif of all; a picture in RUN by default"),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Draw a picture or a film of a finished run."""
    with reporting(debug, quiet, as_json) as reporter:
        with converting_run(reporter):
            from toile.runs.folder import render_run

            picture = render_run(run, out, frame)
        reporter.print_written([picture])
