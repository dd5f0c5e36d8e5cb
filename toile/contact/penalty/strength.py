"""Stiffness, damping and friction of the penalty springs: the area that each pair represents, times the law.

    k = stiffness * area,    d = k * damping while the pair approaches,    c = friction * k (length - gap) / |r'|

Each side of a particle has the particle's area, shared among the pairs on that side in proportion to weight times
depth. So the stiffness is per area of cloth in contact, however many pairs there are, and whether
vertices, edges or both are in contact.

Source      [BW98] sec. 6
Symbols     k  [N/m]     d, c  [N s/m]     r'  relative velocity of the closest points [m/s]
Deviations  The paper's slip force is proportional to the slip velocity. Here it is so up to `slip_speed`, and beyond it
            Coulomb's, with the normal force and the direction of the start of the step. Separation is not damped: a
            damper would act as glue.
"""

import warp as wp

from toile.contact.narrow_phase.closest_points import combine
from toile.contact.penalty.pairs import PenaltySpring
from toile.math.types import real, vec3, vec4


@wp.struct
class SpringLaw:
    """The constants that all springs share."""

    stiffness: real
    damping: real
    friction: real
    slip_speed: real


@wp.kernel
def add_normals(triangles: wp.array(dtype=wp.vec3i), x: wp.array(dtype=vec3), normal_out: wp.array(dtype=vec3)):
    """Adds up the normals of the triangles at each vertex, weighted by area."""
    corners = triangles[wp.tid()]
    a, b, c = x[corners[0]], x[corners[1]], x[corners[2]]
    n = wp.cross(b - a, c - a)
    for corner in range(3):
        wp.atomic_add(normal_out, corners[corner], n)


@wp.func
def side_entry(i: wp.int32, w: real, n: vec3, normal: wp.array(dtype=vec3)) -> wp.int32:
    """The entry of the side of particle i that faces the other element."""
    return wp.where(w * wp.dot(n, normal[i]) < real(0.0), 2 * i, 2 * i + 1)


@wp.kernel
def find_deepest(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=PenaltySpring), normal: wp.array(dtype=vec3),
    # out
    deepest_out: wp.array(dtype=real),
):  # fmt: skip
    """The largest depth of the springs at each side of a particle."""
    k = wp.tid()
    if k >= count[0]:
        return
    for a in range(4):
        if weights[k][a] != real(0.0):
            s = side_entry(particles[k][a], weights[k][a], springs[k].n, normal)
            wp.atomic_max(deepest_out, s, springs[k].depth)


@wp.kernel
def sum_weights(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=PenaltySpring), normal: wp.array(dtype=vec3), deepest: wp.array(dtype=real),
    # out
    sum_out: wp.array(dtype=real),
):  # fmt: skip
    """The sum of the weights of the springs at each side of a particle, scaled by their depth."""
    k = wp.tid()
    if k >= count[0]:
        return
    for a in range(4):
        if weights[k][a] != real(0.0):
            s = side_entry(particles[k][a], weights[k][a], springs[k].n, normal)
            wp.atomic_add(sum_out, s, wp.abs(weights[k][a]) * springs[k].depth / deepest[s])


@wp.kernel
def set_strength(
    # model
    area: wp.array(dtype=real), law: SpringLaw,
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    normal: wp.array(dtype=vec3), deepest: wp.array(dtype=real), total: wp.array(dtype=real),
    v: wp.array(dtype=vec3),
    # in and out
    springs_out: wp.array(dtype=PenaltySpring),
):  # fmt: skip
    """Sets k, d and c of each spring."""
    k = wp.tid()
    if k >= count[0]:
        return
    spring = springs_out[k]
    at, w = particles[k], weights[k]
    both = real(0.0)  # areas of the two elements that belong to this pair
    for a in range(4):
        if w[a] != real(0.0):
            s = side_entry(at[a], w[a], spring.n, normal)
            share = wp.abs(w[a]) * spring.depth / deepest[s]
            both += area[at[a]] * share / wp.max(total[s], real(1.0))
    spring.k = law.stiffness * real(0.5) * both
    velocity = combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])
    speed = wp.dot(spring.n, velocity)
    spring.d = wp.where(speed < real(0.0), spring.k * law.damping, real(0.0))
    force = spring.k * wp.max(spring.overlap, real(0.0))
    slip = wp.length(velocity - speed * spring.n)
    spring.c = law.friction * force / wp.max(slip, law.slip_speed)
    springs_out[k] = spring
