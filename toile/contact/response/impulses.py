"""Contact impulses with friction by accelerated Jacobi sweeps: all contacts at once.

    normal impulse      lambda >= 0,    n . sum of w_a d_a >= target,    one of the two with equality
    friction impulse    against the slip; its size is the smaller of mu lambda and the impulse that stops the slip
    response            d_a = d_a(start) + W_a (sum over its contacts of w (lambda n + j))

A sweep corrects every contact for the displacements that the sweep before it left. A vertex in several contacts would
answer each correction as if it were the only one, and the sum would overshoot: so each contact has a share of the mass,
c times as light, where c is the number of contacts that act on the vertex (mass splitting). Between sweeps impulses are
extrapolated along their last change (Nesterov), but not where a contact goes back.

Impulses are accumulated and projected as a whole, so that one contact takes back what another made too large: loads
pass through a stack of any height, and friction has the right limit in every layer of it. The same solve is then done
for the velocities at the end of the step, which must not approach where there was a normal impulse.

Friction starts when normal impulses have converged, or after half of the sweeps: normal impulses are too large at
first, and would allow too much friction.

Source      [BFA02] secs. 5, 6, 7; mass splitting after Tonge, Benevolenski and Voroshilov 2012, "Mass splitting for
            jitter-free parallel rigid body simulation"; acceleration after Mazhar et al. 2015, "Using Nesterov's method
            to accelerate multibody dynamics with friction and contact"
Symbols     d  displacement in the step [m], or velocity [m/s]     W  inverse mass [1/kg]     mu  friction
Deviations  [BFA02] applies each impulse once and leaves the remainder to the next steps.
"""

import warp as wp

from toile.contact.collision_mesh import MAX_PLANES, Planes
from toile.contact.narrow_phase.closest_points import combine
from toile.contact.narrow_phase.contact_set import ContactArrays, ContactImpulses, ContactSet
from toile.contact.response.vertex_contacts import VertexContactArrays, VertexContacts
from toile.contact.solid.added_planes import AddedPlanes
from toile.device.cuda_graph import CudaGraph
from toile.device.growable import Growable
from toile.device.lanes import lane_count, lanes_for, own_row, real_sum_of_lanes, thread_count, writes_row
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import TINY, mat33, real, vec3, vec4


@wp.struct
class ParticleResponse:
    """How vertices respond to impulses: their inverse mass, and the planes of solids that they may not cross."""

    inverse_mass: wp.array(dtype=mat33)  # [1/kg]
    plane_count: wp.array(dtype=wp.int32)
    plane_normal: wp.array(dtype=vec3)  # plane k of particle i is entry 3 i + k
    clearance: wp.array(dtype=real)  # [m] or [m/s]  least displacement, or velocity, along the normal
    added: wp.array(dtype=wp.int32)  # the solid of a plane that was found after the last solve, or -1
    added_normal: wp.array(dtype=vec3)
    added_clearance: wp.array(dtype=real)


def make_response(
    inverse_mass: wp.array, planes: Planes, clearance: wp.array, added: AddedPlanes, added_clearance: wp.array
) -> ParticleResponse:
    """The response in these arrays; to be made once, because packed launches are keyed by identity."""
    response = ParticleResponse()
    response.inverse_mass, response.clearance = inverse_mass, clearance
    response.plane_count, response.plane_normal = planes.count, planes.normal
    response.added, response.added_normal, response.added_clearance = added.solid, added.normal, added_clearance
    return response


@wp.struct
class SweepArrays(Growable):
    """Per contact: extrapolated impulses, and what sweeps do not change."""

    normal: wp.array(dtype=real)
    friction: wp.array(dtype=vec3)
    impulse: wp.array(dtype=vec3)  # the sum of both; 0 if the contact does not act
    active: wp.array(dtype=wp.int32)  # whether it acts
    part: wp.array(dtype=wp.int32)  # whether it takes part
    along: wp.array(dtype=vec4)  # [1/kg]  w^2 n . W n of each vertex
    across: wp.array(dtype=vec4)  # [1/kg]  the same in the direction of the lightest response


