"""The materials of a surface: one per fabric, shared by the cloths made of it, and one for all solids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toile.model.frame import Surface
from toile.render.palette import SOLID, cloth_color


@dataclass(frozen=True)
class Material:
    """A fabric with the color of the first cloth that is made of it, or the material of solids."""

    name: str
    properties: Mapping[str, tuple[float, str]]  # value and unit of each property of a fabric, in SI
    color: tuple[float, ...]  # linear


def materials(surface: Surface) -> tuple[list[Material], list[int]]:
    """Returns all materials, and the number of the material of each cloth and then of each solid.

    Two fabrics with the same name and different properties are two materials.
    """
    found: list[Material] = []
    numbers = []
    for i, part in enumerate(surface.parts):
        name = part.fabric or "cloth"
        same = (
            k for k, material in enumerate(found) if (material.name, material.properties) == (name, part.properties)
        )
        number = next(same, len(found))
        if number == len(found):
            found.append(Material(name, part.properties, cloth_color(i)))
        numbers.append(number)
    if surface.solids:
        numbers += [len(found)] * len(surface.solids)
        found.append(Material("solid", {}, SOLID))
    return found, numbers
