"""Contact resolution for cloth in one step, from a candidate to a state without intersections.

    broad phase -> contacts of close pairs -> impulses -> contacts of pairs that still collide -> impulses ...
    -> the paths of pairs that collide after the last pass end before the impact

Every step that starts without intersections ends without: the last thing done is continuous collision detection that
finds no impact on the straight paths from the start to the end.

Source      [BFA02]
Symbols     x, x_end  positions at the two ends of the step [m]     d  displacement [m]
Deviations  see the files of its parts
"""

import numpy as np
import warp as wp

from toile.contact.broad_phase.broad_phase import BroadPhase
from toile.contact.collision_mesh import CollisionMesh, Planes
from toile.contact.narrow_phase.contact_set import (
    RECOVERY,
    ContactArrays,
    ContactImpulses,
    ContactSet,
    make_impulses,
    on_boundary,
)
from toile.contact.response.carried import CarriedCloth
from toile.contact.response.caught import CaughtCloth
from toile.contact.response.impulses import AcceleratedJacobi, ParticleResponse, find_clearance, make_response
from toile.contact.response.search import NearPairSearch
from toile.contact.response.stretch_limits import SOLVE_LIMIT, STRETCH_LIMIT, StretchLimits
from toile.contact.response.truncation import Truncation
from toile.contact.solid.added_planes import make_added_planes
from toile.contact.solid.solid_contacts import SolidContacts
from toile.device.launcher import Launcher
from toile.math.types import real, vec3, vec4
from toile.step_limits import (
    HARD_PASSES,
    MAX_CARRIES,
    MAX_IMPACT_PASSES,
    MAX_SHORTENINGS,
    MAX_SWEEPS,
    SHORTENINGS_AGAIN,
    SWEEP_TOLERANCE,
)

# Message for pairs that collide although no path can be shortened.
CLOTH_CAUGHT = "cloth is caught between things that move against each other."


