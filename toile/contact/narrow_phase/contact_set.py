"""Near pairs of a step, and the contacts among them: pairs that start close, and pairs that collide.

    near pair  a candidate of the broad phase that is closer than 2 tau at the start, at points inside both elements;
               or that may come closer than the margin: neither of two tests (distance minus largest approach; gap
               along the normal at both ends) excludes it
    contact    n . sum of w_a d_a >= target    for the displacements d of the step
    target     tau - gap: the pair may close its gap down to its thickness tau; where it starts closer than that, the
               step recovers a tenth of the overlap

A contact is made of a pair that starts closer than 2 tau, with its closest points there; and of a pair for which
continuous collision detection finds an impact, with the closest points at that time. Vertices of cloth in front of
triangles of solids are held by constraints (toile/contact/solid): these pairs are contacts only where they collide.
Contacts found in one call are in the order of their elements, on every device and with any number of threads: impulses
depend on it.

Source      [BFA02] secs. 6, 7
Symbols     tau  thickness of the pair [m]     gap  its distance at the start along n [m]     d  displacement [m]
Deviations  The paper stops an approach at once, at any distance. Here a pair may close its gap first.
"""

from typing import Any

import numpy as np
import warp as wp

from toile.contact.broad_phase.broad_phase import CandidatePairs
from toile.contact.broad_phase.flat_patches import LEAST_STRETCH
from toile.contact.collision_mesh import CollisionMesh, Pinching, is_pinched
from toile.contact.narrow_phase.closest_points import (
    ClosestPoints,
    approach,
    center_line,
    closest_points,
    combine,
    effective_inverse_mass,
    gap_along,
    impact,
)
from toile.contact.narrow_phase.elements import (
    EDGE_EDGE,
    VERTEX_TRIANGLE,
    MeshElements,
    make_elements,
    pair_vertices,
)
from toile.contact.narrow_phase.impact_time import NEVER
from toile.contact.narrow_phase.thickness import INFINITE, RestGeometry, mean_thickness, rest_distance
from toile.device.append_buffer import AppendBuffer, BufferRanges, fill, next_slot, pair_key
from toile.device.growable import Growable
from toile.device.launcher import Launcher
from toile.math.types import mat33, real, vec3, vec4

# Distance that continuous collision detection leaves between elements, as a fraction of the thickness.
MARGIN = wp.constant(real(0.1))
# Fraction of the overlap that one step removes ([BFA02] sec. 6).
RECOVERY = 0.1
# Pairs that start closer than this multiple of the thickness are contacts whether or not they would collide.
CLOSE_DISTANCE = wp.constant(real(2.0))
# Time of a contact that is close at the start.
AT_START = wp.constant(real(-1.0))
# Largest thickness of neighbors in one uv chart, as a fraction of their distance in rest uv.
MAX_REST_FRACTION = wp.constant(real(0.5))


@wp.struct
class NearPair:
    """A near pair: elements that may come into contact in this step."""

    vertices: wp.vec4i
    pair: wp.vec2i
    kind: wp.int32
    distance: real  # [m]  at the start
    thickness: real  # [m]
    close: real  # [m]  distance at the start below which it is a contact whether or not it would collide
    impacts_only: wp.int32  # 1: not in contact unless it collides


@wp.struct
class ContactHit:
    """A near pair that is in contact, and the time of it: at the start, if it is close there."""

    near_pair: wp.int32
    time: real


@wp.struct
class ContactArrays(Growable):
    """Contacts of a step: constraints on its displacements, and the impulses that satisfy them."""

    vertices: wp.array(dtype=wp.vec4i)
    kind: wp.array(dtype=wp.int32)
    weights: wp.array(dtype=vec4)
    normal: wp.array(dtype=vec3)
    target: wp.array(dtype=real)  # [m]
    mu: wp.array(dtype=real)
    effective_inverse_mass: wp.array(dtype=real)  # [1/kg]  relative motion for a unit impulse along the normal
    normal_impulse: wp.array(dtype=real)  # [kg m]  along the normal, accumulated
    friction_impulse: wp.array(dtype=vec3)  # [kg m]  tangential, accumulated
    thickness: wp.array(dtype=real)  # [m]
    # [kg m/s]  How much of its impulse a contact may take back in the velocities at the end of the step
    rebound: wp.array(dtype=real)


