"""The points of two edges nearest to each other.

    nearest = p0 + s (p1 - p0)    and    q0 + t (q1 - q0),        0 <= s, t <= 1

Where the feet of the common perpendicular n = u x v lie within both edges it is they,

    s = (v x w) . n / n^2,    t = (u x w) . n / n^2

otherwise an end of one edge and the point of the other nearest to it. Of parallel edges side by side every point of
the stretch that they share is nearest; it is the middle of that stretch.

Source      textbook geometry; the order of the clamping as in Ericson, Real-Time Collision Detection, sec. 5.1.9
Symbols     p0-p1, q0-q1  the edges     u, v  their vectors [m]     w = p0 - q0 [m]
Deviations  determinants through n and not through products of dots, which lose twice the digits on edges that are
            nearly parallel; the middle of the shared stretch where the book takes an end, so that exchanging the edges
            or their ends gives the same two points.
"""

import warp as wp

from toile.math.types import TINY, precision, real, vec3

# Square of the sine below which edges count as parallel: the rounding of their normal leaves no direction.
PARALLEL = wp.constant(real(1e-28 if precision == "double" else 1e-11))


@wp.struct
class EdgesPoint:
    """A point on each of two edges, as the share of the way from its first end to its second."""

    s: real
    t: real


@wp.func
def nearest_of_edges(p0: vec3, p1: vec3, q0: vec3, q1: vec3) -> EdgesPoint:
    zero, one = real(0.0), real(1.0)
    found = EdgesPoint()
    u, v, w = p1 - p0, q1 - q0, p0 - q0
    uu, vv, uv = wp.dot(u, u), wp.dot(v, v), wp.dot(u, v)
    uw, vw = wp.dot(u, w), wp.dot(v, w)
    n = wp.cross(u, v)
    nn = wp.dot(n, n)
    if uu <= TINY:  # a point
        if vv > TINY:
            found.t = wp.clamp(vw / vv, zero, one)
        return found
    if vv <= TINY:
        found.s = wp.clamp(-uw / uu, zero, one)
        return found
    if nn > PARALLEL * uu * vv:
        found.s = wp.clamp(wp.dot(wp.cross(v, w), n) / nn, zero, one)
        found.t = wp.dot(wp.cross(u, w), n) / nn
        if found.s > zero and found.s < one and found.t >= zero and found.t <= one:
            return found
    else:
        # The stretch of p between the feet of q0 and q1.
        found.s = real(0.5) * (wp.clamp(-uw / uu, zero, one) + wp.clamp((uv - uw) / uu, zero, one))
    found.t = (vw + found.s * uv) / vv
    if found.t < zero:
        found.t = zero
        found.s = wp.clamp(-uw / uu, zero, one)
    elif found.t > one:
        found.t = one
        found.s = wp.clamp((uv - uw) / uu, zero, one)
    return found
