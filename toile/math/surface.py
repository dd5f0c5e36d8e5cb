"""Signed distance from a triangle surface, exact to rounding on a search in single precision.

    distance = sign |p - c|,    sign = sign of (p - c) . m

c is the nearest point of the surface. Warp's tree finds a triangle in single precision; c, distance and normal are then
computed in `real`, also on the triangles around it, because rounding may have picked a neighbor. m is the normal of
the triangle, and where c lies on an edge or a vertex the sum of those around it: as they are, or weighted by angle.

Source      J. A. Baerentzen, H. Aanaes, Signed distance computation using the angle weighted pseudonormal (2005)
Symbols     p  a point [m]     c  its foot     s, t  coordinates of c in its triangle     x, v  vertices [m], [m/s]
Deviations  What is nearest to the rim of an open surface is outside; the pseudonormal has no meaning there.
"""

import warp as wp

from toile.math.solid import Closest
from toile.math.triangle import CORNER, INSIDE, SIDE, corner_angle, nearest_on_triangle
from toile.math.types import double, precision, real, vec3

# How much farther Warp's tree is searched, relative to the lengths involved: single precision may err so much.
ROUNDING = wp.constant(real(1.0e-6))
# Nothing is looked for beyond this distance [m]: its square must be a number in single precision.
FARTHEST = wp.constant(real(1.0e18))
# Closer than this to an edge, relative to where it lies, the direction to it is rounding: the pseudonormal is used.
ON_SURFACE = wp.constant(real(1.0e-10 if precision == "double" else 1.0e-4))
# Moves to a neighbor that is nearer. One corrects the tree's choice; more, the rounding of slivers.
MAX_MOVES = wp.constant(8)
# So near to a side, as a share of the triangle's height, the triangle beyond it is looked at too.
NEARLY = wp.constant(real(1.0e-3))


@wp.struct
class DistanceSurface:
    """Triangles where they are now. All positions are relative to `center`, where single precision is finest."""

    tree: wp.uint64
    center: vec3
    deforms: wp.int32
    x: wp.array(dtype=vec3)
    v: wp.array(dtype=vec3)
    corners: wp.array(dtype=wp.int32)  # corner k of triangle f is entry 3 f + k; so is the side from it to the next
    around_edge: wp.array(dtype=wp.int32)  # side -> the next side on the same edge, in a ring
    around_vertex: wp.array(dtype=wp.int32)  # corner -> the next corner at the same vertex, in a ring
    thin: wp.array(dtype=wp.int32)  # triangles that the tree cannot be trusted with
    thin_boxes: wp.uint64  # Warp's tree of the boxes around them


@wp.struct
class Foot:
    """The nearest point of one triangle."""

    face: wp.int32
    part: wp.int32
    s: real
    t: real
    arm: vec3  # from it to p
    squared: real
    normal: vec3  # of the triangle; its length is twice the area


@wp.struct
class Pseudonormal:
    """The sum of the normals around an edge or a vertex."""

    sum: vec3
    rim: wp.int32  # 1 where the surface ends


@wp.func
def corner(surface: DistanceSurface, face: wp.int32, k: wp.int32) -> vec3:
    return surface.x[surface.corners[3 * face + k]]


@wp.func
def foot_on(surface: DistanceSurface, p: vec3, face: wp.int32) -> Foot:
    a, b, c = corner(surface, face, 0), corner(surface, face, 1), corner(surface, face, 2)
    near = nearest_on_triangle(double(p), double(a), double(b), double(c))
    foot = Foot()
    foot.face = face
    foot.part = near.part
    foot.s = real(near.s)
    foot.t = real(near.t)
    foot.arm = p - a - foot.s * (b - a) - foot.t * (c - a)
    foot.squared = wp.dot(foot.arm, foot.arm)
    foot.normal = vec3(near.normal)
    return foot


@wp.func
def vicinity(foot: Foot) -> wp.int32:
    """The part of its triangle that a foot is on, or so near to that another triangle there may be nearer to p."""
    off_a, off_b, off_c = real(1.0) - foot.s - foot.t < NEARLY, foot.s < NEARLY, foot.t < NEARLY
    if off_b and off_c:
        return CORNER
    if off_c and off_a:
        return CORNER + 1
    if off_a and off_b:
        return CORNER + 2
    if off_c:
        return SIDE
    if off_a:
        return SIDE + 1
    if off_b:
        return SIDE + 2
    return INSIDE


@wp.func
def next_around(surface: DistanceSurface, part: wp.int32, entry: wp.int32) -> wp.int32:
    """The next side on the same edge, or the next corner at the same vertex."""
    if part >= CORNER:
        return surface.around_vertex[entry]
    return surface.around_edge[entry]


@wp.func
def first_around(face: wp.int32, part: wp.int32) -> wp.int32:
    return 3 * face + part % 3