SWEEP_FIELDS = {
    "normal": real, "friction": vec3, "impulse": vec3, "active": wp.int32, "part": wp.int32, "along": vec4,
    "across": vec4,
}  # fmt: skip


@wp.struct
class VertexMotion:
    """Per vertex: displacement without the impulses and with them, and the number of contacts that act on it."""

    start: wp.array(dtype=vec3)
    share: wp.array(dtype=real)


# A particle cannot move off a plane where its free directions are closer to it than this, as the square of a sine.
LEAST_FREE = wp.constant(real(1e-6))
# Indices of the numbers that control the sweeps.
SWEEP, MAX_SWEEP, WITH_FRICTION, UNSETTLED, SINCE_RESTART, CONTROLS = (wp.constant(k) for k in range(6))


class AcceleratedJacobi:
    """Jacobi sweeps over the contacts of a step."""

    def __init__(self, vertex_count: int, device: str):
        self.device, self._n = device, vertex_count
        self._on_cpu, self._lanes = wp.get_device(device).is_cpu, lanes_for(vertex_count, device)
        self._rows = VertexContacts(vertex_count, device)
        self._motion = VertexMotion()
        self._motion.start = wp.zeros(vertex_count, dtype=vec3, device=device)
        self._motion.share = wp.zeros(vertex_count, dtype=real, device=device)
        self.control = wp.zeros(CONTROLS, dtype=wp.int32, device=device)
        self._tolerance = wp.zeros(1, dtype=real, device=device)
        self._going = wp.zeros(1, dtype=wp.int32, device=device)
        self._readback = Readback(self._going)
        self._capacity, self._arrays = -1, SweepArrays()
        self._reserve(0)

    def solve(
        self, contact_set: ContactSet, response: ParticleResponse, for_velocities: bool, tolerance: float,
        max_sweeps: int, impulses: ContactImpulses, d: wp.array,
    ) -> None:  # fmt: skip
        """Sweeps until no contact is corrected by more than `tolerance`, but at most `max_sweeps` times."""
        contacts, count = contact_set.contacts, contact_set.contact_count
        if self._capacity < len(contacts.normal_impulse):
            self._reserve(len(contacts.normal_impulse))
        self._rows.update(contacts, count, response.inverse_mass)
        launch, arrays, motion, rows = self._launch, self._arrays, self._motion, self._rows.arrays
        lanes, threads = self._lanes, thread_count(self._n, self._lanes)
        launch(begin, 1, [max_sweeps, tolerance, self.control, self._tolerance])
        launch.split(begin_contacts, count, [contacts, for_velocities, response.inverse_mass, impulses, d, arrays])
        launch.split(begin_vertices, threads, [lanes, rows, response, arrays, d, motion])
        sweep = [contacts, contact_set.count, for_velocities, motion, self._tolerance, d]
        sweep += [self.control, impulses, arrays]
        gather = [lanes, rows, response, arrays, motion, d]
        capacity = count if self._on_cpu else self._capacity

        def iterate() -> None:
            launch.split(sweep_contacts, capacity, sweep)
            launch.split(gather_impulses, threads, gather)
            launch(end_sweep, 1, [self.control, self._going])

        self._going.fill_(1)
        if self._on_cpu:
            going = self._readback()  # a view
            while going[0]:
                iterate()
        else:
            key = (id(contacts), id(response), for_velocities, id(impulses), id(d), id(rows))
            if key not in self._loops:
                self._loops[key] = (CudaGraph(self.device, lambda: wp.capture_while(self._going, iterate)), sweep)
            self._loops[key][0]()
        launch.split(end_contacts, count, [contacts, impulses, arrays])
        launch.split(gather_impulses, threads, gather)

    def _reserve(self, capacity: int) -> None:
        self._capacity = capacity
        self._arrays.retire()
        self._arrays = SweepArrays()
        for name, kind in SWEEP_FIELDS.items():
            setattr(self._arrays, name, wp.zeros(capacity, dtype=kind, device=self.device))
        self._launch = Launcher(self.device)  # the old one keeps launches with the old arrays
        self._loops: dict[tuple[object, ...], tuple[CudaGraph, list[object]]] = {}


