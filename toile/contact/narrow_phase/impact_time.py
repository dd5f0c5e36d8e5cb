"""Time of impact of a vertex and a triangle, or of two edges, that move along straight lines.

Both are the distance of the origin from the hull of a few points r: the corners relative to the vertex, or the ends of
one edge relative to the ends of the other. Along any unit vector n,

    distance(t) >= min_i n . r_i(t),        n . r_i(t) = (1 - t) n . r_i(0) + t n . r_i(1)

With n along the closest points at the current time, both sides are equal there, and the right side, being linear in
each i, bounds the time until the distance falls to `nearest`. The time advances to that bound, and a new n is taken:

    nearest = min(margin, distance(0) / 2),        t <- min_i (n . r_i(0) - nearest) / (n . r_i(0) - n . r_i(1))

Guarantee   Until the time returned the distance is not 0, whatever n was: closest points that rounding has spoiled
            bring the time forward, never back. `nearest` must exceed the rounding of the products n . r (16 units of
            the last place of the longest r); if it does not, the time is 0. All terms are differences of positions at
            the same instant: the distance from the origin and the common motion make no difference. A caller that moves
            positions to that time rounds them to the last place of the coordinates, which must be less than `nearest`
            too.
            Pairs that have not converged after STEPS are reported as a hit at the time reached, which is early and so
            safe. Pairs that begin closer than the root of the rounding (1e-8 of their size) may be reported early too.
            All arithmetic is in double precision. Positions stored in single precision are exact in it; only the time
            is rounded, down.

Source      conservative advancement: Mirtich, Impulse-based Dynamic Simulation (1996); additive, with a distance that
            remains: Li, Kaufman, Jiang, Codimensional Incremental Potential Contact (2021)
Symbols     r_i(0), r_i(1)  points of the difference at start and end [m]     n  unit vector [-]     margin > 0 [m]
Deviations  The approach is bounded along n for each r_i, where Li et al. take one bound on the speed in all directions.
            It is never larger, and a pair that slides past or moves apart ends at the first step.
"""

import warp as wp

from toile.contact.narrow_phase.elements import EDGE_EDGE, VERTEX_TRIANGLE
from toile.math.edges import nearest_of_edges
from toile.math.triangle import INSIDE, nearest_on_triangle
from toile.math.types import double, real, vec3

NEVER = wp.constant(real(2.0))

# A distance below this multiple of `nearest` has converged.
ARRIVED = wp.constant(wp.float64(1.1))
# Most pairs need one step, hits two to five. Hundreds are for a triangle or edges that rotate while they graze: n
# rotates with them, and the corners far from the contact allow it little time.
STEPS = wp.constant(256)
# Rounding error of n . r, relative to the longest r.
ROUNDING = wp.constant(wp.float64(16.0 * 2.0**-52))
# Lengths and squares below this are not divided by.
TINY = wp.constant(wp.float64(1e-60))
# A time after the end of every motion.
LATER = wp.constant(wp.float64(2.0))
LAST_PLACE = wp.constant(real(2.0**-23))  # of single precision


@wp.func
def between(start: wp.vec3d, end: wp.vec3d, t: wp.float64) -> wp.vec3d:
    """The point at time t of a straight motion."""
    return start + t * (end - start)


@wp.func
def unit(r: wp.vec3d) -> wp.vec3d:
    """The unit vector along r, or 0 where r is too short to have a direction: then no distance is certain."""
    squared = wp.dot(r, r)
    if squared <= TINY:
        return wp.vec3d()
    return r / wp.sqrt(squared)


@wp.func
def direction(r: wp.vec3d, normal: wp.vec3d, side: wp.vec3d) -> wp.vec3d:
    """The unit vector along r, the shortest connection; along the normal of the hull, if r is normal to it and short.

    Rounding turns the normal by its ratio to the width of the hull, but r by its ratio to the distance.
    """
    if wp.dot(normal, normal) > wp.dot(r, r) * wp.dot(side, side):
        return unit(wp.sign(wp.dot(normal, r)) * normal)
    return unit(r)


@wp.func
def time_after(t: wp.float64, start: wp.vec4d, end: wp.vec4d, nearest: wp.float64) -> wp.float64:
    """The time until which all n . r_i, `start` at time 0 and `end` at time 1, exceed `nearest`; t once converged."""
    if wp.min(start + t * (end - start)) <= ARRIVED * nearest:
        return t
    after = wp.float64(1.0) * LATER
    for i in range(4):
        if end[i] <= nearest:
            after = wp.min(after, (start[i] - nearest) / wp.max(start[i] - end[i], TINY))
    return wp.max(t, after)


