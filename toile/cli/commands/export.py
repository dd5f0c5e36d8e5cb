"""`toile export`: a finished run in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toile.cli import completion
from toile.cli.options import DebugOption, JsonOption, QuietOption, RunArgument
from toile.cli.progress import Progress, show_outputs
from toile.cli.reporter import reporting


def command(
    run: RunArgument,
    formats: Annotated[
        list[str],
        typer.Option(
            "--format", help="an output by name, such as usd; may be repeated", autocompletion=completion.formats
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder to write to; the run's when not given")
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write a finished run in other formats."""
    with reporting(debug, quiet, as_json) as reporter:
        with Progress("reading the run", quiet) as progress:
            from toile.runs.folder import export_run

            with show_outputs(progress):
                written = export_run(run, formats, out)
        reporter.wrote(written)
