"""Contact impulses with friction by projected Gauss-Seidel (PGS), one contact after the other.

    normal impulse      lambda >= 0,    n . sum of w_a d_a >= target,    one of the two with equality
    friction impulse    against the slip; its size is the smaller of mu lambda and the impulse that stops the slip
    response            d_a += w_a W_a (change of lambda n + change of j)

Impulses are accumulated and projected as a whole, so that one contact takes back what another made too large: loads
pass through a stack of any height, and friction has the right limit in every layer of it. The same solve is then done
for the velocities at the end of the step, which must not approach where there was a normal impulse.

Friction starts when normal impulses have converged, or after half of the sweeps: normal impulses are too large at
first, and would allow too much friction.

Source      [BFA02] secs. 5, 6, 7; projected Gauss-Seidel stands for its single impulses
Symbols     d  displacement in the step [m], or velocity [m/s]     W  inverse mass [1/kg]     mu  friction
Deviations  The paper applies each impulse once and leaves the remainder to the next steps.
"""

import warp as wp

from toile.contact.collision_mesh import MAX_PLANES, Planes
from toile.contact.narrow_phase.closest_points import combine, effective_inverse_mass
from toile.contact.narrow_phase.contact_set import ContactArrays, ContactImpulses, ContactSet
from toile.contact.response.contact_coloring import MAX_COLORS, ContactColoring, ContactColors, can_move
from toile.device.grid_barrier import CooperativeBlocks, grid_barrier
from toile.device.launcher import Launcher
from toile.math.types import TINY, mat33, real, vec3, vec4


@wp.struct
class ParticleResponse:
    """How vertices respond to impulses: their inverse mass, and the planes of solids that they may not cross."""

    inverse_mass: wp.array(dtype=mat33)  # [1/kg]
    plane_count: wp.array(dtype=wp.int32)
    plane_normal: wp.array(dtype=vec3)  # plane k of particle i is entry 3 i + k
    clearance: wp.array(dtype=real)  # [m] or [m/s]  least displacement, or velocity, along the normal


@wp.struct
class SolverProgress:
    """Number of sweeps so far, and three flags for sweeps whose corrections exceed the tolerance."""

    sweeps: wp.array(dtype=wp.int32)
    unsettled: wp.array(dtype=wp.int32)


def make_response(inverse_mass: wp.array, planes: Planes, clearance: wp.array) -> ParticleResponse:
    """The response in these arrays; to be made once, because packed launches are keyed by identity."""
    response = ParticleResponse()
    response.inverse_mass, response.clearance = inverse_mass, clearance
    response.plane_count, response.plane_normal = planes.count, planes.normal
    return response


class ProjectedGaussSeidel:
    """Projected Gauss-Seidel over the contacts of a step: in the order in which they were found, or by color."""

    def __init__(self, vertex_count: int, device: str):
        # On the CPU one thread without barriers is faster: coloring takes as long as ten sweeps.
        by_color = wp.get_device(device).is_cuda
        self._coloring = ContactColoring(vertex_count, device) if by_color else None
        self._blocks = CooperativeBlocks(device)
        self.progress = SolverProgress()
        self.progress.sweeps, self.progress.unsettled = (wp.zeros(n, dtype=wp.int32, device=device) for n in (1, 3))
        self._launch = Launcher(device)

    def clear(self) -> None:
        """Starts a new step, without contacts."""
        if self._coloring is not None:
            self._coloring.clear()

    def solve(
        self, contact_set: ContactSet, response: ParticleResponse, for_velocities: bool, tolerance: float,
        max_sweeps: int, impulses_out: ContactImpulses, d_out: wp.array,
    ) -> None:  # fmt: skip
        """Sweeps until no contact is corrected by more than `tolerance`, but at most `max_sweeps` times."""
        contacts, count = contact_set.contacts, contact_set.contact_count
        inputs = [contacts, response, for_velocities, tolerance, max_sweeps]
        out = [impulses_out, d_out, self.progress]
        if self._coloring is None:
            self._launch(relax, 1, [contact_set.count, *inputs, *out])
            return
        self._coloring.add(contacts, contact_set.count, response.inverse_mass, count)
        lanes, blocks, arrived = self._blocks.of(count)
        self._launch(relax_by_color, lanes, [lanes, blocks, self._coloring.colors, *inputs, arrived, *out])


@wp.struct
class ContactConstraint:
    """The data of a contact that sweeps do not change."""

    at: wp.vec4i  # four different vertices
    weights: vec4
    normal: vec3
    target: real
    effective_inverse_mass: real  # 0 for a contact that is skipped