@wp.struct
class ContactImpulses(Growable):
    """Accumulated impulses of contacts: [kg m] for displacements, [kg m/s] for velocities."""

    normal: wp.array(dtype=real)
    friction: wp.array(dtype=vec3)


def make_impulses(normal: wp.array, friction: wp.array) -> ContactImpulses:
    """Impulses in these arrays."""
    impulses = ContactImpulses()
    impulses.normal, impulses.friction = normal, friction
    return impulses


CONTACT_FIELDS = {
    "vertices": wp.vec4i, "kind": wp.int32, "weights": vec4, "normal": vec3, "target": real, "mu": real,
    "effective_inverse_mass": real, "normal_impulse": real, "friction_impulse": vec3, "thickness": real,
    "rebound": real,
}  # fmt: skip


class ContactSet:
    """Near pairs and contacts of a step. Arrays grow when their capacity is exceeded; no pair is dropped."""

    def __init__(
        self, mesh: CollisionMesh, edges: wp.array, triangles: wp.array, friction: float, capacity: int = 4096
    ):
        self.mesh, self.friction, self.device = mesh, friction, mesh.device
        self._elements = make_elements(edges, triangles)
        self.near_pairs = AppendBuffer(NearPair, capacity, self.device)
        self._hits = AppendBuffer(ContactHit, capacity, self.device, keyed=True)
        self.contacts, self.impulses = ContactArrays(), ContactImpulses()
        self.recovery = RECOVERY  # in this step
        self.contact_count = 0
        self.count = wp.zeros(1, dtype=wp.int32, device=self.device)  # contact_count, for kernels
        # Vertices that the last correction moved, and vertices that may pass through each other
        self.changed, self.exempt = (wp.zeros(mesh.count, dtype=wp.int32, device=self.device) for _ in range(2))
        self._capacity = 0
        self._launch = Launcher(self.device)
        self._grow(capacity)

    @property
    def near_pair_count(self) -> int:
        return self.near_pairs.count

    def find_near_pairs(
        self, pairs: CandidatePairs, x_searched: wp.array, slack: float, only: wp.array | None = None
    ) -> None:
        """Finds the pairs that may come into contact while no end moves farther than `slack` from x_searched.

        With `only`, replaces the near pairs of the vertices where it is not 0.
        """
        if only is None:
            self.near_pairs.count = 0
        else:
            self._launch.split(drop_near_pairs, self.near_pairs.count, [only, self.near_pairs.values])
        lists = (
            (VERTEX_TRIANGLE, pairs.vertex_triangle, pairs.vertex_triangle_count),
            (EDGE_EDGE, pairs.edge_edge, pairs.edge_edge_count),
        )
        before = self.near_pairs.values
        for kind, array, count in lists:
            model = [int(kind), self._elements, self.mesh.rest]
            inputs = [*model, array, self.mesh.x, x_searched, self.exempt, self.mesh.pinching, slack]
            fill([self.near_pairs], self._launch, find_near_pairs, count, inputs, kept=self.near_pairs.count)
        if self.near_pairs.values is not before:
            self._launch = Launcher(self.device)  # the old one keeps launches with the old array

    def find_close_contacts(self) -> int:
        """Starts a new set with the contacts of pairs that start close; returns their number."""
        self.contact_count = 0
        return self._find(find_close_pairs, [self.mesh.x])

    def find_impacts(self, only_changed: bool) -> int:
        """Adds contacts for pairs that collide on the way to x_end; returns their number."""
        return self._find(find_impacts, [self.mesh.x, self.mesh.x_end, self.changed, only_changed])

    def update_inverse_masses(self) -> None:
        """Updates the contacts to the present inverse masses, and clears their impulses."""
        self._launch.split(update_inverse_masses, self.contact_count, [self.mesh.inverse_mass, self.contacts])

    def _find(self, kernel: wp.Kernel, inputs: list[Any]) -> int:
        mesh, hits = self.mesh, self._hits
        before = hits.values
        fill([hits], self._launch, kernel, self.near_pairs.count, [self.near_pairs.values, *inputs])
        if hits.values is not before:
            self._launch = Launcher(self.device)
        self.count.fill_(self.contact_count)  # new contacts are appended to these
        self.reserve(hits.count)
        model = [mesh.solid_friction, float(self.friction)]
        found = [self.near_pairs.values, hits.values, hits.order(), self.count]
        state = [mesh.x, mesh.x_end, mesh.inverse_mass, self.recovery]
        self._launch.split(make_contacts, hits.count, [*model, *found, *state, self.contacts])
        self.count.fill_(self.contact_count)
        return hits.count

    def reserve(self, count: int) -> int:
        """Makes room for more contacts behind the present ones, which the caller writes; returns the first of them."""
        first = self.contact_count
        if first + count > self._capacity:
            self._grow(3 * (first + count) // 2)
        self.contact_count += count
        return first

    def _grow(self, capacity: int) -> None:
        """Grows the capacity and keeps the contacts."""
        self._capacity, contacts = capacity, ContactArrays()
        for name, kind in CONTACT_FIELDS.items():
            grown = wp.zeros(capacity, dtype=kind, device=self.device)
            if self.contact_count:
                wp.copy(grown, getattr(self.contacts, name), count=self.contact_count)
            setattr(contacts, name, grown)
        self.contacts.retire()
        self.impulses.retire()
        self.contacts = contacts
        self.impulses = make_impulses(contacts.normal_impulse, contacts.friction_impulse)
        self._launch = Launcher(self.device)  # the old one keeps launches with the old arrays

    def vertices_of(self, begin: int) -> np.ndarray:
        """The four vertices of each contact from `begin` on, without those of stretch limits."""
        vertices, kind = (
            array.numpy()[begin : self.contact_count] for array in (self.contacts.vertices, self.contacts.kind)
        )
        return vertices[kind <= int(EDGE_EDGE)]


@wp.func
def on_boundary(w: vec4) -> wp.bool:
    """Whether a closest point lies on the boundary of its element.

    The neighbor element is as close then, and where layers slide over each other a tilted normal would stop them.
    """
    return w[0] == real(0.0) or w[1] == real(0.0) or w[2] == real(0.0) or w[3] == real(0.0)


@wp.func
def stays_apart(
    found: ClosestPoints, margin: real, slack: real, kind: wp.int32, a: vec3, b: vec3, c: vec3, d: vec3,
    a_end: vec3, b_end: vec3, c_end: vec3, d_end: vec3,
) -> wp.bool:  # fmt: skip
    """Whether a pair certainly keeps more than a margin while no end moves farther than `slack` from its position.

    Gaps along a fixed direction change linearly in time: elements that it separates at both ends stay separated.
    """
    at_end = gap_along(found.normal, kind, a_end, b_end, c_end, d_end) - real(2.0) * slack
    if wp.min(gap_along(found.normal, kind, a, b, c, d), at_end) > margin:
        return True
    nearer = approach(kind, a_end - a, b_end - b, c_end - c, d_end - d)
    return found.distance - nearer - real(2.0) * slack > margin


@wp.kernel
def find_near_pairs(
    # model
    first: wp.int32, kind: wp.int32, elements: MeshElements, rest: RestGeometry,
    # in
    pairs: wp.array(dtype=wp.vec2i), x: wp.array(dtype=vec3), x_searched: wp.array(dtype=vec3),
    exempt: wp.array(dtype=wp.int32), pinching: Pinching, slack: real,
    # out
    ranges_out: BufferRanges, near_pairs_out: wp.array(dtype=NearPair),
):  # fmt: skip
    """Appends the candidate pairs that may come into contact."""
    pair = pairs[first + wp.tid()]
    at = pair_vertices(elements, kind, pair)
    a, b, c, d = x[at[0]], x[at[1]], x[at[2]], x[at[3]]
    a_end, b_end, c_end, d_end = x_searched[at[0]], x_searched[at[1]], x_searched[at[2]], x_searched[at[3]]
    tau = mean_thickness(rest, kind, at)
    # Most pairs are far apart along the line between the centers, which costs a fifth of the closest points.
    line = center_line(kind, a, b, c, d)
    gap, gap_end = gap_along(line, kind, a, b, c, d), gap_along(line, kind, a_end, b_end, c_end, d_end)
    if gap > CLOSE_DISTANCE * tau and gap_end - real(2.0) * slack > MARGIN * tau:
        return
    found = closest_points(kind, a, b, c, d)
    apart = bool(False)
    held = kind == VERTEX_TRIANGLE and at[1] >= rest.first_solid
    if held or found.distance > CLOSE_DISTANCE * tau or on_boundary(found.weights):
        apart = stays_apart(found, MARGIN * tau, slack, kind, a, b, c, d, a_end, b_end, c_end, d_end)
    if apart:
        return
    if exempt[at[0]] + exempt[at[1]] + exempt[at[2]] + exempt[at[3]] == 4:
        return
    if is_pinched(pinching, at):  # where solids leave no room, faces cannot hold
        return
    n = next_slot(ranges_out, first)
    if n >= 0:
        entry = NearPair()
        entry.vertices = at
        entry.pair = pair
        entry.kind = kind
        entry.distance = found.distance
        at_rest = rest_distance(rest, at, found.weights)
        entry.thickness = wp.min(tau, MAX_REST_FRACTION * at_rest)
        entry.close = wp.min(CLOSE_DISTANCE * tau, LEAST_STRETCH * at_rest)
        entry.impacts_only = wp.where(held, 1, 0)
        near_pairs_out[n] = entry


@wp.kernel
def drop_near_pairs(
    # in
    first: wp.int32, selected: wp.array(dtype=wp.int32),
    # in and out
    near_pairs_out: wp.array(dtype=NearPair),
):  # fmt: skip
    """Disables the near pairs with a selected vertex: at an infinite distance they never become contacts."""
    k = first + wp.tid()
    at = near_pairs_out[k].vertices
    if selected[at[0]] + selected[at[1]] + selected[at[2]] + selected[at[3]] > 0:
        near_pairs_out[k].distance = INFINITE


@wp.func
def displacement_target(gap: real, tau: real, recovery: real) -> real:
    """The least displacement along the normal: closes the gap, or recovers a fraction of the overlap."""
    return wp.where(gap > tau, tau - gap, recovery * (tau - gap))


@wp.func
def write_contact(
    n: wp.int32, kind: wp.int32, at: wp.vec4i, w: vec4, normal: vec3, gap: real, tau: real, recovery: real,
    inverse_mass: wp.array(dtype=mat33), solid_friction: wp.array(dtype=real), friction: real, contacts: ContactArrays,
):  # fmt: skip
    """Writes contact n, without impulses."""
    contacts.vertices[n] = at
    contacts.kind[n] = kind
    contacts.weights[n] = w
    contacts.normal[n] = normal
    contacts.target[n] = displacement_target(gap, tau, recovery)
    contacts.thickness[n] = tau
    contacts.rebound[n] = real(0.0)
    # A negative value stands for cloth.
    of_solid = wp.max(solid_friction[at[0]], solid_friction[at[3]])
    contacts.mu[n] = wp.where(of_solid >= real(0.0), of_solid, friction)
    contacts.effective_inverse_mass[n] = effective_inverse_mass(
        w, normal, inverse_mass[at[0]], inverse_mass[at[1]], inverse_mass[at[2]], inverse_mass[at[3]]
    )
    contacts.normal_impulse[n] = real(0.0)
    contacts.friction_impulse[n] = vec3()


@wp.func
def add_hit(
    k: wp.int32, time: real, near_pairs: wp.array(dtype=NearPair), first: wp.int32, ranges: BufferRanges,
    hits: wp.array(dtype=ContactHit),
):  # fmt: skip
    """Appends near pair k, in contact from `time` on."""
    n = next_slot(ranges, first)
    if n >= 0:
        ranges.keys[n] = pair_key(near_pairs[k].kind, near_pairs[k].pair)
        hit = ContactHit()
        hit.near_pair = k
        hit.time = time
        hits[n] = hit


@wp.kernel
def find_close_pairs(
    # in
    first: wp.int32, near_pairs: wp.array(dtype=NearPair), x: wp.array(dtype=vec3),
    # out
    ranges_out: BufferRanges, hits_out: wp.array(dtype=ContactHit),
):  # fmt: skip
    """Finds contacts of pairs that start close to each other."""
    k = first + wp.tid()
    if near_pairs[k].impacts_only == 1 or near_pairs[k].distance > near_pairs[k].close:
        return
    at = near_pairs[k].vertices
    if not on_boundary(closest_points(near_pairs[k].kind, x[at[0]], x[at[1]], x[at[2]], x[at[3]]).weights):
        add_hit(k, AT_START, near_pairs, first, ranges_out, hits_out)


@wp.func
def time_of_impact(pair: NearPair, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3)) -> real:
    """When a near pair collides on the way to x_end, in 0..1; NEVER if it does not."""
    at = pair.vertices
    a, b, c, d = x[at[0]], x[at[1]], x[at[2]], x[at[3]]
    a_end, b_end, c_end, d_end = x_end[at[0]], x_end[at[1]], x_end[at[2]], x_end[at[3]]
    margin = MARGIN * pair.thickness
    t = real(NEVER)
    if pair.distance - approach(pair.kind, a_end - a, b_end - b, c_end - c, d_end - d) <= margin:
        t = impact(pair.kind, a, b, c, d, a_end, b_end, c_end, d_end, margin)
    return t


