"""State of a run: positions, velocities, and their time."""

from dataclasses import dataclass

import numpy as np
import warp as wp

from toile.math.types import vec3


@dataclass
class State:
    """A step reads one state and writes another; the two then swap, so a rejected step costs nothing."""

    x: wp.array  # [m]  positions
    v: wp.array  # [m/s]  velocities
    t: float = 0.0  # [s]

    @staticmethod
    def of(positions: np.ndarray, velocities: np.ndarray, device: str) -> "State":
        return State(wp.array(positions, dtype=vec3, device=device), wp.array(velocities, dtype=vec3, device=device))

    def empty_like(self) -> "State":
        return State(wp.empty_like(self.x), wp.empty_like(self.v), self.t)
