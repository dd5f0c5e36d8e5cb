"""The group of all commands: handles errors that arise before a command runs, such as wrong arguments.

With --json these errors are reported in the document like any other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from toile.cli.console import ReaderGone, redirect_to_null
from toile.cli.reporter import BROKEN_PIPE, Reporter


class CommandGroup(TyperGroup):
    """All commands. typer reports wrong arguments itself, before it calls a command."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        arguments = sys.argv[1:] if args is None else list(args)
        with_document = standalone_mode and "--json" in arguments
        try:
            code = super().main(
                args, prog_name, complete_var, standalone_mode and not with_document, windows_expand_args, **extra
            )
            if not with_document:
                return code
        except (ReaderGone, BrokenPipeError):
            redirect_to_null(1)
            code = BROKEN_PIPE
        except Exception as error:
            # The class of usage errors has another name in every version of typer; `format_message` is common to all.
            if not hasattr(error, "format_message"):
                raise
            reporter = Reporter(as_json=True)
            code = reporter.fail("usage", error.format_message(), getattr(error, "exit_code", 1))
            reporter.finish()
        sys.exit(code if isinstance(code, int) else 0)
