"""The reference of every field and every type of a scene, made from the models that validate them.

`toile explain` shows the same in a terminal; both read it through toile.scene.explain. A page describes one model, with
a section for each of its fields: effect, kind of value, unit, range, default, and the shipped scenes that set it.
"""

from __future__ import annotations

import importlib
import types
import typing
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from formulas import Opening
from pieces import code, code_span, escaped, table
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from toile.families import FAMILIES
from toile.plugins import Plugin, find, names
from toile.scene.explain import Row, field_rows, judgment_constants
from toile.scene.fields import annotation_at, family_in, models_in
from toile.scene.load import load, scene_names
from toile.scene.presets import preset_names, preset_text
from toile.scene.schema import FABRICS, Bound, Fabric, Scene, fabric_names

DOCS = Path(__file__).parents[1]
PLAIN = {int: "whole number", float: "number", bool: "true or false", str: "text"}

TITLES = {"post": "Post-processes", "colliders": "Solids"}

# The pages of the guide that explain a family.
GUIDES = {
    "shapes": "[Shapes](../../scenes.md#shapes)",
    "energies": "[Energies of a cloth](../../scenes.md#energies-of-a-cloth) and [forces](../../scenes.md#forces)",
    "constraints": "[Constraints](../../scenes.md#constraints)",
    "colliders": "[Cloth on solids](../../solids.md)",
    "filters": "[Cloth on cloth](../../contact.md) and [cloth that does not stretch](../../strain.md)",
    "post": "[Folds that stay](../../solids.md#folds-that-stay)",
    "integrators": "[Integrators](../../integrators.md)",
    "preconditioners": "[Solver and integrator](../../scenes.md#solver-and-integrator)",
    "outputs": "[Outputs](../../scenes.md#outputs)",
}

Page = tuple[tuple[str, ...], str, str]  # titles in the navigation, address, text


def pages() -> list[Page]:
    blocks = [((_title(model),), f"reference/{_slug(model)}.md", _block(model)) for model in _blocks()]
    plugins = [
        ((TITLES.get(family, family.capitalize()), name), f"reference/{family}/{name}.md", _plugin(family, name))
        for family in FAMILIES
        for name in names(family)
    ]
    return [
        (("Overview",), "reference/index.md", _overview()),
        *(((("Scene", *titles)), uri, text) for titles, uri, text in blocks),
        *plugins,
        (("Fabrics",), "reference/fabrics.md", _fabrics()),
        (("Presets",), "reference/presets.md", _presets()),
        (("Judgment constants",), "reference/constants.md", _constants()),
    ]


@cache
def _blocks() -> list[type[BaseModel]]:
    """Returns every model of plain values that scenes consist of, the scene first."""
    found: list[type[BaseModel]] = []
    pending: list[type[BaseModel]] = [Scene, *(find(family, name) for family in FAMILIES for name in names(family))]
    while pending:
        model = pending.pop(0)
        if model in found:
            continue
        if not issubclass(model, Plugin):
            found.append(model)
        pending += [inner for info in model.model_fields.values() for inner in _plain(info)]
    return found


def _plain(info: FieldInfo) -> list[type[BaseModel]]:
    """Returns the models in a field, without those chosen by type."""
    return [model for model in models_in(info) if not issubclass(model, Plugin)]


def _overview() -> str:
    blocks = table(
        ("block", "description"), ((f"[{_title(model)}]({_slug(model)}.md)", _about(model)) for model in _blocks())
    )
    parts = [
        "# Reference\n",
        "This reference lists every field of a scene. `toile explain TYPE` shows the same in a terminal, and "
        "`toile explain SCENE` every value of a scene. [Scenes](../scenes.md) explains how the parts fit together.\n",
        "## Blocks of a scene\n",
        blocks,
    ]
    for family, (_, noun, _) in FAMILIES.items():
        rows = ((f"[`{name}`]({family}/{name}.md)", escaped(find(family, name).summary())) for name in names(family))
        parts += [f"## {TITLES.get(family, family.capitalize())} {{ #{family} }}\n", table((noun, "description"), rows)]
    return "\n".join(parts)


