"""The `toile` command. Only typer and rich are imported here: everything heavy waits until a command needs it.

A command is a file: commands/NAME.py holds its function `command`, and NAME stands below.
"""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

import toile
from toile.cli import completion
from toile.cli.streams import console, escape_what_cannot_be_written
from toile.cli.usage import Commands

# In the order of the help.
COMMANDS = ("run", "view", "list", "explain", "check", "render", "export", "share", "bench")

START = """\
Toile simulates cloth. Four commands to begin with:

  toile run drape        drape a sheet over a cylinder, into out/drape
  toile view drape       the same live in the browser, where you can drag it
  toile list scenes      what else there is
  toile explain drape    every value of that scene, its unit and what it means

toile --help shows all commands, toile run --help the options of one."""

app = typer.Typer(
    cls=Commands,
    help="Cloth simulation in SI units, with a certificate for every run.",
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)
completion.prepare()


@app.callback(invoke_without_command=True)
def options(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False,
) -> None:
    if version:
        console.print(f"toile {toile.__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        console.print(START)


for _name in COMMANDS:
    app.command(_name)(importlib.import_module(f"toile.cli.commands.{_name}").command)


def main() -> None:
    escape_what_cannot_be_written()
    app(prog_name="toile")  # also for `python -m toile`
