"""Bending at a hinge: the angle between two neighbouring triangles.

    C(x) = sqrt(|e|^2 / (A0 + A1)) theta,    E = D C^2 / 2
    D = (D_weft du^2 + D_warp dv^2) / (du^2 + dv^2)    for an edge (du, dv) in uv

Source      [BW98] sec. 4.3 with its anisotropic edge weight; gradient as in [BMF03] sec. 4
Symbols     theta  angle, 0 when flat [rad]     e  shared edge at rest [m]     A0, A1  rest areas [m^2]
            D_warp, D_weft  bending rigidity when warp or weft threads curve [N m]
Deviations  The factor |e|^2/(A0 + A1) makes D the plate's rigidity whatever the size and shape of triangles, within
            the limits of all hinge models (docs/papers.md); the paper's C = theta does so on squares only. An edge
            along u folds the weft, so it takes D_weft: the paper's k_u is ours for the other thread. The second
            derivative of theta is left out of the matrix, which is then positive definite; the force is exact.
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.energies.base import Elements, Energy, Formulas, conditions, first_given
from toile.math.dihedral import dihedral
from toile.math.types import mat33, mat43, real
from toile.model.model import Model
from toile.plugins import quantity


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


class BendAngle(Energy):
    """Resistance to bending, by the angle of each hinge; flat at rest."""

    formulas: ClassVar[Formulas] = conditions(4, Rest, Condition, condition, Hessian, hessian, hessian_block)

    rigidity_warp: float | None = quantity(None, unit="N m", doc="when u curves; the fabric's when not given", ge=0)
    rigidity_weft: float | None = quantity(None, unit="N m", doc="when v curves; the fabric's when not given", ge=0)
    rigidity: float | None = quantity(None, unit="N m", doc="both at once", ge=0)
    damping: float | None = quantity(None, unit="s", doc="damping / rigidity; the fabric's when not given", ge=0)

    def elements(self, model: Model, part: int | None) -> Elements:
        cloth = model.parts[part]
        hinges = cloth.hinges
        D_warp = first_given(self.rigidity_warp, self.rigidity, cloth.fabric.bend_warp)
        D_weft = first_given(self.rigidity_weft, self.rigidity, cloth.fabric.bend_weft)
        edge = model.hinge_uv[hinges]
        squared = np.sum(edge**2, axis=1)
        rest = np.zeros(len(edge), Rest.numpy_dtype())
        rest["scale"] = np.sqrt(squared / model.areas[model.hinge_triangles[hinges]].sum(axis=1))
        rest["k"] = (D_weft * edge[:, 0] ** 2 + D_warp * edge[:, 1] ** 2) / squared
        rest["k_d"] = rest["k"] * first_given(self.damping, cloth.fabric.damping)
        return Elements(model.hinges[hinges], rest)
