"""Common part of drag and wind: the same formulas and coefficients on every triangle."""

from typing import ClassVar

import numpy as np

from toile.energies.base import Elements, Energy, Formulas, Scope
from toile.math.air import Air, AirLocal, AirRest, air_block, air_energy, air_force, air_prepare
from toile.model.model import Model
from toile.plugins import quantity


class AirForce(Energy):
    """Pressure of the air on triangles, along their normals."""

    scope: ClassVar[Scope] = "scene"
    resists_air: ClassVar[bool] = True
    formulas: ClassVar[Formulas] = Formulas(3, AirRest, Air, AirLocal, air_prepare, air_energy, air_force, air_block)

    linear: float = quantity(0.0, unit="N s/m^3", doc="pressure per normal speed ([Pro95] C_vi per area)", ge=0)
    quadratic: float = quantity(
        0.6, unit="kg/m^3", doc="pressure per normal speed squared; half of air's density", ge=0
    )

    def elements(self, model: Model, part: int | None) -> Elements:
        rest = np.zeros(model.triangle_count, AirRest.numpy_dtype())
        rest["linear"], rest["quadratic"] = self.linear, self.quadratic
        return Elements(model.triangles, rest)
