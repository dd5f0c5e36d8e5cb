"""Terms of the system: energies that act on elements, and the contracts of forces that do not.

An energy (toile/energies/base.py) becomes a `Term`: its elements on the device, and its kernels. A force that is not a
sum over fixed elements implements `ForceTerm` instead, and one between particles in contact `ContactForce`.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import warp as wp

from toile.device.element_coloring import ElementColoring, color_elements
from toile.device.launcher import Launcher
from toile.energies.base import Elements, Energy
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.model.model import Model
from toile.system.kernels import make_kernels


@dataclass(frozen=True)
class Linearization:
    """Where forces are linearized, and for which step.

    Second derivatives of a condition are multiplied by its tension. Predicted positions x + h v overstretch rotating
    cloth, so their tension is mostly prediction error; at the start of the step it is exact. Taking it from there makes
    one linearization sufficient (docs/integrators.md).
    """

    x: wp.array  # positions [m]
    x_tension: wp.array  # positions that give the tension [m]
    v: wp.array  # velocities at which forces are linearized [m/s]
    v_at: wp.array  # velocities to which they are then carried along df/dv [m/s]
    h: float  # A = M - h df/dv - h^2 df/dx [s]


class ForceTerm(Protocol):
    """A force of the scene that is not a sum over fixed elements, such as wind on particles."""

    name: ClassVar[str]
    is_contact: ClassVar[bool]  # whether it is a PenaltyForce

    def move(self, time: float) -> None:
        """Brings everything that depends on time to this time."""

    def linearize(self, at: Linearization, f_out: wp.array, A_out: BlockMatrix) -> None:
        """Adds the force and its blocks of A."""

    def activate(self, x: wp.array, v: wp.array) -> None:
        """Prepares forces and damping at (x, v) for integrators without a linear system."""

    def add_forces(self, x: wp.array, v: wp.array, f_out: wp.array) -> None:
        """f += force at (x, v)."""

    def add_damping(self, u: wp.array, y_out: wp.array) -> None:
        """y += -df/dv u."""

    def measure(self, x: wp.array, v: wp.array) -> float:
        """Returns the stored energy [J]."""

    def largest_rates(self, masses: np.ndarray) -> tuple[float, float]:
        """Returns upper bounds of stiffness/mass [1/s^2] and damping/mass [1/s] of forces that may appear later and are
        not yet in the matrix."""


class ContactForce(Protocol):
    """A force between particles in contact; which they are is detected anew in every step."""

    couplings: Couplings  # its off-diagonal part of the matrix
    thickest: float  # [m]  the largest thickness of cloth

    @property
    def count(self) -> int:
        """Contacts of this step."""

    def detect(self, x: wp.array, v: wp.array, h: float) -> None:
        """Finds the contacts of a step of h that begins with x and v; they stay the same until the next step."""

    def linearize(self, at: Linearization, f_out: wp.array, A_out: BlockMatrix) -> None:
        """Adds the force and the diagonal blocks of A; off-diagonal blocks go to `couplings`."""

    def check(
        self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array, last: bool, pulls_out: wp.array
    ) -> bool:
        """Whether the contacts that were solved for fit the result. If not, A and the residual b are corrected for
        another solve; after the `last` one nothing is, and it returns True. Forces that pulled [N], which contacts
        cannot do, are added to `pulls_out`."""


class PenaltyForce(ForceTerm, ContactForce, Protocol):
    """A contact force of the scene that also moves particles at once."""

    def alter(self, masses: wp.array, y_out: wp.array) -> None:
        """Adds the position alteration of each particle in this step ([BW98] eq. (17))."""


class Term:
    """One energy: its elements on the device, and its kernels."""

    def __init__(self, name: str, energy: Energy, model: Model, part: int | None, device: str, seed: int = 0):
        self.name, self.energy, self.model, self.part, self.device, self.seed = name, energy, model, part, device, seed
        self.formulas = energy.formulas
        self.kernels = make_kernels(name, energy.formulas)
        given = energy.elements(model, part)
        self._coloring = color_elements(given.particles, model.start)
        self.elements = _ordered(given, self._coloring)
        self.constant = not energy.changes_in_time and energy.rest_at(model, part, 0.0) is None
        self.uniform = energy.uniform_at(0.0, seed)
        self.count = len(self.elements.particles)
        self._particles = wp.array(self.elements.particles, dtype=wp.int32, device=device)
        self._rest = wp.array(self.elements.rest, dtype=energy.formulas.Rest, device=device)
        self._launch = Launcher(device)

    def add_forces(self, x: wp.array, v: wp.array, f_out: wp.array) -> None:
        inputs = [self._particles, self._rest, self.uniform, x, v, f_out]
        self._launch.by_color(self.kernels.add_forces, self.ends, inputs)

    def measure(self, x: wp.array, v: wp.array, E_out: wp.array) -> None:
        """Measures the stored energy of each element [J]."""
        self._launch.split(self.kernels.measure, self.count, [self._particles, self._rest, self.uniform, x, v, E_out])

    def move(self, time: float) -> None:
        """Brings rest data and uniform to a time."""
        if self.constant:
            return
        self.uniform = self.energy.uniform_at(time, self.seed)
        rest = self.energy.rest_at(self.model, self.part, time)
        if rest is not None:
            self._rest.assign(wp.array(rest[self._coloring.order], dtype=self.formulas.Rest, device=self.device))

    def put(self, elements: Elements) -> None:
        """Replaces the elements by as many others."""
        self._coloring = color_elements(elements.particles, self.model.start)
        self.elements = _ordered(elements, self._coloring)
        self._particles.assign(self.elements.particles)
        self._rest.assign(wp.array(self.elements.rest, dtype=self.formulas.Rest, device=self.device))

    @property
    def ends(self) -> tuple[int, ...]:
        """Ends of the colors of its elements."""
        return self._coloring.ends


def _ordered(elements: Elements, by_color: ElementColoring) -> Elements:
    return Elements(elements.particles[by_color.order], elements.rest[by_color.order])


def make_term(energy: Energy, model: Model, part: int | None, device: str, seed: int) -> Term | ForceTerm:
    """Makes the term of an energy on one cloth, or on all of them."""
    force: ForceTerm | None = energy.make_force_term(model, device)
    return Term(energy.type_name(), energy, model, part, device, seed) if force is None else force
