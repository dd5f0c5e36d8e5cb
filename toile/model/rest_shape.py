"""Another shape of a cloth, read from a file: the same vertices and triangles at other positions, as sculpted by hand.

A face of the file may have more than three corners: any triangulation of it is accepted.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.model.mesh import Mesh
from toile.model.mesh_check import triangle_text
from toile.model.mesh_files import PolygonMesh, read
from toile.model.mesh_repair import DEGENERATE, relative_heights

REMEDY = "Sculpt a mesh exported from this cloth, such as rest.obj of a run, and keep its vertices and faces."
# Limit on the corners of a face: all triples of corners are tested, and their number grows with the third power.
MAX_CORNERS = 16


def read_rest_shape(path: Path, mesh: Mesh) -> np.ndarray:
    """Returns the positions of the cloth's vertices in the file (vertices, 3), in the unit of the file."""
    polygons = read(path)
    source = np.arange(mesh.vertex_count) if mesh.numbering is None else mesh.numbering
    if len(polygons.positions) != len(source):
        raise InputError(f"has {len(polygons.positions)} vertices, but the cloth has {len(source)}. {REMEDY}")
    positions = np.zeros((mesh.vertex_count, 3))
    positions[source[source >= 0]] = polygons.positions[source >= 0]
    if not np.isfinite(positions).all():
        vertex = int(np.argmin(np.isfinite(positions).all(axis=1)))
        raise InputError(f"vertex {vertex} has a position that is not finite.")
    _require_triangles(polygons, source, mesh)
    flat = relative_heights(positions[mesh.triangles]) <= DEGENERATE
    if flat.any():
        t = int(np.argmax(flat))
        raise InputError(
            f"{triangle_text(mesh.triangles, t)} has no area in the file, so its angles are undefined. Repair it there."
        )
    return positions


def _require_triangles(polygons: PolygonMesh, source: np.ndarray, mesh: Mesh) -> None:
    """Raises InputError unless every triangle of the cloth is a face of the file, or part of one."""
    if polygons.sizes.max() > MAX_CORNERS:
        face = int(np.argmax(polygons.sizes))
        raise InputError(f"face {face} has {polygons.sizes[face]} corners; cut it into triangles first.")
    start = np.cumsum(polygons.sizes) - polygons.sizes
    corners = source[polygons.corners]
    found = [np.zeros((0, 3), np.int64)]
    for size in np.unique(polygons.sizes):
        faces = corners[start[polygons.sizes == size][:, None] + np.arange(size)]
        found += [faces[:, list(three)] for three in combinations(range(size), 3)]
    known = np.isin(_keys(mesh.triangles, mesh.vertex_count), _keys(np.concatenate(found), mesh.vertex_count))
    if not known.all():
        t = int(np.argmin(known))
        count = np.count_nonzero(~known)
        raise InputError(f"{triangle_text(mesh.triangles, t)} of the cloth is not in the file ({count} such). {REMEDY}")


def _keys(triangles: np.ndarray, count: int) -> np.ndarray:
    """Returns one number for each set of three vertices; -1 if one of the vertices was removed."""
    a, b, c = np.sort(triangles, axis=1).astype(np.int64).T
    return np.where(a < 0, -1, (a * count + b) * count + c)
