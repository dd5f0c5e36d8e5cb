"""Rotation of the world about the x axis for formats in which y is up: (x, y, z) becomes (x, z, -y).

Components are permuted and change sign; they are only rounded to float32.
"""

from __future__ import annotations

import numpy as np


def y_up(vectors: np.ndarray) -> np.ndarray:
    """Returns the rotated vectors as (count, 3) float32."""
    turned = np.empty((len(vectors), 3), np.float32)
    turned[:, 0] = vectors[:, 0]
    turned[:, 1] = vectors[:, 2]
    turned[:, 2] = -vectors[:, 1]
    return turned
