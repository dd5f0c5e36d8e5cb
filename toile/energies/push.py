"""A push on all cloth for a while, in proportion to its mass: gravity turned round, a cart that starts.

    f = m a,    E = -m a . x    between `start` and `end`

Source      [BW98] sec. 4.4, as gravity
Symbols     m  mass of the particle [kg]     a  acceleration [m/s^2]
Deviations  none
"""

from typing import Any, ClassVar

from pydantic import model_validator

from toile.energies.base import Elements, Energy, Formulas
from toile.energies.gravity import Field, Gravity
from toile.math.types import vec3
from toile.model.model import Model
from toile.model.motion import SAME_TIME, Vector
from toile.plugins import quantity


class Push(Energy):
    """Adds to gravity; steps do not cross the ends of its window."""

    scope: ClassVar[str] = "scene"
    changes_in_time: ClassVar[bool] = True
    formulas: ClassVar[Formulas] = Gravity.formulas

    acceleration: Vector = quantity(unit="m/s^2", doc="acceleration that it gives to free cloth")
    start: float = quantity(0.0, unit="s", doc="when it begins")
    end: float | None = quantity(None, unit="s", doc="when it ends; never when not given")

    @model_validator(mode="after")
    def _window(self) -> "Push":
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end {self.end} s is not after start {self.start} s.")
        return self

    def elements(self, model: Model, part: int | None) -> Elements:
        return Gravity().elements(model, part)

    def uniform_at(self, time: float, seed: int) -> Any:
        # `time` is the end of a step: one that ends at `start` is still free, and one that ends at `end` still pushed.
        begun = self.start <= 0.0 or time > self.start + SAME_TIME
        over = self.end is not None and time > self.end + SAME_TIME
        field = Field()
        field.g = vec3(*self.acceleration) if begun and not over else vec3()
        return field
