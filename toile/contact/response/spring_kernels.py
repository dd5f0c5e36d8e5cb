"""Kernels of contact springs (contact_springs.py): choice, force and matrix, check after a solve, and impacts.

Source      none
Deviations  none
"""

import warp as wp

from toile.contact.narrow_phase.closest_points import combine, effective_inverse_mass
from toile.contact.narrow_phase.contact_set import ContactArrays
from toile.device.growable import Growable
from toile.linear.block_matrix import CouplingGroups
from toile.math.types import TINY, identity, mat33, real, vec3, vec4

# k h^2 K. It is large because the four particles must also stop the cloth around them. The solver's iterations grow
# with its root where its preconditioner, such as a factor, does not include the couplings.
STIFFNESS_RATIO = wp.constant(real(300.0))
# A spring that a solve compressed by more than the first number, as a fraction of the thickness, is stiffer by the
# second in the next solve of the step: cloth that slaps or is wrung has more momentum or tension behind it than the
# four particles have. A spring that is as stiff from the start stretches cloth where it turns out to pull.
MAX_COMPRESSION, STIFFENING = wp.constant(real(0.1)), wp.constant(real(10.0))
# Separation in a step above which a contact loses its load, as a fraction of the thickness.
MAX_SEPARATION = wp.constant(real(0.1))
# A new pair acts from the start if velocities leave less than this fraction of the thickness between it and its target.
# What lies on cloth does not approach it, but would fall through it in a solve without the springs that carry its
# weight: pairs of sliding layers are new in almost every step. A pair that is known and has no load acts if velocities
# overlap it by MISS_TOLERANCE.
REST_GAP = wp.constant(real(0.1))
# A contact without a spring whose pair comes closer than its target by this fraction of the thickness misses one. More
# would let layers at rest fall and be lifted by impulses, in turn.
MISS_TOLERANCE = wp.constant(real(0.01))
# A pair that comes closer than its target by this fraction of the thickness is worth another linearization of the step:
# impulses would part it by as much, and stretch the cloth around it.
CLOSEST = wp.constant(real(0.75))
# Slip in a step over which friction rises from zero to its limit, as a fraction of the thickness.
SLIP_REGULARIZATION = wp.constant(real(0.002))
# Where the system moves a pair by less than this fraction of what impulses move it by, there is no spring: solids hold
# all that weighs in it, and a spring would fling the rest away.
LEAST_RESPONSE = wp.constant(real(0.1))


@wp.struct
class ContactSpringArrays(Growable):
    """The springs of the contacts of a step, one for each."""

    active: wp.array(dtype=wp.int32)
    in_system: wp.array(dtype=wp.int32)  # whether the last solve included it
    stiffness: wp.array(dtype=real)  # [N/m]  k
    stiffening: wp.array(dtype=real)  # factor of k in the next solve of the step
    friction_stiffness: wp.array(dtype=real)  # [N/m]  c
    friction_offset: wp.array(dtype=vec3)  # [N]  g
    friction_before: wp.array(dtype=vec3)  # [N]  of the step before
    load: wp.array(dtype=real)  # [N]  lambda; after a solve the force of the spring
    load_before: wp.array(dtype=real)  # [N]  of the step before
    force: wp.array(dtype=vec3)  # [N]  in the solve, with friction
    slip: wp.array(dtype=vec3)  # [m]  that velocities lead to
    effective_inverse_mass: wp.array(dtype=real)  # [1/kg]  K, of the particles as the system holds them


SPRING_FIELDS = {
    "active": wp.int32, "in_system": wp.int32, "stiffness": real, "stiffening": real, "friction_stiffness": real,
    "friction_offset": vec3, "friction_before": vec3,
    "load": real, "load_before": real, "force": vec3, "slip": vec3, "effective_inverse_mass": real,
}  # fmt: skip


@wp.func
def spring_target(contacts: ContactArrays, t: wp.int32) -> real:
    """The target of a spring. Overlaps are recovered by impulses, which add no velocity."""
    return wp.min(contacts.target[t], real(0.0))


