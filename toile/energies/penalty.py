"""Penalty contact of cloth with cloth: damped springs separate parts that are closer than the thickness.

    pressure = stiffness * (thickness - distance), damped while the parts approach; friction resists sliding

Source      [BW98] secs. 2.4, 6; the formulas are in toile/contact/penalty/
Symbols     stiffness  [N/m^3]: pressure per overlap, so that it does not depend on the mesh
Deviations  those of toile/contact/penalty/. Nothing is guaranteed: cloth can pass through under high load or speed.
"""

from typing import TYPE_CHECKING, ClassVar

from toile.contact.penalty.springs import PenaltySprings
from toile.contact.penalty.strength import SpringLaw
from toile.energies.base import Energy, Scope
from toile.model.model import Model
from toile.plugins import quantity

if TYPE_CHECKING:
    from toile.system.terms import ForceTerm


class Penalty(Energy):
    """Penalty springs between all cloths of a scene, and between parts of the same cloth."""

    scope: ClassVar[Scope] = "scene"
    acts_between_cloths: ClassVar[bool] = True

    thickness: float = quantity(
        2e-3, unit="m", doc="distance below which cloth repels cloth; a cloth may override it", gt=0
    )
    stiffness: float = quantity(5e5, unit="N/m^3", doc="pressure per overlap", gt=0)
    damping: float = quantity(2e-3, unit="s", doc="damping coefficient / stiffness while parts approach", ge=0)
    friction: float = quantity(0.3, doc="Coulomb friction coefficient of cloth on cloth", ge=0)
    slip_speed: float = quantity(
        2e-3, unit="m/s", doc="sliding speed below which friction is less than Coulomb's, and proportional to it", gt=0
    )

    def make_force_term(self, model: Model, device: str) -> "ForceTerm":
        law = SpringLaw()
        for name in ("stiffness", "damping", "friction", "slip_speed"):
            setattr(law, name, getattr(self, name))
        return PenaltySprings(model, law, self.thickness, device)
