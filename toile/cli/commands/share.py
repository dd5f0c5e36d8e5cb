"""`toile share`: writes a run as one HTML file that opens without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toile.cli.finished_run import converting_run
from toile.cli.options import DebugOption, JsonOption, QuietOption, RunArgument
from toile.cli.reporter import reporting


def command(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the .html to write, or a folder; RUN/NAME.html by default")
    ] = None,
    every: Annotated[int, typer.Option(min=1, metavar="N", help="keep every Nth frame only")] = 1,
    frames: Annotated[int | None, typer.Option(min=2, metavar="N", help="at most N frames, evenly spaced")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write a run as one HTML file that anyone can open: no server, no network, no Toile."""
    with reporting(debug, quiet, as_json) as reporter:
        with converting_run(reporter):
            from toile.viewer.playback.share import COMFORTABLE, share_run

            shared = share_run(run, out, every, frames)
        size = f"{1e-6 * shared.size:.3g} MB"
        reporter.document.update(bytes=shared.size, frames=shared.frames)
        reporter.print(f"{shared.frames} frames, {size}")
        reporter.print_written([shared.path])
        if shared.without:
            reporter.warn(f"without a certificate. {shared.without}")
        if shared.size > COMFORTABLE:
            reporter.warn(f"a browser takes a while to open {size}. --every 2 or --frames 300 makes it smaller.")