@wp.func
def settle(surface: DistanceSurface, p: vec3, start: Foot) -> Foot:
    """The nearest foot on a triangle or those that touch it; rounding may have led the search to one next to it."""
    foot = start
    for _ in range(MAX_MOVES):
        part = vicinity(foot)
        if part == INSIDE:
            return foot
        first = first_around(foot.face, part)
        better = foot
        entry = next_around(surface, part, first)
        while entry != first:
            other = foot_on(surface, p, entry // 3)
            if other.squared < better.squared:
                better = other
            entry = next_around(surface, part, entry)
        if better.face == foot.face:
            return foot
        foot = better
    return foot


@wp.func
def pseudonormal(surface: DistanceSurface, foot: Foot) -> Pseudonormal:
    found = Pseudonormal()
    first = first_around(foot.face, foot.part)
    entry = wp.int32(first)
    while True:
        face, k = entry // 3, entry % 3
        before = 3 * face + (k + 2) % 3
        a, b, c = corner(surface, face, k), corner(surface, face, (k + 1) % 3), corner(surface, face, (k + 2) % 3)
        n = wp.normalize(wp.cross(b - a, c - a))
        if foot.part >= CORNER:
            n *= corner_angle(a, b, c)
            if surface.around_edge[before] == before:
                found.rim = 1
        if surface.around_edge[entry] == entry:
            found.rim = 1
        found.sum += n
        entry = next_around(surface, foot.part, entry)
        if entry == first:
            break
    return found


@wp.func
def above(foot: Foot) -> Closest:
    """Distance and normal where the nearest point lies inside a triangle."""
    found = Closest()
    found.face = foot.face
    found.normal = wp.normalize(foot.normal)
    found.distance = wp.dot(foot.arm, found.normal)
    return found


@wp.func
def beside(surface: DistanceSurface, p: vec3, foot: Foot) -> Closest:
    """Distance and normal where the nearest point lies on an edge or a vertex."""
    m = pseudonormal(surface, foot)
    side = real(1.0)
    if m.rim == 0 and wp.dot(foot.arm, m.sum) < real(0.0):
        side = real(-1.0)
    distance = wp.sqrt(foot.squared)
    found = Closest()
    found.face = foot.face
    found.distance = side * distance
    found.normal = wp.normalize(foot.normal)
    length = wp.length(m.sum)
    if length > NEARLY:  # where two solids touch the normals around may cancel
        found.normal = m.sum / length
    if distance > ON_SURFACE * wp.length(p):
        found.normal = (side / distance) * foot.arm
    return found


@wp.func
def at_a_side(surface: DistanceSurface, p: vec3, start: Foot) -> Closest:
    """Distance and normal for a foot on a side or a corner of its triangle, or near one."""
    foot = settle(surface, p, start)
    if foot.part == INSIDE:
        return above(foot)
    return beside(surface, p, foot)


@wp.func
def with_thin(surface: DistanceSurface, p: vec3, face: wp.int32, reach: real) -> wp.int32:
    """The nearest of a triangle (-1 for none) and the thin ones within reach."""
    nearest = wp.int32(face)
    radius = wp.float32(reach)
    squared = reach * reach
    if face >= 0:
        squared = foot_on(surface, p, face).squared
        radius = wp.float32(wp.sqrt(squared) + ROUNDING * wp.length(p))
    boxes = wp.bvh_query_sphere(surface.thin_boxes, wp.vec3f(p), radius)
    entry = wp.int32(0)
    while wp.bvh_query_next(boxes, entry):
        foot = foot_on(surface, p, surface.thin[entry])
        if foot.squared < squared:
            squared = foot.squared
            nearest = foot.face
    return nearest


@wp.func
def velocity_at(surface: DistanceSurface, p: vec3, face: wp.int32) -> vec3:
    """Of the point of a triangle nearest to p."""
    foot = foot_on(surface, p, face)
    a = surface.v[surface.corners[3 * face]]
    b = surface.v[surface.corners[3 * face + 1]]
    c = surface.v[surface.corners[3 * face + 2]]
    return a + foot.s * (b - a) + foot.t * (c - a)


@wp.func
def closest_on_surface(surface: DistanceSurface, p: vec3, reach: real) -> Closest:
    q = p - surface.center
    search = wp.min(reach, FARTHEST)
    search += ROUNDING * (search + wp.length(q))
    hit = wp.mesh_query_point_no_sign(surface.tree, wp.vec3f(q), wp.float32(search))
    face = wp.int32(-1)
    if hit.result:
        face = hit.face
    if surface.thin.shape[0] > 0:
        face = with_thin(surface, q, face, search)
    found = Closest()
    if face >= 0:
        # Nearly all points are well above a triangle: no more is computed for them than they need.
        a = corner(surface, face, 0)
        ab, ac, arm = corner(surface, face, 1) - a, corner(surface, face, 2) - a, q - a
        n = wp.cross(ab, ac)
        whole, s, t = wp.dot(n, n), wp.dot(n, wp.cross(arm, ac)), wp.dot(n, wp.cross(ab, arm))
        if wp.min(wp.min(s, t), whole - s - t) > NEARLY * whole:
            found.face = face
            found.normal = n / wp.sqrt(whole)
            found.distance = wp.dot(arm, found.normal)
        else:
            found = at_a_side(surface, q, foot_on(surface, q, face))
        if wp.abs(found.distance) <= reach:
            if surface.deforms != 0:
                found.velocity = velocity_at(surface, q, found.face)
            return found
    found.distance = reach
    found.normal = vec3(real(0.0), real(0.0), real(1.0))
    return found