def _block(model: type[BaseModel]) -> str:
    return "\n".join([f"# {_title(model)}\n", _about(model) + "\n", *_fields(model, "")])


def _plugin(family: str, name: str) -> str:
    plugin = find(family, name)
    noun = FAMILIES[family].noun
    opening = Opening(name, importlib.import_module(plugin.__module__).__doc__ or "")
    used = _used_by(plugin, None)
    parts = [
        f"# `{name}`\n",
        f"{noun.capitalize()}. {escaped(plugin.summary())}\n",
        opening.markdown(),
        f"{escaped(' '.join(plugin.__doc__.split()))}\n" if plugin.__doc__ else "",
        f"More: {GUIDES[family]}. Used by {_scenes(used, '../../')}.\n" if used else f"More: {GUIDES[family]}.\n",
    ]
    fields = _fields(plugin, "../")
    return "\n".join([*parts, *(fields or ["It has no fields.\n"])])


def _fields(model: type[BaseModel], up: str) -> list[str]:
    """Returns an overview of the fields and a section for each; `up` is the path to reference/."""
    rows = [row for row in field_rows(model) if row.depth == 0]
    if not rows:
        return []
    overview = table(
        ("field", "default", "unit", "effect"),
        ((f"[`{row.key}`](#{row.key})", code_span(_default(model, row)), row.unit, escaped(row.doc)) for row in rows),
    )
    parts = ["## Fields\n", overview]
    for row in rows:
        inside = _inside(model, row.key, up)
        used = _used_by(model, row.key)
        facts = [
            ("kind", escaped(_kind(model.model_fields[row.key].annotation))),
            ("unit", row.unit or "none"),
            ("range", code_span(row.limits) or "any"),
            ("default", code_span(_default(model, row)) or "empty"),
            *([("contains", inside)] if inside else []),
            *([("set in", _scenes(used, f"{up}../"))] if used else []),
        ]
        parts += [f"### {row.key}\n", _sentence(row.doc) + "\n", table(("", ""), facts)]
    return parts


def _default(model: type[BaseModel], row: Row) -> str:
    """Returns a default as a scene would write it; a block has the defaults of its fields."""
    if isinstance(model.model_fields[row.key].get_default(call_default_factory=True), BaseModel):
        return "{}"
    return {"-": "null", "(needed)": "must be given"}.get(row.value, row.value)


def _sentence(text: str) -> str:
    return escaped(text[:1].upper() + text[1:]).rstrip(".") + "." if text else ""


def _inside(model: type[BaseModel], key: str, up: str) -> str:
    """Returns links to the blocks or to the family that a field takes."""
    links = [f"[{_title(inner)}]({up}{_slug(inner)}.md)" for inner in _plain(model.model_fields[key])]
    for path in ((key,), (key, 0)):
        family = family_in(annotation_at(model, path, {}))
        if family:
            links.append(f"one of the [{family}]({up}index.md#{family})")
    return ", ".join(dict.fromkeys(links))


def _kind(annotation: Any) -> str:
    """Describes the values that a field takes."""
    if annotation in PLAIN:
        return PLAIN[annotation]
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(inside[0])
    if origin is typing.Literal:
        return "one of " + ", ".join(str(choice) for choice in inside)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys("null" if part is type(None) else _kind(part) for part in inside))
    if origin is dict:
        return f"names, each with {_kind(inside[1])}"
    if origin is tuple and Ellipsis in inside:
        return f"list: {_kind(inside[0])}"
    if origin is tuple:
        kinds = list(dict.fromkeys(_kind(part) for part in inside))
        return f"{len(inside)} of: {kinds[0]}" if len(kinds) == 1 else "[" + ", ".join(map(_kind, inside)) + "]"
    if isinstance(annotation, type) and issubclass(annotation, Plugin):
        return "a type name, or its fields with `type`"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "its fields"
    return "text"


