"""Triangle mesh of a cloth before the simulation: triangles, uv and named regions, as NumPy arrays on the host.

uv belongs to triangle corners, not to particles, because a particle on a seam has several ([BW98] footnote 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Mesh:
    """A triangle mesh with plane coordinates uv."""

    positions: np.ndarray  # [m]  (vertices, 3) float64
    triangles: np.ndarray  # (triangles, 3) int32
    uv: np.ndarray  # [m]  (triangles, 3, 2) float64: plane coordinates of each corner
    regions: dict[str, np.ndarray] = field(default_factory=dict)  # name -> vertex indices
    warnings: tuple[str, ...] = ()  # problems found and how they were fixed; shown before the run
    # (source vertices,) -> vertex here, -1 if it was removed; None if vertices are numbered as in the source
    numbering: np.ndarray | None = None
    # [m]  (vertices, 2): plane coordinates that define corners and sides, if uv does not; u is NaN if the cloth is
    # closed along u
    plane: np.ndarray | None = None
    # (cells, 4) int32: corners around each cell, if threads run along rows and columns; None on other meshes
    quads: np.ndarray | None = None

    @property
    def vertex_count(self) -> int:
        return len(self.positions)

    @property
    def triangle_count(self) -> int:
        return len(self.triangles)

    def vertex_uv(self) -> np.ndarray:
        """Returns one uv per vertex: that of the last triangle that holds it (unique away from seams)."""
        if self.plane is not None:
            return self.plane
        uv = np.zeros((self.vertex_count, 2))
        uv[self.triangles.ravel()] = self.uv.reshape(-1, 2)
        return uv

    def uv_areas(self) -> np.ndarray:
        """Returns the signed area of each triangle in the plane [m^2]."""
        e1, e2 = self.uv[:, 1] - self.uv[:, 0], self.uv[:, 2] - self.uv[:, 0]
        return 0.5 * (e1[:, 0] * e2[:, 1] - e1[:, 1] * e2[:, 0])

    def transformed(self, rotation: np.ndarray, translation: np.ndarray) -> Mesh:
        """Returns the same cloth at another place; uv and rest shape do not change."""
        return replace(self, positions=self.positions @ rotation.T + translation)


@dataclass(frozen=True)
class Edges:
    """Edges of a mesh: all of them, and the hinges, which are edges shared by two triangles."""

    edges: np.ndarray  # (edges, 2) vertex indices, each edge once
    hinges: np.ndarray  # (hinges, 4): flap, flap, edge start, edge end
    hinge_triangles: np.ndarray  # (hinges, 2): triangle of each flap
    hinge_edges: np.ndarray  # (hinges, 2, 2): the two corners of the shared edge in the first triangle, then the second


def face_sides(faces: np.ndarray) -> np.ndarray:
    """Returns the directed sides (sides, 2) of triangles or quads, face by face: corner 0 to 1, 1 to 2, ..."""
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)


def edge_keys(pairs: np.ndarray, vertex_count: int) -> np.ndarray:
    """Returns one number per pair of vertices (..., 2), the same for both directions, in the order of sorted pairs."""
    return np.sort(pairs, axis=-1).astype(np.int64) @ np.array([vertex_count, 1])


def find_edges(triangles: np.ndarray) -> Edges:
    """Finds edges and hinges of a triangle list. Hinge vertices are [flap 0, flap 1, edge start, edge end].

    #        x3
    #      / | \\
    #    x0  |  x1        flap x0 belongs to the triangle that runs x2 -> x3
    #      \\ | /
    #        x2
    """
    m = len(triangles)
    corner = np.arange(3)
    start, end, flap = triangles[:, corner], triangles[:, (corner + 1) % 3], triangles[:, (corner + 2) % 3]
    key = np.sort(np.stack([start.ravel(), end.ravel()], axis=1), axis=1)
    order = np.lexsort((np.arange(3 * m), key[:, 1], key[:, 0]))
    first = np.ones(3 * m, bool)
    first[1:] = np.any(key[order[1:]] != key[order[:-1]], axis=1)
    edges = key[order[first]]
    pairs = np.flatnonzero(~first)  # half edges whose predecessor is the same edge
    one, two = order[pairs - 1], order[pairs]
    # The flap seen on the left of x2 -> x3 is x0; either half edge may be the one that runs that way.
    corners_one = np.stack([one % 3, (one % 3 + 1) % 3], axis=1)
    same_way = start.ravel()[one] == start.ravel()[two]  # inconsistent winding: both run the same way
    corners_two = np.where(
        same_way[:, None], np.stack([two % 3, (two % 3 + 1) % 3], 1), np.stack([(two % 3 + 1) % 3, two % 3], 1)
    )
    hinges = np.stack([flap.ravel()[one], flap.ravel()[two], start.ravel()[one], end.ravel()[one]], axis=1)
    return Edges(
        edges.astype(np.int32),
        hinges.astype(np.int32),
        np.stack([one // 3, two // 3], axis=1).astype(np.int32),
        np.stack([corners_one, corners_two], axis=1).astype(np.int32),
    )