@wp.kernel
def clear_springs(
    # in
    first: wp.int32, contacts: ContactArrays, inverse_mass: wp.array(dtype=mat33),
    # out
    springs_out: ContactSpringArrays,
):  # fmt: skip
    """Makes springs that do not act, without a load."""
    t = first + wp.tid()
    at = contacts.vertices[t]
    K = effective_inverse_mass(
        contacts.weights[t], contacts.normal[t],
        inverse_mass[at[0]], inverse_mass[at[1]], inverse_mass[at[2]], inverse_mass[at[3]],
    )  # fmt: skip
    springs_out.effective_inverse_mass[t] = wp.where(
        LEAST_RESPONSE * contacts.effective_inverse_mass[t] > K, real(0.0), K
    )
    springs_out.active[t] = 0
    springs_out.in_system[t] = 0
    springs_out.stiffening[t] = real(1.0)
    springs_out.load[t] = real(0.0)
    springs_out.load_before[t] = real(0.0)
    springs_out.slip[t] = vec3()
    springs_out.friction_before[t] = vec3()


@wp.kernel
def prepare_springs(
    # in
    first: wp.int32, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), contacts: ContactArrays,
    # in and out
    springs_out: ContactSpringArrays,
):  # fmt: skip
    """Chooses the springs that act: those with a load, unless they separate, and those of new pairs that rest. The load
    of a new pair is negative here."""
    t = first + wp.tid()
    at, w, n, tau = contacts.vertices[t], contacts.weights[t], contacts.normal[t], contacts.thickness[t]
    r = combine(w, x_end[at[0]] - x[at[0]], x_end[at[1]] - x[at[1]], x_end[at[2]] - x[at[2]], x_end[at[3]] - x[at[3]])
    along = wp.dot(n, r)
    reach = wp.where(springs_out.load[t] < real(0.0), REST_GAP, -MISS_TOLERANCE) * tau
    springs_out.load[t] = wp.max(springs_out.load[t], real(0.0))
    springs_out.load_before[t] = springs_out.load[t]
    if along > MAX_SEPARATION * tau:
        springs_out.load[t] = real(0.0)
    springs_out.slip[t] = r - along * n
    if springs_out.effective_inverse_mass[t] < TINY:  # the system can move nothing of it
        springs_out.load[t] = real(0.0)
    acts = springs_out.load[t] > real(0.0) or along < spring_target(contacts, t) + reach
    springs_out.active[t] = wp.where(acts and springs_out.effective_inverse_mass[t] > TINY, 1, 0)


@wp.func
def spring_stiffness(springs: ContactSpringArrays, t: wp.int32, h: real) -> real:
    """k [N/m]."""
    return springs.stiffening[t] * STIFFNESS_RATIO / (springs.effective_inverse_mass[t] * h * h)


@wp.func
def relative_motion(
    at: wp.vec4i, w: vec4, x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), moving_count: wp.int32,
    x: wp.array(dtype=vec3),
) -> vec3:  # fmt: skip
    """Displacement of the closest points relative to each other, with the particles at x."""
    r = vec3()
    for a in range(4):
        i = at[a]
        if i < moving_count:
            r += w[a] * (x[i] - x_start[i])
        else:  # solids have prescribed motion and are not in the system
            r += w[a] * (x_end[i] - x_start[i])
    return r


@wp.func
def spring_block(n: vec3, k: real, c: real) -> mat33:
    """- d force / d r [N/m]."""
    return c * identity() + (k - c) * wp.outer(n, n)


@wp.func
def spring_force(contacts: ContactArrays, t: wp.int32, load: real, k: real, c: real, offset: vec3, r: vec3) -> vec3:
    """The force on the first element [N], where the closest points have moved by r relative to each other."""
    n = contacts.normal[t]
    along = wp.dot(n, r)
    return (load + k * (spring_target(contacts, t) - along)) * n + offset - c * (r - along * n)


@wp.struct
class SpringFriction:
    """Friction g - c r_t, linear in the slip r_t."""

    offset: vec3  # [N]  g
    c: real  # [N/m]


@wp.func
def linear_friction(
    contacts: ContactArrays, t: wp.int32, load: real, k: real, slip: vec3, before: vec3
) -> SpringFriction:  # fmt: skip
    """Friction near a slip: that of a spring that begins the step with the force of the step before, within Coulomb's
    limit. Where it would exceed the limit, the force at this slip has the size of the limit."""
    n = contacts.normal[t]
    limit = contacts.mu[t] * load
    found = SpringFriction()
    found.c = wp.min(k, limit / (SLIP_REGULARIZATION * contacts.thickness[t]))
    found.offset = before - wp.dot(n, before) * n
    size = wp.length(found.offset)
    if size > limit:
        found.offset *= limit / size
    trial = found.offset - found.c * slip
    size = wp.length(trial)
    if size > limit:
        distance = wp.length(slip)
        if found.c * distance > limit:  # it slides: a force of fixed size could reverse the motion, this one cannot
            found.c = limit / distance
            found.offset = vec3()
        else:
            found.offset = (limit / size) * trial + found.c * slip
    return found


