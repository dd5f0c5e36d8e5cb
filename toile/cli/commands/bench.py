"""`toile bench`: times of scenes."""

from __future__ import annotations

from typing import Annotated

import typer

from toile.cli.options import DebugOption
from toile.cli.streams import console
from toile.cli.telling import told


def command(
    scenes: Annotated[
        list[str] | None, typer.Argument(help="scenes to time; all that are shipped when not given")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Time the shipped scenes and how the time grows with the mesh."""
    with told(debug):
        from toile.bench import run

        run(scenes or [], console)
