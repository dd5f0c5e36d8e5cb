"""Overrides of scene values as `key=value`: `time.frames=10`, `cloth[0].fabric=silk`, `cloth.0.shape.size=[2, 1]`.

A value is written as in a scene file. A key may name a field inside a default (`integrator.newton_iterations=1` where
the scene sets no integrator) or inside a named value (`cloth[0].fabric.density=0.3` where the fabric is `cotton`).
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel

from toile.plugins import nearest
from toile.scene.fields import NOTHING, annotation_at, family_in, field_at, keys_at, value_at
from toile.scene.schema import fabric_names, read_fabric
from toile.scene.yaml_reader import KeyPath, parse

KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+|\[\d+\])*")


class OverrideError(ValueError):
    """An override that cannot be applied; the message gives the reason."""


def apply(override: str, model: type[BaseModel], raw: dict[str, Any]) -> KeyPath:
    """Writes one override into the values of a scene, and returns the path that it set."""
    key, sign, text = override.partition("=")
    key = key.strip()
    if not sign or not KEY.fullmatch(key):
        raise OverrideError("write it as key=value, as in time.frames=10 or cloth[0].fabric=silk.")
    path: KeyPath = tuple(int(part) if part.isdecimal() else part for part in re.findall(r"[\w-]+", key))
    value = parse(text)
    if value.faults:
        raise OverrideError(f"its value is {value.faults[0][2]}")
    for depth in range(1, len(path)):
        _open(path[:depth], model, raw)
    holder = value_at(raw, path[:-1])
    if isinstance(holder, list):
        if not isinstance(path[-1], int) or path[-1] >= len(holder):
            raise OverrideError(_no_entry(path, holder))
    elif not isinstance(holder, dict):
        raise OverrideError(f"{path[-2]} has no keys of its own.")
    elif isinstance(path[-1], int):
        raise OverrideError(f"{path[-2]} is not a list.")
    elif (valid := keys_at(model, path[:-1], raw)) and path[-1] not in valid:
        raise OverrideError(f'no such key "{path[-1]}".{nearest(path[-1], valid)}')
    holder[path[-1]] = value.values
    return path


def _open(path: KeyPath, model: type[BaseModel], raw: dict[str, Any]) -> None:
    """Makes sure that there is a list or a mapping at a path, by expanding a default or a name."""
    holder, value = value_at(raw, path[:-1]), value_at(raw, path)
    if isinstance(value, dict | list):
        return
    if isinstance(holder, list):
        if not isinstance(path[-1], int) or path[-1] >= len(holder):
            raise OverrideError(_no_entry(path, holder))
    elif isinstance(path[-1], str) and (valid := keys_at(model, path[:-1], raw)) and path[-1] not in valid:
        raise OverrideError(f'no such key "{path[-1]}".{nearest(path[-1], valid)}')
    if value is NOTHING and (field := field_at(model, path, raw)) is not None:
        value = field.get_default(call_default_factory=True)
    holder[path[-1]] = _expanded(value, path, model, raw)


def _expanded(value: Any, path: KeyPath, model: type[BaseModel], raw: dict[str, Any]) -> Any:
    if isinstance(value, BaseModel):
        return {}  # the model's own defaults apply to keys that are not set
    if isinstance(value, tuple):
        return [list(item) if isinstance(item, tuple) else item for item in value]
    if isinstance(value, dict | list):
        return value
    if isinstance(value, str) and family_in(annotation_at(model, path, raw)):
        return {"type": value}
    if isinstance(value, str) and path[-1] == "fabric" and value in fabric_names():
        return read_fabric(value)
    if value is None or value is NOTHING:
        return {}
    raise OverrideError(f"{path[-1]} has no keys of its own.")


def _no_entry(path: KeyPath, holder: list[Any]) -> str:
    count = len(holder)
    return f"{path[-2]} has {count} {'entry' if count == 1 else 'entries'}, counted from 0; there is no [{path[-1]}]."
