"""Weight: a constant force on every particle.

    f = m g,    E = -m g . x

Source      [BW98] sec. 4.4
Symbols     m  mass of the particle [kg]     g  acceleration of gravity [m/s^2]
Deviations  none
"""

from typing import ClassVar

from toile.energies._mass_force import MassForce, acceleration_uniform
from toile.energies.base import Scope, Struct
from toile.model.motion import Vector
from toile.plugins import quantity


class Gravity(MassForce):
    """The `gravity` of the scene, which always acts."""

    scope: ClassVar[Scope] = "world"  # given by Scene.gravity, not listed among forces

    acceleration: Vector = quantity((0.0, 0.0, -9.81), unit="m/s^2", doc="acceleration of gravity")

    def uniform_at(self, time: float, seed: int) -> Struct:
        return acceleration_uniform(self.acceleration)
