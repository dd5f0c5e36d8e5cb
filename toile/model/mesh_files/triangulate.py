"""Deterministic triangulation of faces.

A quad is cut along the diagonal that leaves both halves facing the same way; if both diagonals do, along the shorter
one. Larger faces are triangulated by ear clipping, the best shaped ear first, which also handles non-convex faces.
"""

from __future__ import annotations

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import PolygonMesh

# Ear clipping takes time that grows with the square of the corners; larger faces are a mistake, not cloth.
MAX_CORNERS = 1000


def triangulate(mesh: PolygonMesh) -> tuple[np.ndarray, np.ndarray]:
    """Returns (triangles, 3) indices into `mesh.corners`, in the order of the faces, and the face of each triangle."""
    if mesh.sizes.max() > MAX_CORNERS:
        largest = int(np.argmax(mesh.sizes))
        raise InputError(f"face {largest} has {mesh.sizes[largest]} corners; cut it into triangles first.")
    start = np.cumsum(mesh.sizes) - mesh.sizes
    of_face: list[np.ndarray] = []
    triangles: list[np.ndarray] = []
    for size in np.unique(mesh.sizes):
        faces = np.flatnonzero(mesh.sizes == size)
        corners = start[faces][:, None] + np.arange(size)
        with np.errstate(all="ignore"):  # positions may be NaN; the mesh check reports the vertex later
            points = mesh.positions[mesh.corners[corners]]
            if size == 3:
                local = np.broadcast_to(np.arange(3), (len(faces), 1, 3))
            elif size == 4:
                local = _cut_quads(points)
            else:
                local = np.array([_cut_ears(polygon) for polygon in points])
        triangles.append(np.take_along_axis(corners[:, None], local, axis=2).reshape(-1, 3))
        of_face.append(np.repeat(faces, size - 2))
    face = np.concatenate(of_face)
    order = np.argsort(face, kind="stable")
    return np.concatenate(triangles)[order], face[order]


def _cut_quads(points: np.ndarray) -> np.ndarray:
    """Returns (quads, 2, 3) local corners."""
    cuts = np.array([[[0, 1, 2], [0, 2, 3]], [[0, 1, 3], [1, 2, 3]]])
    a, b, c = (points[:, cuts[:, :, k]] for k in range(3))  # (quads, cut, triangle, 3)
    normals = np.cross(b - a, c - a)
    agreement = np.einsum("qck,qck->qc", normals[:, :, 0], normals[:, :, 1])
    length = np.stack([_norm(points[:, 2] - points[:, 0]), _norm(points[:, 3] - points[:, 1])], axis=1)
    # The first diagonal, unless the second is the only one without a fold, or is as good and shorter.
    second = np.where((agreement[:, 0] > 0) == (agreement[:, 1] > 0), length[:, 1] < length[:, 0], agreement[:, 1] > 0)
    return cuts[second.astype(int)]


def _cut_ears(points: np.ndarray) -> np.ndarray:
    """Returns (n - 2, 3) local corners of one polygon, projected along its mean normal."""
    normal = np.cross(points, np.roll(points, -1, axis=0)).sum(axis=0)
    axes = np.delete(np.arange(3), int(np.argmax(np.abs(normal))))
    plane = points[:, axes]
    if _area(plane, np.roll(plane, -1, axis=0), np.zeros(2)).sum() < 0:
        plane = plane[:, ::-1]
    left = list(range(len(points)))
    triangles = []
    while len(left) > 3:
        ring = plane[left]
        before, after = np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0)
        area = _area(before, ring, after)
        longest = np.maximum.reduce([_norm(ring - before), _norm(after - ring), _norm(after - before)])
        quality = np.nan_to_num(area / np.maximum(longest, np.finfo(float).tiny) ** 2)
        order = np.argsort(-quality, kind="stable")
        ear = next((int(k) for k in order if area[k] > 0 and not _holds_corner(ring, int(k))), int(order[0]))
        triangles.append((left[ear - 1], left[ear], left[(ear + 1) % len(left)]))
        del left[ear]
    return np.array([*triangles, tuple(left)])


def _holds_corner(ring: np.ndarray, k: int) -> bool:
    """Returns whether another corner lies inside the ear at corner k, or on its cut."""
    n = len(ring)
    a, b, c = ring[k - 1], ring[k], ring[(k + 1) % n]
    others = np.delete(ring, [(k - 1) % n, k, (k + 1) % n], axis=0)
    # Corners that repeat a corner of the ear (a slit) are not inside.
    others = others[~np.any(np.all(others[:, None] == np.stack([a, b, c])[None], axis=2), axis=1)]
    inside = (_area(a, b, others) > 0) & (_area(b, c, others) > 0) & (_area(c, a, others) >= 0)
    return bool(inside.any())


def _area(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return 0.5 * ((b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0])


def _norm(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(vectors**2, axis=-1))