@wp.func
def append_coupling(contacts: ContactArrays, t: wp.int32, moving_count: wp.int32, block: mat33, groups: CouplingGroups):
    """Appends the blocks of a spring between the particles of the system."""
    at, w = contacts.vertices[t], contacts.weights[t]
    particles, weights = wp.vec4i(), vec4()
    for a in range(4):
        if at[a] < moving_count:
            particles[a] = at[a]
            weights[a] = w[a]
    group = wp.atomic_add(groups.count, 0, 1)
    groups.particles[group] = particles
    groups.weights[group] = weights
    groups.blocks[group] = block


@wp.kernel
def add_springs(
    # model
    diagonal: wp.array(dtype=wp.int32), moving_count: wp.int32,
    # in
    x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), x: wp.array(dtype=vec3), h: real,
    contacts: ContactArrays,
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33), springs_out: ContactSpringArrays,
    # out
    couplings_out: CouplingGroups,
):  # fmt: skip
    """Adds the springs that act to the force, the diagonal of A and the couplings."""
    t = wp.tid()
    springs_out.in_system[t] = springs_out.active[t]
    if springs_out.active[t] == 0:
        return
    at, w, load = contacts.vertices[t], contacts.weights[t], springs_out.load[t]
    k = spring_stiffness(springs_out, t, h)
    r, n = relative_motion(at, w, x_start, x_end, moving_count, x), contacts.normal[t]
    slip = r - wp.dot(n, r) * n
    if wp.length_sq(springs_out.slip[t]) > wp.length_sq(slip):
        slip = real(1.0) * springs_out.slip[t]
    springs_out.slip[t] = vec3()  # from the next solve on the slip is that of the solved positions
    friction = linear_friction(contacts, t, load, k, slip, springs_out.friction_before[t])
    c = friction.c
    springs_out.stiffness[t] = k
    springs_out.friction_stiffness[t] = c
    springs_out.friction_offset[t] = friction.offset
    force = spring_force(contacts, t, load, k, c, friction.offset, r)
    block = (h * h) * spring_block(n, k, c)
    for a in range(4):
        if at[a] < moving_count:
            wp.atomic_add(f_out, at[a], w[a] * force)
            wp.atomic_add(A_out, diagonal[at[a]], (w[a] * w[a]) * block)
    append_coupling(contacts, t, moving_count, block, couplings_out)