class ContactResolver:
    """Keeps all cloths of a scene, and the solids that take part, from passing through each other."""

    def __init__(
        self, mesh: CollisionMesh, friction: float, max_step: float = 0.0, limits: StretchLimits | None = None,
        solids: SolidContacts | None = None,
    ):  # fmt: skip
        """`limits` are those of the stretch of the cloths, if any; `solids` are the contacts of vertices with solids.

        `max_step` [s] is the step in which overlaps recover by RECOVERY; in a shorter one they recover by less.
        Recovery that is the same in every step would stretch cloth too much in short steps as well.
        """
        self.mesh, self.device, self._max_step = mesh, mesh.device, max_step
        rest_uv = mesh.rest.rest_uv.numpy()[:, :2].astype(float), mesh.rest.uv_chart.numpy()
        broad_phase = BroadPhase(
            mesh.edges, mesh.triangles, mesh.count, mesh.moving_count, self.device, rest_uv=rest_uv
        )
        self.contact_set = ContactSet(mesh, broad_phase.edges, broad_phase.triangles, friction)
        n = mesh.count
        self._d = wp.zeros(n, dtype=vec3, device=self.device)
        self.search = NearPairSearch(mesh, broad_phase, self.contact_set)
        self.velocity_impulses = self._make_impulses(0)
        self._solver = AcceleratedJacobi(n, self.device)
        none = [wp.zeros(0, dtype=kind, device=self.device) for kind in (wp.int32, vec3, real, wp.vec4i, wp.int32)]
        self._no_planes = Planes(*none)
        self._clearance, self._clearance_v = (
            wp.zeros(3 * mesh.moving_count, dtype=real, device=self.device) for _ in range(2)
        )
        # Responses of displacements and of velocities, for each set of planes.
        self._responses: dict[tuple[int, int], tuple[ParticleResponse, ParticleResponse]] = {}
        self._launch = Launcher(self.device)
        self.contact_count = 0
        self.caught = CaughtCloth(mesh, self.contact_set)
        self._limits, self._solids = limits, solids
        self._added = make_added_planes(0, self.device) if solids is None else solids.added_planes
        self._carried = CarriedCloth(mesh, self.contact_set)
        self._truncation = Truncation(mesh, self.contact_set, self.search, self._carried)
        self.truncated_count = 0  # vertices whose paths the fail-safe shortened in the last step
        # Whether the impacts of the last step took many passes, and whether those of the present candidate do.
        self.hard = self._hard_now = False
        self.caught_vertices = np.zeros(0, int)  # vertices that pins and solids lead through each other

    def detect(self, h: float) -> None:
        """Finds the contacts of pairs that start close, for a step of h; after a hard step also those that velocities
        lead to."""
        contact_set = self.contact_set
        contact_set.recovery = RECOVERY * min(1.0, h / self._max_step) if self._max_step else RECOVERY
        self.search.at_start()
        contact_set.find_close_contacts()
        if self.hard:
            self.add_impacts()

    def add_impacts(self) -> int:
        """Adds contacts of pairs that collide on the way to x_end; returns their number.

        Contacts on the boundary of an element take no part. Close contacts have not been settled yet, and such normals
        would stop layers that slide over each other; what still collides then is found by `resolve`.
        """
        self.search.update()
        contact_set, first = self.contact_set, self.contact_set.contact_count
        found = contact_set.find_impacts(False)
        self._launch(drop_boundary_contacts, found, [first, contact_set.contacts])
        return found

    def accept(self) -> None:
        """The step stands."""
        self.hard = self._hard_now

    def resolve(self, planes: Planes | None, h: float, limits_solve: bool = False) -> str | None:
        """Corrects x_end and v_end for a step of h. Returns the reason why it cannot, or None. With `limits_solve` it
        also shortens the threads that the integrator stretched too far."""
        contact_set = self.contact_set
        response, response_v = self._find_responses(planes or self._no_planes)
        self._added.solid.fill_(-1)
        self.search.update()
        contact_set.update_inverse_masses()
        if self._limits is not None:
            self._limits.begin()
            if limits_solve:
                self._limits.add_to(contact_set, SOLVE_LIMIT)
        if contact_set.contact_count:
            self._apply_impulses(response)
            self.search.update()
        impacts, passes, with_impacts = contact_set.find_impacts(False), 0, 0
        hits, kept_out = impacts + self._find_stretched(), self._keep_out()
        while (hits or kept_out) and passes < MAX_IMPACT_PASSES:
            with_impacts += impacts > 0
            self._apply_impulses(response)
            self._mark_last_contacts(hits)
            self.search.update()
            impacts = contact_set.find_impacts(True)
            hits, kept_out = impacts + self._find_stretched(), self._keep_out()
            passes += 1
        self._hard_now = with_impacts >= HARD_PASSES
        self.contact_count = contact_set.contact_count - (self._limits.count if self._limits is not None else 0)
        if self._limits is not None:
            self._limits.slow_down(contact_set, h)
        if contact_set.contact_count:
            self._correct_velocities(response_v, h)
        self.truncated_count = 0
        if not hits:
            return None
        self._mark_last_contacts(hits)
        self._carried.begin()
        carries = 0
        while not self._truncation.apply(h, SHORTENINGS_AGAIN if carries else MAX_SHORTENINGS):
            carries += 1
            if carries <= MAX_CARRIES and self._truncation.carry():
                self._truncation.undo()
                continue
            self.caught_vertices = self._truncation.stuck()
            if not self.caught.add(self._truncation, planes):
                return CLOTH_CAUGHT
            self._truncation.undo()
            self.caught.drop_pairs()
        self.truncated_count = self._truncation.count()
        return None

    def _find_stretched(self) -> int:
        """Adds the limits of stretch that impulses exceeded to the contacts; returns their number."""
        if self._limits is None or not self.contact_set.contact_count:
            return 0
        return self._limits.add_to(self.contact_set, STRETCH_LIMIT)

    def _keep_out(self) -> int:
        """Adds planes for particles that impulses have moved into solids; returns their number."""
        if self._solids is None or not self.contact_set.contact_count:
            return 0
        return self._solids.keep_out(self.mesh.x, self.mesh.x_end, self.mesh.v_end)

    def _find_responses(self, planes: Planes) -> tuple[ParticleResponse, ParticleResponse]:
        """The responses of displacements and of velocities, with the clearances of the candidate step."""
        mesh, key = self.mesh, (id(planes.count), id(planes.normal))
        if key not in self._responses:  # which keeps the arrays: nothing else can have their identity
            self._responses[key] = (
                make_response(mesh.inverse_mass, planes, self._clearance, self._added, self._added.least_d),
                make_response(mesh.inverse_mass, planes, self._clearance_v, self._added, self._added.least_v),
            )
        inputs = [mesh.x, mesh.x_end, mesh.v_end, planes.count, planes.normal, planes.slack]
        self._launch(find_clearance, len(planes.count), [*inputs, self._clearance, self._clearance_v])
        return self._responses[key]

    def _make_impulses(self, capacity: int) -> ContactImpulses:
        normal, friction = (wp.zeros(capacity, dtype=kind, device=self.device) for kind in (real, vec3))
        return make_impulses(normal, friction)

    def _apply_impulses(self, response: ParticleResponse) -> None:
        """Solves for the contact impulses and moves x_end by them."""
        mesh, contact_set = self.mesh, self.contact_set
        n = mesh.count
        self._launch(find_displacement, n, [mesh.x, mesh.x_end, self._d])
        tolerance = float(SWEEP_TOLERANCE * mesh.thickest)
        self._solver.solve(contact_set, response, False, tolerance, MAX_SWEEPS, contact_set.impulses, self._d)
        self._launch(apply_displacement, n, [mesh.x, self._d, mesh.x_end, contact_set.changed])

    def _mark_last_contacts(self, hits: int) -> None:
        """Marks the vertices of the last hits as changed, even if no impulse could move them."""
        contact_set = self.contact_set
        self._launch(mark_last_contacts, hits, [contact_set.contacts.vertices, contact_set.count, contact_set.changed])

    def _correct_velocities(self, response: ParticleResponse, h: float) -> None:
        """Applies impulses to the velocities: pairs with a normal impulse must not approach at the end of the step."""
        mesh, contact_set = self.mesh, self.contact_set
        if len(self.velocity_impulses.normal) < contact_set.contact_count:
            self.velocity_impulses = self._make_impulses(2 * contact_set.contact_count)
        self.velocity_impulses.normal.zero_()
        self.velocity_impulses.friction.zero_()
        tolerance = float(SWEEP_TOLERANCE * mesh.thickest / h)
        self._solver.solve(contact_set, response, True, tolerance, MAX_SWEEPS, self.velocity_impulses, mesh.v_end)


