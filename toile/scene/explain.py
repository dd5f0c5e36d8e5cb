"""Explains a scene: every value with its unit, its limits, its meaning, and whether it is the default.

The values are followed by the judgment constants of Toile: numbers in the code that are neither physics nor set by the
scene. They are found by their form, an upper-case name with a comment, so that none can be left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from toile.families import FAMILIES
from toile.plugins import Plugin, find
from toile.scene.error_messages import value_text
from toile.scene.fields import entry_metadata, literals_of, models_in, unit_of
from toile.scene.presets import DEFAULT, preset_text
from toile.scene.schema import Scene
from toile.scene.yaml_reader import KeyPath

if TYPE_CHECKING:
    from rich.console import RenderableType

PACKAGE = Path(__file__).parent.parent
# Folders whose constants do not change the motion of the cloth.
NOT_NUMERICS = ("bench", "cli", "outputs", "render", "runs", "viewer")
MARKS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "min_length": "at least", "max_length": "at most"}


@dataclass(frozen=True)
class Row:
    """One line of the explanation."""

    depth: int
    key: str
    value: str = ""
    is_default: bool = False
    unit: str = ""
    limits: str = ""
    doc: str = ""
    of_preset: bool = False


def explain(scene: Scene) -> RenderableType:
    """Returns the whole scene as a table in which values that differ from their defaults stand out."""
    from rich.console import Group
    from rich.text import Text

    constants = [
        Row(0, f"{module}.{name}", value, doc=doc, is_default=True) for module, name, value, doc in judgment_constants()
    ]
    return Group(
        Text.assemble((scene.name, "bold"), "  ", scene.about),
        Text.assemble("Bold: set by the scene. ", *_presets_mark(scene), "Plain: the default.\n"),
        _table(list(rows(scene))),
        Text.assemble(
            "\n", ("Judgment constants", "bold"), "  set in the code; neither physics nor set by the scene\n"
        ),
        _table(constants),
    )


def _presets_mark(scene: Scene) -> list[str | tuple[str, str]]:
    return [] if scene.preset == DEFAULT else [("Italic", "italic"), f": set by the preset {scene.preset}. "]


def explain_plugin(family: str, name: str) -> RenderableType:
    """Returns the summary of a plug-in, and a table of its fields with their defaults."""
    plugin = find(family, name)
    from rich.console import Group
    from rich.text import Text

    title = Text.assemble((name, "bold"), f" ({FAMILIES[family].noun})  {plugin.summary()}\n")
    return Group(title, _table(list(field_rows(plugin))))


def explain_preset(name: str) -> RenderableType:
    """Returns the text of a preset's file, in which a comment gives the source of every value."""
    from rich.text import Text

    title, _, text = preset_text(name).partition("\n")
    return Text.assemble((name, "bold"), f" (preset)  {title.lstrip('# ')}\n\n", text.strip())


def field_rows(model: type[BaseModel], depth: int = 0) -> Iterator[Row]:
    """Yields the fields of a model class with their defaults, each followed by the fields of the models inside it."""
    for key, info in model.model_fields.items():
        yield _row(depth, key, info, _default(info), True)
        for inner in models_in(info):
            yield from field_rows(inner, depth + 1)


def rows(scene: Scene) -> Iterator[Row]:
    """Yields the fields of a scene in their order, each followed by the fields inside it."""
    return _rows(scene, 0, (), scene._of_preset)