@wp.kernel
def judge_springs(
    # in
    moving_count: wp.int32, x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), x: wp.array(dtype=vec3),
    contacts: ContactArrays,
    # in and out
    springs_out: ContactSpringArrays,
    # out
    too_close_out: wp.array(dtype=wp.int32), pulls_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Loads become the forces of the solve. Springs that pull no longer act, and missing ones do. Counts the pairs
    that come much too close."""
    t = wp.tid()
    at, w, tau, k = contacts.vertices[t], contacts.weights[t], contacts.thickness[t], springs_out.stiffness[t]
    r = relative_motion(at, w, x_start, x_end, moving_count, x)
    stretch = wp.dot(contacts.normal[t], r) - spring_target(contacts, t)
    if stretch < -CLOSEST * tau and springs_out.effective_inverse_mass[t] > TINY:
        wp.atomic_add(too_close_out, 0, 1)
    if springs_out.in_system[t] == 1:
        c, offset = springs_out.friction_stiffness[t], springs_out.friction_offset[t]
        springs_out.force[t] = spring_force(contacts, t, springs_out.load[t], k, c, offset, r)
        load = springs_out.load[t] - k * stretch
        springs_out.load[t] = wp.max(load, real(0.0))
        if stretch < -MAX_COMPRESSION * tau:
            springs_out.stiffening[t] = STIFFENING
        if load < real(0.0):
            springs_out.active[t] = 0
            for a in range(4):
                if at[a] < moving_count:
                    wp.atomic_add(pulls_out, at[a], w[a] * springs_out.force[t])
    elif stretch < -MISS_TOLERANCE * tau and springs_out.effective_inverse_mass[t] > TINY:
        springs_out.active[t] = 1
        springs_out.load[t] = real(0.0)


@wp.kernel
def correct_springs(
    # model
    diagonal: wp.array(dtype=wp.int32), moving_count: wp.int32,
    # in
    x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), x: wp.array(dtype=vec3), h: real,
    contacts: ContactArrays,
    # in and out
    springs_out: ContactSpringArrays, A_out: wp.array(dtype=mat33), b_out: wp.array(dtype=vec3),
    # out
    couplings_out: CouplingGroups,
):  # fmt: skip
    """Replaces the springs of the last solve, in A and in its residual b, by those that act now."""
    t = wp.tid()
    at, w, n = contacts.vertices[t], contacts.weights[t], contacts.normal[t]
    force, block, whole = vec3(), mat33(), mat33()
    if springs_out.in_system[t] == 1:
        force -= springs_out.force[t]
        block -= (h * h) * spring_block(n, springs_out.stiffness[t], springs_out.friction_stiffness[t])
    if springs_out.active[t] == 1:
        r = relative_motion(at, w, x_start, x_end, moving_count, x)
        k = spring_stiffness(springs_out, t, h)
        load = springs_out.load[t]
        friction = linear_friction(contacts, t, load, k, r - wp.dot(n, r) * n, springs_out.friction_before[t])
        c = friction.c
        springs_out.stiffness[t] = k
        springs_out.friction_stiffness[t] = c
        springs_out.friction_offset[t] = friction.offset
        force += spring_force(contacts, t, load, k, c, friction.offset, r)
        whole = (h * h) * spring_block(n, k, c)
        append_coupling(contacts, t, moving_count, whole, couplings_out)
    if springs_out.in_system[t] == 1 or springs_out.active[t] == 1:
        for a in range(4):
            if at[a] < moving_count:
                wp.atomic_add(b_out, at[a], (h * w[a]) * force)
                wp.atomic_add(A_out, diagonal[at[a]], (w[a] * w[a]) * (block + whole))
    springs_out.in_system[t] = springs_out.active[t]


@wp.kernel
def end_springs(first: wp.int32, contacts: ContactArrays, springs_out: ContactSpringArrays):
    """Keeps the friction of springs with a load for the next step, within Coulomb's limit. Marks contacts without a
    load that needed an impulse by a negative load: they have a spring in the next step, as new pairs have."""
    t = first + wp.tid()
    friction = vec3()
    if springs_out.load[t] > real(0.0):
        n, force = contacts.normal[t], springs_out.force[t]
        friction = force - wp.dot(n, force) * n
        size, limit = wp.length(friction), contacts.mu[t] * springs_out.load[t]
        if size > limit:
            friction *= limit / size
    elif contacts.normal_impulse[t] > real(0.0):
        springs_out.load[t] = real(-1.0)
    springs_out.friction_before[t] = friction


@wp.kernel
def allow_rebounds(springs: ContactSpringArrays, h: real, contacts_out: ContactArrays):
    """The impulse of each contact that carries a load, and did not before this step."""
    t = wp.tid()
    landed = springs.load[t] > real(0.0) and springs.load_before[t] == real(0.0)
    contacts_out.rebound[t] = wp.where(landed, h * springs.load[t], real(0.0))


@wp.kernel
def count_impacts(
    # in
    contacts: ContactArrays,
    # out
    share_out: wp.array(dtype=real),
):  # fmt: skip
    """The number of contacts of each vertex that have landed."""
    t = wp.tid()
    if contacts.rebound[t] > real(0.0):
        for a in range(4):
            if contacts.weights[t][a] != real(0.0):
                wp.atomic_add(share_out, contacts.vertices[t][a], real(1.0))


@wp.kernel
def add_impacts_to(
    # in
    contacts: ContactArrays, share: wp.array(dtype=real), inverse_mass: wp.array(dtype=mat33), h: real,
    v: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3), moving_count: wp.int32,
    # in and out
    dx_out: wp.array(dtype=vec3), dv_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Adds the motion that contacts gave to the particles on which they landed: the impulse that the change of their
    relative velocity needs, which is less than the load, because the load stops the cloth around them as well."""
    t = wp.tid()
    if contacts.rebound[t] == real(0.0):
        return
    at, w, n = contacts.vertices[t], contacts.weights[t], contacts.normal[t]
    change, K = real(0.0), real(0.0)
    for a in range(4):
        i = at[a]
        if i < moving_count:
            change += w[a] * wp.dot(n, v_end[i] - v[i])
            K += w[a] * w[a] * share[i] * wp.dot(n, inverse_mass[i] * n)
    if K < TINY or change <= real(0.0):
        return
    impulse = wp.min(change / K, contacts.rebound[t])
    for a in range(4):
        if at[a] < moving_count:
            dv = inverse_mass[at[a]] * ((w[a] * impulse) * n)
            wp.atomic_add(dv_out, at[a], dv)
            wp.atomic_add(dx_out, at[a], h * dv)
