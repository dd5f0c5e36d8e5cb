"""Viscous drag on every particle, in every direction: the simplest model of energy loss.

    F = -c m v

Source      [Pro95] sec. 2.2
Symbols     c  decay rate of the speed of a free particle: v ~ exp(-c t) [1/s]     m  mass of the particle [kg]
Deviations  The paper's coefficient C_dis [N s/m] is the same for every particle, and so are its masses: C_dis = c m.
            Per mass it does not depend on the mesh, and a falling sheet stays flat.
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.energies.base import Elements, Energy, Formulas, NoUniform, Scope
from toile.math.types import identity, mat33, real, vec3
from toile.model.model import Model
from toile.plugins import quantity

point = wp.types.matrix(shape=(1, 3), dtype=real)


@wp.struct
class Rest:
    C: real  # c m [N s/m]


@wp.struct
class Local:
    C: real
    f: vec3


@wp.func
def prepare(rest: Rest, uniform: NoUniform, x: point, x_tension: point, v: point, v_at: point) -> Local:
    local = Local()
    local.C = rest.C
    local.f = -rest.C * v_at[0]
    return local


@wp.func
def energy(local: Local) -> real:
    return real(0.0)


@wp.func
def force(local: Local, a: int) -> vec3:
    return local.f


@wp.func
def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
    return alpha_v * local.C * identity()


class Viscous(Energy):
    """Drag in proportion to mass and velocity, as in a fluid at rest."""

    scope: ClassVar[Scope] = "scene"
    formulas: ClassVar[Formulas] = Formulas(1, Rest, NoUniform, Local, prepare, energy, force, block)

    rate: float = quantity(unit="1/s", doc="decay rate of the speed of a free particle", ge=0)

    def elements(self, model: Model, part: int | None) -> Elements:
        rest = np.zeros(model.particle_count, Rest.numpy_dtype())
        rest["C"] = self.rate * model.masses
        return Elements(np.arange(model.particle_count, dtype=np.int32)[:, None], rest)
