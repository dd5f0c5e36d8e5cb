"""Mass-spring sheet: springs along the threads, across the cells, and past one particle against bending.

    C(x) = |x_j - x_i| - l0,    E = K C^2 / 2,    F_i = K (l - l0 l/|l|),  l = x_j - x_i

Each kind of springs has one K, or each spring has the K that represents the fabric:

    structural  K = k A/l0^2       k  stretch stiffness along the spring [N/m]     A  area of its triangles [m^2]
    shear       K = G l0^2/(2 A)   G  shear stiffness [N/m]                        A  area of its cell [m^2]
    flexion     K = 64 D/l0^2      D  bending rigidity [N m]

On a square grid these are k (half of it along the border), G, and 16 D per squared edge length.

Source      [Pro95] secs. 2.1, 2.2, eq. (1); structural K of the fabric: A. Van Gelder, Approximate simulation of
            elastic membranes by triangulated spring meshes (1998)
Symbols     l0  rest length [m]     K  stiffness: force per elongation [N/m]
Deviations  Eq. (1) has the opposite sign, with which a stretched spring would repel. Damping along the springs is ours
            (the paper's is `viscous`). The second derivative is kept only where a spring is stretched: in compression
            the matrix would be indefinite. Diagonals resist stretching as well, and add G to k. The force of a flexion
            spring depends on theta^2 of the angle theta, so that no K equals D at every angle: the two energies agree
            at 1 rad between neighboring cells; where m > 2 cross at a pole, each has 8/(3 m) of that K. Meshes without
            rows and columns of threads have their edges as structural springs, and no shear springs: edges resist
            shear by some 3/8 k whatever G.
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.energies.base import Elements, Energy, Formulas, condition_formulas, first_not_none
from toile.math.types import TINY, identity, mat33, real, vec3
from toile.model.mesh import Mesh, edge_keys, face_sides, find_edges
from toile.model.model import ClothPart, Model
from toile.model.springs import FLEXION, SHEAR, STRUCTURAL, ClothSprings, flexion_warp_shares, springs_of, warp_shares
from toile.plugins import quantity

mat23 = wp.types.matrix(shape=(2, 3), dtype=real)  # two points, one per row


@wp.struct
class Rest:
    length: real  # l0
    k: real
    k_d: real


@wp.struct
class Condition:
    C: real
    gradient: mat23
    length: real
    direction: vec3


@wp.func
def condition(rest: Rest, x: mat23) -> Condition:
    l = x[1] - x[0]  # noqa: E741
    c = Condition()
    c.length = wp.length(l)
    # Two coincident particles have no direction: the force is zero, rather than a division by zero.
    c.direction = l / wp.max(c.length, TINY)
    c.C = c.length - rest.length
    c.gradient = mat23(
        -c.direction[0], -c.direction[1], -c.direction[2],
        c.direction[0], c.direction[1], c.direction[2],
    )  # fmt: skip
    return c


@wp.struct
class Hessian:
    core: mat33  # block (a, b) is core, or its negative when a != b


@wp.func
def hessian(rest: Rest, c: Condition, k: real, sigma: real) -> Hessian:
    along = wp.outer(c.direction, c.direction)
    across = wp.max(sigma, real(0.0)) / wp.max(c.length, TINY)
    H = Hessian()
    H.core = k * along + across * (identity() - along)
    return H


@wp.func
def hessian_block(H: Hessian, a: int, b: int) -> mat33:
    if a == b:
        return H.core
    return -H.core


class Spring(Energy):
    """Springs between particles that replace stretch, shear and bending."""

    formulas: ClassVar[Formulas] = condition_formulas(2, Rest, Condition, condition, Hessian, hessian, hessian_block)
    resists_stretch: ClassVar[bool] = True
    shear_fields: ClassVar[tuple[str, ...]] = ("shear",)

    structural: float | None = quantity(
        None, unit="N/m", doc="K of springs along the threads; by default the fabric's", ge=0
    )
    shear: float | None = quantity(None, unit="N/m", doc="K across the cells; by default the fabric's", ge=0)
    flexion: float | None = quantity(None, unit="N/m", doc="K past one particle; by default the fabric's", ge=0)
    damping: float | None = quantity(None, unit="s", doc="damping / K; by default the fabric's", ge=0)

    def elements(self, model: Model, part: int | None) -> Elements:
        cloth = model.parts[part]
        springs = springs_of(cloth)
        K = self.stiffness(cloth, springs)
        acting = K > 0.0
        rest = np.zeros(np.count_nonzero(acting), Rest.numpy_dtype())
        rest["length"] = springs.lengths[acting]
        rest["k"] = K[acting]
        rest["k_d"] = rest["k"] * first_not_none(self.damping, cloth.fabric.damping)
        return Elements(springs.particles[acting], rest)

    def stiffness(self, cloth: ClothPart, springs: ClothSprings) -> np.ndarray:
        """Returns K of each spring [N/m]."""
        fabric, l0 = cloth.fabric, springs.lengths
        pairs = springs.particles - cloth.particles.start
        structural, flexion = springs.kind == STRUCTURAL, springs.kind == FLEXION
        along_u = np.zeros(len(l0))  # not needed for shear springs
        along_u[structural] = warp_shares(cloth.mesh, pairs[structural])
        along_u[flexion] = flexion_warp_shares(cloth.mesh, springs.of(FLEXION), cloth.particles.start)
        area = _areas(cloth.mesh, pairs)
        bent = 64.0 * _mixed(fabric.bend_warp, fabric.bend_weft, along_u) * springs.bending_shares()
        K = np.zeros(len(l0))
        for kind, given, of_fabric in (
            (STRUCTURAL, self.structural, _mixed(fabric.stretch_warp, fabric.stretch_weft, along_u) * area / l0**2),
            (SHEAR, self.shear, fabric.shear * l0**2 / (2.0 * area)),
            (FLEXION, self.flexion, bent / l0**2),
        ):
            chosen = springs.kind == kind
            K[chosen] = of_fabric[chosen] if given is None else given
        if not np.isfinite(K).all():
            count = np.count_nonzero(~np.isfinite(K))
            raise ValueError(f'cloth "{cloth.name}": {count} springs have no finite stiffness.')
        return K


def _mixed(warp: float, weft: float, along_u: np.ndarray) -> np.ndarray:
    return warp * along_u + weft * (1.0 - along_u)


def _areas(mesh: Mesh, pairs: np.ndarray) -> np.ndarray:
    """Returns the area of the triangles with a pair as side or as far corners [m^2]; 1 where there are none."""
    topology, area = find_edges(mesh.triangles), np.abs(mesh.uv_areas())
    known = np.concatenate([face_sides(mesh.triangles), topology.hinges[:, :2]])
    areas = np.concatenate([np.repeat(area, 3), area[topology.hinge_triangles].sum(axis=1)])
    keys, place = np.unique(edge_keys(known, mesh.vertex_count), return_inverse=True)
    found = np.bincount(place.ravel(), areas)
    wanted = edge_keys(pairs, mesh.vertex_count)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, found[at], 1.0)
