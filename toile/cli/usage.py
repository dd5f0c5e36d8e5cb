"""What goes wrong outside of the commands: arguments, which --json tells in the document like any other error, and a
reader of the help who has gone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from toile.cli.reporter import UNHEARD, Reporter
from toile.cli.streams import Unheard, to_nowhere


class Commands(TyperGroup):
    """All commands. typer tells wrong arguments itself, before any of them is called."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        with_document = standalone_mode and "--json" in words
        try:
            code = super().main(
                args, prog_name, complete_var, standalone_mode and not with_document, windows_expand_args, **extra
            )
            if not with_document:
                return code
        except (Unheard, BrokenPipeError):
            to_nowhere(1)
            code = UNHEARD
        except Exception as error:
            # Its class has another name in every version of typer; what it can do has not changed.
            if not hasattr(error, "format_message"):
                raise
            reporter = Reporter(as_json=True)
            code = reporter.fail("usage", error.format_message(), getattr(error, "exit_code", 1))
            reporter.finish()
        sys.exit(code if isinstance(code, int) else 0)
