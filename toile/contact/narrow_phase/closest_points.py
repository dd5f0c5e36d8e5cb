"""Closest points of two elements, a vertex and a triangle or two edges, as four vertices with weights.

    r = sum of w_a x_a,    distance = |r|,    n = r / |r|    points from the second element to the first

    vertex-triangle    x0 | x1 x2 x3      w = 1, -(1 - s - t), -s, -t
    edge-edge          x0 x1 | x2 x3      w = 1 - s, s, -(1 - t), -t

The weights add up to zero, so impulses w_a j n conserve momentum, and angular momentum as well: they act along r.

Source      [BFA02] sec. 6
Deviations  none
"""

import warp as wp

from toile.contact.narrow_phase.elements import VERTEX_TRIANGLE
from toile.contact.narrow_phase.impact_time import edge_edge_impact, vertex_triangle_impact
from toile.math.edges import nearest_of_edges
from toile.math.triangle import nearest_on_triangle
from toile.math.types import TINY, double, mat33, real, vec3, vec4


@wp.struct
class ClosestPoints:
    """The closest points of two elements, their distance and the normal between them."""

    weights: vec4
    normal: vec3
    distance: real  # [m]


@wp.func
def combine(w: vec4, a: vec3, b: vec3, c: vec3, d: vec3) -> vec3:
    """The sum of w_a x_a for weights that add up to zero; differences keep all digits far from the origin."""
    return w[1] * (b - a) + w[2] * (c - a) + w[3] * (d - a)


@wp.func
def closest_points(kind: wp.int32, a: vec3, b: vec3, c: vec3, d: vec3) -> ClosestPoints:
    """The closest points; at distance 0 the normal is that of the triangle, or of both edges."""
    found = ClosestPoints()
    one = real(1.0)
    across = vec3()
    if kind == VERTEX_TRIANGLE:
        point = nearest_on_triangle(double(a), double(b), double(c), double(d))
        s, t = real(point.s), real(point.t)
        found.weights = vec4(one, s + t - one, -s, -t)
        across = vec3(point.normal)
    else:
        points = nearest_of_edges(double(a), double(b), double(c), double(d))
        found.weights = vec4(one - real(points.s), real(points.s), real(points.t) - one, -real(points.t))
        across = wp.cross(b - a, d - c)
    r = combine(found.weights, a, b, c, d)
    found.distance = wp.length(r)
    if found.distance > TINY:
        found.normal = r / found.distance
    elif wp.length_sq(across) > TINY:
        found.normal = wp.normalize(across)
    else:
        found.normal = vec3(real(0.0), real(0.0), one)
    return found


@wp.func
def approach(kind: wp.int32, a: vec3, b: vec3, c: vec3, d: vec3) -> real:
    """An upper bound of the decrease in distance of two elements, for displacements a to d of their vertices."""
    mean = real(0.25) * (a + b + c + d)
    la, lb, lc, ld = wp.length(a - mean), wp.length(b - mean), wp.length(c - mean), wp.length(d - mean)
    if kind == VERTEX_TRIANGLE:
        return la + wp.max(lb, wp.max(lc, ld))
    return wp.max(la, lb) + wp.max(lc, ld)


@wp.func
def gap_along(n: vec3, kind: wp.int32, a: vec3, b: vec3, c: vec3, d: vec3) -> real:
    """The gap between two elements along a unit vector n from the second to the first, at most their distance."""
    hb, hc, hd = wp.dot(n, b - a), wp.dot(n, c - a), wp.dot(n, d - a)  # heights relative to the first vertex
    if kind == VERTEX_TRIANGLE:
        return -wp.max(hb, wp.max(hc, hd))
    return wp.min(hb, real(0.0)) - wp.max(hc, hd)


@wp.func
def effective_inverse_mass(w: vec4, n: vec3, A: mat33, B: mat33, C: mat33, D: mat33) -> real:
    """Relative displacement of the closest points along n for a unit impulse along n [1/kg]."""
    return (
        w[0] * w[0] * wp.dot(n, A * n)
        + w[1] * w[1] * wp.dot(n, B * n)
        + w[2] * w[2] * wp.dot(n, C * n)
        + w[3] * w[3] * wp.dot(n, D * n)
    )


@wp.func
def impact(
    kind: wp.int32, a: vec3, b: vec3, c: vec3, d: vec3, a_end: vec3, b_end: vec3, c_end: vec3, d_end: vec3, margin: real
) -> real:
    """The time of impact in 0..1, or NEVER (impact_time.py)."""
    if kind == VERTEX_TRIANGLE:
        return vertex_triangle_impact(a, b, c, d, a_end, b_end, c_end, d_end, margin)
    return edge_edge_impact(a, b, c, d, a_end, b_end, c_end, d_end, margin)


@wp.func
def center_line(kind: wp.int32, a: vec3, b: vec3, c: vec3, d: vec3) -> vec3:
    """The direction from the center of the second element of a pair to that of the first."""
    if kind == VERTEX_TRIANGLE:
        return wp.normalize(real(3.0) * a - (b + c + d))
    return wp.normalize((a + b) - (c + d))
