"""What goes wrong outside of the commands: arguments, which --json tells in the document like any other error, and a
reader of the help who has gone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from toile.cli.streams import Unheard, to_nowhere
from toile.cli.telling import UNHEARD, Voice


class Commands(TyperGroup):
    """All commands. typer tells wrong arguments itself, before any of them is called."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        try:
            if not standalone_mode or "--json" not in words:
                return super().main(args, *rest, standalone_mode=standalone_mode, **extra)
            code = super().main(args, *rest, standalone_mode=False, **extra)
        except (Unheard, BrokenPipeError):
            to_nowhere(1)
            code = UNHEARD
        except Exception as error:
            # Its class has another name in every version of typer; what it can do has not changed.
            if not hasattr(error, "format_message"):
                raise
            voice = Voice(as_json=True)
            code = voice.fail("usage", error.format_message(), getattr(error, "exit_code", 1))
            voice.finish()
        sys.exit(code if isinstance(code, int) else 0)
