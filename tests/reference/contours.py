"""Length of the intersection curves of triangles, from the triangles alone.

The planes of two triangles intersect in a line along D = N1 x N2. Each triangle covers an interval of it, between the
points where its sides cross the plane of the other; their intersection is the overlap of the intervals.

Source      Moller 1997, "A fast triangle-triangle intersection test"
"""

from __future__ import annotations

import numpy as np


def contour_length(x: np.ndarray, triangles: np.ndarray) -> float:
    """Sum over all pairs of triangles with at most one common vertex [m]."""
    lower, upper = x[triangles].min(axis=1), x[triangles].max(axis=1)
    near = np.triu(np.ones((len(triangles), len(triangles)), dtype=bool), 1)
    for k in range(3):
        near &= (lower[:, None, k] <= upper[None, :, k]) & (lower[None, :, k] <= upper[:, None, k])
    i, j = np.nonzero(near)
    common = (triangles[i][:, :, None] == triangles[j][:, None, :]).sum(axis=(1, 2))
    i, j = i[common < 2], j[common < 2]
    first, second = x[triangles[i]], x[triangles[j]]
    n1, n2 = _normal(first), _normal(second)
    D = np.cross(n1, n2)
    sine = np.linalg.norm(D, axis=1)
    D = np.divide(D, sine[:, None], out=np.zeros_like(D), where=sine[:, None] > 1e-12)
    low1, high1 = _interval(first, second[:, 0], n2, D)
    low2, high2 = _interval(second, first[:, 0], n1, D)
    overlap = np.minimum(high1, high2) - np.maximum(low1, low2)
    # Triangles with a common vertex intersect in it. Rounding turns it into a segment, which is longer for flat pairs.
    return float(overlap[overlap > 1e-14 / np.maximum(sine, 1e-12)].sum())


def _normal(corners: np.ndarray) -> np.ndarray:
    n = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return n / np.linalg.norm(n, axis=1, keepdims=True)


def _interval(corners: np.ndarray, at: np.ndarray, n: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The interval of the line along D that each triangle covers; empty where it does not reach the plane."""
    height = np.einsum("tki,ti->tk", corners - at[:, None], n)
    along = np.einsum("tki,ti->tk", corners, D)
    low, high = np.full(len(corners), np.inf), np.full(len(corners), -np.inf)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        passes = (height[:, a] * height[:, b] <= 0.0) & (height[:, a] != height[:, b])
        rise = np.where(passes, height[:, a] - height[:, b], 1.0)
        point = along[:, a] + (along[:, b] - along[:, a]) * height[:, a] / rise
        low, high = np.where(passes, np.minimum(low, point), low), np.where(passes, np.maximum(high, point), high)
    return low, high
