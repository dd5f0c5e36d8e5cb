"""Signed distance to a triangle surface, exact to rounding after a search in single precision.

    distance = sign |p - c|,    sign = sign of (p - c) . m

c is the closest point of the surface. Warp's BVH finds a triangle in single precision; c, distance and normal are then
computed in `real`, also on the triangles around it, because rounding may have selected a neighbor. m is the normal of
the triangle; on an edge it is the sum of the adjacent normals, at a vertex their sum weighted by angle.

Source      J. A. Baerentzen, H. Aanaes, Signed distance computation using the angle weighted pseudonormal (2005)
Symbols     p  query point [m]     c  its foot     s, t  coordinates of c in its triangle     x, v  vertices [m], [m/s]
Deviations  A point closest to the rim of an open surface is outside; the pseudonormal has no meaning there.
"""

import warp as wp

from toile.math.solid import Closest
from toile.math.triangle import CORNER, INSIDE, SIDE, corner_angle, nearest_on_triangle
from toile.math.types import double, precision, real, vec3

# Extra search radius for Warp's BVH, relative to the lengths involved: the error of single precision.
ROUNDING = wp.constant(real(1.0e-6))
# Limit of the search distance [m]: its square must be finite in single precision.
FARTHEST = wp.constant(real(1.0e18))
# Closer than this to an edge, relative to its position, the direction to it is rounding: the pseudonormal is used.
ON_SURFACE = wp.constant(real(1.0e-10 if precision == "double" else 1.0e-4))
# Limit on moves to a closer neighbor. One corrects the choice of the BVH; more correct the rounding of slivers.
MAX_MOVES = wp.constant(8)
# Within this fraction of the triangle's height from a side, the triangle beyond it is tested too.
NEARLY = wp.constant(real(1.0e-3))


@wp.struct
class DistanceSurface:
    """Triangles at their current positions, relative to `center`, where single precision is finest."""

    tree: wp.uint64
    center: vec3
    deforms: wp.int32
    x: wp.array(dtype=vec3)
    v: wp.array(dtype=vec3)
    corners: wp.array(dtype=wp.int32)  # corner k of triangle f is entry 3 f + k; so is the side from it to the next
    around_edge: wp.array(dtype=wp.int32)  # side -> the next side on the same edge, cyclic
    around_vertex: wp.array(dtype=wp.int32)  # corner -> the next corner at the same vertex, cyclic
    thin: wp.array(dtype=wp.int32)  # thin triangles, for which the BVH is unreliable
    thin_boxes: wp.uint64  # Warp's BVH of their bounding boxes


@wp.struct
class Foot:
    """Closest point of one triangle."""

    face: wp.int32
    part: wp.int32
    s: real
    t: real
    arm: vec3  # from it to p
    squared: real
    normal: vec3  # of the triangle; its length is twice the area


@wp.struct
class Pseudonormal:
    """Sum of the normals around an edge or a vertex."""

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
def part_near(foot: Foot) -> wp.int32:
    """Returns the part of its triangle that a foot lies on, or so close to that another triangle may be closer to p."""
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
    """Returns the next side on the same edge, or the next corner at the same vertex."""
    if part >= CORNER:
        return surface.around_vertex[entry]
    return surface.around_edge[entry]


@wp.func
def first_around(face: wp.int32, part: wp.int32) -> wp.int32:
    return 3 * face + part % 3


@wp.func
def closest_of_neighbors(surface: DistanceSurface, p: vec3, start: Foot) -> Foot:
    """Returns the closest foot on a triangle and its neighbors; rounding may have led the search to a neighbor."""
    foot = start
    for _ in range(MAX_MOVES):
        part = part_near(foot)
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
def closest_on_face(foot: Foot) -> Closest:
    """Returns distance and normal if the closest point lies inside a triangle."""
    found = Closest()
    found.face = foot.face
    found.normal = wp.normalize(foot.normal)
    found.distance = wp.dot(foot.arm, found.normal)
    return found


@wp.func
def closest_on_edge_or_vertex(surface: DistanceSurface, p: vec3, foot: Foot) -> Closest:
    """Returns distance and normal if the closest point lies on an edge or a vertex."""
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
    if length > NEARLY:  # where two solids are in contact, the normals may cancel
        found.normal = m.sum / length
    if distance > ON_SURFACE * wp.length(p):
        found.normal = (side / distance) * foot.arm
    return found


@wp.func
def closest_near_side(surface: DistanceSurface, p: vec3, start: Foot) -> Closest:
    """Returns distance and normal for a foot on or near a side or a corner of its triangle."""
    foot = closest_of_neighbors(surface, p, start)
    if foot.part == INSIDE:
        return closest_on_face(foot)
    return closest_on_edge_or_vertex(surface, p, foot)


@wp.func
def closest_or_thin(surface: DistanceSurface, p: vec3, face: wp.int32, reach: real) -> wp.int32:
    """Returns the closest of a triangle (-1 for none) and the thin triangles within reach."""
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
    """Returns the velocity of the point of a triangle closest to p."""
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
        face = closest_or_thin(surface, q, face, search)
    found = Closest()
    if face >= 0:
        # Nearly all points are well above the inside of a triangle: this case is computed directly.
        a = corner(surface, face, 0)
        ab, ac, arm = corner(surface, face, 1) - a, corner(surface, face, 2) - a, q - a
        n = wp.cross(ab, ac)
        whole, s, t = wp.dot(n, n), wp.dot(n, wp.cross(arm, ac)), wp.dot(n, wp.cross(ab, arm))
        if wp.min(wp.min(s, t), whole - s - t) > NEARLY * whole:
            found.face = face
            found.normal = n / wp.sqrt(whole)
            found.distance = wp.dot(arm, found.normal)
        else:
            found = closest_near_side(surface, q, foot_on(surface, q, face))
        if wp.abs(found.distance) <= reach:
            if surface.deforms != 0:
                found.velocity = velocity_at(surface, q, found.face)
            return found
    found.distance = reach
    found.normal = vec3(real(0.0), real(0.0), real(1.0))
    return found
