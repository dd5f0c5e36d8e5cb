"""The two streams of the command: results go to the output stream, everything else to the error stream.

Neither fails when it cannot be written as intended: characters that the terminal's encoding lacks are escaped, and the
command ends quietly when the reader of its output has gone (`toile list | head -1`).
"""

from __future__ import annotations

import contextlib
import io
import os
import sys

from rich.console import Console


class ReaderGone(Exception):
    """The reader of the output stream has closed it."""


class OutputConsole(Console):
    """The output stream. The command ends when its reader has gone."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        redirect_to_null(1)
        raise ReaderGone


class ErrorConsole(Console):
    """The error stream. A run continues when the reader of its progress has gone, because its results are files."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        redirect_to_null(2)


console = OutputConsole(highlight=False, markup=False, soft_wrap=True)
error_console = ErrorConsole(highlight=False, markup=False, soft_wrap=True, stderr=True)


def escape_unencodable() -> None:
    """Makes both streams escape characters that they cannot encode: without UTF-8, an accented e becomes \\xe9."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def redirect_to_null(descriptor: int) -> None:
    """Redirects a closed stream, so that Python can flush its buffers at exit without another error."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
