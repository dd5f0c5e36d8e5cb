"""Force, matrix, energy and position alteration of the penalty springs between cloths.

    f_a = w_a (k (length - gap) n - d (n . r') n - c (r' - n (n . r')))        while that is repulsive, else 0

After a solve, springs that pull are removed from the system and missing ones are added (`correct_active_set`). Deep
overlaps are also removed by position alteration (`alter`).

Source      [BW98] secs. 6, 6.2
Symbols     gap = n . r,  r = sum of w_a x_a,  r' = sum of w_a v_a     n, length  as in pairs.py
            k, d, c  as in strength.py
Deviations  The second derivative of the distance is left out of the matrix, which is positive definite without it.
            Normal force and friction act at both closest points, not where the surfaces touch: friction leaves a torque
            of itself times the gap. Position alteration removes at once the part of an overlap beyond half the length,
            and keeps the center of mass; the paper does not say how far it goes.
"""

import warp as wp

from toile.contact.narrow_phase.closest_points import combine
from toile.contact.penalty.pairs import PenaltySpring
from toile.contact.penalty.strength import SpringLaw
from toile.math.types import identity, mat33, real, vec3, vec4

# Overlap beyond which position alteration acts, as a fraction of the rest length.
ALTERATION_DEPTH = wp.constant(real(0.5))
# A spring is wrong if it pulls, or is missing, by more than TOLERANCE of its length; one that is missing is deep if it
# overlaps by more than DEEP_OVERLAP of it.
TOLERANCE, DEEP_OVERLAP = wp.constant(real(1e-3)), wp.constant(real(0.5))
# Entries of the counts.
WRONG, MISSING_DEEP, ACTIVE, COUNTS = (wp.constant(entry) for entry in range(4))

vec2 = wp.types.vector(length=2, dtype=real)


@wp.kernel
def alter(
    # model
    area: wp.array(dtype=real), masses: wp.array(dtype=real), law: SpringLaw,
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=PenaltySpring),
    # in and out
    y_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Adds the position alteration of deep overlaps to y."""
    k = wp.tid()
    if k >= count[0]:
        return
    at, w, spring = particles[k], weights[k], springs[k]
    excess = spring.overlap - ALTERATION_DEPTH * spring.length
    if excess <= real(0.0):
        return
    # Densities of both elements, whose vertices have positive and negative weights
    mass = vec2()
    size = vec2()
    for a in range(4):
        s = wp.where(w[a] > real(0.0), 0, 1)
        mass[s] = mass[s] + wp.abs(w[a]) * masses[at[a]]
        size[s] = size[s] + wp.abs(w[a]) * area[at[a]]
    one, two = mass[0] / size[0], mass[1] / size[1]
    # Each moves in inverse proportion to its density; a particle by the part of its area that belongs to the pair.
    moved = spring.k / law.stiffness * one * two / (one + two) * excess
    for a in range(4):
        wp.atomic_add(y_out, at[a], moved * w[a] / masses[at[a]] * spring.n)


@wp.struct
class SpringResponse:
    """Force, derivatives and energy of a spring at some positions and velocities."""

    f: vec3  # [N]  the force on a particle is w_a times this
    K: mat33  # -df/dx between particles is w_a w_b times this
    D: mat33  # -df/dv likewise
    E: real


@wp.func
def spring_response(spring: PenaltySpring, overlap: real, velocity: vec3) -> SpringResponse:
    """The response of a spring as if it were active, whether or not it is."""
    response = SpringResponse()
    along = wp.outer(spring.n, spring.n)
    response.K = spring.k * along
    response.D = spring.d * along + spring.c * (identity() - along)
    response.f = spring.k * overlap * spring.n - response.D * velocity
    response.E = real(0.5) * spring.k * overlap * overlap
    return response


@wp.func
def overlap_of(spring: PenaltySpring, at: wp.vec4i, w: vec4, x: wp.array(dtype=vec3)) -> real:
    """How far the gap of a spring is below its rest length at x [m]."""
    return spring.length - wp.dot(spring.n, combine(w, x[at[0]], x[at[1]], x[at[2]], x[at[3]]))


@wp.func
def is_wrong(spring: PenaltySpring, overlap: real, velocity: vec3) -> wp.bool:
    """Whether an active spring with its damper pulls, or an inactive one would push, by more than the tolerance."""
    force = spring.k * overlap - spring.d * wp.dot(spring.n, velocity)
    least = TOLERANCE * spring.k * spring.length
    return wp.where(spring.active == 1, force < -least, force > least)


@wp.kernel
def linearize(
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=PenaltySpring), x: wp.array(dtype=vec3), v_at: wp.array(dtype=vec3), alpha_x: real,
    alpha_v: real,
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33),
    # out
    blocks_out: wp.array(dtype=mat33),
):  # fmt: skip
    """Adds active springs to the force and to the diagonal of A, and writes their coupling blocks."""
    k = wp.tid()
    if k >= count[0]:
        return
    blocks_out[k] = mat33()
    at, w, spring = particles[k], weights[k], springs[k]
    if spring.active == 0:
        return
    # Forces are linear in velocity: their values at v_at do not depend on where they are linearized.
    velocity = combine(w, v_at[at[0]], v_at[at[1]], v_at[at[2]], v_at[at[3]])
    response = spring_response(spring, overlap_of(spring, at, w, x), velocity)
    B = alpha_x * response.K + alpha_v * response.D
    blocks_out[k] = B
    for a in range(4):
        wp.atomic_add(f_out, at[a], w[a] * response.f)
        wp.atomic_add(A_out, diagonal[at[a]], w[a] * w[a] * B)


@wp.kernel
def count_wrong(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=PenaltySpring), x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
    # out
    counts_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Counts the active springs, those that are wrong, and those that are missing deep."""
    k = wp.tid()
    if k >= count[0]:
        return
    spring = springs[k]
    at, w = particles[k], weights[k]
    overlap = overlap_of(spring, at, w, x)
    wp.atomic_add(counts_out, ACTIVE, spring.active)
    if is_wrong(spring, overlap, combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])):
        wp.atomic_add(counts_out, WRONG, 1)
        if overlap > DEEP_OVERLAP * spring.length:
            wp.atomic_add(counts_out, MISSING_DEEP, 1)


