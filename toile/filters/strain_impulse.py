"""Inextensible cloth: impulses along the threads, solved for all at once, keep every length within its limits.

    L = |w|,  d = w/|w|,  w = sum_a w_a x_a             a length, and its direction at the start of the step
    A s = b,  b = d . dw/dt - z/h                       for every length, with A of toile/filters/_impulse_matrix.py
    v_a <- v_a - W_a sum_p w_pa s_p d_p                 the length then changes by z along each d

    z = L_max - L           where |w + h dw/dt| is outside of L_min to L_max, and L > L_max already
        L_min - L           and L < L_min
        0                   and L is within
        h d . dw/dt         otherwise: the impulses do not change its rate

On meshes of rows and columns of threads the lengths are those of the structural springs. Other meshes have two lengths
per triangle, along warp and weft: sqrt(a) |w_u| and sqrt(a) |w_v|. These are more than the degrees of freedom: to
correct some and keep the rates of all others takes ten times the velocities, across the cloth. Lengths within their
limits therefore have the compliance of the elastic threads they are, c = 1/(k h^2).

Source      [Ye08] secs. 4-6; w_u, w_v of [BW98] eq. (9)
Symbols     L_min, L_max  (1 - compression) and (1 + extension) of the length at rest [m]     z  change in this step [m]
            s  impulses [N s]     W_a = C_a/m_a  with the directions that constraints and contacts leave free
            k  stretch stiffness of the fabric [N/m]     a  area of a triangle at rest [m^2]
Deviations  The paper's first two cases do not test where the step leads. A thread that is a little too long, and would
            get shorter by itself, then keeps that length forever: crumples at its ends never straighten. Its linear z
            neglects that threads turn; further passes solve for the difference. Impulses that turn any thread by more
            than MAX_TURN are scaled down, all by the same factor. Masses need not be equal. Limits may differ along
            warp and weft. There is no solve when nothing is to be corrected, or nothing can be because all ends are
            held. The matrix that [Ye08] sec. 6 calls positive definite is singular when rows depend on each other: see
            toile/linear/direct/ldlt.py. Meshes without rows and columns of threads are an addition: the paper has
            quadrilaterals only, because edges of triangles cannot all keep their lengths.
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.filters._impulse_matrix import ImpulseMatrix
from toile.filters.base import Correction, Filter, FilterContext, VelocityLimit
from toile.math.types import TINY, mat33, numpy_real, real, vec3
from toile.model.model import ClothPart, Model
from toile.model.springs import STRUCTURAL, springs_of, warp_shares
from toile.plugins import quantity

# Rows whose diagonal entry of A is below this fraction of what it would be without constraints cannot move.
HELD = wp.constant(real(1e-9))
# The impulses of one solve turn any thread by at most this angle [rad]; otherwise all of them are scaled down. The
# direction is then still the one solved for, and limits that cannot be satisfied, as between pins too far apart, do not
# throw cloth about.
MAX_TURN = 0.2
# Compliance of warps and wefts, as a fraction of their diagonal entry of A: of those that are corrected, which may be
# more than the degrees of freedom; and the largest one, for fabrics that resist little or not at all.
NEARLY_RIGID, LOOSE = wp.constant(real(1e-3)), wp.constant(real(1e3))
# As a fraction of the largest length: lengths within their limits up to rounding keep their bits, and further passes
# are for larger violations.
ROUNDING, WORTH_A_PASS = 1e-9 if real is wp.float64 else 1e-5, 1e-4


class StrainImpulse(Filter):
    """Limits extension and compression along the threads, by impulses in all of them at once."""

    limits_lengths: ClassVar[bool] = True

    extension: float = quantity(0.1, doc="threads at most longer by", ge=0)
    extension_warp: float | None = quantity(None, doc="along u; extension when not given", ge=0)
    extension_weft: float | None = quantity(None, doc="along v; extension when not given", ge=0)
    compression: float = quantity(0.02, doc="threads at most shorter by", ge=0, lt=1)
    compression_warp: float | None = quantity(None, doc="along u; compression when not given", ge=0, lt=1)
    compression_weft: float | None = quantity(None, doc="along v; compression when not given", ge=0, lt=1)
    passes: int = quantity(
        8, doc="solves per step at most; those after the first take the directions at its end", ge=1, le=100
    )

    def start(self, context: FilterContext) -> Correction:
        return StrainImpulseLimit(self, context)

    def limits(self, warp_share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the smallest and largest length, in rest lengths, of threads with these shares of warp."""

        def between(both: float, warp: float | None, weft: float | None) -> np.ndarray:
            return (both if warp is None else warp) * warp_share + (both if weft is None else weft) * (1.0 - warp_share)

        shorter = between(self.compression, self.compression_warp, self.compression_weft)
        return 1.0 - shorter, 1.0 + between(self.extension, self.extension_warp, self.extension_weft)

    def extensions(self, model: Model) -> np.ndarray:
        return self.limits(np.tile([1.0, 0.0], model.triangle_count))[1] - 1.0