@wp.kernel
def find_impacts(
    # in
    first: wp.int32, near_pairs: wp.array(dtype=NearPair), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    changed: wp.array(dtype=wp.int32), only_changed: wp.bool,
    # out
    ranges_out: BufferRanges, hits_out: wp.array(dtype=ContactHit),
):  # fmt: skip
    """Finds contacts of pairs that collide during the step: continuous collision detection."""
    k = first + wp.tid()
    at = near_pairs[k].vertices
    if only_changed and changed[at[0]] + changed[at[1]] + changed[at[2]] + changed[at[3]] == 0:
        return
    t = time_of_impact(near_pairs[k], x, x_end)
    if t < NEVER:
        add_hit(k, t, near_pairs, first, ranges_out, hits_out)


@wp.kernel
def make_contacts(
    # model
    first: wp.int32, solid_friction: wp.array(dtype=real), friction: real,
    # in
    near_pairs: wp.array(dtype=NearPair), hits: wp.array(dtype=ContactHit), order: wp.array(dtype=wp.int32),
    count: wp.array(dtype=wp.int32), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    inverse_mass: wp.array(dtype=mat33), recovery: real,
    # out
    contacts_out: ContactArrays,
):  # fmt: skip
    """Appends the contacts of all hits, in the order of their elements."""
    i = first + wp.tid()
    hit = hits[order[i]]
    pair = near_pairs[hit.near_pair]
    at, kind, tau = pair.vertices, pair.kind, pair.thickness
    a, b, c, d = x[at[0]], x[at[1]], x[at[2]], x[at[3]]
    t = wp.max(hit.time, real(0.0))
    da, db, dc, dd = x_end[at[0]] - a, x_end[at[1]] - b, x_end[at[2]] - c, x_end[at[3]] - d
    found = closest_points(kind, a + t * da, b + t * db, c + t * dc, d + t * dd)
    gap = found.distance
    if hit.time != AT_START:
        gap = wp.dot(found.normal, combine(found.weights, a, b, c, d))
    w, n = found.weights, found.normal
    write_contact(
        count[0] + i, kind, at, w, n, gap, tau, recovery, inverse_mass, solid_friction, friction, contacts_out
    )


@wp.kernel
def update_inverse_masses(first: wp.int32, inverse_mass: wp.array(dtype=mat33), contacts_out: ContactArrays):
    """Updates the effective inverse masses, and clears the impulses."""
    k = first + wp.tid()
    at = contacts_out.vertices[k]
    contacts_out.effective_inverse_mass[k] = effective_inverse_mass(
        contacts_out.weights[k], contacts_out.normal[k],
        inverse_mass[at[0]], inverse_mass[at[1]], inverse_mass[at[2]], inverse_mass[at[3]],
    )  # fmt: skip
    contacts_out.normal_impulse[k] = real(0.0)
    contacts_out.friction_impulse[k] = vec3()
