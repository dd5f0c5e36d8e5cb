"""The mechanical system that an integrator sees: masses, total force and its linearization, never a particular
energy."""

from collections.abc import Sequence
from functools import partial
from typing import cast

import warp as wp

from toile.device.launcher import Launcher
from toile.device.reductions import ArraySums
from toile.energies.base import Elements, Energy
from toile.linear.block_matrix import BlockMatrix, add_external_block
from toile.linear.multigrid.uv_hierarchy import find_sites
from toile.math.types import identity, mat33, real, vec3
from toile.model.model import Model
from toile.system.assembly import batches
from toile.system.kernels import SystemArrays
from toile.system.terms import ContactForce, ForceTerm, Linearization, PenaltyForce, Term


class System:
    """All energies of a scene acting on all its particles."""

    def __init__(
        self,
        model: Model,
        terms: Sequence[Term | ForceTerm],
        device: str,
        contact_forces: Sequence[ContactForce] = (),
        masses: wp.array | None = None,
    ):
        """`contact_forces` act besides those among the terms, without being forces of the scene. `masses` are those of
        the model on the device, if they are there already."""
        self.model, self.terms, self.device = model, terms, device
        n, points = model.particle_count, model.start
        self.masses = wp.array(model.masses, dtype=real, device=device) if masses is None else masses
        elements = [term for term in terms if isinstance(term, Term)]
        self.custom_forces: list[ForceTerm] = [term for term in terms if not isinstance(term, Term)]
        self._penalties = [cast(PenaltyForce, force) for force in self.custom_forces if force.is_contact]
        self._added = list(contact_forces)
        self.contact_forces: list[ContactForce] = [*self._penalties, *self._added]
        stencils, sites = [term.elements.particles for term in elements], partial(find_sites, model.triangles, model.uv)
        couplings = [force.couplings for force in self.contact_forces]
        self.A = BlockMatrix.from_stencils(n, stencils, device, points, partial(sites, points), couplings)
        self._batches = batches(elements, self.A)
        self.f = wp.zeros(n, dtype=vec3, device=device)
        # [N]  forces of contacts between particles that pulled in the last solve, and no longer act
        self.pulls = wp.zeros(n, dtype=vec3, device=device)
        self._measured, self._energies = elements, ArraySums([term.count for term in elements], device)
        self._arrays = SystemArrays()
        self._arrays.f, self._arrays.A, self._arrays.row_sum = self.f, self.A.values, self.A.row_sum
        self._launch = Launcher(device)

    def move(self, time: float) -> None:
        """Brings everything that depends on time to this time."""
        for term in self.terms:
            term.move(time)

    def put(self, energy: Energy, elements: Elements) -> None:
        """Moves a time-dependent force to other elements; their particles must already share blocks of A."""
        batch = next(batch for batch in self._batches if batch.terms[0].energy is energy)
        batch.terms[0].put(elements)
        batch.put(self.A)

    def detect_contacts(self, x: wp.array, v: wp.array, h: float) -> None:
        """Finds the contacts of all contact forces in a step of h that begins with x and v."""
        for force in self.contact_forces:
            force.detect(x, v, h)

    @property
    def alters_positions(self) -> bool:
        """Whether a penalty force may move particles at once."""
        return bool(self._penalties)

    def alter(self, y_out: wp.array) -> None:
        """Finds the position alteration of each particle in this step ([BW98] eq. (17))."""
        y_out.zero_()
        for force in self._penalties:
            force.alter(self.masses, y_out)

    def check_contacts(self, x: wp.array, v: wp.array, h: float, b_out: wp.array, last: bool) -> bool:
        """Whether the contact forces that were solved for fit x and v. If not, A and the residual b are corrected."""
        self.pulls.zero_()
        fits = [
            force.check(x, v, h, self.A, b_out, last, self.pulls) for force in self.contact_forces
        ]  # each of them corrects its own
        return all(fits)

    def linearize(self, at: Linearization) -> tuple[BlockMatrix, wp.array]:
        """Assembles A = M - h df/dv - h^2 df/dx, and the force."""
        A, f = self.A, self.f
        A.values.zero_()
        A.row_sum.zero_()
        f.zero_()
        self._launch.split(add_masses, A.row_count, [A.diagonal, self.masses, A.values, A.row_sum])
        for batch in self._batches:
            batch.linearize(at, self._arrays)
        for force in (*self.custom_forces, *self._added):
            force.linearize(at, f, A)
        return A, f

    def activate(self, x: wp.array, v: wp.array) -> None:
        """Prepares custom forces at (x, v), for integrators without a linear system."""
        for force in self.custom_forces:
            force.activate(x, v)

    def forces(self, x: wp.array, v: wp.array) -> wp.array:
        """Returns the total force at (x, v)."""
        self.f.zero_()
        for term in self.terms:
            term.add_forces(x, v, self.f)
        return self.f

    def damping(self, x: wp.array, v: wp.array, u: wp.array, y_out: wp.array) -> None:
        """y = D u with D = -df/dv at (x, v), without assembling a matrix."""
        y_out.zero_()
        for batch in self._batches:
            batch.add_damping(x, v, u, y_out)
        for force in self.custom_forces:
            force.add_damping(u, y_out)

    def energies(self, x: wp.array, v: wp.array) -> dict[str, float]:
        """Returns the energy by name [J]; energies of the same type are summed."""
        for term, E in zip(self._measured, self._energies.parts, strict=True):
            term.measure(x, v, E)
        measured = [(term.name, E) for term, E in zip(self._measured, self._energies(), strict=True)]
        measured += [(force.name, force.measure(x, v)) for force in self.custom_forces]
        found = dict.fromkeys((term.name for term in self.terms), 0.0)
        for name, E in measured:
            found[name] += E
        return found


@wp.kernel
def add_masses(
    first: wp.int32,
    # model
    diagonal: wp.array(dtype=wp.int32), masses: wp.array(dtype=real),
    # in and out
    values_out: wp.array(dtype=mat33), row_sum_out: wp.array(dtype=mat33),
):  # fmt: skip
    i = first + wp.tid()
    add_external_block(diagonal, i, masses[i] * identity(), values_out, row_sum_out)