@wp.kernel
def begin(
    # in
    max_sweeps: wp.int32, tolerance: real,
    # out
    control_out: wp.array(dtype=wp.int32), tolerance_out: wp.array(dtype=real),
):  # fmt: skip
    """Resets the numbers that control the sweeps."""
    control_out[SWEEP] = 0
    control_out[MAX_SWEEP] = max_sweeps
    control_out[WITH_FRICTION] = 0
    control_out[UNSETTLED] = 0
    control_out[SINCE_RESTART] = 0
    tolerance_out[0] = tolerance


@wp.func
def violation_of(contacts: ContactArrays, k: wp.int32, for_velocities: wp.bool, r: vec3) -> real:
    """How far the relative displacement r is from the target of a contact; positive if it is too small."""
    target = wp.where(for_velocities, real(0.0), contacts.target[k])
    return target - wp.dot(contacts.normal[k], r)


@wp.kernel
def begin_contacts(
    # in
    first: wp.int32, contacts: ContactArrays, for_velocities: wp.bool, inverse_mass: wp.array(dtype=mat33),
    impulses: ContactImpulses, d: wp.array(dtype=vec3),
    # out
    arrays_out: SweepArrays,
):  # fmt: skip
    """Contacts act from the start if they have an impulse, or are violated. Those of which nothing can move take no
    part, and in the sweeps over velocities those without a normal impulse."""
    k = first + wp.tid()
    arrays_out.active[k] = 0
    arrays_out.part[k] = 0
    arrays_out.impulse[k] = vec3()
    may_rebound = contacts.rebound[k] > real(0.0)
    if contacts.effective_inverse_mass[k] < TINY:
        return
    if for_velocities and contacts.normal_impulse[k] == real(0.0) and not may_rebound:
        return
    at, w, n = contacts.vertices[k], contacts.weights[k], contacts.normal[k]
    along, across = vec4(), vec4()
    for a in range(4):
        W = inverse_mass[at[a]]
        along[a] = w[a] * w[a] * wp.dot(n, W * n)
        # W is a projection by a mass: no direction is lighter than its heaviest column.
        across[a] = w[a] * w[a] * wp.max(wp.max(W[0, 0], W[1, 1]), wp.max(W[2, 2], along[a]))
    arrays_out.part[k] = 1
    arrays_out.along[k] = along
    arrays_out.across[k] = across
    arrays_out.normal[k] = impulses.normal[k]
    arrays_out.friction[k] = impulses.friction[k]
    r = combine(w, d[at[0]], d[at[1]], d[at[2]], d[at[3]])
    if (
        impulses.normal[k] > real(0.0)
        or (for_velocities and may_rebound)
        or violation_of(contacts, k, for_velocities, r) > real(0.0)
    ):
        arrays_out.active[k] = 1
        arrays_out.impulse[k] = impulses.normal[k] * n + impulses.friction[k]


@wp.struct
class ImpulseSum:
    """The sum of the impulses on a vertex, and the number of contacts that act on it."""

    impulse: vec3
    count: real


@wp.func
def sum_impulses(
    i: wp.int32, lane: wp.int32, lanes: wp.int32, rows: VertexContactArrays, arrays: SweepArrays
) -> ImpulseSum:
    """Sums over the contacts of a vertex, which its lanes share; all of them get the sum."""
    total, count = vec3(), real(0.0)
    e, end = rows.offsets[i] + lane, rows.offsets[i + 1] + 0
    while e < end:
        k = rows.entries[e] // 4
        if arrays.active[k] != 0:
            total += rows.weights[e] * arrays.impulse[k]
            count += real(1.0)
        e += lanes
    found = ImpulseSum()
    found.impulse = vec3(
        real_sum_of_lanes(total[0], 1, lanes), real_sum_of_lanes(total[1], 1, lanes),
        real_sum_of_lanes(total[2], 1, lanes),
    )  # fmt: skip
    found.count = real_sum_of_lanes(count, 1, lanes)
    return found


