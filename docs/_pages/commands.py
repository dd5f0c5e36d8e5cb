"""The `toile` command: every command with its arguments and options, from the functions behind them."""

from __future__ import annotations

import inspect
import typing
from enum import Enum
from pathlib import Path
from typing import Any

from pieces import code, escaped, table
from typer.models import ArgumentInfo, OptionInfo

from toile.cli import app

INTRODUCTION = """# Commands

`toile COMMAND --help` prints the same. The exit code is 0 when all went well, 1 when an expectation is not met or a
result cannot be written, 2 when the input cannot be used (nothing is written then), 3 when the simulation could not go
on, 130 after Ctrl-C and 143 after SIGTERM.
"""

WORDS = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def page() -> str:
    parts = [INTRODUCTION]
    functions = {command.name or _name(command.callback): command.callback for command in app.registered_commands}
    for name, function in sorted(functions.items()):
        arguments, options = _parameters(function)
        usage = ["toile", name, *(word for word, _ in arguments), *(["[OPTIONS]"] if options else [])]
        parts += [
            f"## toile {name}\n",
            escaped(inspect.getdoc(function) or "") + "\n",
            code(" ".join(usage)),
            table(("argument", "what it is"), ((f"`{word}`", escaped(about)) for word, about in arguments)),
            table(("option", "what it does"), ((f"`{word}`", escaped(about)) for word, about in options)),
        ]
    return "\n".join(parts)


def _name(function: Any) -> str:
    return function.__name__.replace("_", "-")


def _parameters(function: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(how it is written, what it is) of the arguments, and of the options."""
    arguments, options = [], []
    hints = typing.get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind, *notes = typing.get_args(hints[parameter.name]) or (hints[parameter.name],)
        given = next((note for note in notes if isinstance(note, ArgumentInfo | OptionInfo)), None)
        about = (given.help if given else None) or ""
        if isinstance(given, ArgumentInfo):
            word = given.metavar or parameter.name.upper()
            arguments.append((word if parameter.default is parameter.empty else f"[{word}]", about))
        else:
            names = _names(given) or [f"--{parameter.name.replace('_', '-')}"]
            value = (given.metavar if given else None) or _value(kind)
            options.append((f"{', '.join(names)} {value}".strip(), about))
    return arguments, options


def _names(given: OptionInfo | None) -> list[str]:
    """Names that an option was given; typer holds the first of them as the default."""
    words = (given.default, *(given.param_decls or ())) if given else ()
    return [str(word) for word in words if str(word).startswith("-")]


def _value(kind: Any) -> str:
    """What follows an option: nothing for a switch."""
    kind = next((part for part in typing.get_args(kind) if part is not type(None)), kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    return "" if kind is bool else WORDS.get(kind, "VALUE")
