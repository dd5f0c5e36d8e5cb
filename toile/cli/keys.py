"""The keys that `--set` takes, and their values, read from the source of the scene's models: importing them takes a
second, and who presses the tab key does not wait that long.

    t                   -> time.
    time.m              -> time.max_step=  time.min_step=
    cloth.0.shape.      -> the fields of the shape that the scene has there
    integrator=i        -> integrator=implicit_bdf2  integrator=implicit_euler

A field is `name: type = quantity(..., doc="...")` in a class; what it may hold is found in its type: a class with
fields of its own, a list of them, or a family of which one is chosen by `type`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from toile.cli import catalog as catalog


@dataclass(frozen=True)
class ModelSource:
    """A class with fields."""

    module: str
    name: str


@dataclass(frozen=True)
class Family:
    """One of these is chosen by `type`; where it says so, only from those whose class has this `scope`."""

    name: str
    scope: str | None = None

    def type_names(self) -> list[str]:
        type_names = list(catalog.members(self.name))
        return [type_name for type_name in type_names if self.scope in (None, _scope(self.member(type_name)))]

    def member(self, type_name: str) -> ModelSource:
        package, _, prefix = catalog.families()[self.name]
        return ModelSource(f"{package}.{prefix}{type_name}", catalog.class_name(type_name))


@dataclass(frozen=True)
class ModelField:
    """One key of a model."""

    name: str
    annotation: ast.expr
    doc: str
    module: str  # where the annotation's names mean something


SCENE = ModelSource("toile.scene.schema", "Scene")


def complete(incomplete: str, values: Sequence[Any]) -> list[tuple[str, str]]:
    """What an incomplete KEY=VALUE may become, with a line about each. `values`: those of the scene and, beneath them,
    of its preset and the defaults; they say how long lists are, and what is chosen.
    """
    key, sign, _ = incomplete.partition("=")
    if sign:
        return [(f"{key}={value}", "") for value in _choices(key, values)]
    parent, dot, _ = key.rpartition(".")
    return list(_keys_below(parent + dot, values))


@cache
def fields(model: ModelSource) -> dict[str, ModelField]:
    """Those of its bases first."""
    found: dict[str, ModelField] = {}
    definition = _class(model)
    for base in definition.bases:
        resolved = _resolved(model.module, ast.unparse(base))
        if isinstance(resolved, ModelSource):
            found.update(fields(resolved))
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, annotation = node.target.id, node.annotation
            if not name.startswith("_") and not ast.unparse(annotation).startswith("ClassVar"):
                found[name] = ModelField(name, annotation, _doc(node.value), model.module)
    return found


def _keys_below(parent: str, values: Sequence[Any]) -> Iterator[tuple[str, str]]:
    path = [part for part in parent.replace("[", ".").replace("]", "").split(".") if part]
    holder, _, inside = _descend(path, values)
    for field in fields(holder).values() if holder is not None else ():
        inner, many = _held(field)
        below = _inside(inside, field.name)
        if many and inner is not None:
            for index in _indices(below, known=bool(values)):
                yield f"{parent}{field.name}.{index}.", field.doc
        elif isinstance(inner, ModelSource) or (inner is not None and _chosen(inner, below) is not None):
            yield f"{parent}{field.name}.", field.doc
        if many or not isinstance(inner, ModelSource) or field.name == "fabric":
            yield f"{parent}{field.name}=", field.doc


def _choices(key: str, values: Sequence[Any]) -> list[str]:
    path = [part for part in key.replace("[", ".").replace("]", "").split(".") if part]
    if not path:
        return []
    holder, family, _ = _descend(path[:-1], values)
    if path[-1] == "type" and family is not None:
        return family.type_names()
    field = fields(holder).get(path[-1]) if holder is not None else None
    if field is None:
        return []
    if field.name == "fabric":
        return catalog.fabrics()
    if holder == SCENE and field.name == "preset":
        return list(catalog.presets())
    inner, many = _held(field)
    if isinstance(inner, Family):
        return [f"[{type_name}]" for type_name in inner.type_names()] if many else inner.type_names()
    literals = [
        str(entry.value)
        for node in ast.walk(field.annotation)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
        for entry in ast.walk(node.slice)
        if isinstance(entry, ast.Constant)
    ]
    is_switch = any(isinstance(node, ast.Name) and node.id == "bool" for node in ast.walk(field.annotation))
    return [*literals, *(["true", "false"] if is_switch else [])]


def _descend(path: Sequence[str], values: Sequence[Any]) -> tuple[ModelSource | None, Family | None, Sequence[Any]]:
    """What is at a path: the model whose keys go on from there, the family it was chosen from, and its values."""
    holder: ModelSource | None = SCENE
    family: Family | None = None
    position = 0
    while position < len(path):
        field = fields(holder).get(path[position]) if holder is not None else None
        if field is None:
            return None, None, ()
        inner, many = _held(field)
        values = _inside(values, path[position])
        position += 1
        if many:
            if position == len(path):
                return None, None, ()
            part = path[position]
            values = _inside(values, int(part) if part.isdecimal() else part)
            position += 1
        family = inner if isinstance(inner, Family) else None
        holder = _chosen(inner, values) if isinstance(inner, Family) else inner
    return holder, family, values


def _inside(values: Sequence[Any], part: str | int) -> list[Any]:
    """The values at one key of all of these, without those that have none."""
    found = []
    for value in values:
        try:
            found.append(value[part])
        except (LookupError, TypeError):
            continue
    return found


def _indices(values: Sequence[Any], known: bool) -> list[str]:
    """Of the entries of a list or mapping; of a first one where no scene is known."""
    entries = values[0] if values else [] if known else [None]
    if isinstance(entries, dict):
        return list(entries)
    return [str(i) for i in range(len(entries))] if isinstance(entries, list) else []


def _chosen(family: Family, values: Sequence[Any]) -> ModelSource | None:
    """The member that the values name."""
    for value in values:
        type_name = value.get("type") if isinstance(value, dict) else value
        if isinstance(type_name, str) and type_name in catalog.members(family.name):
            return family.member(type_name)
    return None


@cache
def _scope(model: ModelSource) -> str | None:
    """What a class, or one that it is made from, assigns to `scope`."""
    definition = _class(model)
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and _named(node.target, "scope") and node.value is not None:
            return str(ast.literal_eval(node.value))
    bases = [_resolved(model.module, ast.unparse(base)) for base in definition.bases]
    return next((found for base in bases if isinstance(base, ModelSource) and (found := _scope(base))), None)


def _held(field: ModelField) -> tuple[ModelSource | Family | None, bool]:
    """What a field holds that has keys of its own, and whether it is a list or mapping of such."""
    for node in ast.walk(field.annotation):
        if isinstance(node, ast.Name):
            inner = _resolved(field.module, node.id)
            if inner is not None:
                names = {part.id for part in ast.walk(field.annotation) if isinstance(part, ast.Name)}
                return inner, bool(names & {"tuple", "dict", "list"})
    return None, False


@cache
def _resolved(module: str, name: str) -> ModelSource | Family | None:
    """The class, or the choice from a family, that a name stands for in a module of Toile."""
    imported: str | None = None
    for node in _statements(catalog.parsed(module).body):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return ModelSource(module, name) if _has_fields(module, node) else None
        if isinstance(node, ast.Assign) and _named(node.targets[0], name):
            calls = [part for part in ast.walk(node.value) if isinstance(part, ast.Call)]
            for call in calls:
                if _named(call.func, "choice"):
                    return Family(*(str(ast.literal_eval(argument)) for argument in call.args))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toile."):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    imported = f"{node.module}:{alias.name}"
    return _resolved(*imported.split(":")) if imported else None


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module, and of its `if TYPE_CHECKING: ... else: ...`."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])


def _has_fields(module: str, definition: ast.ClassDef) -> bool:
    """Whether it is a model, and not an enumeration or a plain class."""
    for base in map(ast.unparse, definition.bases):
        if base == "BaseModel" or _resolved(module, base) is not None:
            return True
    return False


@cache
def _class(model: ModelSource) -> ast.ClassDef:
    for node in catalog.parsed(model.module).body:
        if isinstance(node, ast.ClassDef) and node.name == model.name:
            return node
    raise LookupError(f"{model.module}.{model.name}")


def _named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _doc(value: ast.expr | None) -> str:
    """The line about a field, with its unit."""
    if not isinstance(value, ast.Call):
        return ""
    said = {type_name.arg: str(type_name.value.value) for type_name in value.keywords if isinstance(type_name.value, ast.Constant)}
    unit = f" [{said['unit']}]" if said.get("unit") else ""
    return said.get("doc", said.get("description", "")) + unit