@wp.func
def clip(d: vec3, n: vec3, clearance: real, inverse_mass: mat33) -> vec3:
    """Clips a displacement, in its free directions, so that it goes at least as far as `clearance` along n."""
    into = wp.dot(n, d) - clearance
    free = inverse_mass * n
    along = wp.dot(n, free)
    if into < real(0.0) and along > LEAST_FREE * wp.trace(inverse_mass):
        return d - (into / along) * free
    return d


@wp.func
def clip_to_planes(d: vec3, i: wp.int32, response: ParticleResponse) -> vec3:
    """Clips a displacement so that it does not go farther into a solid than allowed."""
    clipped = real(1.0) * d
    if i < response.plane_count.shape[0]:  # vertices of solids have no planes
        for p in range(response.plane_count[i]):
            q = MAX_PLANES * i + p
            clipped = clip(clipped, response.plane_normal[q], response.clearance[q], response.inverse_mass[i])
    if i >= response.added.shape[0]:
        return clipped
    if response.added[i] >= 0:
        clipped = clip(clipped, response.added_normal[i], response.added_clearance[i], response.inverse_mass[i])
    return clipped


@wp.kernel
def begin_vertices(
    # in
    first: wp.int32, by_lanes: wp.int32, rows: VertexContactArrays, response: ParticleResponse, arrays: SweepArrays,
    d: wp.array(dtype=vec3),
    # out
    motion_out: VertexMotion,
):  # fmt: skip
    """Displacements without the impulses that they include already."""
    t, lanes, n = first + wp.tid(), lane_count(by_lanes), d.shape[0]
    i, lane = t // lanes, t % lanes
    at = own_row(i, n)
    total = sum_impulses(at, lane, lanes, rows, arrays)
    if writes_row(i, lane, n) and rows.offsets[at] < rows.offsets[at + 1]:
        motion_out.start[i] = d[i] - response.inverse_mass[i] * total.impulse
        motion_out.share[i] = wp.max(total.count, real(1.0))


@wp.func
def shared(inverse_masses: vec4, at: wp.vec4i, share: wp.array(dtype=real)) -> real:
    """Relative displacement for a unit impulse, with the shares of the masses [1/kg]."""
    K = real(0.0)
    for a in range(4):
        if inverse_masses[a] > real(0.0):
            K += inverse_masses[a] * share[at[a]]
    return wp.max(K, TINY)


@wp.func
def within_cone(friction: vec3, limit: real) -> vec3:
    """The friction impulse, at most as large as its limit."""
    size = wp.length(friction)
    if size > limit:
        return friction * (limit / size)
    return friction


@wp.kernel
def sweep_contacts(
    # in
    first: wp.int32, contacts: ContactArrays, count: wp.array(dtype=wp.int32), for_velocities: wp.bool,
    motion: VertexMotion, tolerance: wp.array(dtype=real), d: wp.array(dtype=vec3),
    # in and out
    control_out: wp.array(dtype=wp.int32), impulses_out: ContactImpulses, arrays_out: SweepArrays,
):  # fmt: skip
    """Corrects every contact for the displacements d, which belong to the extrapolated impulses."""
    k = first + wp.tid()
    if k >= count[0]:
        return
    if arrays_out.part[k] == 0:
        return
    at, w, n = contacts.vertices[k], contacts.weights[k], contacts.normal[k]
    r = combine(w, d[at[0]], d[at[1]], d[at[2]], d[at[3]])
    violation = violation_of(contacts, k, for_velocities, r)
    if arrays_out.active[k] == 0:
        if violation > real(0.0):  # it acts from the next sweep on, when its vertices know of it
            arrays_out.active[k] = 1
            if violation > tolerance[0]:
                control_out[UNSETTLED] = 1
        return
    K = shared(arrays_out.along[k], at, motion.share)
    before, from_normal = impulses_out.normal[k], arrays_out.normal[k]
    least = -wp.where(for_velocities, real(1.0) * contacts.rebound[k], real(0.0))
    normal = wp.max(from_normal + violation / K, least)
    before_friction, from_friction = impulses_out.friction[k], arrays_out.friction[k]
    friction = before_friction
    K_across = K
    if control_out[WITH_FRICTION] != 0:
        K_across = shared(arrays_out.across[k], at, motion.share)
        slip = r - wp.dot(n, r) * n
        friction = within_cone(from_friction - slip / K_across, contacts.mu[k] * wp.max(normal, real(0.0)))
    change = K * wp.abs(normal - from_normal) + K_across * wp.length(friction - from_friction)
    if change > tolerance[0]:
        control_out[UNSETTLED] = 1
    impulses_out.normal[k] = normal
    impulses_out.friction[k] = friction
    # Nesterov's extrapolation. Where the correction points against the last change, it has gone too far.
    since = real(control_out[SINCE_RESTART])
    beta = since / (since + real(3.0))
    step, step_friction = normal - before, friction - before_friction
    back = K * (from_normal - normal) * step + K_across * wp.dot(from_friction - friction, step_friction)
    if back > real(0.0):
        beta = real(0.0)
    ahead = wp.max(normal + beta * step, least)
    ahead_friction = within_cone(friction + beta * step_friction, contacts.mu[k] * wp.max(ahead, real(0.0)))
    arrays_out.normal[k] = ahead
    arrays_out.friction[k] = ahead_friction
    arrays_out.impulse[k] = ahead * n + ahead_friction
    acts = ahead > real(0.0) or normal > real(0.0) or violation > real(0.0) or least < real(0.0)
    arrays_out.active[k] = wp.where(acts, 1, 0)


