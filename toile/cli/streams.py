"""Where the command writes: results to the output stream, all else to the error stream."""

from __future__ import annotations

from rich.console import Console

console = Console(highlight=False, markup=False, soft_wrap=True)
errors = Console(highlight=False, markup=False, soft_wrap=True, stderr=True)
