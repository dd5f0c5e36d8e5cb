"""Stretch of a triangle along warp and weft: the elongation of each thread direction.

    C(x) = sqrt(a) (|w| - b),              E = k C^2 / 2,           w = w_u, and again with w = w_v
    L(x) = sqrt(a) (|w| - b (1 + s e)),    E = k_limit L^2 / 2      where L > 0

Threads of a fabric are crimped: they extend easily until they are straight, and hardly at all from then on. The second
energy starts shortly before the fabric's extension e, and keeps the cloth within it. Stiffness is free in a direct
solve; a step in which the limit is reached takes another linearization.

Source      [BW98] sec. 4.2, eqs. (9), (10); positive definite by the eigenvalues of k (1 - b/|w|) and k
Symbols     w_u, w_v  images of the unit u, v directions [-]     b  rest stretch [-]     a  rest area [m^2]
            k, k_limit  stiffness [N/m]     e  extension of the fabric [-]     s  fraction of e at its start [-]
Deviations  sqrt(a) where the paper has a, so that k does not change with the mesh. The second derivative is kept only
            where it is positive: under compression the paper's matrix is indefinite. The limit is ours.
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.energies.base import Elements, Energy, Formulas, combine, condition_formulas, first_not_none
from toile.math.types import TINY, identity, mat33, real, vec3
from toile.model.model import Model
from toile.plugins import quantity

# Fraction of the fabric's extension at which the limit energy starts.
LIMIT_START = 0.8


@wp.struct
class Rest:
    weights: vec3  # w = sum_a weights_a x_a [1/m]
    root_area: real  # sqrt(a) [m]
    b: real
    k: real
    k_d: real


@wp.struct
class Condition:
    C: real
    gradient: mat33
    length: real  # |w|
    direction: vec3  # w / |w|


@wp.func
def condition(rest: Rest, x: mat33) -> Condition:
    w = rest.weights[0] * x[0] + rest.weights[1] * x[1] + rest.weights[2] * x[2]
    c = Condition()
    c.length = wp.length(w)
    # A collapsed triangle has no direction: the force is zero, rather than a division by zero.
    c.direction = w / wp.max(c.length, TINY)
    c.C = rest.root_area * (c.length - rest.b)
    c.gradient = rest.root_area * wp.outer(rest.weights, c.direction)
    return c


@wp.struct
class Hessian:
    weights: vec3
    core: mat33  # block (a, b) is weights_a weights_b core


@wp.func
def hessian(rest: Rest, c: Condition, k: real, sigma: real) -> Hessian:
    # dC dC^T acts along w, d2C = sqrt(a) (I - w w^T)/|w| across it, so each eigenvalue is clamped separately.
    along = wp.outer(c.direction, c.direction)
    across = wp.max(sigma, real(0.0)) * rest.root_area / wp.max(c.length, TINY)
    H = Hessian()
    H.weights = rest.weights
    H.core = k * rest.root_area * rest.root_area * along + across * (identity() - along)
    return H


@wp.func
def hessian_block(H: Hessian, a: int, b: int) -> mat33:
    return H.weights[a] * H.weights[b] * H.core


one_direction = combine(
    condition_formulas(3, Rest, Condition, condition, Hessian, hessian, hessian_block),
    condition_formulas(3, Rest, Condition, condition, Hessian, hessian, hessian_block, one_sided=True),
)


class Stretch(Energy):
    """Resistance to stretching and compressing along the threads."""

    formulas: ClassVar[Formulas] = combine(one_direction, one_direction)
    resists_stretch: ClassVar[bool] = True
    applies_rest_stretch: ClassVar[bool] = True

    stiffness_warp: float | None = quantity(None, unit="N/m", doc="along u; by default the fabric's", ge=0)
    stiffness_weft: float | None = quantity(None, unit="N/m", doc="along v; by default the fabric's", ge=0)
    limit_stiffness: float = quantity(
        1e4, unit="N/m", doc="added shortly before the fabric's extension is reached; 0 means no limit", ge=0
    )
    damping: float | None = quantity(None, unit="s", doc="damping / stiffness; by default the fabric's", ge=0)

    @property
    def keeps_inside_extension(self) -> bool:
        return self.limit_stiffness > 0.0

    def elements(self, model: Model, part: int | None) -> Elements:
        return Elements(model.triangles[model.parts[part].triangles], self._rest(model, part, 0.0))

    def rest_at(self, model: Model, part: int | None, time: float) -> np.ndarray | None:
        return self._rest(model, part, time) if model.rest_stretch_changes(part) else None

    def _rest(self, model: Model, part: int | None, time: float) -> np.ndarray:
        cloth = model.parts[part]
        triangles = cloth.triangles
        rest = np.zeros(triangles.stop - triangles.start, self.formulas.Rest.numpy_dtype())
        damping = first_not_none(self.damping, cloth.fabric.damping)
        warp = first_not_none(self.stiffness_warp, cloth.fabric.stretch_warp)
        weft = first_not_none(self.stiffness_weft, cloth.fabric.stretch_weft)
        longest = model.extensions().reshape(-1, 2)[triangles]
        for axis, (name, k) in enumerate((("first", warp), ("second", weft))):
            b = model.rest_stretch(part, axis, time)
            limited = np.isfinite(longest[:, axis])
            beyond = b * (1.0 + LIMIT_START * np.where(limited, longest[:, axis], 0.0))
            for which, k_of, b_of in (("first", k, b), ("second", self.limit_stiffness * limited, beyond)):
                of = rest[name][which]
                of["weights"] = model.uv_weights[triangles, axis]
                of["root_area"] = np.sqrt(model.areas[triangles])
                of["b"], of["k"], of["k_d"] = b_of, k_of, k_of * damping
        return rest
