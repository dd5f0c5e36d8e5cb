"""The `toile` command. Only typer and rich are imported here; heavy modules are imported when a command needs them.

A command is a file: commands/NAME.py holds its function `command`, and NAME is listed in COMMANDS.
"""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

import toile
from toile.cli import completion
from toile.cli.command_group import CommandGroup
from toile.cli.console import console, escape_unencodable

# The commands, in the order of the help.
COMMANDS = ("run", "view", "list", "explain", "check", "render", "export", "share", "bench")

START = """\
Toile simulates cloth. Four commands to start with:

  toile run drape        drape a sheet over a cylinder, into out/drape
  toile view drape       the same live in the browser, where you can drag the cloth
  toile list scenes      all shipped scenes
  toile explain drape    every value of that scene, with its unit and meaning

toile --help shows all commands, toile run --help the options of one."""

app = typer.Typer(
    cls=CommandGroup,
    help="Cloth simulation in SI units, with a certificate for every run.",
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)
completion.install_scripts()


@app.callback(invoke_without_command=True)
def options(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        console.print(f"toile {toile.__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        console.print(START)


for _name in COMMANDS:
    app.command(_name)(importlib.import_module(f"toile.cli.commands.{_name}").command)


def main() -> None:
    """Entry point of the command, also for `python -m toile`."""
    escape_unencodable()
    app(prog_name="toile")