@wp.kernel
def mark_last_contacts(
    # in
    vertices: wp.array(dtype=wp.vec4i), count: wp.array(dtype=wp.int32),
    # out
    changed_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Marks the vertices of the last contacts, as many as there are threads."""
    at = vertices[count[0] - 1 - wp.tid()]
    for c in range(4):
        changed_out[at[c]] = 1


@wp.kernel
def drop_boundary_contacts(first: wp.int32, contacts_out: ContactArrays):
    """Contacts on the boundary of an element get no weights, so that nothing can move them."""
    k = first + wp.tid()
    if on_boundary(contacts_out.weights[k]):
        contacts_out.weights[k] = vec4()
        contacts_out.effective_inverse_mass[k] = real(0.0)


@wp.kernel
def find_displacement(x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), d_out: wp.array(dtype=vec3)):
    """d = x_end - x."""
    i = wp.tid()
    d_out[i] = x_end[i] - x[i]


@wp.kernel
def apply_displacement(
    # in
    x: wp.array(dtype=vec3), d: wp.array(dtype=vec3),
    # in and out
    x_end_out: wp.array(dtype=vec3),
    # out
    changed_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Sets x_end to x + d where d has changed, and marks these vertices."""
    i = wp.tid()
    before = x_end_out[i] - x[i]
    changed_out[i] = wp.where(before == d[i], 0, 1)
    if changed_out[i] != 0:
        x_end_out[i] = x[i] + d[i]