def _rows(model: BaseModel, depth: int, path: KeyPath, of_preset: frozenset[KeyPath]) -> Iterator[Row]:
    for key, info in type(model).model_fields.items():
        value, here = getattr(model, key), (*path, key)
        is_default = key not in model.model_fields_set
        by = any(here[:n] in of_preset for n in range(1, len(here) + 1))
        entries = _entries(value)
        if entries is None:
            yield _row(depth, key, info, value, is_default, by)
            continue
        yield _row(depth, key, info, None if entries else value, is_default, by)
        for name, entry in entries:
            if name:
                yield Row(depth + 1, name, _type_name(entry), is_default, doc=_about(entry), of_preset=by)
            elif isinstance(entry, Plugin):
                yield Row(depth + 1, "type", _type_name(entry), is_default, doc=_about(entry), of_preset=by)
            inside = (*here, int(name.strip("[]"))) if name.startswith("[") else (*here, *([name] if name else []))
            yield from _rows(entry, depth + (2 if name else 1), inside, of_preset)


def judgment_constants() -> list[tuple[str, str, str, str]]:
    """Returns (module, name, value, comment) of every commented constant in Toile; the code is read, not imported."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if module.split(".")[0] in NOT_NUMERICS:
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and value is not None and _is_number(value):
                comment = _comment_at(lines, node.lineno - 1)
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                name = ast.unparse(targets[0]).strip("()")
                if comment and name.replace(",", "").replace(" ", "").isupper():
                    found.append((module, name, ast.unparse(value).strip("()"), comment))
    return found


def _entries(value: Any) -> list[tuple[str, BaseModel]] | None:
    """Returns the models inside a value with their names; None if it is a plain value."""
    if isinstance(value, BaseModel):
        return [("", value)]
    if isinstance(value, tuple) and value and all(isinstance(item, BaseModel) for item in value):
        return [(f"[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, dict) and value and all(isinstance(item, BaseModel) for item in value.values()):
        return list(value.items())
    return None


def _row(depth: int, key: str, info: FieldInfo, value: Any, is_default: bool, of_preset: bool = False) -> Row:
    shown = "" if value is None and info.default is not None else _shown(value)
    return Row(depth, key, shown, is_default, unit_of(info), _limits(info), info.description or "", of_preset)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    return "-" if value is None else value if isinstance(value, str) else value_text(value)


def _limits(info: FieldInfo) -> str:
    notes = [*info.metadata, *entry_metadata(info.annotation)]
    limits = dict.fromkeys(f"{MARKS[name]} {value:g}" for note in notes for name, value in _limits_in(note))
    choices = sorted(literals_of(info.annotation))
    return ", ".join([*limits, *([" | ".join(choices)] if choices else [])])


def _limits_in(note: Any) -> list[tuple[str, float]]:
    return [(name, getattr(note, name)) for name in MARKS if getattr(note, name, None) is not None]


def _default(info: FieldInfo) -> Any:
    return "(needed)" if info.is_required() else info.get_default(call_default_factory=True)


def _type_name(entry: BaseModel) -> str:
    return entry.type_name() if isinstance(entry, Plugin) else ""


def _about(entry: BaseModel) -> str:
    return entry.summary() if isinstance(entry, Plugin) else ""


def _is_number(node: ast.expr) -> bool:
    allowed = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.operator, ast.unaryop, ast.expr_context)
    for part in ast.walk(node):
        if not isinstance(part, allowed) or (isinstance(part, ast.Constant) and type(part.value) not in (int, float)):
            return False
    return True


def _comment_at(lines: list[str], index: int) -> str:
    """Returns the comment above a line, joined with the one at its end."""
    above: list[str] = []
    while index > len(above) and lines[index - 1 - len(above)].startswith("#"):
        above.insert(0, lines[index - 1 - len(above)].lstrip("# "))
    behind = lines[index].partition("#")[2].strip()
    return " ".join([*above, behind]).strip()


def _table(entries: list[Row]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for column in ("key", "value", "unit", "limits", "doc"):
        table.add_column(column, overflow="fold", no_wrap=column in ("key", "unit"))
    for row in entries:
        style = "" if row.is_default else "italic" if row.of_preset else "bold"
        cells = ("  " * row.depth + row.key, row.value, row.unit, row.limits, row.doc)
        table.add_row(*(Text(cell, style=style if i < 2 else "dim") for i, cell in enumerate(cells)))
    return table
