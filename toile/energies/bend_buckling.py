"""Bending as buckling: a thread compressed from both ends bends sideways into an arc of its own length.

    |x| = L sinc(q),    E = k_b kappa^2 L/2,    f = dE/d|x| = k_b kappa^2/(cos q - sinc q)      q = kappa L/2

Springs that skip one particle are such threads. They resist compression, initially with -12 k_b/L^2 and only slightly
more later, but not stretching. A flat sheet under compression therefore buckles at once, and stably: the energy is
convex along the spring, and the matrix needs nothing across it. The jump at |x| = L is replaced by a steep line,

    f = max(c (|x| - L), k_b kappa^2/(cos q - sinc q))

S(u) = sinc(sqrt(u)) with u = q^2 is a power series in u:

    |x| = L S(u),    E = 2 k_b u/L,    f = 2 k_b/(L^2 S'),    df/d|x| = -2 k_b S''/(L^3 S'^3)

Two cells of a thread at an angle are closer to straight than an arc: 1 - kappa^2 L^2/32 against 1 - kappa^2 L^2/24. So
k_b = (4/3) D A/L has the energy D kappa^2 A/2 of a bent cloth. A is the area that a spring represents: that of the
particle it skips; on meshes without threads 8/9 of its two triangles, since bending in one direction acts on springs in
all directions; and where m > 2 springs cross at a pole, 8/(3 m) of its area.

Source      K.-J. Choi, H.-S. Ko, Stable but responsive cloth (2002), which [Ye08] sec. 3 uses
Symbols     x  from end to end [m]     L  rest length [m]     kappa  curvature [1/m]     f  force, negative because it
            resists compression [N]     k_b  rigidity of the spring [N m^2]     D  bending rigidity [N m]
            c  steepness [N/m]
Deviations  kappa is computed by Newton's method, to rounding, where the paper has a fit of order 5. c is the fabric's
            own stretch stiffness k: c = k A/L^2. Damping acts where the spring has buckled, in proportion to df/d|x|.
            The onset is that of an arc: 21.6 % above Euler's pi^2 k_b/L^2. The threads carry the reaction of the
            springs: with edges of length e the model is one of bending as long as the strain 4 D/(k e^2) of that
            reaction is small against (kappa e)^2/8.
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import warp as wp

from toile.energies._hinges import HingeEnergy
from toile.energies.base import Elements, Formulas, NoUniform, first_not_none
from toile.math.types import TINY, mat33, real, vec3
from toile.model.model import ClothPart, Model
from toile.model.springs import FLEXION, flexion_warp_shares, springs_of
from toile.plugins import quantity

if TYPE_CHECKING:
    from toile.scene.schema import Fabric

mat23 = wp.types.matrix(shape=(2, 3), dtype=real)  # two points, one per row

# S(u) = sum_n (-u)^n/(2 n + 1)!; for u up to pi^2, a full circle, the 16th term is below 1e-17.
TERMS = 16
SERIES = np.cumprod([1.0, *(-1.0 / (2 * n * (2 * n + 1)) for n in range(1, TERMS))])
series = wp.types.vector(length=TERMS, dtype=real)
COEFFICIENTS = wp.constant(series(*SERIES))
# Each Newton step doubles the number of correct digits; the initial guess has two.
NEWTON_STEPS = wp.constant(4)


@wp.struct
class Sinc:
    """S and its first two derivatives by u."""

    S: real
    dS: real
    ddS: real


@wp.func
def sinc_root(u: real) -> Sinc:
    s = Sinc()
    for i in range(wp.static(TERMS)):
        # Horner's scheme, extended to the derivatives.
        s.ddS = s.ddS * u + real(2.0) * s.dS
        s.dS = s.dS * u + s.S
        s.S = s.S * u + COEFFICIENTS[wp.static(TERMS) - 1 - i]
    return s


@wp.func
def arc(ratio: real) -> real:
    """Returns u with S(u) = ratio. S decreases and is convex, so Newton's method approaches from below."""
    e = real(1.0) - ratio
    u = e * (real(6.0) + e * (real(1.8) + real(2.07) * e))
    for _ in range(NEWTON_STEPS):
        s = sinc_root(u)
        u += (ratio - s.S) / s.dS
    return wp.max(u, real(0.0))


@wp.struct
class Rest:
    length: real  # L
    k_b: real
    c: real
    buckled_length: real  # |x| below which the spring has buckled [m]
    energy_offset: real  # offset of the energy 2 k_b u/L that makes it continuous with the line [J]
    damping: real  # [s]


@wp.struct
class Local:
    E: real
    scalar_force: real  # f with damping, at velocity v_at
    k: real  # df/d|x|
    k_d: real
    direction: vec3


