"""Errors become messages and exit codes. Tracebacks are for those who ask for them."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator

import typer

from toile.cli.streams import errors

# Exit codes beyond those of toile.errors. Shells expect 128 and the number of the signal for a stopped command.
NOT_MET, INTERNAL, INTERRUPTED, TERMINATED = 1, 70, 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM: the run ends as for Ctrl-C."""


@contextlib.contextmanager
def told(debug: bool = False) -> Iterator[None]:
    """Around the body of every command."""
    from toile.errors import ToileError

    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, ToileError):
            errors.print(str(error))
            code = error.exit_code
        elif isinstance(error, KeyboardInterrupt):
            errors.print("Stopped.")
            code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
        else:
            errors.print(f"{type(error).__name__}: {error}\nThis is a fault in Toile. --debug shows where it arose.")
            code = INTERNAL
        raise typer.Exit(code) from None
