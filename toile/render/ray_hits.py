"""Closest hits of camera rays: cloth, solids and the ground plane, each with a normal and a color."""

import warp as wp

import toile.math.types  # noqa: F401  starts Warp, and keeps it quiet
from toile.render import palette

# Judgments of taste. Colors are linear.
GROUND_COLOR = wp.constant(wp.vec3(0.60, 0.59, 0.57))
SOLID_COLOR = wp.constant(wp.vec3(*palette.SOLID))
# The ground, and a solid that is larger than the picture, fade into the background between these distances
# [half heights].
FADE_START, FADE_END = 2.0, 9.0
# Width of the weave lines as a share of their spacing, and how much they darken the cloth
LINE_WIDTH, LINE_DARKNESS = 0.06, 0.22
FAR = 1.0e6  # longer than any ray [half heights]

# Kinds of hits. Cloth i has the kind CLOTH + i.
BACKGROUND, GROUND, SOLID, CLOTH = wp.constant(0), wp.constant(1), wp.constant(2), wp.constant(3)
# Owners of the triangles of solids; those of cloth are owned by the cloth's number.
SOLID_OWNER, BACKDROP_OWNER = wp.constant(-1), wp.constant(-2)


@wp.struct
class CameraView:
    """Camera, light and ground of one picture, in half heights of the picture around the target of the camera."""

    eye: wp.vec3
    forward: wp.vec3
    right: wp.vec3  # half the picture's width
    up: wp.vec3  # half the picture's height
    light: wp.vec3
    light_u: wp.vec3  # the disc's radius in two directions
    light_v: wp.vec3
    center: wp.vec3  # bounding sphere of cloth and solids
    radius: wp.float32
    ground: wp.float32
    pixel: wp.float32  # size of a sample at distance 1
    line_spacing: wp.float32
    width: wp.int32
    height: wp.int32
    samples: wp.int32


@wp.struct
class SceneArrays:
    """Triangles of cloth and solids, their owners and the colors of the cloths."""

    mesh: wp.uint64
    points: wp.array(dtype=wp.vec3)
    normals: wp.array(dtype=wp.vec3)
    triangles: wp.array2d(dtype=wp.int32)
    uv: wp.array2d(dtype=wp.vec2)
    owners: wp.array(dtype=wp.int32)
    fronts: wp.array(dtype=wp.vec3)
    backs: wp.array(dtype=wp.vec3)


@wp.struct
class RayHit:
    """A point of a surface with its normal and color."""

    kind: wp.int32
    distance: wp.float32
    point: wp.vec3
    origin: wp.vec3  # start of secondary rays, on the visible side
    normal: wp.vec3
    albedo: wp.vec3
    fade: wp.float32  # share of the background in its color


@wp.func
def fraction(x: wp.float32):
    return x - wp.floor(x)


@wp.func
def r2_point(i: wp.int32):
    """Point i of the R2 sequence, which fills the unit square evenly."""
    return wp.vec2(fraction(0.5 + wp.float32(i) * 0.7548777), fraction(0.5 + wp.float32(i) * 0.5698403))


@wp.func
def camera_ray(view: CameraView, row: wp.int32, column: wp.int32, offset: wp.vec2):
    """Direction through the point of a pixel at `offset`, which is in the unit square."""
    x = 2.0 * (wp.float32(column) + offset[0]) / wp.float32(view.width) - 1.0
    y = 1.0 - 2.0 * (wp.float32(row) + offset[1]) / wp.float32(view.height)
    return wp.normalize(view.forward + x * view.right + y * view.up)


@wp.func
def is_occluded(view: CameraView, mesh: wp.uint64, start: wp.vec3, direction: wp.vec3, length: wp.float32):
    """Whether a ray hits a triangle. Most rays miss the bounding sphere, and that test is cheaper."""
    to_center = view.center - start
    along = wp.clamp(wp.dot(to_center, direction), 0.0, length)
    if wp.length_sq(to_center - along * direction) > view.radius * view.radius:
        return False
    return wp.mesh_query_ray_anyhit(mesh, start, direction, length)


@wp.func
def line_coverage(distance: wp.float32, line: wp.float32, footprint: wp.float32):
    """Share of a sample as wide as `footprint` that a line of width `line` covers."""
    return wp.clamp(0.5 * (line + footprint) - distance, 0.0, wp.min(line, footprint)) / footprint


