"""Finds the model field that describes a key of a scene, and with it the unit, the limits and the valid keys.

A path such as ("cloth", 0, "energies", 2, "rigidity") is followed through the pydantic models. Where it passes through
a plug-in, the `type` that the scene gives there selects the model.
"""

from __future__ import annotations

import types
import typing
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from toile.families import FAMILIES
from toile.plugins import find, names
from toile.scene.yaml_reader import KeyPath

NOTHING = object()  # stands for the value at a path where there is none


def value_at(raw: Any, path: KeyPath) -> Any:
    """Returns the value at a path of nested dicts and lists, or NOTHING."""
    for part in path:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return NOTHING
    return raw


def model_at(model: type[BaseModel], path: KeyPath, raw: Any) -> type[BaseModel] | None:
    """Returns the model whose fields are the keys at a path; `raw` holds the types of the plug-ins on the way."""
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


def field_at(model: type[BaseModel], path: KeyPath, raw: Any) -> FieldInfo | None:
    """Returns the field that describes a path; for an entry of a list, the field of the whole list."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    if not path:
        return None
    holder = model_at(model, path[:-1], raw)
    return None if holder is None else holder.model_fields.get(str(path[-1]))


def keys_at(model: type[BaseModel], path: KeyPath, raw: Any) -> list[str]:
    """Returns the valid keys at a path."""
    holder = model_at(model, path, raw)
    if holder is None:
        return []
    annotation = annotation_at(model, path, raw)
    return [*holder.model_fields, *(["type"] if family_in(annotation) else [])]


def fixed_length(annotation: Any) -> int | None:
    """Returns the number of entries that a list must have; None if it is not fixed."""
    for part in _parts(annotation):
        if typing.get_origin(part) is tuple and Ellipsis not in typing.get_args(part):
            return len(typing.get_args(part))
    return None


def family_in(annotation: Any) -> str | None:
    """Returns the family of plug-ins that an annotation chooses from; None if it chooses none."""
    for part in _parts(annotation):
        for note in getattr(part, "__metadata__", ()):
            if isinstance(note, str) and note in FAMILIES:
                return note
    return None


def unit_of(field: FieldInfo | None) -> str:
    """Returns the unit of a field, "" if it has none."""
    extra = field.json_schema_extra if field is not None else None
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def annotation_at(model: type[BaseModel], path: KeyPath, raw: Any) -> Any:
    """Returns the type annotation of the field or list entry at a path; None if there is none."""
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
    """Returns the annotation with its metadata, which pydantic keeps separately on the outermost level."""
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
    """Returns the annotation of the entries of a list or mapping."""
    for part in _parts(annotation):
        if typing.get_origin(part) in (tuple, list, dict):
            arguments = typing.get_args(part)
            return arguments[1] if typing.get_origin(part) is dict else arguments[0]
    return None


def _parts(annotation: Any) -> list[Any]:
    """Returns the annotation itself and the alternatives inside it, through Annotated and unions."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return [annotation, *_parts(typing.get_args(annotation)[0])]
    if origin in (typing.Union, types.UnionType):
        return [part for member in typing.get_args(annotation) for part in _parts(member)]
    return [annotation]


def literals_of(annotation: Any) -> set[str]:
    """Returns the choices of a Literal, also of those inside lists."""
    found: set[str] = set()
    for part in [annotation, *_parts(annotation)]:
        if typing.get_origin(part) is typing.Literal:
            found |= {str(choice) for choice in typing.get_args(part)}
        elif typing.get_origin(part) in (tuple, list):
            found |= {choice for member in typing.get_args(part) for choice in literals_of(member)}
    return found


def types_of(field: FieldInfo) -> set[Any]:
    """Returns every plain type that a field's annotation mentions."""
    found: set[Any] = set()
    pending = [field.annotation]
    while pending:
        for part in _parts(pending.pop()):
            found.add(part)
            pending += [member for member in typing.get_args(part) if typing.get_origin(part) is not typing.Literal]
    return found


def models_in(field: FieldInfo) -> list[type[BaseModel]]:
    """Returns the models that a field's annotation mentions, without the plug-ins that it may choose."""
    if family_in(_annotation(field)):
        return []
    return [kind for kind in types_of(field) if isinstance(kind, type) and issubclass(kind, BaseModel)]


def entry_metadata(annotation: Any) -> list[Any]:
    """Returns the limits on the entries of a list, as opposed to those on the list."""
    found: list[Any] = []
    for part in _parts(annotation):
        if typing.get_origin(part) is tuple:
            for entry in typing.get_args(part):
                for note in getattr(entry, "__metadata__", ()):
                    found += note.metadata if isinstance(note, FieldInfo) else [note]
    return found
