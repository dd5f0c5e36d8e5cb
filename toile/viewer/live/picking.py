"""Picking of a point of the cloth: the closest one to a point in space, or the first hit of a ray."""

from __future__ import annotations

import numpy as np


def nearest_point(point: np.ndarray, positions: np.ndarray, triangles: np.ndarray) -> tuple[int, np.ndarray]:
    """Returns the triangle closest to a point, and the barycentric weights of the closest point on it."""
    a, b, c = (positions[triangles[:, i]].astype(float) for i in range(3))
    weights = _closest_weights(np.asarray(point, float), a, b, c)
    closest = weights[:, :1] * a + weights[:, 1:2] * b + weights[:, 2:] * c
    best = int(np.argmin(np.sum((closest - point) ** 2, axis=1)))
    return best, weights[best]


def first_hit(
    origin: np.ndarray, direction: np.ndarray, positions: np.ndarray, triangles: np.ndarray
) -> tuple[int, np.ndarray] | None:
    """Returns the first triangle that a ray hits, from either side, and the barycentric weights of the hit."""
    a, b, c = (positions[triangles[:, i]].astype(float) for i in range(3))
    p, q = b - a, c - a
    across = np.cross(np.asarray(direction, float), q)
    volume = np.einsum("ij,ij->i", p, across)
    with np.errstate(divide="ignore", invalid="ignore"):
        offset = np.asarray(origin, float) - a
        u = np.einsum("ij,ij->i", offset, across) / volume
        turned = np.cross(offset, p)
        v = turned @ np.asarray(direction, float) / volume
        distance = np.einsum("ij,ij->i", q, turned) / volume
        hit = (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0) & (distance > 0.0)
    if not hit.any():
        return None
    best = int(np.argmin(np.where(hit, distance, np.inf)))
    return best, np.array([1.0 - u[best] - v[best], u[best], v[best]])


def _closest_weights(point: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Barycentric weights of the point on each triangle that is closest to a given point."""
    p, q, offset = b - a, c - a, point - a
    pp, pq, qq = (np.einsum("ij,ij->i", *pair) for pair in ((p, p), (p, q), (q, q)))
    op, oq = np.einsum("ij,ij->i", offset, p), np.einsum("ij,ij->i", offset, q)
    area = pp * qq - pq * pq
    with np.errstate(divide="ignore", invalid="ignore"):
        u, v = (qq * op - pq * oq) / area, (pp * oq - pq * op) / area
    inside = (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0)
    found = np.stack([1.0 - u - v, u, v], axis=1)
    # Outside, the closest point is on one of the three sides.
    best = np.full(len(a), np.inf)
    for start, end, i, j in ((a, b, 0, 1), (b, c, 1, 2), (c, a, 2, 0)):
        side = end - start
        length = np.einsum("ij,ij->i", side, side)
        along = np.einsum("ij,ij->i", point - start, side) / np.where(length > 0.0, length, 1.0)
        along = np.clip(along, 0.0, 1.0)
        distance = np.sum((start + along[:, None] * side - point) ** 2, axis=1)
        closer = ~inside & (distance < best)
        best = np.where(closer, distance, best)
        weights = np.zeros((len(a), 3))
        weights[:, i], weights[:, j] = 1.0 - along, along
        found[closer] = weights[closer]
    return found
