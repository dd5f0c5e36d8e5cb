"""Base of all energies: the contract between a force on the cloth and the system that sums and linearizes all forces.

To add an energy, write one file `toile/energies/<type>.py` with a class of the same name in CamelCase, derived from
`Energy`. Its fields are the scene keys. Then choose one of three ways to give the force:

Condition   Most internal forces are E = k C(x)^2 / 2 with a condition C ([BW98] sec. 4.1). Write the `wp.struct`s
            `Rest` (constants of an element, with members k and k_d), `Condition` and `Hessian`, and the `wp.func`s
            `condition`, `hessian` and `hessian_block`; `condition_formulas` derives energy, force, damping and matrix
            blocks from them. shear.py is an example.
Formulas    A force that is not a condition gives the functions of `Formulas` itself. viscous.py is an example.
ForceTerm   A force without fixed elements, such as contact, overrides `make_force_term` and returns an object that
            satisfies `ForceTerm` or `PenaltyForce` of toile/system/terms.py. wind_particle.py is an example.

For the first two, set the class variable `formulas`, and return from `elements` the particles of every element and
their `Rest` constants. Everything else is done once for all energies in toile/system: gathering, scattering, launches,
coloring, damping and assembly. tests/contracts/test_energies.py tests every energy that is found here.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
import warp as wp

from toile.math.types import mat33, real, vec3
from toile.model.mesh import Mesh
from toile.model.model import Model
from toile.plugins import Plugin

if TYPE_CHECKING:
    from toile.scene.schema import Fabric
    from toile.system.terms import ForceTerm

Scope = Literal["cloth", "scene", "world"]  # see Energy

# Warp has no static types for kernel code. These names say what is meant.
StructType = Any  # a class made by @wp.struct
Struct = Any  # an instance of one
Stencil = Any  # a Warp matrix (points, 3): one row per particle of an element


class Prepare(Protocol):
    """`wp.func` that computes everything the other functions need of one element, as a struct Local.

    Forces are linearized at positions x and velocities v, and then evaluated at velocities v_at along df/dv. Second
    derivatives of a condition are multiplied by the tension at positions x_tension (Linearization in
    toile/system/terms.py). Energies without such derivatives ignore x_tension, forces without damping v and v_at.
    """

    def __call__(
        self, rest: Struct, uniform: Struct, x: Stencil, x_tension: Stencil, v: Stencil, v_at: Stencil
    ) -> Struct: ...


class EnergyFunction(Protocol):
    """`wp.func` that returns the stored energy [J] of one element; 0 for forces without a potential."""

    def __call__(self, local: Struct) -> real: ...


class ForceFunction(Protocol):
    """`wp.func` that returns the force [N] on point a of one element, at velocity v_at."""

    def __call__(self, local: Struct, a: int) -> vec3: ...


class BlockFunction(Protocol):
    """`wp.func` that returns the block (a, b) of one element's matrix: -(alpha_x df_a/dx_b + alpha_v df_a/dv_b).

    The matrix of the element must be symmetric and positive semidefinite for all alpha_x, alpha_v >= 0: leave out or
    clamp whatever is not. Block (b, a) is taken as the transpose of (a, b).
    """

    def __call__(self, local: Struct, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33: ...


@wp.struct
class NoUniform:
    """The uniform of an energy that has none."""

    unused: real


@dataclass(frozen=True)
class Formulas:
    """Energy, force and matrix blocks of one element, as functions that assembly turns into kernels."""

    points: int  # particles of one element
    Rest: StructType  # constants of one element
    Uniform: StructType  # values that are the same for all elements and may change from step to step
    Local: StructType  # intermediate results of one element
    prepare: Prepare
    energy: EnergyFunction
    force: ForceFunction
    block: BlockFunction
    # Whether the force acts from outside the cloth, such as gravity, wind or a spring to a fixed point. An internal
    # force only acts between the points of its element: the blocks (a, b) of a row then sum to zero over b. The sums
    # of the rows of external forces are kept apart (toile/linear/block_matrix.py).
    external: bool = True


@dataclass
class Elements:
    """Elements of an energy: their particles and their constants."""

    particles: np.ndarray  # (elements, points) int32
    rest: np.ndarray  # (elements,) structured as Formulas.Rest


class Energy(Plugin):
    """Settings of a force on the cloth.

    `scope` is where a scene lists it. "cloth": in `energies` of a cloth, as an internal force of that cloth; `part` of
    its methods is the number of the cloth. "scene": in `forces`, acting on all cloths; `part` is None. "world": not
    listed, always there. Contract tests apply the laws of internal forces to every energy of scope "cloth": it keeps
    momentum, does not change under rigid motion, and damps no rigid motion.

    Fields named `cloth`, `where` and `triangle` are checked against the scene (toile/scene/consistency.py). Derivatives
    that `Formulas.block` leaves out are missing in the step limit of explicit integrators too, which is found from the
    matrix (toile/integrators/_stability.py).
    """

    scope: ClassVar[Scope] = "cloth"
    formulas: ClassVar[Formulas]
    changes_in_time: ClassVar[bool] = False  # whether `uniform_at` depends on time; it is then called in every step
    file_field: ClassVar[str | None] = None  # the field that may name a file, for messages about that file

    # Properties by which scenes and simulations decide, instead of by type.
    acts_between_cloths: ClassVar[bool] = False  # keeps cloth from passing through cloth
    resists_air: ClassVar[bool] = False  # includes the resistance of still air, which a scene needs only once
    moves_air: ClassVar[bool] = False  # is a wind
    resists_stretch: ClassVar[bool] = False  # keeps the lengths of the cloth
    applies_rest_stretch: ClassVar[bool] = False  # uses `rest_stretch` of the cloth in these lengths
    shear_fields: ClassVar[tuple[str, ...]] = ()  # shear-spring fields; they have no effect on meshes without quads

    @property
    def keeps_inside_extension(self) -> bool:
        """Whether it keeps cloth inside the extension of its fabric."""
        return False

    def read(self, mesh: Mesh, folder: Path, allow_outside: bool) -> Self:
        """Returns itself, or a copy with the content of its file for this cloth; raises InputError if it is unusable.

        Relative paths start at `folder`, and may leave it only if `allow_outside`.
        """
        return self

    def content(self) -> tuple[np.ndarray, ...]:
        """Returns the arrays that `read` found, which identify the input of a run."""
        return ()

    def check_fabric(self, fabric: "Fabric") -> str | None:
        """Returns what the fabric lacks for this energy and what to do, as a message; None if nothing."""
        return None

    def elements(self, model: Model, part: int | None) -> Elements:
        """Returns the elements on a cloth (scope "cloth"), or on the whole model (other scopes, part None)."""
        raise NotImplementedError

    def rest_at(self, model: Model, part: int | None, time: float) -> np.ndarray | None:
        """Returns the `Rest` constants of all elements at a time; None if they do not change."""
        return None

    def uniform_at(self, time: float, seed: int) -> Struct:
        """Returns the `Uniform` at a time, the end of a step; `seed` is the scene's, for random values."""
        return self.formulas.Uniform()

    def make_force_term(self, model: Model, device: str) -> "ForceTerm | None":
        """Returns the force, if it has no fixed elements; None if it acts by `formulas` on `elements`."""
        return None


