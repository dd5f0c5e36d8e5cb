"""Which field of the models describes a place in a scene: its unit, its limits, its valid keys.

A path such as ("cloth", 0, "energies", 2, "rigidity") is followed through the models; where a plugin is chosen, the
type that the scene names there says which.
"""

from __future__ import annotations

import types
import typing
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from toile.plugins import FAMILIES, find, names
from toile.scene.tree import Path

NOTHING = object()  # the value at a place that has none


def value_at(raw: Any, path: Path) -> Any:
    """The value at a path of nested dicts and lists, or NOTHING."""
    for part in path:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return NOTHING
    return raw


def model_at(model: type[BaseModel], path: Path, raw: Any) -> type[BaseModel] | None:
    """The model whose fields are the keys at a path; plugins are found by the type that `raw` names there."""
    annotation: Any = model
    for part in path:
        holder = _model_in(annotation, raw)
        if isinstance(part, int):
            annotation = _item(annotation)
        elif holder is not None:
            if part not in holder.model_fields:
                return None
            annotation = _annotation(holder.model_fields[part])
        else:
            annotation = _item(annotation)
        raw = value_at(raw, (part,))
    return _model_in(annotation, raw)


def field_at(model: type[BaseModel], path: Path, raw: Any) -> FieldInfo | None:
    """The field that describes a path; that of the whole list for an entry of it."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    if not path:
        return None
    holder = model_at(model, path[:-1], raw)
    return None if holder is None else holder.model_fields.get(str(path[-1]))


def keys_at(model: type[BaseModel], path: Path, raw: Any) -> list[str]:
    """The valid keys at a path."""
    holder = model_at(model, path, raw)
    if holder is None:
        return []
    annotation = annotation_at(model, path, raw)
    return [*holder.model_fields, *(["type"] if family_in(annotation) else [])]


def fixed_length(annotation: Any) -> int | None:
    """How many entries a list must have, when that is fixed."""
    for part in _parts(annotation):
        if typing.get_origin(part) is tuple and Ellipsis not in typing.get_args(part):
            return len(typing.get_args(part))
    return None


def family_in(annotation: Any) -> str | None:
    """The family of plugins that an annotation chooses from, when it does."""
    for part in _parts(annotation):
        for note in getattr(part, "__metadata__", ()):
            if isinstance(note, str) and note in FAMILIES:
                return note
    return None


def unit_of(field: FieldInfo | None) -> str:
    extra = field.json_schema_extra if field is not None else None
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def annotation_at(model: type[BaseModel], path: Path, raw: Any) -> Any:
    indices = 0
    while path and isinstance(path[-1], int):
        path, indices = path[:-1], indices + 1
    if not path:
        return model
    holder = model_at(model, path[:-1], raw)
    if holder is None or str(path[-1]) not in holder.model_fields:
        return None
    annotation = _annotation(holder.model_fields[str(path[-1])])
    for _ in range(indices):
        annotation = _item(annotation)
    return annotation


def _annotation(field: FieldInfo) -> Any:
    """The annotation with its notes, which pydantic keeps apart on the outermost level."""
    return typing.Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def _model_in(annotation: Any, raw: Any) -> type[BaseModel] | None:
    family = family_in(annotation)
    if family is not None:
        type_name = raw.get("type") if isinstance(raw, dict) else raw
        return find(family, type_name) if isinstance(type_name, str) and type_name in names(family) else None
    for part in _parts(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _item(annotation: Any) -> Any:
    """What a list or mapping holds."""
    for part in _parts(annotation):
        if typing.get_origin(part) in (tuple, list, dict):
            arguments = typing.get_args(part)
            return arguments[1] if typing.get_origin(part) is dict else arguments[0]
    return None


def _parts(annotation: Any) -> list[Any]:
    """The annotation itself and, through Annotated and unions, what it may be."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return [annotation, *_parts(typing.get_args(annotation)[0])]
    if origin in (typing.Union, types.UnionType):
        return [part for member in typing.get_args(annotation) for part in _parts(member)]
    return [annotation]


def literals_of(annotation: Any) -> set[str]:
    found: set[str] = set()
    for part in [annotation, *_parts(annotation)]:
        if typing.get_origin(part) is typing.Literal:
            found |= {str(type_name) for type_name in typing.get_args(part)}
        elif typing.get_origin(part) in (tuple, list):
            found |= {type_name for member in typing.get_args(part) for type_name in literals_of(member)}
    return found


def kinds_of(field: FieldInfo) -> set[Any]:
    """Every plain type that a field's annotation mentions."""
    found: set[Any] = set()
    pending = [field.annotation]
    while pending:
        for part in _parts(pending.pop()):
            found.add(part)
            pending += [member for member in typing.get_args(part) if typing.get_origin(part) is not typing.Literal]
    return found


def models_in(field: FieldInfo) -> list[type[BaseModel]]:
    """The models of plain values that a field's annotation mentions; what is chosen by type is not among them."""
    if family_in(_annotation(field)):
        return []
    return [kind for kind in kinds_of(field) if isinstance(kind, type) and issubclass(kind, BaseModel)]


def notes_inside(annotation: Any) -> list[Any]:
    """Limits that stand at the entries of a list, not at the list."""
    found: list[Any] = []
    for part in _parts(annotation):
        if typing.get_origin(part) is tuple:
            for entry in typing.get_args(part):
                for note in getattr(entry, "__metadata__", ()):
                    found += note.metadata if isinstance(note, FieldInfo) else [note]
    return found
