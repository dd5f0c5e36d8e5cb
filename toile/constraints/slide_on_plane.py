"""Particles that may slide on a plane, fixed or moving, through where they began.

Source      [BW98] secs. 2.4, 5.1: ndof(i) = 2, S = I - p p^T
Deviations  none
"""

import numpy as np

from toile.constraints.base import Constraint, Direction, Hold
from toile.plugins import quantity


class SlideOnPlane(Constraint):
    """Two degrees of freedom left."""

    normal: Direction = quantity((0.0, 0.0, 1.0), doc="normal of the plane; need not be of length 1")

    def hold(self, anchors: np.ndarray, time: float) -> Hold:
        points, velocities = self.carried(anchors, time)
        normal = np.array(self.normal) / np.linalg.norm(self.normal)
        return Hold.at(points, velocities, self.turned(normal[None, None], time))
