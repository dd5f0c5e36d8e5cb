"""Shear of a triangle: how far the two thread directions are from perpendicular.

    C(x) = sqrt(a) (w_u . w_v),    E = k C^2 / 2

Source      [BW98] sec. 4.3, eqs. (7)-(9); eigensystem after Kim 2020, extended here to damped shear
Symbols     w_u, w_v  images of the unit u, v directions [-]     a  rest area [m^2]     k  stiffness [N/m]
Deviations  sqrt(a) where the paper has a, so that k does not change with the mesh. Negative eigenvalues are clamped
            exactly, in closed form.

With F = (w_u, w_v) stacked to six numbers f, g = (w_v, w_u) and S the swap of the halves, the Hessian over F is
k (g g^T) + s S (times a), where s = k w_u.w_v without damping. S g = f and S f = g, so

    on span{f, g}    lambda+- = (I2 +- sqrt(I2^2 + 4 s (2 I6 + s))) / 2,   vectors s f + lambda g
    elsewhere        +s on symmetric, -s on antisymmetric vectors of S

(in units of k; I2 = |f|^2, I6 = w_u.w_v).
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.energies.base import Elements, Energy, Formulas, conditions, first_given
from toile.math.types import TINY, identity, mat33, real, vec3
from toile.model.model import Model
from toile.plugins import quantity


@wp.struct
class Rest:
    weights_u: vec3  # w_u = sum_a weights_u_a x_a [1/m]
    weights_v: vec3
    root_area: real  # sqrt(a) [m]
    k: real
    k_d: real


@wp.struct
class Condition:
    C: real
    gradient: mat33
    w_u: vec3
    w_v: vec3


@wp.func
def condition(rest: Rest, x: mat33) -> Condition:
    c = Condition()
    c.w_u = rest.weights_u[0] * x[0] + rest.weights_u[1] * x[1] + rest.weights_u[2] * x[2]
    c.w_v = rest.weights_v[0] * x[0] + rest.weights_v[1] * x[1] + rest.weights_v[2] * x[2]
    c.C = rest.root_area * wp.dot(c.w_u, c.w_v)
    c.gradient = rest.root_area * (wp.outer(rest.weights_u, c.w_v) + wp.outer(rest.weights_v, c.w_u))
    return c


@wp.struct
class Hessian:
    weights_u: vec3
    weights_v: vec3
    upper: mat33  # eigenvector of lambda+ at each point, times the root of its eigenvalue
    lower: mat33  # the same for lambda-, when positive
    out: mat33  # the one direction of the half space below that lies in span{f, g}
    half: real  # |s|: eigenvalue of the half of R^6 where sign S = 1
    sign: real


@wp.func
def at_points(rest: Rest, q_u: vec3, q_v: vec3, eigenvalue: real) -> mat33:
    """sqrt(eigenvalue) q/|q| carried from F to the three points; 0 when q is, as its eigenvalue then is too."""
    norm2 = wp.dot(q_u, q_u) + wp.dot(q_v, q_v)
    factor = wp.sqrt(wp.max(eigenvalue, real(0.0)) / wp.max(norm2, TINY))
    return factor * (wp.outer(rest.weights_u, q_u) + wp.outer(rest.weights_v, q_v))


@wp.func
def hessian(rest: Rest, c: Condition, k: real, sigma: real) -> Hessian:
    area = rest.root_area * rest.root_area
    I6 = wp.dot(c.w_u, c.w_v)
    I2 = wp.dot(c.w_u, c.w_u) + wp.dot(c.w_v, c.w_v)
    s = sigma / (wp.max(k, TINY) * rest.root_area)
    root = wp.sqrt(wp.max(I2 * I2 + real(4.0) * s * (real(2.0) * I6 + s), real(0.0)))
    upper = real(0.5) * (I2 + root)
    lower = real(0.5) * (I2 - root)
    H = Hessian()
    H.weights_u = rest.weights_u
    H.weights_v = rest.weights_v
    H.upper = at_points(rest, s * c.w_u + upper * c.w_v, s * c.w_v + upper * c.w_u, k * area * upper)
    H.lower = at_points(rest, s * c.w_u + lower * c.w_v, s * c.w_v + lower * c.w_u, k * area * lower)
    H.sign = wp.where(s < real(0.0), real(-1.0), real(1.0))
    H.half = k * area * wp.abs(s)
    H.out = at_points(rest, c.w_v + H.sign * c.w_u, c.w_u + H.sign * c.w_v, H.half)
    return H


@wp.func
def hessian_block(H: Hessian, a: int, b: int) -> mat33:
    same = H.weights_u[a] * H.weights_u[b] + H.weights_v[a] * H.weights_v[b]
    swapped = H.weights_u[a] * H.weights_v[b] + H.weights_v[a] * H.weights_u[b]
    in_half = real(0.5) * H.half * (same + H.sign * swapped) * identity() - wp.outer(H.out[a], H.out[b])
    return wp.outer(H.upper[a], H.upper[b]) + wp.outer(H.lower[a], H.lower[b]) + in_half


class Shear(Energy):
    """Resistance to shearing in the plane."""

    formulas: ClassVar[Formulas] = conditions(3, Rest, Condition, condition, Hessian, hessian, hessian_block)

    stiffness: float | None = quantity(None, unit="N/m", doc="stiffness; the fabric's when not given", ge=0)
    damping: float | None = quantity(None, unit="s", doc="damping / stiffness; the fabric's when not given", ge=0)

    def elements(self, model: Model, part: int | None) -> Elements:
        cloth = model.parts[part]
        triangles = cloth.triangles
        k = first_given(self.stiffness, cloth.fabric.shear)
        rest = np.zeros(triangles.stop - triangles.start, Rest.numpy_dtype())
        rest["weights_u"] = model.uv_weights[triangles, 0]
        rest["weights_v"] = model.uv_weights[triangles, 1]
        rest["root_area"] = np.sqrt(model.areas[triangles])
        rest["k"] = k
        rest["k_d"] = k * first_given(self.damping, cloth.fabric.damping)
        return Elements(model.triangles[triangles], rest)
