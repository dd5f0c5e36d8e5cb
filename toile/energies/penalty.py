"""Cloth on cloth by damped springs: parts that come nearer than the thickness push each other apart.

    pressure = stiffness * (thickness - distance), damped while they approach; sliding is resisted

Source      [BW98] secs. 2.4, 6; the formulas are in toile/contact/spring_*.py
Symbols     stiffness  [N/m^3]: pressure per overlap, so that it means the same on every mesh
Deviations  those of toile/contact/spring*.py. Nothing is guaranteed: what is pressed or thrown hard enough passes.
"""

from typing import Any, ClassVar

from toile.contact.penalty.springs import PenaltySprings
from toile.contact.penalty.strength import SpringLaw
from toile.energies.base import Energy
from toile.model.model import Model
from toile.plugins import quantity


class Penalty(Energy):
    """Springs between all cloths of a scene, and between parts of the same one."""

    scope: ClassVar[str] = "scene"
    acts_between_cloths: ClassVar[bool] = True

    thickness: float = quantity(
        2e-3, unit="m", doc="distance below which cloth repels cloth; a cloth may have its own", gt=0
    )
    stiffness: float = quantity(5e5, unit="N/m^3", doc="pressure per overlap", gt=0)
    damping: float = quantity(
        2e-3, unit="s", doc="damping time while parts approach: damping coefficient / stiffness", ge=0
    )
    friction: float = quantity(0.3, doc="Coulomb's coefficient for cloth on cloth", ge=0)
    slip_speed: float = quantity(
        2e-3, unit="m/s", doc="speed of slip below which friction is less than Coulomb's, and proportional to it", gt=0
    )

    def springs(self, model: Model, device: str) -> Any:
        law = SpringLaw()
        for name in ("stiffness", "damping", "friction", "slip_speed"):
            setattr(law, name, getattr(self, name))
        return PenaltySprings(model, law, self.thickness, device)
