"""Wind on triangles, steady or gusting.

    u(t) = velocity (1 + gust sum_k sin(w_k t + p_k) / 3),    three slow sines with phases from the scene's seed

Source      [Pro95] sec. 2.2; the formula is in toile/math/air.py
Symbols     u  velocity of the air [m/s]     gust  relative size of the gusts [-]
Deviations  The paper's wind is steady; gusts are ours.
"""

from typing import ClassVar

import numpy as np

from toile.energies._air import AirForce
from toile.energies.base import Struct
from toile.math.air import Air
from toile.math.types import vec3
from toile.model.motion import Vector
from toile.plugins import quantity

# Frequencies of the three sines relative to the first; not multiples of each other, so that gusts do not repeat.
GUST_FREQUENCIES = (1.0, 1.618, 2.718)


class Wind(AirForce):
    """Air that moves with the given velocity and resists motion relative to it."""

    changes_in_time: ClassVar[bool] = True
    moves_air: ClassVar[bool] = True

    velocity: Vector = quantity(unit="m/s", doc="velocity of the air")
    gust: float = quantity(0.0, doc="amplitude of the gusts relative to the velocity; 0 is a steady wind", ge=0)
    gust_period: float = quantity(2.0, unit="s", doc="period of the slowest gust", gt=0)

    def velocity_at(self, time: float, seed: int) -> np.ndarray:
        """Returns the velocity of the air at a time [m/s]."""
        phases = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, len(GUST_FREQUENCIES))
        angles = 2.0 * np.pi * time / self.gust_period * np.array(GUST_FREQUENCIES) + phases
        return np.array(self.velocity) * (1.0 + self.gust * np.mean(np.sin(angles)))

    def uniform_at(self, time: float, seed: int) -> Struct:
        air = Air()
        air.u = vec3(*self.velocity_at(time, seed))
        return air
