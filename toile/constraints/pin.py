"""Particles held at a point, fixed or moving by keyframes.

Source      [BW98] secs. 2.4, 5.1: ndof(i) = 0
Deviations  none
"""

from typing import ClassVar

import numpy as np

from toile.constraints.base import Constraint, Hold


class Pin(Constraint):
    """No degree of freedom left."""

    holds_all_directions: ClassVar[bool] = True

    def hold(self, anchors: np.ndarray, time: float) -> Hold:
        points, velocities = self.carried(anchors, time)
        return Hold.at(points, velocities, np.eye(3)[None])