@cache
def combine(one: Formulas, two: Formulas) -> Formulas:
    """Returns the sum of two energies on the same particles, which is gathered and scattered once instead of twice."""
    stencil = wp.types.matrix(shape=(one.points, 3), dtype=real)
    Rest1, Rest2, Uniform1, Uniform2, Local1, Local2 = (
        one.Rest, two.Rest, one.Uniform, two.Uniform, one.Local, two.Local
    )  # fmt: skip
    prepare1, energy1, force1, block1 = one.prepare, one.energy, one.force, one.block
    prepare2, energy2, force2, block2 = two.prepare, two.energy, two.force, two.block

    @wp.struct
    class Rest:
        first: Rest1
        second: Rest2

    @wp.struct
    class Uniform:
        first: Uniform1
        second: Uniform2

    @wp.struct
    class Local:
        first: Local1
        second: Local2

    @wp.func
    def prepare(rest: Rest, uniform: Uniform, x: stencil, x_tension: stencil, v: stencil, v_at: stencil) -> Local:
        local = Local()
        local.first = prepare1(rest.first, uniform.first, x, x_tension, v, v_at)
        local.second = prepare2(rest.second, uniform.second, x, x_tension, v, v_at)
        return local

    @wp.func
    def energy(local: Local) -> real:
        return energy1(local.first) + energy2(local.second)

    @wp.func
    def force(local: Local, a: int) -> vec3:
        return force1(local.first, a) + force2(local.second, a)

    @wp.func
    def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
        return block1(local.first, alpha_x, alpha_v, a, b) + block2(local.second, alpha_x, alpha_v, a, b)

    return Formulas(one.points, Rest, Uniform, Local, prepare, energy, force, block, one.external or two.external)


