"""One part of a mesh file: a group, an object or a prim by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import PolygonMesh
from toile.plugins import nearest


def select_part(polygons: PolygonMesh, part: str | None) -> PolygonMesh:
    """Keeps only the faces of `part`; vertices keep their numbers, and unused ones are removed later."""
    if part is None:
        return polygons
    if part not in polygons.groups:
        hint = nearest(part, polygons.groups) if polygons.groups else " The file has no groups."
        raise InputError(f'no part "{part}" in the file.{hint}')
    keep = np.zeros(len(polygons.sizes), bool)
    keep[polygons.groups[part]] = True
    corners = np.repeat(keep, polygons.sizes)
    number = np.cumsum(keep) - 1
    groups = {name: number[faces[keep[faces]]] for name, faces in polygons.groups.items()}
    return replace(
        polygons,
        sizes=polygons.sizes[keep],
        corners=polygons.corners[corners],
        uv_corners=None if polygons.uv_corners is None else polygons.uv_corners[corners],
        groups={name: faces for name, faces in groups.items() if len(faces)},
    )
