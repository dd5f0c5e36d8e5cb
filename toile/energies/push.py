"""A temporary acceleration of all cloth: gravity reversed, a cart that starts.

    f = m a,    E = -m a . x    between `start` and `end`

Source      [BW98] sec. 4.4, as gravity
Symbols     m  mass of the particle [kg]     a  acceleration [m/s^2]
Deviations  none
"""

from typing import Any, ClassVar

from pydantic import model_validator

from toile.energies._mass_force import MassForce, field_of
from toile.model.motion import SAME_TIME, Vector
from toile.plugins import quantity


class Push(MassForce):
    """An acceleration added to gravity; steps do not cross the ends of its time window."""

    scope: ClassVar[str] = "scene"
    changes_in_time: ClassVar[bool] = True

    acceleration: Vector = quantity(unit="m/s^2", doc="acceleration of free cloth")
    start: float = quantity(0.0, unit="s", doc="time at which it starts")
    end: float | None = quantity(None, unit="s", doc="time at which it ends; by default never")

    @model_validator(mode="after")
    def _window(self) -> "Push":
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end {self.end} s is not after start {self.start} s.")
        return self

    def uniform_at(self, time: float, seed: int) -> Any:
        # `time` is the end of a step: the one that ends at `start` is free, the one that ends at `end` is still pushed.
        begun = self.start <= 0.0 or time > self.start + SAME_TIME
        over = self.end is not None and time > self.end + SAME_TIME
        return field_of(self.acceleration if begun and not over else (0.0, 0.0, 0.0))
