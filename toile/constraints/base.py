"""The contract of a constraint: which directions of which particles are held, and where they are at a time.

A held direction d of a particle satisfies d . x = offset and d . v = speed. Three held directions are a pin, two leave
a line to slide on, one leaves a plane ([BW98] sec. 5.1).
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, model_validator

from toile.model.motion import SAME_TIME, Motion, Vector
from toile.model.selection import Selection
from toile.model.time_window import require_window
from toile.plugins import Plugin, quantity


def _not_zero(vector: Vector) -> Vector:
    if np.linalg.norm(vector) < 1e-12:
        raise ValueError("must not be zero.")
    return vector


Direction = Annotated[Vector, AfterValidator(_not_zero)]


@dataclass(frozen=True)
class Hold:
    """Held directions of some particles at one time."""

    directions: np.ndarray  # (particles, held, 3), orthonormal per particle
    offsets: np.ndarray  # [m]  (particles, held)
    speeds: np.ndarray  # [m/s]  (particles, held)

    @staticmethod
    def at(points: np.ndarray, velocities: np.ndarray, directions: np.ndarray) -> "Hold":
        """Holds the given directions at points that move with the given velocities."""
        directions = np.broadcast_to(directions, (len(points), *directions.shape[-2:]))
        offsets, speeds = (np.einsum("pdk,pk->pd", directions, of) for of in (points, velocities))
        return Hold(directions, offsets, speeds)


class Constraint(Plugin):
    """A constraint on a set of particles of one cloth, during a window of time."""

    holds_all_directions: ClassVar[bool] = False  # whether it leaves no degree of freedom

    cloth: str | None = quantity(None, doc="name of the cloth; not needed when there is one")
    where: Selection = quantity(doc="which particles")
    start: float = quantity(0.0, unit="s", doc="when it begins; particles are held where they are then")
    end: float | None = quantity(None, unit="s", doc="when it ends; never when not given")
    motion: Motion | None = quantity(None, doc="keyframes that move what holds the particles")

    @model_validator(mode="after")
    def _window(self) -> "Constraint":
        require_window(self.start, self.end)
        return self

    def active(self, begin: float) -> bool:
        """Whether it holds during a step that begins at a time; steps do not cross the ends of a window."""
        return self.start <= begin + SAME_TIME and (self.end is None or begin + SAME_TIME < self.end)

    def hold(self, anchors: np.ndarray, time: float) -> Hold:
        """Returns what is held at a time; `anchors` are the particles' positions when the constraint began."""
        raise NotImplementedError

    def carried(self, anchors: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the anchors carried along by the motion since the constraint began, and their velocities."""
        if self.motion is None:
            return anchors, np.zeros_like(anchors)
        return self.motion.carry(anchors, self.start, time)

    def anchors(self, points: np.ndarray, time: float) -> np.ndarray:
        """Returns where particles were when the constraint began, if its motion carried them to these points."""
        return points if self.motion is None else self.motion.carry(points, time, self.start)[0]

    def turned(self, directions: np.ndarray, time: float) -> np.ndarray:
        """Returns directions carried along by the motion since the constraint began."""
        if self.motion is None:
            return directions
        return directions @ self.motion.pose(self.start)[0] @ self.motion.pose(time)[0].T
