"""Gathers elements, scatters their forces and matrix blocks: written once, for every energy.

An energy gives formulas for one element (toile/energies/base.py). Here they become kernels: total force, force with
matrix, energy, and the product of its damping matrix with a vector. Each energy is a module of its own, compiled once
and cached; so is its damping, which only some integrators need.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import warp as wp

from toile.device.element_coloring import ElementColoring, color_elements
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.energies.base import Elements, Energy, Formulas, both
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.math.types import mat33, precision, real, vec3
from toile.model.model import Model


@dataclass(frozen=True)
class Kernels:
    """The kernels of one energy."""

    linearize: wp.Kernel
    add_forces: wp.Kernel
    measure: wp.Kernel
    add_damping: wp.Kernel


@cache
def make_kernels(name: str, formulas: Formulas) -> Kernels:
    """Kernels from an energy's formulas; `name` becomes the name of the compiled module."""
    points = wp.constant(formulas.points)
    is_external = formulas.outside and precision == "single"
    stencil = wp.types.matrix(shape=(formulas.points, 3), dtype=real)
    Rest, Uniform = formulas.Rest, formulas.Uniform
    prepare, energy, force, block = formulas.prepare, formulas.energy, formulas.force, formulas.block

    def kernel(function: Any, part: str = "energy") -> wp.Kernel:
        module = wp.get_module(f"toile.{part}.{name}")
        return wp.Kernel(function, key=f"{name}_{function.__name__}", module=module)

    @wp.func
    def gather(particles: wp.array2d(dtype=wp.int32), e: int, values: wp.array(dtype=vec3)) -> stencil:
        rows = stencil()
        for a in range(points):
            rows[a] = values[particles[e, a]]
        return rows

    def linearize(
        first: wp.int32,
        # model
        particles: wp.array2d(dtype=wp.int32), slots: wp.array2d(dtype=wp.int32), rest: wp.array(dtype=Rest),
        # in
        uniform: Uniform, x: wp.array(dtype=vec3), x_tension: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
        v_at: wp.array(dtype=vec3), alpha_x: real, alpha_v: real,
        # out
        f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33), row_sum_out: wp.array(dtype=mat33),
    ):
        e = first + wp.tid()
        x_e, x_tension_e = gather(particles, e, x), gather(particles, e, x_tension)
        local = prepare(rest[e], uniform, x_e, x_tension_e, gather(particles, e, v), gather(particles, e, v_at))
        for a in range(points):
            wp.atomic_add(f_out, particles[e, a], force(local, a))
            for b in range(points):
                if b == a:
                    wp.atomic_add(A_out, slots[e, a * points + a], block(local, alpha_x, alpha_v, a, a))
                    if wp.static(is_external):
                        wp.atomic_add(row_sum_out, particles[e, a], block(local, alpha_x, alpha_v, a, a))
                if b > a:
                    upper = block(local, alpha_x, alpha_v, a, b)
                    wp.atomic_add(A_out, slots[e, a * points + b], upper)
                    wp.atomic_add(A_out, slots[e, b * points + a], wp.transpose(upper))
                    if wp.static(is_external):
                        wp.atomic_add(row_sum_out, particles[e, a], upper)
                        wp.atomic_add(row_sum_out, particles[e, b], wp.transpose(upper))

    def add_forces(
        first: wp.int32,
        # model
        particles: wp.array2d(dtype=wp.int32), rest: wp.array(dtype=Rest),
        # in
        uniform: Uniform, x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
        # out
        f_out: wp.array(dtype=vec3),
    ):
        e = first + wp.tid()
        v_e = gather(particles, e, v)
        x_e = gather(particles, e, x)
        local = prepare(rest[e], uniform, x_e, x_e, v_e, v_e)
        for a in range(points):
            wp.atomic_add(f_out, particles[e, a], force(local, a))

    def measure(
        first: wp.int32,
        # model
        particles: wp.array2d(dtype=wp.int32), rest: wp.array(dtype=Rest),
        # in
        uniform: Uniform, x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
        # out
        E_out: wp.array(dtype=real),
    ):
        e = first + wp.tid()
        v_e = gather(particles, e, v)
        x_e = gather(particles, e, x)
        E_out[e] = energy(prepare(rest[e], uniform, x_e, x_e, v_e, v_e))

    def add_damping(
        first: wp.int32,
        # model
        particles: wp.array2d(dtype=wp.int32), rest: wp.array(dtype=Rest),
        # in
        uniform: Uniform, x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), u: wp.array(dtype=vec3),
        # out
        y_out: wp.array(dtype=vec3),
    ):
        e = first + wp.tid()
        x_e, v_e, u_e = gather(particles, e, x), gather(particles, e, v), gather(particles, e, u)
        local = prepare(rest[e], uniform, x_e, x_e, v_e, v_e)
        for a in range(points):
            y = block(local, real(0.0), real(1.0), a, a) * u_e[a]
            for b in range(points):
                if b > a:
                    y += block(local, real(0.0), real(1.0), a, b) * u_e[b]
                if b < a:
                    y += wp.transpose(block(local, real(0.0), real(1.0), b, a)) * u_e[b]
            wp.atomic_add(y_out, particles[e, a], y)

    return Kernels(kernel(linearize), kernel(add_forces), kernel(measure), kernel(add_damping, "damping"))


