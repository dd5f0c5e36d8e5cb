"""The page of the Python interface: the names of `import toile` and of some modules, with signature and docstring."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import textwrap
from typing import Any

from pieces import code, code_span, escaped, table
from pydantic import BaseModel
from reference import _slug

import toile

# Public names that are imported from their modules.
BESIDE = {
    "toile.runs.expectations": ("check", "read_report", "Finding"),
    "toile.runs.folder": ("RunFolder", "render_run", "export_run"),
}

INTRODUCTION = """# Python

Everything that a scene file can contain is a Python object too: see the [blocks of a scene](index.md). Wherever a scene
expects an object, a dictionary or a name is accepted, so that `{"type": "grid"}` and `"cotton"` work as in a file.
"""


def page() -> str:
    parts = [INTRODUCTION]
    things = {name: getattr(toile, name) for name in toile.__all__ if callable(getattr(toile, name))}
    for name, thing in sorted(things.items(), key=lambda entry: (_rank(entry[1]), entry[0].lower())):
        parts += _entry(f"toile.{name}", thing)
    parts.append("## In modules\n")
    for module, members in BESIDE.items():
        for name in members:
            parts += _entry(f"{module}.{name}", getattr(importlib.import_module(module), name), level=3)
    return "\n".join(parts)


def _rank(thing: Any) -> int:
    """Sorts functions first, then the classes they return, the parts of scenes, and exceptions."""
    if inspect.isfunction(thing):
        return 0
    return 3 if issubclass(thing, BaseException) else 2 if issubclass(thing, BaseModel) else 1


def _entry(path: str, thing: Any, level: int = 2) -> list[str]:
    head = f"{'#' * level} `{path}` {{ #{path.replace('.', '-')} }}\n"
    if inspect.isfunction(thing):
        return [head, _signature(path.rsplit(".", 1)[-1], thing), _text(thing)]
    parts = [head, _text(thing)]
    if issubclass(thing, BaseModel):
        return [*parts, f"Its fields: [{thing.__name__}]({_slug(thing)}.md).\n"]
    if dataclasses.is_dataclass(thing):
        parts.append(table(("attribute", "type", "meaning"), _attributes(thing)))
    if "__init__" in vars(thing) and not dataclasses.is_dataclass(thing) and not issubclass(thing, BaseException):
        parts += [_signature(thing.__name__, thing.__init__), _text(thing.__init__)]
    for name, member in vars(thing).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            function = member.fget if isinstance(member, property) else member
            if function is not None and function.__doc__:
                parts += [_signature(f".{name}", function, isinstance(member, property)), _text(function)]
    return parts


def _signature(name: str, function: Any, is_property: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = [str(p) for p in signature.parameters.values() if p.name != "self"]
    kinds = [p.kind for p in signature.parameters.values() if p.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = signature.return_annotation
    arrow = "" if returns is inspect.Signature.empty or name[:1].isupper() else f" -> {returns}"
    short = name if is_property else f"{name}({', '.join(parameters)})"
    if len(short + arrow) > 100:
        short = f"{name}(\n" + "".join(f"    {p},\n" for p in parameters) + ")"
    return code((short + arrow).replace("'", ""), "python")


def _attributes(thing: Any) -> list[tuple[str, str, str]]:
    """Returns the fields of a dataclass with the comments behind them."""
    source = textwrap.dedent(inspect.getsource(thing))
    lines = source.splitlines()
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    return [
        (code_span(ast.unparse(f.target)), code_span(ast.unparse(f.annotation)), escaped(_comment(lines[f.lineno - 1])))
        for f in fields
    ]


def _comment(line: str) -> str:
    return line.partition("  # ")[2].strip()


def _text(thing: Any) -> str:
    return escaped(inspect.getdoc(thing) or "") + "\n"
