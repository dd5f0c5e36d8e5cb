"""What an energy is to the rest of the system: formulas for one element, and the elements it acts on.

`Formulas` are the `wp.func`s that assembly turns into kernels. Most energies are conditions ([BW98] sec. 4.1) and
give only a condition, its gradient and its Hessian through `conditions`; outside forces give `Formulas` directly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import warp as wp

from toile.math.types import mat33, real, vec3
from toile.model.mesh import Mesh
from toile.model.model import Model
from toile.plugins import Plugin

if TYPE_CHECKING:
    from toile.scene.schema import Fabric


@wp.struct
class Nothing:
    """The uniform of an energy that has none."""

    unused: real


@dataclass(frozen=True)
class Formulas:
    """One element's energy, force and matrix blocks, as functions for kernels.

    prepare(rest, uniform, x, x_tension, v, v_at) -> Local
        what the others need; one row per point; see assembly.Linearization
    energy(local) -> real
        stored energy [J]; 0 for forces without a potential
    force(local, a) -> vec3
        at point a, linearized at (x, v) and evaluated at velocity v_at [N]
    block(local, alpha_x, alpha_v, a, b) -> mat33
        -(alpha_x df_a/dx_b + alpha_v df_a/dv_b), positive definite overall
    """

    points: int  # particles of one element
    Rest: Any  # wp.struct: constants of one element
    Uniform: Any  # wp.struct: what is the same for all elements and may change from step to step
    Local: Any
    prepare: Callable
    energy: Callable
    force: Callable
    block: Callable
    outside: bool = True  # False if it only acts between its points: blocks (a, b) then cancel in a sum over b


@dataclass
class Elements:
    """Where an energy acts: which particles, and with which constants."""

    particles: np.ndarray  # (elements, points) int32
    rest: np.ndarray  # (elements,) structured as Formulas.Rest


class Energy(Plugin):
    """An internal force of one cloth (scope "cloth") or a force on all of them (scope "scene")."""

    scope: ClassVar[str] = "cloth"
    acts_between_cloths: ClassVar[bool] = False  # it keeps cloth from passing through cloth
    changes_in_time: ClassVar[bool] = False  # whether `uniform_at` does
    formulas: ClassVar[Formulas]
    names_file: ClassVar[str | None] = None  # the field that may name a file

    def read(self, mesh: Mesh, folder: Path, allow_outside: bool) -> "Energy":
        """Itself, or a copy that holds what its file says about this cloth; InputError if that cannot be used.

        Relative paths start at `folder`, and may leave it only if `allow_outside`.
        """
        return self

    def lacks(self, fabric: "Fabric") -> str | None:
        """What it needs of the fabric and does not get, with what to do; None if it can work."""
        return None

    def content(self) -> tuple[np.ndarray, ...]:
        """What `read` has found: two runs had the same input if that was the same."""
        return ()

    def elements(self, model: Model, part: int | None) -> Elements:
        """Elements on one cloth (its number), or on the whole model for a force of scope "scene"."""
        raise NotImplementedError

    def springs(self, model: Model, device: str) -> Any:
        """The force at work (assembly.Springs), if it acts on what happens to meet; it has no elements then."""
        return None

    @property
    def keeps_inside_extension(self) -> bool:
        """Whether it keeps cloth inside the extension of its fabric."""
        return False

    def rest_at(self, model: Model, part: int | None, time: float) -> np.ndarray | None:
        """New constants at a time, for an energy whose constants change; None when they do not."""
        return None

    def uniform_at(self, time: float, seed: int) -> Any:
        """The uniform at a time; `seed` is the scene's, for what is random."""
        return self.formulas.Uniform()


@cache
def both(one: Formulas, two: Formulas) -> Formulas:
    """Two energies on the same particles as one: gathered and scattered once instead of twice."""
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

    return Formulas(one.points, Rest, Uniform, Local, prepare, energy, force, block, one.outside or two.outside)


def first_given(*values: float | None) -> float:
    """The first figure that is not None: an energy's own before the fabric's."""
    return next(value for value in values if value is not None)


def conditions(
    points: int,
    Rest: Any,
    Condition: Any,
    condition: Callable,
    Hessian: Any,
    hessian: Callable,
    hessian_block: Callable,
    one_sided: bool = False,
) -> Formulas:
    """Formulas of E = k C(x)^2 / 2 with damping k_d, from the condition alone ([BW98] eqs. (7), (8), (11), (12)).

    A `one_sided` condition acts where C > 0. Whether it does is judged where tensions are true, because a guess of the
    end of the step stretches what turns (assembly.Linearization).

    condition(rest, x) -> Condition         has C and, one row per point, gradient
    hessian(rest, c, k, sigma) -> Hessian   positive definite part of k dC dC^T + sigma d2C, in whatever form is short;
                                            sigma = k C + k_d dC/dt: eqs. (8) and (12) share the second derivative
    hessian_block(H, a, b) -> mat33         its block (a, b)
    Rest has the members k and k_d.
    """
    stencil = wp.types.matrix(shape=(points, 3), dtype=real)

    @wp.struct
    class Local:
        k: real
        k_d: real
        pull: real  # k C + k_d dC/dt at the velocity asked for: the size of the force
        c: Condition
        H: Hessian

    @wp.func
    def prepare(rest: Rest, uniform: Nothing, x: stencil, x_tension: stencil, v: stencil, v_at: stencil) -> Local:
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
        local.pull = rest.k * c.C + rest.k_d * C_dot_at
        local.c = c
        local.H = hessian(rest, c, rest.k, tension + rest.k_d * C_dot)
        return local

    @wp.func
    def energy(local: Local) -> real:
        return real(0.5) * local.k * local.c.C * local.c.C

    @wp.func
    def force(local: Local, a: int) -> vec3:
        return -local.pull * local.c.gradient[a]

    @wp.func
    def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
        damping = alpha_v * (local.k_d * wp.outer(local.c.gradient[a], local.c.gradient[b]))
        if alpha_x == real(0.0):  # damping alone: the compiler then leaves out the Hessian
            return damping
        return alpha_x * hessian_block(local.H, a, b) + damping

    return Formulas(points, Rest, Nothing, Local, prepare, energy, force, block, outside=False)