@dataclass(frozen=True)
class Linearization:
    """Where forces are linearized, and for which step.

    Second derivatives of a condition are multiplied by the tension in it. At a guess of the end of the step the tension
    is mostly error of the guess; at the start of the step it is true. Taking it from there is what makes one
    linearization enough (docs/integrators.md).
    """

    x: wp.array  # positions [m]
    x_tension: wp.array  # positions that give the tension [m]
    v: wp.array  # velocities at which forces are linearized [m/s]
    v_at: wp.array  # velocities to which they are then carried along df/dv [m/s]
    h: float  # A = M - h df/dv - h^2 df/dx [s]


class Term:
    """One energy at work: its elements on the device, and its kernels."""

    def __init__(self, name: str, energy: Energy, model: Model, part: int | None, device: str, seed: int = 0):
        self.name, self.energy, self.model, self.part, self.device, self.seed = name, energy, model, part, device, seed
        self.formulas = energy.formulas
        self.kernels = make_kernels(name, energy.formulas)
        given = energy.elements(model, part)
        self._coloring = color_elements(given.particles, model.start)
        self.elements = _ordered(given, self._coloring)
        self.constant = not energy.changes_in_time and energy.rest_at(model, part, 0.0) is None
        self.uniform = energy.uniform_at(0.0, seed)
        self._count = len(self.elements.particles)
        self._particles = wp.array(self.elements.particles, dtype=wp.int32, device=device)
        self._rest = wp.array(self.elements.rest, dtype=energy.formulas.Rest, device=device)
        self._energies = wp.zeros(self._count, dtype=real, device=device)
        # A GPU adds up by itself, if it can do so in double precision: the list need not travel.
        self._sum: wp.array | None = None
        if wp.get_device(device).is_cuda and precision == "double" and self._count:
            self._sum = wp.zeros(1, dtype=real, device=device)
            self._readback = Readback(self._sum)
        self._launch = Launcher(device)

    def add_forces(self, x: wp.array, v: wp.array, f_out: wp.array) -> None:
        inputs = [self._particles, self._rest, self.uniform, x, v, f_out]
        self._launch.by_color(self.kernels.add_forces, self.ends, inputs)

    def measure(self, x: wp.array, v: wp.array) -> float:
        """Stored energy [J]."""
        inputs = [self._particles, self._rest, self.uniform, x, v, self._energies]
        self._launch.split(self.kernels.measure, self._count, inputs)
        if self._sum is None:
            return float(np.sum(self._energies.numpy(), dtype=np.float64))
        wp.utils.array_sum(self._energies, out=self._sum)
        return float(self._readback()[0])

    def move(self, time: float) -> None:
        """Constants and uniform at a time."""
        if self.constant:
            return
        self.uniform = self.energy.uniform_at(time, self.seed)
        rest = self.energy.rest_at(self.model, self.part, time)
        if rest is not None:
            self._rest.assign(wp.array(rest[self._coloring.order], dtype=self.formulas.Rest, device=self.device))

    def put(self, elements: Elements) -> None:
        """Act elsewhere: on as many elements as before."""
        self._coloring = color_elements(elements.particles, self.model.start)
        self.elements = _ordered(elements, self._coloring)
        self._particles.assign(self.elements.particles)
        self._rest.assign(wp.array(self.elements.rest, dtype=self.formulas.Rest, device=self.device))

    @property
    def ends(self) -> tuple[int, ...]:
        """Of the rounds of its elements."""
        return self._coloring.ends


def _ordered(elements: Elements, by_color: ElementColoring) -> Elements:
    return Elements(elements.particles[by_color.order], elements.rest[by_color.order])