@wp.func
def read_constraint(contacts: ContactArrays, k: wp.int32, for_velocities: wp.bool) -> ContactConstraint:
    """Reads contact k; for velocities, contacts without a normal impulse are skipped."""
    contact = ContactConstraint()
    contact.at = contacts.vertices[k]
    contact.weights = contacts.weights[k]
    contact.normal = contacts.normal[k]
    contact.target = wp.where(for_velocities, real(0.0), contacts.target[k])
    skipped = for_velocities and contacts.normal_impulse[k] == real(0.0)
    contact.effective_inverse_mass = wp.where(skipped, real(0.0), contacts.effective_inverse_mass[k])
    return contact


@wp.func
def plane_count_at(response: ParticleResponse, i: wp.int32) -> wp.int32:
    """The number of planes at a vertex; vertices of solids have none."""
    if i < response.plane_count.shape[0]:
        return response.plane_count[i]
    return 0


@wp.func
def clip_to_planes(d: vec3, i: wp.int32, planes: wp.int32, response: ParticleResponse) -> vec3:
    """Clips a displacement so that it does not go farther into a solid than `clearance` allows."""
    clipped = real(1.0) * d
    for p in range(planes):
        q = MAX_PLANES * i + p
        into = wp.dot(response.plane_normal[q], clipped) - response.clearance[q]
        if into < real(0.0):
            clipped = clipped - into * response.plane_normal[q]
    return clipped


@wp.func
def relax_contact(
    # in
    k: wp.int32, contact: ContactConstraint, mu: wp.array(dtype=real), with_friction: wp.bool,
    response: ParticleResponse,
    # in and out
    impulses_out: ContactImpulses, d_out: wp.array(dtype=vec3),
) -> real:  # fmt: skip
    """Corrects one contact: its normal impulse, its friction impulse and the vertices. Returns the correction."""
    K, at, w, n = contact.effective_inverse_mass, contact.at, contact.weights, contact.normal
    if K < TINY:  # nothing here can move
        return real(0.0)
    # A GPU waits for its reads: all of them are issued before anything is written.
    d0, d1, d2, d3 = (
        real(1.0) * d_out[at[0]], real(1.0) * d_out[at[1]], real(1.0) * d_out[at[2]], real(1.0) * d_out[at[3]]
    )  # fmt: skip
    r = combine(w, d0, d1, d2, d3)
    old = real(1.0) * impulses_out.normal[k]
    normal_impulse = wp.max(old + (contact.target - wp.dot(n, r)) / K, real(0.0))
    if normal_impulse == real(0.0) and old == real(0.0):
        return real(0.0)
    inv_m0, inv_m1 = real(1.0) * response.inverse_mass[at[0]], real(1.0) * response.inverse_mass[at[1]]
    inv_m2, inv_m3 = real(1.0) * response.inverse_mass[at[2]], real(1.0) * response.inverse_mass[at[3]]
    planes = wp.vec4i(
        plane_count_at(response, at[0]), plane_count_at(response, at[1]), plane_count_at(response, at[2]),
        plane_count_at(response, at[3]),
    )  # fmt: skip
    friction_impulse = real(1.0) * impulses_out.friction[k]
    limit = mu[k] * normal_impulse
    impulse = (normal_impulse - old) * n
    # Friction impulse for the slip across n
    slip = r - wp.dot(n, r) * n
    speed = wp.length(slip)
    change = vec3()
    if not with_friction:
        limit = real(0.0)  # not used
    elif speed > TINY:
        K_across = wp.max(effective_inverse_mass(w, slip / speed, inv_m0, inv_m1, inv_m2, inv_m3), TINY)
        wanted = friction_impulse - slip / K_across
        size = wp.length(wanted)
        if size > limit:
            wanted = wanted * (limit / size)
        change = wanted - friction_impulse
    elif wp.length(friction_impulse) > limit:
        change = friction_impulse * (limit / wp.length(friction_impulse)) - friction_impulse
    impulses_out.normal[k] = normal_impulse
    impulses_out.friction[k] = friction_impulse + change
    impulse += change
    if wp.length_sq(impulse) == real(0.0):
        return real(0.0)
    # A vertex that does not move may be common to contacts of one color, and is not written.
    if can_move(inv_m0):
        d_out[at[0]] = clip_to_planes(d0 + (w[0] * inv_m0) * impulse, at[0], planes[0], response)
    if can_move(inv_m1):
        d_out[at[1]] = clip_to_planes(d1 + (w[1] * inv_m1) * impulse, at[1], planes[1], response)
    if can_move(inv_m2):
        d_out[at[2]] = clip_to_planes(d2 + (w[2] * inv_m2) * impulse, at[2], planes[2], response)
    if can_move(inv_m3):
        d_out[at[3]] = clip_to_planes(d3 + (w[3] * inv_m3) * impulse, at[3], planes[3], response)
    return K * wp.length(impulse)