@wp.kernel
def gather_impulses(
    # in
    first: wp.int32, by_lanes: wp.int32, rows: VertexContactArrays, response: ParticleResponse, arrays: SweepArrays,
    # in and out
    motion_out: VertexMotion,
    # out
    d_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Displacements for the impulses, and the number of contacts that act on each vertex."""
    t, lanes, n = first + wp.tid(), lane_count(by_lanes), d_out.shape[0]
    i, lane = t // lanes, t % lanes
    at = own_row(i, n)
    total = sum_impulses(at, lane, lanes, rows, arrays)
    if writes_row(i, lane, n) and rows.offsets[at] < rows.offsets[at + 1]:
        d_out[i] = clip_to_planes(motion_out.start[i] + response.inverse_mass[i] * total.impulse, i, response)
        motion_out.share[i] = wp.max(total.count, real(1.0))


@wp.kernel
def end_contacts(first: wp.int32, contacts: ContactArrays, impulses: ContactImpulses, arrays_out: SweepArrays):
    """Replaces the extrapolated impulses by those that the last sweep found."""
    k = first + wp.tid()
    if arrays_out.part[k] != 0:
        arrays_out.active[k] = 1
        arrays_out.impulse[k] = impulses.normal[k] * contacts.normal[k] + impulses.friction[k]


@wp.kernel
def end_sweep(control_out: wp.array(dtype=wp.int32), going_out: wp.array(dtype=wp.int32)):
    """Decides whether another sweep is needed, and whether it has friction."""
    sweep = control_out[SWEEP] + 1
    control_out[SWEEP] = sweep
    control_out[SINCE_RESTART] = control_out[SINCE_RESTART] + 1
    settled = control_out[UNSETTLED] == 0
    control_out[UNSETTLED] = 0
    going = sweep < control_out[MAX_SWEEP] and not (settled and control_out[WITH_FRICTION] == 1)
    if control_out[WITH_FRICTION] == 0 and (settled or 2 * sweep >= control_out[MAX_SWEEP]):
        control_out[WITH_FRICTION] = 1
        control_out[SINCE_RESTART] = 0
    going_out[0] = wp.where(going, 1, 0)


@wp.kernel
def find_clearance(
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3), slack: wp.array(dtype=real),
    # out
    clearance_out: wp.array(dtype=real), clearance_v_out: wp.array(dtype=real),
):  # fmt: skip
    """The clearance of particles on solids: from their candidate positions they may not approach the solid."""
    i = wp.tid()
    for p in range(plane_count[i]):
        q = MAX_PLANES * i + p
        clearance_out[q] = wp.dot(plane_normal[q], x_end[i] - x[i]) - slack[i]
        clearance_v_out[q] = wp.dot(plane_normal[q], v_end[i])
