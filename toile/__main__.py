"""Runs the command line: `python -m toile` is the same as `toile`."""

from __future__ import annotations

from toile.cli import main

main()