class ContactForce(Protocol):
    """A force between particles that meet: which they are is found anew in every step."""

    name: str
    couplings: Couplings  # what it adds to the matrix off the diagonal

    def find(self, x: wp.array, v: wp.array, h: float) -> None:
        """What meets in a step of h that begins with x and v; it stays the same until the next step."""

    def linearize(self, at: Linearization, f_out: wp.array, A_out: BlockMatrix) -> None: ...

    def fit(self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array) -> bool:
        """Whether a solve was for what its result shows; if not, A and the residual b are corrected."""

    def add_forces(self, x: wp.array, v: wp.array, f_out: wp.array) -> None: ...

    def measure(self, x: wp.array, v: wp.array) -> float: ...

    def move(self, time: float) -> None: ...


class PenaltyForce(ContactForce, Protocol):
    """Such a force that also moves particles at once."""

    def alter(self, masses: wp.array, y_out: wp.array) -> None:
        """Adds how far it moves each particle in this step, apart from its velocity ([BW98] eq. (17))."""

    def decide(self, x: wp.array, v: wp.array) -> None:
        """Those push that do at x and v: for a step in which no solve tells."""

    def add_damping(self, u: wp.array, y_out: wp.array) -> None:
        """y += -df/dv u."""

    def largest_rates(self, masses: np.ndarray) -> tuple[float, float]:
        """Bounds of -df/dx and -df/dv by mass [1/s^2, 1/s]."""


def make_term(energy: Energy, model: Model, part: int | None, device: str, seed: int) -> Term | PenaltyForce:
    """An energy at work on one cloth, or on all of them."""
    springs: PenaltyForce | None = energy.springs(model, device)
    return Term(energy.type_name(), energy, model, part, device, seed) if springs is None else springs


class Batch:
    """Terms on the same particles, linearized by one kernel: their blocks are added up before they are scattered."""

    def __init__(self, terms: list[Term], A: BlockMatrix):
        self.terms, self.device = terms, A.device
        formulas, rest, uniform = terms[0].formulas, terms[0].elements.rest, terms[0].uniform
        for term in terms[1:]:
            formulas = both(formulas, term.formulas)
            joined = np.zeros(len(rest), formulas.Rest.numpy_dtype())
            joined["first"], joined["second"] = rest, term.elements.rest
            pair = formulas.Uniform()
            pair.first, pair.second = uniform, term.uniform
            rest, uniform = joined, pair
        self.kernels = make_kernels("_".join(term.name for term in terms), formulas)
        self._slots = wp.array(_slots(terms[0], A), dtype=wp.int32, device=self.device)
        self._particles = terms[0]._particles
        # A term by itself may change in time, and is then read anew; several are constant, and are copied here.
        self._rest = terms[0]._rest if len(terms) == 1 else wp.array(rest, dtype=formulas.Rest, device=self.device)
        self._uniform = uniform
        self._launch = Launcher(self.device)

    @property
    def uniform(self) -> Any:
        return self.terms[0].uniform if len(self.terms) == 1 else self._uniform

    def put(self, A: BlockMatrix) -> None:
        """Its only term acts elsewhere now."""
        self._slots.assign(_slots(self.terms[0], A))

    def linearize(self, at: Linearization, f_out: wp.array, A_out: BlockMatrix) -> None:
        model = [self._particles, self._slots, self._rest]
        inputs = [*model, self.uniform, at.x, at.x_tension, at.v, at.v_at, at.h * at.h, at.h, f_out]
        self._launch.by_color(self.kernels.linearize, self.terms[0].ends, [*inputs, A_out.values, A_out.row_sum])

    def add_damping(self, x: wp.array, v: wp.array, u: wp.array, y_out: wp.array) -> None:
        """y += -df/dv u, at x and v."""
        inputs = [self._particles, self._rest, self.uniform, x, v, u, y_out]
        self._launch.by_color(self.kernels.add_damping, self.terms[0].ends, inputs)


def _slots(term: Term, A: BlockMatrix) -> np.ndarray:
    """Where in the matrix the blocks of each element go."""
    particles = term.elements.particles
    points = particles.shape[1]
    return A.slots(np.repeat(particles, points, axis=1), np.tile(particles, (1, points)))


def batches(terms: list[Term], A: BlockMatrix) -> list[Batch]:
    """Terms that can be linearized together: on the same particles, in the same order, and constant.

    In single precision those from outside go apart: their blocks alone make the sum of a row (linear/block_matrix.py).
    """
    groups: list[list[Term]] = []
    for term in terms:
        for group in groups:
            first = group[0]
            alike = precision == "double" or term.formulas.outside == first.formulas.outside
            constant = term.constant and first.constant
            if alike and constant and np.array_equal(term.elements.particles, first.elements.particles):
                group.append(term)
                break
        else:
            groups.append([term])
    return [Batch(group, A) for group in groups]
