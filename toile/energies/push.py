"""A push on all cloth for a while, in proportion to its mass: gravity turned round, a cart that starts.

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
    """Adds to gravity; steps do not cross the ends of its window."""

    scope: ClassVar[str] = "scene"
    changes_in_time: ClassVar[bool] = True

    acceleration: Vector = quantity(unit="m/s^2", doc="acceleration that it gives to free cloth")
    start: float = quantity(0.0, unit="s", doc="when it begins")
    end: float | None = quantity(None, unit="s", doc="when it ends; never when not given")

    @model_validator(mode="after")
    def _window(self) -> "Push":
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end {self.end} s is not after start {self.start} s.")
        return self

    def uniform_at(self, time: float, seed: int) -> Any:
        # `time` is the end of a step: one that ends at `start` is still free, and one that ends at `end` still pushed.
        begun = self.start <= 0.0 or time > self.start + SAME_TIME
        over = self.end is not None and time > self.end + SAME_TIME
        return field_of(self.acceleration if begun and not over else (0.0, 0.0, 0.0))