@wp.func
def prepare(rest: Rest, uniform: NoUniform, x: mat23, x_tension: mat23, v: mat23, v_at: mat23) -> Local:
    local = Local()
    d = x[1] - x[0]
    length = wp.length(d)
    local.direction = d / wp.max(length, TINY)
    L, k_b = rest.length, rest.k_b
    if length < rest.buckled_length:
        u = arc(length / L)
        s = sinc_root(u)
        local.E = real(2.0) * k_b * u / L - rest.energy_offset
        local.scalar_force = real(2.0) * k_b / (L * L * s.dS)
        local.k = -real(2.0) * k_b * s.ddS / (L * L * L * s.dS * s.dS * s.dS)
        local.k_d = rest.damping * local.k
        local.scalar_force += local.k_d * wp.dot(local.direction, v_at[1] - v_at[0])
    elif length < L:
        local.k = rest.c
        local.scalar_force = rest.c * (length - L)
        local.E = real(0.5) * local.scalar_force * (length - L)
    return local


@wp.func
def energy(local: Local) -> real:
    return local.E


@wp.func
def force(local: Local, a: int) -> vec3:
    if a == 0:
        return local.scalar_force * local.direction
    return -local.scalar_force * local.direction


@wp.func
def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
    core = (alpha_x * local.k + alpha_v * local.k_d) * wp.outer(local.direction, local.direction)
    if a == b:
        return core
    return -core


class BendBuckling(HingeEnergy):
    """Resistance to bending by springs that skip one particle and buckle."""

    formulas: ClassVar[Formulas] = Formulas(2, Rest, NoUniform, Local, prepare, energy, force, block, external=False)

    stiffness: float | None = quantity(
        None, unit="N/m", doc="against compression before a spring buckles; by default the fabric's stretch", gt=0
    )

    def check_fabric(self, fabric: "Fabric") -> str | None:
        for thread in ("warp", "weft"):
            D = first_not_none(getattr(self, f"rigidity_{thread}"), self.rigidity, getattr(fabric, f"bend_{thread}"))
            if D > 0.0 and first_not_none(self.stiffness, getattr(fabric, f"stretch_{thread}")) == 0.0:
                return (
                    "does not resist bending: its springs take their stiffness from the fabric, whose "
                    f"stretch_{thread} is 0. Give it a stiffness > 0 [N/m]."
                )
        return None

    def elements(self, model: Model, part: int | None) -> Elements:
        cloth = model.parts[part]
        springs = springs_of(cloth).of(FLEXION)
        L = springs.lengths
        area, warp_share = (_on_cells if cloth.mesh.quads is not None else _on_hinges)(cloth, model)
        D_warp = first_not_none(self.rigidity_warp, self.rigidity, cloth.fabric.bend_warp)
        D_weft = first_not_none(self.rigidity_weft, self.rigidity, cloth.fabric.bend_weft)
        k_warp = first_not_none(self.stiffness, cloth.fabric.stretch_warp)
        k_weft = first_not_none(self.stiffness, cloth.fabric.stretch_weft)
        rest = np.zeros(len(L), Rest.numpy_dtype())
        rest["length"] = L
        rest["k_b"] = k_b = 4.0 / 3.0 * (D_warp * warp_share + D_weft * (1.0 - warp_share)) * area / L
        rest["c"] = c = (k_warp * warp_share + k_weft * (1.0 - warp_share)) * area / L**2
        u = _onset(2.0 * k_b, c * L**3)
        rest["buckled_length"] = L * _sinc_root(u, 0)
        rest["energy_offset"] = 2.0 * k_b * u / L - 0.5 * c * (L - rest["buckled_length"]) ** 2
        rest["damping"] = first_not_none(self.damping, cloth.fabric.damping)
        acting = k_b > 0.0
        return Elements(springs.particles[acting], rest[acting])


def _on_cells(cloth: ClothPart, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Returns area and warp share of each flexion spring: those of the particle it skips and of its two edges."""
    springs, first, n = springs_of(cloth).of(FLEXION), cloth.particles.start, cloth.mesh.vertex_count
    share = np.repeat(model.areas[cloth.triangles] / 3.0, 3)
    of_vertices = np.bincount(cloth.mesh.triangles.ravel(), share, n)
    area = of_vertices[springs.skipped[:, 0] - first] * springs.bending_shares()
    return area, flexion_warp_shares(cloth.mesh, springs, first)


def _on_hinges(cloth: ClothPart, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same for springs between the far corners of two triangles."""
    edge = model.hinge_uv[cloth.hinges]
    area = model.areas[model.hinge_triangles[cloth.hinges]].sum(axis=1)
    return 8.0 / 9.0 * area, edge[:, 1] ** 2 / np.sum(edge**2, axis=1)


def _sinc_root(u: np.ndarray, derivative: int) -> np.ndarray:
    return np.polynomial.Polynomial(SERIES).deriv(derivative)(u)


def _onset(force: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Returns u at which line and arc have the same force: line (1 - S) = force/(-S'); a full circle if none."""
    low, high = np.zeros(len(force)), np.full(len(force), np.pi**2)
    for _ in range(60):
        u = 0.5 * (low + high)
        below = line * (1.0 - _sinc_root(u, 0)) * -_sinc_root(u, 1) < force
        low, high = np.where(below, u, low), np.where(below, high, u)
    return 0.5 * (low + high)
