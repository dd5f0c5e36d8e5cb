"""Particles that may slide along a line, fixed or moving, through where they began.

Source      [BW98] secs. 2.4, 5.1: ndof(i) = 1, S = I - p p^T - q q^T
Deviations  none
"""

import numpy as np

from toile.constraints.base import Constraint, Direction, Hold
from toile.plugins import quantity


class SlideOnLine(Constraint):
    """One degree of freedom left."""

    direction: Direction = quantity((1.0, 0.0, 0.0), doc="direction of the line; need not be of length 1")

    def hold(self, anchors: np.ndarray, time: float) -> Hold:
        points, velocities = self.carried(anchors, time)
        # The rows of V^T beyond the first are an orthonormal basis across the line.
        across = np.linalg.svd(np.array([self.direction]))[2][1:]
        return Hold.at(points, velocities, self.turned(across[None], time))