@wp.kernel
def relax(
    # in
    count: wp.array(dtype=wp.int32), contacts: ContactArrays, response: ParticleResponse, for_velocities: wp.bool,
    tolerance: real, max_sweeps: wp.int32,
    # in and out
    impulses_out: ContactImpulses, d_out: wp.array(dtype=vec3), progress_out: SolverProgress,
):  # fmt: skip
    """Sweeps in order. Launched with one thread: each contact uses the corrections of the one before it."""
    running, with_friction = bool(True), bool(False)
    sweep = int(0)
    while sweep < max_sweeps and running:
        worst = real(0.0)
        for k in range(count[0]):
            contact = read_constraint(contacts, k, for_velocities)
            done = relax_contact(k, contact, contacts.mu, with_friction, response, impulses_out, d_out)
            worst = wp.max(worst, done)
        sweep += 1
        running = worst > tolerance or not with_friction
        if worst <= tolerance or 2 * sweep >= max_sweeps:
            with_friction = bool(True)
    progress_out.sweeps[0] = progress_out.sweeps[0] + sweep


@wp.kernel
def relax_by_color(
    # in
    lanes: wp.int32, blocks: wp.int32, colors: ContactColors, contacts: ContactArrays, response: ParticleResponse,
    for_velocities: wp.bool, tolerance: real, max_sweeps: wp.int32,
    # in and out
    arrived_out: wp.array(dtype=wp.uint64), impulses_out: ContactImpulses, d_out: wp.array(dtype=vec3),
    progress_out: SolverProgress,
):  # fmt: skip
    """Sweeps color after color. Launched with cooperative blocks, whose threads relax the contacts of a color in
    parallel.

    Each thread reads its contact of the next color before it waits at the barrier.
    """
    lane = wp.tid()
    mu = contacts.mu
    if lane == 0:
        progress_out.unsettled[0] = 0
    grid_barrier(blocks, arrived_out)
    running, with_friction = bool(True), bool(False)
    sweep = int(0)
    while sweep < max_sweeps and running:
        worst = real(0.0)
        begin, end = int(0), int(0)
        k, ahead = int(-1), int(-1)
        contact, contact_ahead = ContactConstraint(), ContactConstraint()
        for c in range(-1, colors.count[0]):
            k, contact = ahead, contact_ahead
            ahead = int(-1)
            if c + 1 < colors.count[0] and end + lane < colors.ends[c + 1]:
                ahead = colors.order[end + lane]
                contact_ahead = read_constraint(contacts, ahead, for_velocities)
            if k >= 0:
                done = relax_contact(k, contact, mu, with_friction, response, impulses_out, d_out)
                worst = wp.max(worst, done)
            for entry in range(begin + lane + lanes, end, lanes):  # of a color with more contacts than threads
                j = colors.order[entry]
                other = read_constraint(contacts, j, for_velocities)
                done = relax_contact(j, other, mu, with_friction, response, impulses_out, d_out)
                worst = wp.max(worst, done)
            begin = end
            if c + 1 < colors.count[0]:
                end = colors.ends[c + 1]
            grid_barrier(blocks, arrived_out)
        if lane == 0:
            for entry in range(colors.ends[MAX_COLORS - 1], colors.ends[MAX_COLORS]):  # contacts without a color
                j = colors.order[entry]
                other = read_constraint(contacts, j, for_velocities)
                done = relax_contact(j, other, mu, with_friction, response, impulses_out, d_out)
                worst = wp.max(worst, done)
        # Three flags in turn: the next is cleared while threads still read this one.
        if worst > tolerance:
            progress_out.unsettled[sweep % 3] = 1
        if lane == 0:
            progress_out.unsettled[(sweep + 1) % 3] = 0
        grid_barrier(blocks, arrived_out)
        unsettled = progress_out.unsettled[sweep % 3] == 1
        sweep += 1
        running = unsettled or not with_friction
        if not unsettled or 2 * sweep >= max_sweeps:
            with_friction = bool(True)
    if lane == 0:
        progress_out.sweeps[0] = progress_out.sweeps[0] + sweep


@wp.kernel
def find_clearance(
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3),
    # out
    clearance_out: wp.array(dtype=real), clearance_v_out: wp.array(dtype=real),
):  # fmt: skip
    """The clearance of particles on solids: from their candidate positions they may not approach the solid."""
    i = wp.tid()
    for p in range(plane_count[i]):
        q = MAX_PLANES * i + p
        clearance_out[q] = wp.dot(plane_normal[q], x_end[i] - x[i])
        clearance_v_out[q] = wp.dot(plane_normal[q], v_end[i])
