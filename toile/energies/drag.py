"""Still air that resists motion along the normal of each triangle.

Source      [BW98] sec. 4.4; the formula is in toile/math/air.py
Symbols     linear  c [N s/m^3]     quadratic  q [kg/m^3]; q = air density is a flat plate with drag coefficient 2
Deviations  none beyond those of toile/math/air.py
"""

from typing import ClassVar

import numpy as np

from toile.energies.base import Elements, Energy, Formulas
from toile.math.air import Air, AirLocal, AirRest, air_block, air_energy, air_force, air_prepare
from toile.model.model import Model
from toile.plugins import quantity


class Drag(Energy):
    """Resistance of still air; `wind` includes it, so a scene has one or the other."""

    scope: ClassVar[str] = "scene"
    formulas: ClassVar[Formulas] = Formulas(3, AirRest, Air, AirLocal, air_prepare, air_energy, air_force, air_block)

    linear: float = quantity(0.0, unit="N s/m^3", doc="pressure per normal speed", ge=0)
    quadratic: float = quantity(0.6, unit="kg/m^3", doc="pressure per speed squared; half of air's density", ge=0)

    def elements(self, model: Model, part: int | None) -> Elements:
        rest = np.zeros(model.triangle_count, AirRest.numpy_dtype())
        rest["linear"], rest["quadratic"] = self.linear, self.quadratic
        return Elements(model.triangles, rest)
