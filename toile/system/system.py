"""The mechanical system an integrator sees: masses, total force, and its linearization; never a particular energy."""

from collections.abc import Sequence
from functools import partial

import warp as wp

from toile.device.launcher import Launcher
from toile.energies.base import Elements, Energy
from toile.linear.block_matrix import BlockMatrix, add_external_block
from toile.linear.multigrid.uv_hierarchy import find_sites
from toile.math.types import identity, mat33, real, vec3
from toile.model.model import Model
from toile.system.assembly import ContactForce, Linearization, PenaltyForce, Term, batches


class System:
    """All energies of a scene acting on all its particles."""

    def __init__(self, model: Model, terms: Sequence[Term | PenaltyForce], device: str):
        self.model, self.terms, self.device = model, terms, device
        n = model.particle_count
        self.masses = wp.array(model.masses, dtype=real, device=device)
        points = model.start
        fixed = [term for term in terms if isinstance(term, Term)]
        self.springs = [term for term in terms if not isinstance(term, Term)]
        self.contact_forces: list[ContactForce] = list(self.springs)
        self.A = BlockMatrix.from_stencils(n, [term.elements.particles for term in fixed], device, points)
        self.A.sites = partial(find_sites, model.triangles, model.uv, points)
        self.A.couplings = [contact_forces.couplings for contact_forces in self.contact_forces]
        self._batches = batches(fixed, self.A)
        self.f = wp.zeros(n, dtype=vec3, device=device)
        self._launch = Launcher(device)

    def move(self, time: float) -> None:
        """Bring everything that depends on time to this time."""
        for term in self.terms:
            term.move(time)

    def put(self, energy: Energy, elements: Elements) -> None:
        """Let a force that changes in time act on other elements, of particles that are coupled anyway."""
        batch = next(batch for batch in self._batches if batch.terms[0].energy is energy)
        batch.terms[0].put(elements)
        batch.put(self.A)

    def join(self, contact_forces: Sequence[ContactForce]) -> None:
        """More that acts on what happens to meet, without being a force of the scene."""
        self.contact_forces += contact_forces
        self.A.couplings += [each.couplings for each in contact_forces]

    def detect_contacts(self, x: wp.array, v: wp.array, h: float) -> None:
        """Find what meets in a step of h that begins with x and v."""
        for contact_forces in self.contact_forces:
            contact_forces.find(x, v, h)

    def alter(self, y_out: wp.array) -> None:
        """How far what meets moves each particle in this step, apart from its velocity ([BW98] eq. (17))."""
        y_out.zero_()
        for springs in self.springs:
            springs.alter(self.masses, y_out)

    def check_contacts(self, x: wp.array, v: wp.array, h: float, b_out: wp.array) -> bool:
        """Whether what meets at the x and v of a solve is what was solved for. If not, A and the residual b are set
        right."""
        fits = [contact_forces.fit(x, v, h, self.A, b_out) for contact_forces in self.contact_forces]  # each of them corrects its own
        return all(fits)

    def linearize(self, at: Linearization) -> tuple[BlockMatrix, wp.array]:
        """A = M - h df/dv - h^2 df/dx, and the force."""
        A, f = self.A, self.f
        A.values.zero_()
        A.row_sum.zero_()
        f.zero_()
        self._launch.split(add_masses, A.row_count, [A.diagonal, self.masses, A.values, A.row_sum])
        for batch in self._batches:
            batch.linearize(at, f, A)
        for contact_forces in self.contact_forces:
            contact_forces.linearize(at, f, A)
        return A, f

    def decide(self, x: wp.array, v: wp.array) -> None:
        """What meets pushes if it does at x and v: for integrators without a solve that tells."""
        for springs in self.springs:
            springs.decide(x, v)

    def forces(self, x: wp.array, v: wp.array) -> wp.array:
        """Total force at (x, v)."""
        self.f.zero_()
        for term in self.terms:
            term.add_forces(x, v, self.f)
        return self.f

    def damping(self, x: wp.array, v: wp.array, u: wp.array, y_out: wp.array) -> None:
        """y = D u with D = -df/dv at (x, v): no matrix is made."""
        y_out.zero_()
        for batch in self._batches:
            batch.add_damping(x, v, u, y_out)
        for springs in self.springs:
            springs.add_damping(u, y_out)

    def energies(self, x: wp.array, v: wp.array) -> dict[str, float]:
        """Energy by name [J]; energies of the same kind are added up."""
        found: dict[str, float] = {}
        for term in self.terms:
            found[term.name] = found.get(term.name, 0.0) + term.measure(x, v)
        return found


@wp.kernel
def add_masses(
    first: wp.int32,
    # model
    diagonal: wp.array(dtype=wp.int32), masses: wp.array(dtype=real),
    # in and out
    values_out: wp.array(dtype=mat33), row_sum_out: wp.array(dtype=mat33),
):
    i = first + wp.tid()
    add_external_block(diagonal, i, masses[i] * identity(), values_out, row_sum_out)