class Lengths:
    """The lengths that are limited, on the host: |sum_a weights_a x_a| of each row."""

    def __init__(self, settings: StrainImpulse, model: Model):
        found = [_of_quads(part) if part.mesh.quads is not None else _of_triangles(part, model) for part in model.parts]
        none = (np.zeros((0, 3), np.int32), np.zeros((0, 3)), np.zeros(0), np.zeros(0), np.zeros(0))
        joined = [np.concatenate(arrays) for arrays in zip(none, *found, strict=True)]
        self.particles, self.weights, self.rest, shares, self.stiffness = joined
        self.shortest, self.longest = (limit * self.rest for limit in settings.limits(shares))

    def __len__(self) -> int:
        return len(self.rest)


Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _of_quads(part: ClothPart) -> Rows:
    """Returns particles, weights, rest lengths, shares of warp and stiffness of structural springs."""
    springs = springs_of(part).of(STRUCTURAL)
    pairs, rigid = springs.particles, np.full(len(springs.lengths), np.inf)
    weights = np.tile([-1.0, 1.0, 0.0], (len(pairs), 1))
    shares = warp_shares(part.mesh, pairs - part.particles.start)
    return np.column_stack([pairs, pairs[:, 0]]), weights, springs.lengths, shares, rigid


def _of_triangles(part: ClothPart, model: Model) -> Rows:
    """Returns the same for warp and weft of triangles, in units of [BW98]'s conditions, with the fabric's stiffness."""
    root = np.repeat(np.sqrt(model.areas[part.triangles]), 2)
    weights = root[:, None] * model.uv_weights[part.triangles].reshape(-1, 3)
    particles = np.repeat(model.triangles[part.triangles], 2, axis=0)
    warp = np.tile([1.0, 0.0], len(root) // 2)
    return particles, weights, root, warp, np.where(warp > 0.0, part.fabric.stretch_warp, part.fabric.stretch_weft)


@wp.struct
class LengthArrays:
    """The limited lengths on the device."""

    particles: wp.array(dtype=wp.vec3i)
    weights: wp.array(dtype=vec3)
    rest: wp.array(dtype=real)  # [m], as the others
    shortest: wp.array(dtype=real)
    longest: wp.array(dtype=real)
    stiffness: wp.array(dtype=real)  # [N/m]; infinite for springs


class StrainImpulseLimit(VelocityLimit):
    """Solves for the impulses of a step."""

    limits_strain = True

    def __init__(self, settings: StrainImpulse, context: FilterContext):
        super().__init__(context)
        self.settings = settings
        device = str(context.masses.device)
        self.lengths = lengths = Lengths(settings, context.model)
        self.matrix = ImpulseMatrix(lengths.particles, lengths.weights, context.masses)
        count = len(lengths)
        self._rows = rows = LengthArrays()
        rows.particles = wp.array(lengths.particles, dtype=wp.vec3i, device=device)
        rows.weights = wp.array(lengths.weights.astype(numpy_real), dtype=vec3, device=device)
        for name in ("rest", "shortest", "longest", "stiffness"):
            setattr(rows, name, wp.array(getattr(lengths, name).astype(numpy_real), dtype=real, device=device))
        self.d = wp.zeros(count, dtype=vec3, device=device)
        self.b, self.c = (wp.zeros(count, dtype=wp.float64, device=device) for _ in range(2))
        self.outside = wp.zeros(1, dtype=wp.int32, device=device)  # number of lengths to correct
        self.fastest = wp.zeros(1, dtype=real, device=device)  # largest rate at which impulses turn a thread [rad/s]
        self._ahead, self._still = (wp.zeros(len(context.masses), dtype=vec3, device=device) for _ in range(2))

    def limit(self, x: wp.array, v: wp.array, h: float) -> None:
        self.reaction.zero_()
        self._solve(x, v, h, ROUNDING, v)
        for _ in range(1, self.settings.passes):
            if not self.outside.numpy()[0]:
                return
            self._launch(extrapolate, len(v), [x, v, h, self._ahead])
            self._solve(self._ahead, self._still, h, WORTH_A_PASS, v)

    def _solve(self, x: wp.array, v: wp.array, h: float, slack: float, v_out: wp.array) -> None:
        """Corrects v_out for a step of h that begins with x and v."""
        C = self.context.constraints.S
        self.outside.zero_()
        found = [self.d, self.b, self.c, self.outside]
        self._launch(find_violations, len(self.lengths), [self._rows, self.context.masses, C, x, v, h, slack, *found])
        if not self.outside.numpy()[0]:
            return
        self.matrix.assemble(C, self.d, self.c)
        self.matrix.factor.factor()
        self.matrix.solve(self.b, C, self.d)
        self.fastest.zero_()
        dv = self.matrix.dv
        self._launch(find_turns, len(self.lengths), [self._rows, self.d, dv, self.fastest])
        self._launch(apply, len(v), [dv, self.matrix.reaction, self.fastest, MAX_TURN / h, h, v_out, self.reaction])


@wp.kernel
def find_violations(
    # model
    rows: LengthArrays, masses: wp.array(dtype=real),
    # in
    C: wp.array(dtype=mat33), x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, slack: real,
    # out
    d_out: wp.array(dtype=vec3), b_out: wp.array(dtype=wp.float64), c_out: wp.array(dtype=wp.float64),
    outside_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Finds direction, right side and compliance of each row, and counts the lengths outside their limits."""
    p = wp.tid()
    w, dw_dt = vec3(), vec3()
    for a in range(3):
        w += rows.weights[p][a] * x[rows.particles[p][a]]
        dw_dt += rows.weights[p][a] * v[rows.particles[p][a]]
    L = wp.length(w)
    d = w / wp.max(L, TINY)
    loose, free = real(0.0), real(0.0)  # diagonal entry of A: with and without constraints
    for a in range(3):
        i = rows.particles[p][a]
        share = rows.weights[p][a] * rows.weights[p][a] / masses[i]
        loose += share * wp.dot(d, C[i] * d)
        free += share
    d_out[p] = d
    b_out[p] = wp.float64(0.0)
    if loose <= HELD * free:
        c_out[p] = wp.float64(free)
        return
    low, high = rows.shortest[p], rows.longest[p]
    ahead = wp.length(w + h * dw_dt)
    if ahead <= high + slack * high and ahead >= low - slack * high:
        c_out[p] = wp.float64(wp.min(real(1.0) / (rows.stiffness[p] * h * h), LOOSE * free))
        return
    z = wp.clamp(L, low, high) - L
    b_out[p] = wp.float64(wp.dot(d, dw_dt) - z / h)
    c_out[p] = wp.float64(0.0)
    if wp.isfinite(rows.stiffness[p]):
        c_out[p] = wp.float64(NEARLY_RIGID * free)
    wp.atomic_add(outside_out, 0, 1)


@wp.kernel
def extrapolate(
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real,
    # out
    x_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    x_out[i] = x[i] + h * v[i]


@wp.kernel
def find_turns(
    # model
    rows: LengthArrays,
    # in
    d: wp.array(dtype=vec3), dv: wp.array(dtype=vec3),
    # out
    fastest_out: wp.array(dtype=real),
):  # fmt: skip
    p = wp.tid()
    dw_dt = vec3()
    for a in range(3):
        dw_dt += rows.weights[p][a] * dv[rows.particles[p][a]]
    across = dw_dt - wp.dot(d[p], dw_dt) * d[p]
    wp.atomic_max(fastest_out, 0, wp.length(across) / rows.rest[p])


@wp.kernel
def apply(
    # in
    dv: wp.array(dtype=vec3), reaction: wp.array(dtype=vec3), fastest: wp.array(dtype=real), max_turn: real, h: real,
    # in and out
    v_out: wp.array(dtype=vec3), reaction_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    share = real(1.0)
    if fastest[0] > max_turn:
        share = max_turn / fastest[0]
    v_out[i] = v_out[i] + share * dv[i]
    reaction_out[i] = reaction_out[i] + share * reaction[i] / h
