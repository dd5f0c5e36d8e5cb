"""Bending at a hinge: the angle between two neighboring triangles.

    C(x) = sqrt(|e|^2 / (A0 + A1)) theta,    E = D C^2 / 2

Source      [BW98] sec. 4.3 with its anisotropic edge weight; gradient as in [BMF03] sec. 4
Symbols     theta  angle, 0 when flat [rad]     e  shared edge at rest [m]     A0, A1  rest areas [m^2]
            D  bending rigidity of this edge [N m]
Deviations  The factor |e|^2/(A0 + A1) and D of an edge: see toile/energies/_hinges.py. The paper's C = theta gives the
            same rigidity on square grids only, and its k_u is ours for the other thread. The matrix omits the second
            derivative of theta and is then positive definite; the force is exact.
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.energies._hinges import HingeEnergy
from toile.energies.base import Elements, Formulas, condition_formulas
from toile.math.dihedral import dihedral
from toile.math.types import mat33, mat43, real
from toile.model.model import Model


@wp.struct
class Rest:
    scale: real  # sqrt(|e|^2 / (A0 + A1)) [-]
    k: real  # D of this edge [N m]
    k_d: real


@wp.struct
class Condition:
    C: real
    gradient: mat43


@wp.func
def condition(rest: Rest, x: mat43) -> Condition:
    hinge = dihedral(x)
    c = Condition()
    c.C = rest.scale * hinge.theta
    c.gradient = rest.scale * hinge.gradient
    return c


@wp.struct
class Hessian:
    k: real
    gradient: mat43


@wp.func
def hessian(rest: Rest, c: Condition, k: real, sigma: real) -> Hessian:
    H = Hessian()
    H.k = k
    H.gradient = c.gradient
    return H


@wp.func
def hessian_block(H: Hessian, a: int, b: int) -> mat33:
    return H.k * wp.outer(H.gradient[a], H.gradient[b])


class BendAngle(HingeEnergy):
    """Resistance to bending by the angle of each hinge; flat at rest."""

    formulas: ClassVar[Formulas] = condition_formulas(4, Rest, Condition, condition, Hessian, hessian, hessian_block)

    def elements(self, model: Model, part: int | None) -> Elements:
        hinges = self.hinges(model, part)
        rest = np.zeros(len(hinges.particles), Rest.numpy_dtype())
        rest["scale"] = np.sqrt(hinges.weight)
        rest["k"] = hinges.rigidity
        rest["k_d"] = hinges.rigidity * hinges.damping
        return Elements(hinges.particles, rest)