@wp.func
def weave(uv: wp.vec2, spacing: wp.float32, footprint: wp.float32):
    """0 between the lines, 1 on them."""
    du = wp.abs(fraction(uv[0] / spacing + 0.5) - 0.5)
    dv = wp.abs(fraction(uv[1] / spacing + 0.5) - 0.5)
    f = wp.max(footprint / spacing, 1.0e-4)
    return wp.max(line_coverage(du, LINE_WIDTH, f), line_coverage(dv, LINE_WIDTH, f))


@wp.func
def above_chord(point: wp.vec3, corner: wp.vec3, normal: wp.vec3):
    """Vector from a point of the flat triangle to the tangent plane of a corner, zero if that plane is below it."""
    return wp.max(-wp.dot(point - corner, normal), 0.0) * normal


@wp.func
def hit_triangle(view: CameraView, scene: SceneArrays, direction: wp.vec3, query: wp.MeshQueryRay):
    """The hit without its kind and color."""
    a, b, c = scene.triangles[query.face, 0], scene.triangles[query.face, 1], scene.triangles[query.face, 2]
    wa, wb = query.u, query.v
    wc = 1.0 - wa - wb
    flat = query.normal
    side = wp.where(wp.dot(flat, direction) < 0.0, 1.0, -1.0)
    na, nb, nc = side * scene.normals[a], side * scene.normals[b], side * scene.normals[c]

    hit = RayHit()
    hit.distance = query.t
    hit.point = view.eye + query.t * direction
    hit.normal = wp.normalize(wa * na + wb * nb + wc * nc)
    # Secondary rays start from a rounded surface, or flat triangles would shade themselves at grazing light.
    rounded = (
        wa * above_chord(hit.point, scene.points[a], na)
        + wb * above_chord(hit.point, scene.points[b], nb)
        + wc * above_chord(hit.point, scene.points[c], nc)
    )
    hit.origin = hit.point + rounded + 1.0e-4 * side * flat
    return hit


@wp.func
def cloth_color(view: CameraView, scene: SceneArrays, cloth: wp.int32, direction: wp.vec3, query: wp.MeshQueryRay):
    """Color of the visible side, darker on the weave lines."""
    facing = wp.dot(query.normal, direction)
    footprint = view.pixel * query.t / wp.max(wp.abs(facing), 0.1)
    wa, wb = query.u, query.v
    wc = 1.0 - wa - wb
    at = wa * scene.uv[query.face, 0] + wb * scene.uv[query.face, 1] + wc * scene.uv[query.face, 2]
    line = weave(at, view.line_spacing, footprint)
    return wp.where(facing < 0.0, scene.fronts[cloth], scene.backs[cloth]) * (1.0 - LINE_DARKNESS * line)


@wp.func
def background_share(point: wp.vec3):
    """Share of the background in the color of a point: it grows with the distance from the target of the camera."""
    return wp.smoothstep(FADE_START, FADE_END, wp.length(wp.vec2(point[0], point[1])))


@wp.func
def hit_ground(view: CameraView, direction: wp.vec3, distance: wp.float32):
    hit = RayHit()
    hit.kind = GROUND
    hit.distance = distance
    hit.point = view.eye + distance * direction
    hit.normal = wp.vec3(0.0, 0.0, 1.0)
    hit.origin = hit.point
    hit.albedo = GROUND_COLOR
    hit.fade = background_share(hit.point)
    return hit


@wp.func
def closest_hit(view: CameraView, scene: SceneArrays, direction: wp.vec3):
    """The first surface that a camera ray hits; its kind is BACKGROUND if there is none."""
    hit = RayHit()
    ground = FAR
    if direction[2] < 0.0 and view.eye[2] > view.ground:  # the ground is invisible from below
        ground = (view.ground - view.eye[2]) / direction[2]
    query = wp.mesh_query_ray(scene.mesh, view.eye, direction, ground)
    if query.result:
        hit = hit_triangle(view, scene, direction, query)
        owner = scene.owners[query.face]
        if owner >= 0:
            hit.kind = CLOTH + owner
            hit.albedo = cloth_color(view, scene, owner, direction, query)
        else:
            hit.kind = SOLID
            hit.albedo = SOLID_COLOR
            if owner == BACKDROP_OWNER:
                hit.fade = background_share(hit.point)
    elif ground < FAR:
        hit = hit_ground(view, direction, ground)
    return hit
