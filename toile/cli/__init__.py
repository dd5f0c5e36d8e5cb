"""The `toile` command. Only typer and rich are imported here: everything heavy waits until a command needs it.

A command is a file: commands/NAME.py holds its function `command`, and NAME stands below.
"""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

import toile
from toile.cli.streams import console

# In the order of the help.
COMMANDS = ("run", "list", "explain", "check", "render", "export", "bench")

app = typer.Typer(
    help="Cloth simulation in SI units, with a certificate for every run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False) -> None:
    if version:
        console.print(f"toile {toile.__version__}")
        raise typer.Exit


for _name in COMMANDS:
    app.command(_name)(importlib.import_module(f"toile.cli.commands.{_name}").command)


def main() -> None:
    app()
