"""The world turned about the x axis for formats in which y is up: (x, y, z) becomes (x, z, -y).

Numbers change places and signs, nothing is rounded beyond float32.
"""

from __future__ import annotations

import numpy as np


def y_up(vectors: np.ndarray) -> np.ndarray:
    """(count, 3) float32."""
    turned = np.empty((len(vectors), 3), np.float32)
    turned[:, 0] = vectors[:, 0]
    turned[:, 1] = vectors[:, 2]
    turned[:, 2] = -vectors[:, 1]
    return turned
