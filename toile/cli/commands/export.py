"""`toile export`: writes a finished run in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toile.cli import completion
from toile.cli.finished_run import converting_run
from toile.cli.options import DebugOption, JsonOption, QuietOption, RunArgument
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
        Path | None, typer.Option(metavar="DIR", help="folder to write to; that of the run by default")
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write a finished run in other formats."""
    with reporting(debug, quiet, as_json) as reporter:
        with converting_run(reporter):
            from toile.runs.folder import export_run

            written = export_run(run, formats, out)
        reporter.print_written(written)
