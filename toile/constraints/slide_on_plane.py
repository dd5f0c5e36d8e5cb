"""Particles that may slide on a plane, fixed or moving, through where they began.

Source      [BW98] secs. 2.4, 5.1: ndof(i) = 2, S = I - p p^T
Deviations  none
"""

import numpy as np
from pydantic import field_validator

from toile.constraints.base import Constraint, Hold
from toile.model.motion import Vector
from toile.plugins import quantity


class SlideOnPlane(Constraint):
    """Two degrees of freedom left."""

    normal: Vector = quantity((0.0, 0.0, 1.0), doc="normal of the plane; need not be of length 1")

    @field_validator("normal")
    @classmethod
    def _not_zero(cls, normal: Vector) -> Vector:
        if np.linalg.norm(normal) < 1e-12:
            raise ValueError("must not be zero.")
        return normal

    def hold(self, anchors: np.ndarray, time: float) -> Hold:
        points, velocities = self.moved(anchors, time)
        normal = np.array(self.normal) / np.linalg.norm(self.normal)
        return Hold.at(points, velocities, self.turned(normal[None, None], time))
