"""Distance from a triangle surface as the minimum over all triangles, with the sign of the winding number, in NumPy.

    winding(p) = sum of the solid angles of all triangles / 4 pi:    1 inside a closed surface, 0 outside

Source      A. van Oosterom, J. Strackee, The solid angle of a plane triangle (1983)
"""

from __future__ import annotations

import numpy as np

CHUNK = 100_000  # pairs of a point and a triangle at a time


def signed_distance(points: np.ndarray, positions: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """(points,) negative inside."""
    parts = np.array_split(points, max(1, len(points) * len(triangles) // CHUNK))
    return np.concatenate([_signed(part, positions[triangles]) for part in parts])


def _signed(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    arms = [corners[:, k] - points[:, None] for k in range(3)]
    inside = _winding(arms) > 0.5
    # The closest point is the projection to the plane if that lies within all three sides, otherwise it is on a side.
    n = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    height = np.einsum("ptd,td->pt", arms[0], n)
    within = np.ones_like(height, bool)
    beside = np.full_like(height, np.inf)
    for k in range(3):
        side = corners[:, (k + 1) % 3] - corners[:, k]
        # The arm starts at p, so p lies on the inner side of this edge where the product is negative.
        within &= np.einsum("ptd,td->pt", arms[k], np.cross(n, side)) <= 0.0
        share = np.clip(-np.einsum("ptd,td->pt", arms[k], side) / np.sum(side**2, axis=1), 0.0, 1.0)
        beside = np.minimum(beside, np.linalg.norm(arms[k] + share[..., None] * side, axis=2))
    distance = np.where(within, np.abs(height), beside).min(axis=1)
    return np.where(inside, -distance, distance)


def _winding(arms: list[np.ndarray]) -> np.ndarray:
    a, b, c = arms
    la, lb, lc = (np.linalg.norm(arm, axis=2) for arm in arms)
    triple = np.einsum("ptd,ptd->pt", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("ptd,ptd->pt", u, v) for u, v in ((a, b), (b, c), (c, a)))
    return np.sum(2.0 * np.arctan2(triple, la * lb * lc + ab * lc + bc * la + ca * lb), axis=1) / (4.0 * np.pi)