@wp.func
def no_later(t: wp.float64) -> real:
    """The time in working precision, rounded down."""
    rounded = real(t)
    if wp.float64(rounded) > t:
        rounded -= LAST_PLACE * rounded
    return rounded


@wp.func
def closest_direction(kind: wp.int32, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """The unit vector from the origin to the closest point of triangle abc, or of the parallelogram on ab and ac."""
    if kind == VERTEX_TRIANGLE:
        found = nearest_on_triangle(wp.vec3d(), a, b, c)
        normal = wp.vec3d()
        if found.part == INSIDE:
            normal = found.normal
        return direction(a + found.s * (b - a) + found.t * (c - a), normal, b - a)
    zero, one = wp.float64(0.0), wp.float64(1.0)
    points = nearest_of_edges(a, b, wp.vec3d(), a - c)
    across = wp.vec3d()
    if points.s > zero and points.s < one and points.t > zero and points.t < one:
        across = wp.cross(b - a, c - a)
    return direction(a + points.s * (b - a) + points.t * (c - a), across, b - a)


@wp.func
def hull_impact(
    kind: wp.int32, a0: wp.vec3d, b0: wp.vec3d, c0: wp.vec3d, d0: wp.vec3d,
    a1: wp.vec3d, b1: wp.vec3d, c1: wp.vec3d, d1: wp.vec3d, margin: real,
) -> real:  # fmt: skip
    """The time in 0..1 at which the distance of the origin from the hull of four points falls to `nearest`, or NEVER.

    Until then the distance is certainly not 0. At that time it is between `nearest` and ARRIVED * nearest. A hull that
    holds the origin at the start gets 0, unless nothing moves.
    """
    t, nearest = wp.float64(0.0), wp.float64(0.0)
    for step in range(STEPS):
        n = closest_direction(kind, between(a0, a1, t), between(b0, b1, t), between(c0, c1, t))
        start = wp.vec4d(wp.dot(n, a0), wp.dot(n, b0), wp.dot(n, c0), wp.dot(n, d0))
        end = wp.vec4d(wp.dot(n, a1), wp.dot(n, b1), wp.dot(n, c1), wp.dot(n, d1))
        if step == 0:
            nearest = wp.min(wp.float64(margin), wp.float64(0.5) * wp.min(start))
            longest = wp.max(
                wp.max(wp.max(wp.dot(a0, a0), wp.dot(b0, b0)), wp.max(wp.dot(c0, c0), wp.dot(d0, d0))),
                wp.max(wp.max(wp.dot(a1, a1), wp.dot(b1, b1)), wp.max(wp.dot(c1, c1), wp.dot(d1, d1))),
            )
            if nearest <= ROUNDING * wp.sqrt(longest):
                if a0 == a1 and b0 == b1 and c0 == c1 and d0 == d1:
                    return NEVER
                return no_later(t)
        after = time_after(t, start, end, nearest)
        if after == t or after > wp.float64(1.0):
            return no_later(after)
        t = after
    return no_later(t)


@wp.func
def vertex_triangle_impact(
    p: vec3, a: vec3, b: vec3, c: vec3, p_end: vec3, a_end: vec3, b_end: vec3, c_end: vec3, margin: real
) -> real:
    """The time of impact of the vertex p and the triangle abc, or NEVER (`hull_impact`)."""
    p0, p1 = double(p), double(p_end)
    a0, b0, c0 = double(a) - p0, double(b) - p0, double(c) - p0
    a1, b1, c1 = double(a_end) - p1, double(b_end) - p1, double(c_end) - p1
    return hull_impact(VERTEX_TRIANGLE, a0, b0, c0, c0, a1, b1, c1, c1, margin)


@wp.func
def edge_edge_impact(
    p0: vec3, p1: vec3, q0: vec3, q1: vec3, p0_end: vec3, p1_end: vec3, q0_end: vec3, q1_end: vec3, margin: real
) -> real:
    """The time of impact of the edges p0-p1 and q0-q1, or NEVER (`hull_impact`)."""
    u0, u1, v0, v1 = double(p0), double(p1), double(q0), double(q1)
    a0, b0, c0, d0 = u0 - v0, u1 - v0, u0 - v1, u1 - v1
    u0, u1, v0, v1 = double(p0_end), double(p1_end), double(q0_end), double(q1_end)
    return hull_impact(EDGE_EDGE, a0, b0, c0, d0, u0 - v0, u1 - v0, u0 - v1, u1 - v1, margin)
