"""Contact impulses with friction by projected Gauss-Seidel (PGS), one contact after the other.

    normal impulse      lambda >= 0,    n . sum of w_a d_a >= target,    one of the two with equality
    friction impulse    |j| <= mu lambda, against the slip; where a smaller one stops the slip, it is that one
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
from toile.contact.narrow_phase.contact_set import ContactArrays, ContactSet
from toile.contact.response.contact_coloring import MAX_COLORS, ContactColoring, can_move
from toile.device.grid_barrier import CooperativeBlocks, grid_barrier
from toile.device.launcher import Launcher
from toile.math.types import TINY, mat33, real, vec3, vec4


class ProjectedGaussSeidel:
    """Projected Gauss-Seidel over the contacts of a step: in the order in which they were found, or by color."""

    def __init__(self, vertex_count: int, device: str):
        # On the CPU one thread without barriers is faster: coloring takes as long as ten sweeps.
        in_colors = wp.get_device(device).is_cuda
        self._colors = ContactColoring(vertex_count, device) if in_colors else None
        self._blocks = CooperativeBlocks(device)
        self._unsettled = wp.zeros(3, dtype=wp.int32, device=device)
        self.count = wp.zeros(1, dtype=wp.int32, device=device)  # sweeps so far
        self._launch = Launcher(device)

    def clear(self) -> None:
        """Starts a new step, without contacts."""
        if self._colors is not None:
            self._colors.clear()

    def solve(
        self, contact_set: ContactSet, for_velocities: bool, planes: Planes, clearance: wp.array, tolerance: float, max_sweeps: int,
        normal_impulse_out: wp.array, friction_impulse_out: wp.array, d_out: wp.array,
    ) -> None:  # fmt: skip
        """Sweeps until no contact is corrected by more than `tolerance`, but at most `max_sweeps` times."""
        inverse_mass = contact_set.mesh.inverse_mass
        inputs = [contact_set.contacts, inverse_mass, for_velocities, planes.count, planes.normal, clearance, tolerance, max_sweeps]
        out = [normal_impulse_out, friction_impulse_out, d_out, self.count]
        if self._colors is None:
            self._launch(relax, 1, [contact_set.count, *inputs, *out])
            return
        colors = self._colors
        colors.add(contact_set.contacts, contact_set.count, inverse_mass, contact_set.contact_count)
        blocks = self._blocks.of(contact_set.contact_count)
        order = [*blocks, colors.count, colors.ends, colors.order]
        self._launch(relax_by_color, blocks[0], [*order, *inputs, *out, self._unsettled])


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
    contact.effective_inverse_mass = wp.where(for_velocities and contacts.normal_impulse[k] == real(0.0), real(0.0), contacts.effective_inverse_mass[k])
    return contact


@wp.func
def plane_count_at(plane_count: wp.array(dtype=wp.int32), i: wp.int32) -> wp.int32:
    """The number of planes at a vertex; vertices of solids have none."""
    if i < plane_count.shape[0]:
        return plane_count[i]
    return 0


@wp.func
def clip_to_planes(
    d: vec3, i: wp.int32, planes: wp.int32, plane_normal: wp.array(dtype=vec3), clearance: wp.array(dtype=real)
) -> vec3:
    """Clips a displacement so that it does not go farther into a solid than `clearance` allows."""
    found = real(1.0) * d
    for p in range(planes):
        q = MAX_PLANES * i + p
        into = wp.dot(plane_normal[q], found) - clearance[q]
        if into < real(0.0):
            found = found - into * plane_normal[q]
    return found


@wp.func
def relax_contact(
    # in
    k: wp.int32, contact: ContactConstraint, with_friction: wp.bool, mu: wp.array(dtype=real), inverse_mass: wp.array(dtype=mat33),
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3), clearance: wp.array(dtype=real),
    # in and out
    normal_impulse_out: wp.array(dtype=real), friction_impulse_out: wp.array(dtype=vec3), d_out: wp.array(dtype=vec3),
) -> real:
    """Corrects one contact and returns the size of the correction. `clearance` limits each plane at a particle."""
    K, at, w, n = contact.effective_inverse_mass, contact.at, contact.weights, contact.normal
    if K < TINY:  # nothing here can move
        return real(0.0)
    # A GPU waits for its reads: all of them are issued before anything is written.
    d0, d1, d2, d3 = (
        real(1.0) * d_out[at[0]], real(1.0) * d_out[at[1]], real(1.0) * d_out[at[2]], real(1.0) * d_out[at[3]]
    )  # fmt: skip
    r = combine(w, d0, d1, d2, d3)
    old = real(1.0) * normal_impulse_out[k]
    normal_impulse = wp.max(old + (contact.target - wp.dot(n, r)) / K, real(0.0))
    if normal_impulse == real(0.0) and old == real(0.0):
        return real(0.0)
    inv_m0, inv_m1, inv_m2, inv_m3 = real(1.0) * inverse_mass[at[0]], real(1.0) * inverse_mass[at[1]], real(1.0) * inverse_mass[at[2]], real(1.0) * inverse_mass[at[3]]
    planes = wp.vec4i(
        plane_count_at(plane_count, at[0]), plane_count_at(plane_count, at[1]), plane_count_at(plane_count, at[2]),
        plane_count_at(plane_count, at[3]),
    )  # fmt: skip
    friction_impulse = real(1.0) * friction_impulse_out[k]
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
    normal_impulse_out[k] = normal_impulse
    friction_impulse_out[k] = friction_impulse + change
    impulse += change
    if wp.length_sq(impulse) == real(0.0):
        return real(0.0)
    # A vertex that does not move may be common to contacts of one color, and is not written.
    if can_move(inv_m0):
        d_out[at[0]] = clip_to_planes(d0 + (w[0] * inv_m0) * impulse, at[0], planes[0], plane_normal, clearance)
    if can_move(inv_m1):
        d_out[at[1]] = clip_to_planes(d1 + (w[1] * inv_m1) * impulse, at[1], planes[1], plane_normal, clearance)
    if can_move(inv_m2):
        d_out[at[2]] = clip_to_planes(d2 + (w[2] * inv_m2) * impulse, at[2], planes[2], plane_normal, clearance)
    if can_move(inv_m3):
        d_out[at[3]] = clip_to_planes(d3 + (w[3] * inv_m3) * impulse, at[3], planes[3], plane_normal, clearance)
    return K * wp.length(impulse)


@wp.kernel
def relax(
    # in
    count: wp.array(dtype=wp.int32), contacts: ContactArrays, inverse_mass: wp.array(dtype=mat33), for_velocities: wp.bool,
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3), clearance: wp.array(dtype=real),
    tolerance: real, max_sweeps: wp.int32,
    # in and out
    normal_impulse_out: wp.array(dtype=real), friction_impulse_out: wp.array(dtype=vec3), d_out: wp.array(dtype=vec3),
    sweeps_out: wp.array(dtype=wp.int32),
):
    """Sweeps in order. Launched with one thread: each contact uses the corrections of the one before it."""
    running, with_friction = bool(True), bool(False)
    sweep = int(0)
    while sweep < max_sweeps and running:
        worst = real(0.0)
        for k in range(count[0]):
            contact = read_constraint(contacts, k, for_velocities)
            done = relax_contact(k, contact, with_friction, contacts.mu, inverse_mass, plane_count, plane_normal, clearance, normal_impulse_out, friction_impulse_out, d_out)
            worst = wp.max(worst, done)
        sweep += 1
        running = worst > tolerance or not with_friction
        if worst <= tolerance or 2 * sweep >= max_sweeps:
            with_friction = bool(True)
    sweeps_out[0] = sweeps_out[0] + sweep


@wp.kernel
def relax_by_color(
    # in
    lanes: wp.int32, blocks: wp.int32, arrived: wp.array(dtype=wp.uint64),
    color_count: wp.array(dtype=wp.int32), ends: wp.array(dtype=wp.int32),
    order: wp.array(dtype=wp.int32), contacts: ContactArrays, inverse_mass: wp.array(dtype=mat33), for_velocities: wp.bool,
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3), clearance: wp.array(dtype=real),
    tolerance: real, max_sweeps: wp.int32,
    # in and out
    normal_impulse_out: wp.array(dtype=real), friction_impulse_out: wp.array(dtype=vec3), d_out: wp.array(dtype=vec3),
    sweeps_out: wp.array(dtype=wp.int32),
    # out
    unsettled_out: wp.array(dtype=wp.int32),
):
    """Sweeps color after color. Launched with cooperative blocks, whose threads relax the contacts of a color in
    parallel.

    Each thread reads its contact of the next color before it waits at the barrier.
    """
    lane = wp.tid()
    mu = contacts.mu
    if lane == 0:
        unsettled_out[0] = 0
    grid_barrier(blocks, arrived)
    running, with_friction = bool(True), bool(False)
    sweep = int(0)
    while sweep < max_sweeps and running:
        worst = real(0.0)
        begin, end = int(0), int(0)
        k, ahead = int(-1), int(-1)
        contact, contact_ahead = ContactConstraint(), ContactConstraint()
        for c in range(-1, color_count[0]):
            k, contact = ahead, contact_ahead
            ahead = int(-1)
            if c + 1 < color_count[0] and end + lane < ends[c + 1]:
                ahead = order[end + lane]
                contact_ahead = read_constraint(contacts, ahead, for_velocities)
            if k >= 0:
                done = relax_contact(k, contact, with_friction, mu, inverse_mass, plane_count, plane_normal, clearance, normal_impulse_out, friction_impulse_out, d_out)
                worst = wp.max(worst, done)
            for entry in range(begin + lane + lanes, end, lanes):  # of a color with more contacts than threads
                j = order[entry]
                other = read_constraint(contacts, j, for_velocities)
                done = relax_contact(j, other, with_friction, mu, inverse_mass, plane_count, plane_normal, clearance, normal_impulse_out, friction_impulse_out, d_out)
                worst = wp.max(worst, done)
            begin = end
            if c + 1 < color_count[0]:
                end = ends[c + 1]
            grid_barrier(blocks, arrived)
        if lane == 0:
            for entry in range(ends[MAX_COLORS - 1], ends[MAX_COLORS]):  # contacts without a color
                j = order[entry]
                other = read_constraint(contacts, j, for_velocities)
                done = relax_contact(j, other, with_friction, mu, inverse_mass, plane_count, plane_normal, clearance, normal_impulse_out, friction_impulse_out, d_out)
                worst = wp.max(worst, done)
        # Three flags in turn: the next is cleared while threads still read this one.
        if worst > tolerance:
            unsettled_out[sweep % 3] = 1
        if lane == 0:
            unsettled_out[(sweep + 1) % 3] = 0
        grid_barrier(blocks, arrived)
        unsettled = unsettled_out[sweep % 3] == 1
        sweep += 1
        running = unsettled or not with_friction
        if not unsettled or 2 * sweep >= max_sweeps:
            with_friction = bool(True)
    if lane == 0:
        sweeps_out[0] = sweeps_out[0] + sweep


@wp.kernel
def find_clearance(
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3),
    # out
    clearance_out: wp.array(dtype=real), clearance_of_velocity_out: wp.array(dtype=real),
):
    """The clearance of particles on solids: from their candidate positions they may not approach the solid."""
    i = wp.tid()
    for p in range(plane_count[i]):
        q = MAX_PLANES * i + p
        clearance_out[q] = wp.dot(plane_normal[q], x_end[i] - x[i])
        clearance_of_velocity_out[q] = wp.dot(plane_normal[q], v_end[i])