@wp.kernel
def correct_active_set(
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), alpha_x: real, alpha_v: real,
    # in and out
    springs_out: wp.array(dtype=PenaltySpring), b_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33),
    blocks_out: wp.array(dtype=mat33),
):  # fmt: skip
    """Adds springs that should be active and removes those that pull: in A, and by their force in the residual b."""
    k = wp.tid()
    if k >= count[0]:
        return
    at, w, spring = particles[k], weights[k], springs_out[k]
    overlap = overlap_of(spring, at, w, x)
    velocity = combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])
    if not is_wrong(spring, overlap, velocity):
        return
    response = spring_response(spring, overlap, velocity)
    B = alpha_x * response.K + alpha_v * response.D
    sign = real(1.0)
    blocks_out[k] = B
    if spring.active == 1:
        sign = real(-1.0)
        blocks_out[k] = mat33()
    for a in range(4):
        wp.atomic_add(b_out, at[a], sign * alpha_v * w[a] * response.f)
        wp.atomic_add(A_out, diagonal[at[a]], sign * w[a] * w[a] * B)
    spring.active = 1 - spring.active
    springs_out[k] = spring


@wp.kernel
def add_forces(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=PenaltySpring), x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
    # in and out
    f_out: wp.array(dtype=vec3),
):  # fmt: skip
    """f += the forces of active springs."""
    k = wp.tid()
    if k >= count[0]:
        return
    at, w, spring = particles[k], weights[k], springs[k]
    if spring.active == 1:
        overlap = overlap_of(spring, at, w, x)
        response = spring_response(spring, overlap, combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]]))
        for a in range(4):
            wp.atomic_add(f_out, at[a], w[a] * response.f)


@wp.kernel
def activate_compressed(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
    # in and out
    springs_out: wp.array(dtype=PenaltySpring),
):  # fmt: skip
    """Activates the springs that are compressed at x and v, and deactivates all other springs."""
    k = wp.tid()
    if k >= count[0]:
        return
    at, w, spring = particles[k], weights[k], springs_out[k]
    velocity = combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])
    force = spring.k * overlap_of(spring, at, w, x) - spring.d * wp.dot(spring.n, velocity)
    spring.active = wp.where(force > real(0.0), 1, 0)
    springs_out[k] = spring


@wp.kernel
def add_damping(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=PenaltySpring), u: wp.array(dtype=vec3),
    # in and out
    y_out: wp.array(dtype=vec3),
):  # fmt: skip
    """y += -df/dv u."""
    k = wp.tid()
    if k >= count[0]:
        return
    at, w, spring = particles[k], weights[k], springs[k]
    if spring.active == 1:
        y = spring_response(spring, real(0.0), vec3()).D * combine(w, u[at[0]], u[at[1]], u[at[2]], u[at[3]])
        for a in range(4):
            wp.atomic_add(y_out, at[a], w[a] * y)


@wp.kernel
def measure_energy(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=PenaltySpring), x: wp.array(dtype=vec3),
    # out
    E_out: wp.array(dtype=real),
):  # fmt: skip
    """The energy of each active spring."""
    k = wp.tid()
    if k >= count[0]:
        return
    E_out[k] = real(0.0)
    if springs[k].active == 1:
        E_out[k] = spring_response(springs[k], overlap_of(springs[k], particles[k], weights[k], x), vec3()).E
