"""Progress of the commands that read a finished run and write it in another form: `render`, `export` and `share`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from toile.cli.progress import Progress, show_outputs
from toile.cli.reporter import Reporter


@contextlib.contextmanager
def converting_run(reporter: Reporter) -> Iterator[None]:
    """Shows the progress of reading a run and writing its outputs. Heavy imports belong inside the block."""
    with Progress("reading the run", reporter.quiet) as progress, show_outputs(progress):
        yield
