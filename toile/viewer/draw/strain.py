"""Strain of triangles along warp and weft, by which cloth is colored.

    strain along warp  |w_u| - 1      along weft  |w_v| - 1

Source      [BW98] sec. 4.2, eqs. (9), (10)
Symbols     w_u, w_v  images of the unit u, v directions [-]
Deviations  measured from 1, and not from the rest stretch b_u, b_v of the material, which a surface does not have:
            cloth that shrinks by its rest stretch appears strained
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toile.model.frame import Surface


def strain_along(surface: Surface) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function of positions: the strain of every triangle along warp and weft, (triangles, 2)."""
    edges = surface.uv[:, 1:] - surface.uv[:, :1]  # rows are the two sides that start in corner 0
    area = edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]
    with np.errstate(divide="ignore", invalid="ignore"):  # the strain of a triangle without area is undefined
        inverse = np.stack([edges[:, 1, 1], -edges[:, 0, 1], -edges[:, 1, 0], edges[:, 0, 0]], axis=1) / area[:, None]
    inverse = inverse.reshape(-1, 2, 2).astype(np.float32)
    first, second, third = surface.triangles.T

    def measure(positions: np.ndarray) -> np.ndarray:
        sides = np.stack([positions[second] - positions[first], positions[third] - positions[first]], axis=1)
        w = np.matmul(inverse, sides)  # rows are w_u and w_v
        return np.sqrt(np.einsum("tij,tij->ti", w, w)) - 1.0

    return measure


def scale_position(strain: np.ndarray, limit: float) -> np.ndarray:
    """Position of a strain on the color scale: 0 at -limit, shortened; 0.5 at rest; 1 at limit, stretched."""
    return np.clip(0.5 + 0.5 * strain / limit, 0.0, 1.0)
