"""Conditions of [BW98] sec. 4 for one element, and their derivatives by complex steps.

    stretch   C = sqrt(a) (|w| - b)          shear   C = sqrt(a) (w_u . w_v)
    bend      C = sqrt(|e|^2 / (A0 + A1)) theta

A complex step, Im C(x + i s d)/s with s far below rounding, is a derivative without cancellation. It is as exact as an
analytic one, and independent of derivations on paper.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# There is no subtraction, so the step may be smaller than rounding; only its square has to vanish.
COMPLEX_STEP = 1e-30

Condition = Callable[[np.ndarray], complex]  # corner positions (points, 3) -> C


def uv_area(uv: np.ndarray) -> float:
    """Area of a triangle (3, 2) in uv."""
    (a, b), (c, d) = uv[1] - uv[0], uv[2] - uv[0]
    return 0.5 * abs(a * d - b * c)


def deformation(uv: np.ndarray, x: np.ndarray) -> np.ndarray:
    """F = (w_u w_v), 3x2, of the triangle with corners uv (3, 2) at rest and x (3, 3) in space: [BW98] eq. (9)."""
    edges, uv_edges = (np.stack([corners[1] - corners[0], corners[2] - corners[0]], axis=1) for corners in (x, uv))
    return edges @ np.linalg.inv(uv_edges)


def stretch(uv: np.ndarray, axis: int, b: float) -> Condition:
    """Stretch along u (axis 0) or v (axis 1)."""

    def C(x: np.ndarray) -> complex:
        w = deformation(uv, x)[:, axis]
        return np.sqrt(uv_area(uv)) * (np.sqrt(np.sum(w * w)) - b)

    return C


def shear(uv: np.ndarray) -> Condition:
    def C(x: np.ndarray) -> complex:
        F = deformation(uv, x)
        return np.sqrt(uv_area(uv)) * np.sum(F[:, 0] * F[:, 1])

    return C


def bend(edge: float, area: float) -> Condition:
    """Bending at an edge of this rest length, between two triangles of this total rest area."""

    def C(x: np.ndarray) -> complex:
        return edge / np.sqrt(area) * angle(x)

    return C


def angle(x: np.ndarray) -> complex:
    """Angle between the normals of the triangles (x0, x2, x3) and (x1, x3, x2): 0 when flat."""
    n0 = np.cross(x[2] - x[0], x[3] - x[0])
    n1 = np.cross(x[3] - x[1], x[2] - x[1])
    n0 = n0 / np.sqrt(np.sum(n0 * n0))
    n1 = n1 / np.sqrt(np.sum(n1 * n1))
    e = x[3] - x[2]
    e = e / np.sqrt(np.sum(e * e))
    return _atan2(np.sum(np.cross(n0, n1) * e), np.sum(n0 * n1))


def gradient(C: Condition, x: np.ndarray) -> np.ndarray:
    """dC/dx, shaped like x, by complex steps."""
    slope = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        moved = x.astype(complex)
        moved[place] += 1j * COMPLEX_STEP
        slope[place] = np.imag(C(moved)) / COMPLEX_STEP
    return slope


def _atan2(y: complex, x: complex) -> complex:
    """atan2, extended to arguments with an infinitesimal imaginary part."""
    y, x = complex(y), complex(x)
    slope = (x.real * y.imag - y.real * x.imag) / (x.real**2 + y.real**2)
    return complex(np.arctan2(y.real, x.real), slope)
