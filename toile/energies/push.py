"""A temporary acceleration of all cloth: gravity reversed, a cart that starts.

    f = m a,    E = -m a . x    between `start` and `end`

Source      [BW98] sec. 4.4, as gravity
Symbols     m  mass of the particle [kg]     a  acceleration [m/s^2]
Deviations  none
"""

from typing import ClassVar

from pydantic import model_validator

from toile.energies._mass_force import MassForce, acceleration_uniform
from toile.energies.base import Scope, Struct
from toile.model.motion import Vector
from toile.model.time_window import holds_in_step_to, require_window
from toile.plugins import quantity


class Push(MassForce):
    """An acceleration added to gravity; steps do not cross the ends of its time window."""

    scope: ClassVar[Scope] = "scene"
    changes_in_time: ClassVar[bool] = True

    acceleration: Vector = quantity(unit="m/s^2", doc="acceleration of free cloth")
    start: float = quantity(0.0, unit="s", doc="time at which it starts")
    end: float | None = quantity(None, unit="s", doc="time at which it ends; by default never")

    @model_validator(mode="after")
    def _window(self) -> "Push":
        require_window(self.start, self.end)
        return self

    def uniform_at(self, time: float, seed: int) -> Struct:
        active = holds_in_step_to(time, self.start, self.end)
        return acceleration_uniform(self.acceleration if active else (0.0, 0.0, 0.0))