def first_not_none(*values: float | None) -> float:
    """Returns the first value that is not None: an energy's own before the fabric's."""
    return next(value for value in values if value is not None)


class ConditionFunction(Protocol):
    """`wp.func` that returns the condition C and, one row per point, its `gradient` dC/dx, as a struct."""

    def __call__(self, rest: Struct, x: Stencil) -> Struct: ...


class HessianFunction(Protocol):
    """`wp.func` that returns the positive semidefinite part of k dC dC^T + sigma d2C, in any compact form.

    sigma = k C + k_d dC/dt, because [BW98] eqs. (8) and (12) share the second derivative d2C.
    """

    def __call__(self, rest: Struct, c: Struct, k: real, sigma: real) -> Struct: ...


class HessianBlock(Protocol):
    """`wp.func` that returns the block (a, b) of that matrix."""

    def __call__(self, H: Struct, a: int, b: int) -> mat33: ...


def condition_formulas(
    points: int,
    Rest: StructType,
    Condition: StructType,
    condition: ConditionFunction,
    Hessian: StructType,
    hessian: HessianFunction,
    hessian_block: HessianBlock,
    one_sided: bool = False,
) -> Formulas:
    """Derives the formulas of E = k C(x)^2 / 2 with damping k_d from a condition ([BW98] eqs. (7), (8), (11), (12)).

    `Rest` has the members k and k_d; `Condition` has C and gradient. A `one_sided` condition acts where C > 0, tested
    at x_tension, because predicted positions overestimate the stretch of rotating triangles (Linearization in
    toile/system/terms.py).
    """
    stencil = wp.types.matrix(shape=(points, 3), dtype=real)

    @wp.struct
    class Local:
        k: real
        k_d: real
        scalar_force: real  # k C + k_d dC/dt at velocity v_at: force = -scalar_force gradient
        c: Condition
        H: Hessian

    @wp.func
    def prepare(rest: Rest, uniform: NoUniform, x: stencil, x_tension: stencil, v: stencil, v_at: stencil) -> Local:
        c = condition(rest, x)
        tension = rest.k * condition(rest, x_tension).C
        C_dot = real(0.0)
        C_dot_at = real(0.0)
        for a in range(wp.static(points)):
            C_dot += wp.dot(c.gradient[a], v[a])
            C_dot_at += wp.dot(c.gradient[a], v_at[a])
        local = Local()
        if wp.static(one_sided) and tension <= real(0.0):
            return local
        local.k = rest.k
        local.k_d = rest.k_d
        local.scalar_force = rest.k * c.C + rest.k_d * C_dot_at
        local.c = c
        local.H = hessian(rest, c, rest.k, tension + rest.k_d * C_dot)
        return local

    @wp.func
    def energy(local: Local) -> real:
        return real(0.5) * local.k * local.c.C * local.c.C

    @wp.func
    def force(local: Local, a: int) -> vec3:
        return -local.scalar_force * local.c.gradient[a]

    @wp.func
    def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
        damping = alpha_v * (local.k_d * wp.outer(local.c.gradient[a], local.c.gradient[b]))
        if alpha_x == real(0.0):  # damping alone: the compiler then leaves out the Hessian
            return damping
        return alpha_x * hessian_block(local.H, a, b) + damping

    return Formulas(points, Rest, NoUniform, Local, prepare, energy, force, block, external=False)
