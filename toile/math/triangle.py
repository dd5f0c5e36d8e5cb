"""Closest point of a triangle to p, and the part of the triangle it lies on.

    closest = a + s (b - a) + t (c - a)

If p projects into the triangle, s and t are area fractions of the projection; beyond a side the closest point is the
foot of p on that side, if there is one; otherwise the closest corner.

It is always computed in double precision: whether cloth passes through cloth depends on it.

Symbols     a, b, c  corners 0, 1, 2     side k  from corner k to the next     p  any point [m]
Deviations  none
"""

import warp as wp

from toile.math.types import real, vec3

# Parts of a triangle: INSIDE, then SIDE + k and CORNER + k.
INSIDE, SIDE, CORNER = wp.constant(-1), wp.constant(0), wp.constant(3)


@wp.struct
class TrianglePoint:
    """A point of a triangle."""

    s: wp.float64
    t: wp.float64
    part: wp.int32
    normal: wp.vec3d  # of the triangle; its length is twice the area


@wp.func
def nearest_on_triangle(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> TrianglePoint:
    zero, one = wp.float64(0.0), wp.float64(1.0)
    found = TrianglePoint()
    ab, bc, ca = b - a, c - b, a - c
    pa, pb, pc = p - a, p - b, p - c
    n = wp.cross(ca, ab)
    found.normal = n
    # Through the normal and not through products of dots, which lose twice the digits on a sliver.
    cut_ab, cut_bc, cut_ca = wp.dot(n, wp.cross(ab, pa)), wp.dot(n, wp.cross(bc, pb)), wp.dot(n, wp.cross(ca, pc))
    if cut_ab > zero and cut_bc > zero and cut_ca > zero:
        whole = cut_ab + cut_bc + cut_ca
        found.s = cut_ca / whole
        found.t = cut_ab / whole
        found.part = INSIDE
        return found
    along_ab, along_bc, along_ca = wp.dot(ab, pa), wp.dot(bc, pb), wp.dot(ca, pc)
    ab_ab, bc_bc, ca_ca = wp.dot(ab, ab), wp.dot(bc, bc), wp.dot(ca, ca)
    if cut_ab <= zero and along_ab > zero and along_ab < ab_ab:
        found.s = along_ab / ab_ab
        found.part = SIDE
    elif cut_bc <= zero and along_bc > zero and along_bc < bc_bc:
        found.t = along_bc / bc_bc
        found.s = one - found.t
        found.part = SIDE + 1
    elif cut_ca <= zero and along_ca > zero and along_ca < ca_ca:
        found.t = one - along_ca / ca_ca
        found.part = SIDE + 2
    else:
        to_a, to_b, to_c = wp.dot(pa, pa), wp.dot(pb, pb), wp.dot(pc, pc)
        if to_a <= to_b and to_a <= to_c:
            found.part = CORNER
        elif to_b <= to_c:
            found.s = one
            found.part = CORNER + 1
        else:
            found.t = one
            found.part = CORNER + 2
    return found


@wp.func
def corner_angle(at: vec3, one: vec3, two: vec3) -> real:
    """Returns the angle between the sides of a triangle at the corner `at` [rad]."""
    u, v = one - at, two - at
    return wp.atan2(wp.length(wp.cross(u, v)), wp.dot(u, v))
