"""Edges of solids that are to be seen: a mesh whose vertices are taken apart along them.

Light over a surface follows the normals of vertices, each the sum over its triangles. Where two triangles meet at more
than 40 degrees an edge is meant, not a curve: there each side has a vertex of its own.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

SHARPEST_CURVE = np.cos(np.deg2rad(40.0))


def creased(points: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which vertex each new one stands for, and the triangles in terms of the new ones."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    normals = np.cross(b - a, c - a)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    # Sides of triangles, as corners counted through all triangles: 3 t + i to 3 t + j. Two that join the same vertices
    # stand one after the other.
    corners = np.arange(triangles.size).reshape(-1, 3)
    sides = np.concatenate([corners[:, [i, j]] for i, j in ((0, 1), (1, 2), (2, 0))])
    ends = triangles.ravel()[sides]
    swapped = ends[:, 0] > ends[:, 1]
    sides[swapped], ends[swapped] = sides[swapped, ::-1], ends[swapped, ::-1]
    order = np.lexsort(ends.T)
    sides, ends = sides[order], ends[order]
    shared = np.flatnonzero((ends[1:] == ends[:-1]).all(axis=1))
    one, other = sides[shared], sides[shared + 1]
    smooth = np.einsum("ij,ij->i", normals[one[:, 0] // 3], normals[other[:, 0] // 3]) >= SHARPEST_CURVE
    rows, columns = one[smooth].ravel(), other[smooth].ravel()
    joined = coo_array((np.ones(len(rows)), (rows, columns)), shape=2 * (triangles.size,))
    count, group = connected_components(joined, directed=False)
    origin = np.zeros(count, np.int64)
    origin[group] = triangles.ravel()
    return origin, group.reshape(-1, 3)
