"""`toile export`: a finished run in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toile.cli.options import DebugOption, RunArgument
from toile.cli.streams import console
from toile.cli.telling import told


def command(
    run: RunArgument,
    formats: Annotated[list[str], typer.Option("--format", help="an output by name, such as usd; may be repeated")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder to write to; the run's when not given")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Write a finished run in other formats."""
    with told(debug):
        from toile.run_folder import export_run

        for path in export_run(run, formats, out):
            console.print(str(path))
