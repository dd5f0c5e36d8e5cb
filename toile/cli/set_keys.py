"""Completes the keys and values of `--set` from the source code of the scene's models.

The models are parsed and not imported, because importing them takes a second, too long for the tab key.

    t                   -> time.
    time.m              -> time.max_step=  time.min_step=
    cloth.0.shape.      -> the fields of that shape of the scene
    integrator=i        -> integrator=implicit_bdf2  integrator=implicit_euler

A field is `name: type = quantity(..., doc="...")` in a class. Its type tells what it holds: a class with fields of its
own, a list of such classes, or a plug-in that is chosen by `type`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from toile.cli import catalog
from toile.families import FAMILIES, class_name, members


@dataclass(frozen=True)
class ModelSource:
    """A pydantic model, by its module and name."""

    module: str
    name: str


@dataclass(frozen=True)
class Choice:
    """A choice by `type` from a family of plug-ins, or from its members with this `scope`."""

    family: str
    scope: str | None = None

    def type_names(self) -> list[str]:
        """Returns the type names to choose from."""
        return [name for name in members(self.family) if self.scope in (None, _scope(self.member(name)))]

    def member(self, type_name: str) -> ModelSource:
        """Returns the class behind a type name."""
        package, _, prefix = FAMILIES[self.family]
        return ModelSource(f"{package}.{prefix}{type_name}", class_name(type_name))


@dataclass(frozen=True)
class ModelField:
    """One field of a model."""

    name: str
    annotation: ast.expr
    doc: str
    module: str  # in which the names of the annotation are resolved


SCENE = ModelSource("toile.scene.schema", "Scene")


def complete(incomplete: str, values: Sequence[Any]) -> list[tuple[str, str]]:
    """Returns the completions of an incomplete KEY=VALUE, with a line about each.

    `values` are those of the scene, of its preset and of the defaults, in this order of precedence. They determine the
    lengths of lists and the types of plug-ins.
    """
    key, sign, _ = incomplete.partition("=")
    if sign:
        return [(f"{key}={value}", "") for value in _choices(key, values)]
    parent, dot, _ = key.rpartition(".")
    return list(_keys_below(parent + dot, values))


@cache
def fields(model: ModelSource) -> dict[str, ModelField]:
    """Returns the fields of a model, those of its base classes first."""
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
        inner, many = _content(field)
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
    holder, choice, _ = _descend(path[:-1], values)
    if path[-1] == "type" and choice is not None:
        return choice.type_names()
    field = fields(holder).get(path[-1]) if holder is not None else None
    if field is None:
        return []
    if field.name == "fabric":
        return catalog.fabrics()
    if holder == SCENE and field.name == "preset":
        return list(catalog.presets())
    inner, many = _content(field)
    if isinstance(inner, Choice):
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


def _descend(path: Sequence[str], values: Sequence[Any]) -> tuple[ModelSource | None, Choice | None, Sequence[Any]]:
    """Returns the model at a path, the choice that selected it if it is a plug-in, and its values."""
    holder: ModelSource | None = SCENE
    choice: Choice | None = None
    position = 0
    while position < len(path):
        field = fields(holder).get(path[position]) if holder is not None else None
        if field is None:
            return None, None, ()
        inner, many = _content(field)
        values = _inside(values, path[position])
        position += 1
        if many:
            if position == len(path):
                return None, None, ()
            part = path[position]
            values = _inside(values, int(part) if part.isdecimal() else part)
            position += 1
        choice = inner if isinstance(inner, Choice) else None
        holder = _chosen(inner, values) if isinstance(inner, Choice) else inner
    return holder, choice, values


def _inside(values: Sequence[Any], part: str | int) -> list[Any]:
    """Returns the values at one key of all of these, where they have it."""
    found = []
    for value in values:
        try:
            found.append(value[part])
        except (LookupError, TypeError):
            continue
    return found


def _indices(values: Sequence[Any], known: bool) -> list[str]:
    """Returns the indices of a list or the keys of a mapping; a first index if no scene is known."""
    entries = values[0] if values else [] if known else [None]
    if isinstance(entries, dict):
        return list(entries)
    return [str(i) for i in range(len(entries))] if isinstance(entries, list) else []


def _chosen(choice: Choice, values: Sequence[Any]) -> ModelSource | None:
    """Returns the plug-in that the values choose."""
    for value in values:
        type_name = value.get("type") if isinstance(value, dict) else value
        if isinstance(type_name, str) and type_name in members(choice.family):
            return choice.member(type_name)
    return None


@cache
def _scope(model: ModelSource) -> str | None:
    """Returns the class attribute `scope` of a class or of its base classes."""
    definition = _class(model)
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and _named(node.target, "scope") and node.value is not None:
            return str(ast.literal_eval(node.value))
    bases = [_resolved(model.module, ast.unparse(base)) for base in definition.bases]
    return next((found for base in bases if isinstance(base, ModelSource) and (found := _scope(base))), None)


def _content(field: ModelField) -> tuple[ModelSource | Choice | None, bool]:
    """Returns the model or choice that a field holds, and whether it is a list or mapping of them."""
    for node in ast.walk(field.annotation):
        if isinstance(node, ast.Name):
            inner = _resolved(field.module, node.id)
            if inner is not None:
                names = {part.id for part in ast.walk(field.annotation) if isinstance(part, ast.Name)}
                return inner, bool(names & {"tuple", "dict", "list"})
    return None, False


@cache
def _resolved(module: str, name: str) -> ModelSource | Choice | None:
    """Returns the model or the choice that a name stands for in a module of Toile."""
    imported: str | None = None
    for node in _statements(catalog.parsed(module).body):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return ModelSource(module, name) if _has_fields(module, node) else None
        if isinstance(node, ast.Assign) and _named(node.targets[0], name):
            calls = [part for part in ast.walk(node.value) if isinstance(part, ast.Call)]
            for call in calls:
                if _named(call.func, "choice"):
                    return Choice(*(str(ast.literal_eval(argument)) for argument in call.args))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toile."):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    imported = f"{node.module}:{alias.name}"
    return _resolved(*imported.split(":")) if imported else None


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements of a module, and those inside its `if TYPE_CHECKING: ... else: ...`."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])


def _has_fields(module: str, definition: ast.ClassDef) -> bool:
    """Whether a class is a model, and not an enumeration or a plain class."""
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
    """Returns the documentation of a field, with its unit."""
    if not isinstance(value, ast.Call):
        return ""
    given = {entry.arg: str(entry.value.value) for entry in value.keywords if isinstance(entry.value, ast.Constant)}
    unit = f" [{given['unit']}]" if given.get("unit") else ""
    return given.get("doc", given.get("description", "")) + unit
