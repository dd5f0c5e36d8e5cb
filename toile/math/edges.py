"""Closest points of two edges.

    closest = p0 + s (p1 - p0)    and    q0 + t (q1 - q0),        0 <= s, t <= 1

If the feet of the common perpendicular n = u x v lie within both edges, they are the closest points,

    s = (v x w) . n / n^2,    t = (u x w) . n / n^2

otherwise an end of one edge and the closest point of the other. For parallel edges side by side every point of the
overlap is closest; the result is the middle of the overlap.

They are always computed in double precision: whether cloth passes through cloth depends on it.

Source      textbook geometry; the order of the clamping as in Ericson, Real-Time Collision Detection, sec. 5.1.9
Symbols     p0-p1, q0-q1  the edges     u, v  their vectors [m]     w = p0 - q0 [m]
Deviations  determinants through n and not through products of dots, which lose twice the digits on nearly parallel
            edges; the middle of the overlap where the book takes an end, so that exchanging the edges or their ends
            gives the same two points.
"""

import warp as wp

# Square of the sine below which edges count as parallel: the rounding of their normal leaves no direction.
PARALLEL = wp.constant(wp.float64(1e-28))
# Square of a length [m^2] below which an edge is a point.
POINT = wp.constant(wp.float64(1e-60))


@wp.struct
class EdgesPoint:
    """A point on each of two edges, as the fraction of the way from its first end to its second."""

    s: wp.float64
    t: wp.float64


@wp.func
def nearest_of_edges(p0: wp.vec3d, p1: wp.vec3d, q0: wp.vec3d, q1: wp.vec3d) -> EdgesPoint:
    zero, one = wp.float64(0.0), wp.float64(1.0)
    found = EdgesPoint()
    u, v, w = p1 - p0, q1 - q0, p0 - q0
    uu, vv, uv = wp.dot(u, u), wp.dot(v, v), wp.dot(u, v)
    uw, vw = wp.dot(u, w), wp.dot(v, w)
    n = wp.cross(u, v)
    nn = wp.dot(n, n)
    if uu <= POINT:  # the edge is a point
        if vv > POINT:
            found.t = wp.clamp(vw / vv, zero, one)
        return found
    if vv <= POINT:
        found.s = wp.clamp(-uw / uu, zero, one)
        return found
    if nn > PARALLEL * uu * vv:
        found.s = wp.clamp(wp.dot(wp.cross(v, w), n) / nn, zero, one)
        found.t = wp.dot(wp.cross(u, w), n) / nn
        if found.s > zero and found.s < one and found.t >= zero and found.t <= one:
            return found
    else:
        # The middle of the part of p between the feet of q0 and q1.
        found.s = wp.float64(0.5) * (wp.clamp(-uw / uu, zero, one) + wp.clamp((uv - uw) / uu, zero, one))
    found.t = (vw + found.s * uv) / vv
    if found.t < zero:
        found.t = zero
        found.s = wp.clamp(-uw / uu, zero, one)
    elif found.t > one:
        found.t = one
        found.s = wp.clamp((uv - uw) / uu, zero, one)
    return found
