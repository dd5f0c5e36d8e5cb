"""Shear of a triangle: the deviation of the two thread directions from perpendicular.

    C(x) = sqrt(a) (w_u . w_v),            E = k C^2 / 2
    L(x) = sqrt(a) (|w_u . w_v| - s),      E = k_limit L^2 / 2      where L > 0

Threads of a woven fabric turn against each other easily until they jam, side by side. The second energy starts at
that angle, and keeps edges across the threads from being stretched much further. As with the limit of `stretch`, only
steps in which it is reached feel it.

Source      [BW98] sec. 4.3, eqs. (7)-(9); eigenvalues as in Kim 2020, with damping
Symbols     w_u, w_v  images of the unit u, v directions [-]     a  rest area [m^2]
            k, k_limit  stiffness [N/m]     s  sine of the angle at which threads jam [-]
Deviations  sqrt(a) where the paper has a, so that k does not change with the mesh. Negative eigenvalues are clamped
            exactly, in closed form. The limit is ours.

Stack F = (w_u, w_v) into a vector f of six, and swap its halves: g = (w_v, w_u) = S f. In units of k a, the Hessian is
g g^T + s S, where s = w_u.w_v without damping. In the directions p = (P, P) and q = (Q, -Q), with P and Q the unit
vectors along w_u + w_v and w_u - w_v, it is

    | A^2 + s     A B   |        A = |w_u + w_v| / sqrt(2),    B = -|w_u - w_v| / sqrt(2)
    |   A B     B^2 - s |

and on the remaining directions it is +s for vectors (y, y) and -s for vectors (y, -y). Both are clamped separately.
No division is by a length that may vanish, even where the two threads coincide.
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.energies.base import Elements, Energy, Formulas, combine, condition_formulas, first_not_none
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
    sums: vec3  # (weights_u + weights_v) / sqrt(2)
    differences: vec3  # (weights_u - weights_v) / sqrt(2)
    P_P: mat33  # between vectors (y, y)
    Q_Q: mat33  # between vectors (y, -y)
    P_Q: mat33


@wp.func
def hessian(rest: Rest, c: Condition, k: real, sigma: real) -> Hessian:
    half = real(0.5)
    k_area = k * rest.root_area * rest.root_area
    s = sigma / (wp.max(k, TINY) * rest.root_area)
    plus, minus = c.w_u + c.w_v, c.w_u - c.w_v
    P = plus / wp.max(wp.length(plus), TINY)
    Q = minus / wp.max(wp.length(minus), TINY)
    A2, B2 = half * wp.dot(plus, plus), half * wp.dot(minus, minus)
    AB = -wp.sqrt(A2 * B2)
    # Eigenvalues mean +- radius of the 2x2 matrix, and its axes by cosine and sine of twice their angle.
    mean, tilt = half * (A2 + B2), half * (A2 - B2) + s
    radius = wp.sqrt(tilt * tilt + AB * AB)
    cosine, sine = tilt / wp.max(radius, TINY), AB / wp.max(radius, TINY)
    upper, lower = mean + radius, wp.max(mean - radius, real(0.0))
    mid, spread = half * (upper + lower), half * (upper - lower)
    PP, QQ = wp.outer(P, P), wp.outer(Q, Q)
    H = Hessian()
    root_half = wp.sqrt(half)
    H.sums = root_half * (rest.weights_u + rest.weights_v)
    H.differences = root_half * (rest.weights_u - rest.weights_v)
    H.P_P = k_area * ((mid + spread * cosine) * PP + wp.max(s, real(0.0)) * (identity() - PP))
    H.Q_Q = k_area * ((mid - spread * cosine) * QQ + wp.max(-s, real(0.0)) * (identity() - QQ))
    H.P_Q = k_area * spread * sine * wp.outer(P, Q)
    return H


@wp.func
def hessian_block(H: Hessian, a: int, b: int) -> mat33:
    same = H.sums[a] * H.sums[b] * H.P_P + H.differences[a] * H.differences[b] * H.Q_Q
    return same + H.sums[a] * H.differences[b] * H.P_Q + H.differences[a] * H.sums[b] * wp.transpose(H.P_Q)


@wp.struct
class Limit:
    weights_u: vec3
    weights_v: vec3
    root_area: real
    s: real  # of w_u . w_v at which the limit begins
    k: real
    k_d: real


@wp.struct
class LimitCondition:
    C: real
    gradient: mat33
    shear: Condition
    sign: real  # of w_u . w_v


@wp.func
def without_limit(limit: Limit) -> Rest:
    rest = Rest()
    rest.weights_u = limit.weights_u
    rest.weights_v = limit.weights_v
    rest.root_area = limit.root_area
    return rest


@wp.func
def limit_condition(limit: Limit, x: mat33) -> LimitCondition:
    c = LimitCondition()
    c.shear = condition(without_limit(limit), x)
    c.sign = wp.where(real(0.0) > c.shear.C, real(-1.0), real(1.0))
    c.C = c.sign * c.shear.C - limit.root_area * limit.s
    c.gradient = c.sign * c.shear.gradient
    return c


@wp.func
def limit_hessian(limit: Limit, c: LimitCondition, k: real, sigma: real) -> Hessian:
    return hessian(without_limit(limit), c.shear, k, c.sign * sigma)


class Shear(Energy):
    """Resistance to shearing in the plane."""

    formulas: ClassVar[Formulas] = combine(
        condition_formulas(3, Rest, Condition, condition, Hessian, hessian, hessian_block),
        condition_formulas(
            3, Limit, LimitCondition, limit_condition, Hessian, limit_hessian, hessian_block, one_sided=True
        ),
    )

    stiffness: float | None = quantity(None, unit="N/m", doc="stiffness; by default the fabric's", ge=0)
    # A judgment, at the low end of woven fabrics: threads turned by 20 degrees lengthen the diagonal of a cell by 16 %.
    limit_angle: float = quantity(20.0, unit="deg", doc="of shear at which threads jam", gt=0, lt=90)
    limit_stiffness: float = quantity(
        1e4, unit="N/m", doc="added beyond it, if the fabric has an extension; 0 means no limit", ge=0
    )
    damping: float | None = quantity(None, unit="s", doc="damping / stiffness; by default the fabric's", ge=0)

    def elements(self, model: Model, part: int | None) -> Elements:
        cloth = model.parts[part]
        triangles = cloth.triangles
        k = first_not_none(self.stiffness, cloth.fabric.shear)
        damping = first_not_none(self.damping, cloth.fabric.damping)
        rest = np.zeros(triangles.stop - triangles.start, self.formulas.Rest.numpy_dtype())
        # A fabric that may be stretched without limit may be sheared without limit.
        limited = np.isfinite(model.extensions().reshape(-1, 2)[triangles]).all(axis=1)
        for which, k_of in (("first", k), ("second", self.limit_stiffness * limited)):
            of = rest[which]
            of["weights_u"] = model.uv_weights[triangles, 0]
            of["weights_v"] = model.uv_weights[triangles, 1]
            of["root_area"] = np.sqrt(model.areas[triangles])
            of["k"], of["k_d"] = k_of, k_of * damping
        rest["second"]["s"] = np.sin(np.radians(self.limit_angle))
        return Elements(model.triangles[triangles], rest)