@cache
def _settings() -> dict[tuple[type[BaseModel], str | None], list[str]]:
    """Returns the shipped scenes that set a field, and those that have a model at all (key None)."""
    found: dict[tuple[type[BaseModel], str | None], list[str]] = defaultdict(list)
    for name in scene_names():
        scene = load(name)
        for model, key in dict.fromkeys(_given(scene)):
            found[model, key].append(name)
    return found


def _given(value: Any) -> typing.Iterator[tuple[type[BaseModel], str | None]]:
    if isinstance(value, BaseModel):
        yield type(value), None
        for key in type(value).model_fields:
            if key in value.model_fields_set:
                yield type(value), key
            yield from _given(getattr(value, key))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _given(item)
    elif isinstance(value, dict):
        yield from _given(list(value.values()))


def _used_by(model: type[BaseModel], key: str | None) -> list[str]:
    return _settings().get((model, key), [])


def _scenes(found: list[str], up: str) -> str:
    """Returns links to the gallery, at most eight."""
    links = [
        f"[{name}]({up}gallery/{name}.md)" if (DOCS / "gallery" / f"{name}.md").exists() else f"`{name}`"
        for name in found[:8]
    ]
    return ", ".join(links) + (f" and {len(found) - 8} more" if len(found) > 8 else "")


def _fabrics() -> str:
    properties = [key for key in Fabric.model_fields if key not in ("name", "source")]
    units = {row.key: row.unit for row in field_rows(Fabric)}
    read = {name: yaml.safe_load((FABRICS / f"{name}.yaml").read_text(encoding="utf-8")) for name in fabric_names()}
    head = ["fabric", *(f"`{key}` {f'[{units[key]}]' if units[key] else ''}".strip() for key in properties)]
    made = {name: Fabric.model_validate(fabric) for name, fabric in read.items()}
    rows = (
        [f"[`{name}`](#{name})", *("none" if (f := getattr(fabric, key)) is None else f"{f:.4g}" for key in properties)]
        for name, fabric in made.items()
    )
    texts = {name: (FABRICS / f"{name}.yaml").read_text(encoding="utf-8") for name in made}
    sources = [f"## {name} {{ #{name} }}\n\n{code(text, 'yaml')}" for name, text in texts.items()]
    return "\n".join(
        [
            "# Shipped fabrics\n",
            "[Fabrics](../fabrics.md) explains the properties, [Fabric](fabric.md) lists their units and limits.\n",
            table(head, rows),
            *sources,
        ]
    )


def _presets() -> str:
    blocks = [f"## {name}\n\n{code(preset_text(name), 'yaml')}" for name in preset_names()]
    return "\n".join(["# Shipped presets\n", "[Presets](../presets.md) explains how to use them.\n", *blocks])


def _constants() -> str:
    rows = ((f"`{module}.{name}`", code_span(value), escaped(why)) for module, name, value, why in judgment_constants())
    return "\n".join(
        [
            "# Judgment constants\n",
            "These numbers in the code are neither physics nor fields of a scene; each has its reason.\n",
            table(("constant", "value", "reason"), rows),
        ]
    )


def _title(model: type[BaseModel]) -> str:
    return "Expectations" if model is Bound else "Sequence" if model.__name__ == "SequenceSettings" else _spaced(model)


def _spaced(model: type[BaseModel]) -> str:
    return "".join(f" {sign.lower()}" if sign.isupper() and i else sign for i, sign in enumerate(model.__name__))


def _slug(model: type[BaseModel]) -> str:
    return _title(model).lower().replace(" ", "_")


def _about(model: type[BaseModel]) -> str:
    return escaped(" ".join((model.__doc__ or "").split()))
