"""Presets: the settings of each paper, used for every key that a scene does not set itself.

    preset: pro95                                    in a scene
    toile run hang --set preset=pro95                on the command line
    toile.Scene(preset="pro95", cloth=[...])         in Python

A preset is a file of scene keys, presets/NAME.yaml. A key that the scene sets replaces the preset's: lists and plug-ins
(chosen by `type`) are not merged, and only mappings such as `time` are filled key by key. In a preset `cloth` is one
mapping, which applies to every cloth of the scene. `default.yaml` holds the defaults of the scene's own fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel

from toile.plugins import find
from toile.scene.yaml_reader import KeyPath

if TYPE_CHECKING:
    from toile.scene.schema import Scene

PRESETS = Path(__file__).parent / "presets"
DEFAULT = "default"

# Keys whose plug-ins a scene may replace, with the family of each.
REPLACED_KEYS = {
    "integrator": "integrators",
    "forces": "energies",
    "filters": "filters",
    "post": "post",
    "energies": "energies",
}


@cache
def preset_names() -> tuple[str, ...]:
    """Returns the names of the shipped presets."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.yaml")))


def preset_text(name: str) -> str:
    """Returns the file of a preset: its first line describes it, and a comment at each key gives the source."""
    return (PRESETS / f"{name}.yaml").read_text(encoding="utf-8")


def read_preset(name: str) -> dict[str, Any]:
    """Returns the values of a preset."""
    return deepcopy(_values(name))


def fill(given: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[KeyPath]]:
    """Returns the values of a scene completed by those of its preset, and the paths that the preset filled.

    `given` is not changed. An unknown preset fills nothing; the checks of the scene report it.
    """
    name = given.get("preset", DEFAULT)
    if name == DEFAULT or name not in preset_names():
        return dict(given), frozenset()
    preset = read_preset(name)
    of_cloths = preset.pop("cloth", {})
    filled, paths = _fill_in(given, preset, ())
    if isinstance(cloths := given.get("cloth"), list | tuple):
        filled["cloth"] = list(cloths)
        for i, cloth in enumerate(cloths):
            if isinstance(cloth, Mapping | BaseModel):
                filled["cloth"][i], more = _fill_in(cloth, of_cloths, ("cloth", i))
                paths += more
    return filled, frozenset(paths)


def dropped_from_preset(scene: Scene) -> Iterator[str]:
    """Yields a warning for each key by which a scene replaces plug-ins of its preset and so drops some of them.

    The same type with other values is not dropped, nor is a type without effect, because the scene has no solids.
    Contact between cloths has a warning of its own, with or without a preset.
    """
    preset = read_preset(scene.preset) if scene.preset != DEFAULT else {}
    of_cloths = preset.pop("cloth", {})
    places = [("", scene, preset), *((f"cloth[{i}].", cloth, of_cloths) for i, cloth in enumerate(scene.cloth))]
    for where, holder, values in places:
        for key in (key for key in REPLACED_KEYS if key in values):
            own = getattr(holder, key)
            kept = {item.type_name() for item in (own if isinstance(own, tuple) else (own,))}
            missing = [type_name for type_name in _type_names(values[key]) if type_name not in kept]
            if not scene.solids:
                missing = [name for name in missing if not find(REPLACED_KEYS[key], name).needs_solids]
            if key == "filters":
                missing = [name for name in missing if not getattr(find(key, name), "resolves_cloth_contact", False)]
            if missing:
                remedy = ", or add what is missing to it" if isinstance(own, tuple) else " to use the preset's"
                yield (
                    f"preset {scene.preset}: without {' and '.join(missing)}, because the scene sets its own "
                    f"{where}{key}. Remove that key{remedy}."
                )


def _type_names(value: Any) -> list[str]:
    """Returns the type names of a plug-in or of a list of them, as written in a scene."""
    items = value if isinstance(value, list) else [value]
    return [item["type"] if isinstance(item, dict) else item for item in items]


def _fill_in(given: Mapping[str, Any] | BaseModel, preset: dict[str, Any], path: KeyPath) -> tuple[dict, list[KeyPath]]:
    # A model that was made in Python knows which of its fields were set.
    filled = {key: getattr(given, key) for key in given.model_fields_set} if isinstance(given, BaseModel) else {**given}
    paths: list[KeyPath] = []
    for key, value in preset.items():
        if key not in filled:
            filled[key] = deepcopy(value)
            paths.append((*path, key))
        elif isinstance(value, dict) and "type" not in value and isinstance(filled[key], Mapping | BaseModel):
            filled[key], more = _fill_in(filled[key], value, (*path, key))
            paths += more
    return filled, paths


@cache
def _values(name: str) -> dict[str, Any]:
    return yaml.safe_load(preset_text(name))
