"""Vertex normals: the mean of the normals of the adjacent triangles, weighted by area."""

from __future__ import annotations

import numpy as np


class VertexNormals:
    """Vertex normals of a mesh. The incidence of triangles and vertices, a matrix, is made once for all frames."""

    def __init__(self, triangles: np.ndarray, vertex_count: int):
        from scipy.sparse import csr_array

        self.triangles = np.asarray(triangles, np.int64)
        corners, faces = self.triangles.ravel(), np.repeat(np.arange(len(triangles)), 3)
        shape = (vertex_count, len(triangles))
        self.incidence = csr_array((np.ones(len(corners)), (corners, faces)), shape=shape)

    def at(self, points: np.ndarray) -> np.ndarray:
        """Returns (vertices, 3) unit vectors, which point straight up where there is no area."""
        a, b, c = (points[self.triangles[:, i]] for i in range(3))
        # Written out, because np.cross takes several times as long.
        (px, py, pz), (qx, qy, qz) = (b - a).T, (c - a).T
        areas = np.column_stack([py * qz - pz * qy, pz * qx - px * qz, px * qy - py * qx])
        normals = self.incidence @ areas
        length = np.sqrt(np.einsum("ij,ij->i", normals, normals))
        flat = length > 0.0
        normals[flat] /= length[flat, None]
        normals[~flat] = (0.0, 0.0, 1.0)
        return normals
