"""The solids of a scene as one mesh to draw, with smooth shading except across sharp edges.

A vertex is drawn once for each group of its triangles that are connected through smooth edges. Shading uses the mean
normal of a group, so a box has sharp edges, a sphere is round, and a cylinder is both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from toile.model.frame import SolidSurface

# An edge is sharp if the normals of its faces differ by more than this. A judgment: a round solid of nine sides is
# smooth.
SHARP_ANGLE = 40.0  # [deg]


class DrawnSolids:
    """Triangles of the mesh, which stay the same, and its points at given positions of the solids."""

    def __init__(self, solids: Sequence[SolidSurface]):
        self.origins: list[np.ndarray] = []  # of each solid: the vertex at each point drawn
        triangles, owner = [np.zeros((0, 3), np.int32)], [np.zeros(0, np.int32)]
        count = 0
        for number, solid in enumerate(solids):
            origin, corners = split_sharp(solid.rest, solid.triangles)
            self.origins.append(origin)
            triangles.append((corners + count).astype(np.int32))
            owner.append(np.full(len(corners), number, np.int32))
            count += len(origin)
        self.point_count = count
        self.triangles = np.concatenate(triangles)
        self.owner = np.concatenate(owner)  # number of the solid of each triangle

    def points(self, positions: Sequence[np.ndarray], left_out: Collection[int], nowhere: np.ndarray) -> np.ndarray:
        """Returns the points drawn. A solid that is left out has all of its points at `nowhere`: no ray hits them."""
        drawn = [
            np.broadcast_to(nowhere, (len(origin), 3)) if number in left_out else np.asarray(points, np.float64)[origin]
            for number, (origin, points) in enumerate(zip(self.origins, positions, strict=True))
        ]
        return np.concatenate([np.zeros((0, 3)), *drawn])

    def facing_away(self, points: np.ndarray, eye: np.ndarray) -> np.ndarray:
        """Returns for each triangle whether `eye` sees its back."""
        a, b, c = (points[self.triangles[:, i]] for i in range(3))
        return np.einsum("ij,ij->i", np.cross(b - a, c - a), eye - a) <= 0.0


def split_sharp(
    positions: np.ndarray, triangles: np.ndarray, angle: float = SHARP_ANGLE
) -> tuple[np.ndarray, np.ndarray]:
    """Splits vertices along edges sharper than `angle` [deg].

    Returns the old vertex that each new one is a copy of, and the triangles of the new vertices.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    normals = _unit_normals(positions, triangles)
    start = triangles.astype(np.int64).ravel()  # of half-edge i, which starts at corner i
    next_corner = (np.arange(len(start)).reshape(-1, 3)[:, [1, 2, 0]]).ravel()
    ends = np.stack([start, start[next_corner]], axis=1)
    key = ends.min(axis=1) * len(positions) + ends.max(axis=1)
    order = np.argsort(key, kind="stable")
    i, j = order[:-1], order[1:]
    flat = np.einsum("ij,ij->i", normals[i // 3], normals[j // 3]) >= np.cos(np.radians(angle))
    joined = (key[i] == key[j]) & flat
    i, j = i[joined], j[joined]
    # The two half-edges of an edge have opposite directions, unless one of the faces is turned over.
    same = start[i] == start[j]
    at_start, at_end = np.where(same, j, next_corner[j]), np.where(same, next_corner[j], j)
    rows, columns = np.concatenate([i, next_corner[i]]), np.concatenate([at_start, at_end])
    links = coo_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(len(start), len(start)))
    count, group = connected_components(links, directed=False)
    origin = np.zeros(count, np.int64)
    origin[group] = start
    return origin, group.reshape(-1, 3)


def _unit_normals(positions: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    a, b, c = (np.asarray(positions, np.float64)[triangles[:, i]] for i in range(3))
    normals = np.cross(b - a, c - a)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return normals / np.where(length > 0.0, length, 1.0)
