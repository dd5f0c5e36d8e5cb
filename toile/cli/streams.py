"""Where the command writes: results to the output stream, all else to the error stream.

Neither raises when it cannot be written as asked: letters that the terminal's encoding lacks are escaped, and a reader
that has gone ends the command without a word (`toile list | head -1`).
"""

from __future__ import annotations

import contextlib
import io
import os
import sys

from rich.console import Console


class Unheard(Exception):
    """Nobody reads the output any more."""


class OutputStream(Console):
    def on_broken_pipe(self) -> None:
        self.quiet = True
        to_nowhere(1)
        raise Unheard


class ErrorOutput(Console):
    """A run goes on when nobody hears about its progress any more: its results are files."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        to_nowhere(2)


console = OutputStream(highlight=False, markup=False, soft_wrap=True)
errors = ErrorOutput(highlight=False, markup=False, soft_wrap=True, stderr=True)


def escape_what_cannot_be_written() -> None:
    """In a locale without UTF-8, a name with an accent comes out as \\xe9 instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def to_nowhere(descriptor: int) -> None:
    """Python writes what is left in its buffers at the end, and would complain again."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
