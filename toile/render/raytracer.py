"""A small ray-tracer: cloth and solids over a ground plane, one area light with soft shadows, light from the sky.

    color = emitted + direct * V + ambient * O

V is the share of the light that is seen and O the openness of the surroundings; both are noisy with few rays and
nothing else is. So they are kept apart from the colors, smoothed over neighbors on the same surface, and put
together last.

Units: inside, lengths are in half heights of the picture at the point looked at, with that point as origin. So float32
is enough wherever the cloth is in the world, and every constant below means the same at every size. Colors are linear.
"""

import math
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

import toile.math.types  # noqa: F401  starts Warp, and keeps it quiet
from toile.errors import InputError
from toile.model.frame import Surface
from toile.render.camera import Camera
from toile.render.palette import CLOTH_COLORS, SOLID, linear
from toile.render.solid_mesh import DrawnSolids
from toile.render.staging import Shown, Stage

# Judgments of taste
MARKED_COLOR = "#ff0000"  # sRGB  of triangles that intersect others, on both sides
GROUND_COLOR = wp.constant(wp.vec3(0.60, 0.59, 0.57))
SOLID_COLOR = wp.constant(wp.vec3(*SOLID))
HORIZON, ZENITH = wp.constant(wp.vec3(0.78, 0.79, 0.80)), wp.constant(wp.vec3(0.45, 0.52, 0.60))
# Strength of the light, of a weak one at the camera that shows folds in the shade, of what comes from above and below
LIGHT, LAMP = 0.92, 0.14
SKY, BOUNCE = wp.constant(wp.vec3(0.50, 0.54, 0.60)), wp.constant(wp.vec3(0.24, 0.23, 0.21))
# Cloth is a little brighter where it turns away, and lets a little of the light through
SHEEN, THROUGH = 0.12, 0.22
# How far away cloth still keeps light of the sky out [half heights]
OPEN_RANGE = 0.6
# Between these distances the ground, and a solid that is larger than the picture, turns into background [half heights]
FADE_START, FADE_END = 2.0, 9.0
# The light, seen from the camera: to the left, above, and towards the camera [half heights]
LIGHT_LEFT, LIGHT_UP, LIGHT_NEAR, LIGHT_RADIUS = 2.8, 4.6, 3.6, 0.75
# Woven lines: at least so many on the longest side of all cloths, how wide as a share of their distance, and how dark
LINE_COUNT, LINE_WIDTH, LINE_DARKNESS = 14.0, 0.06, 0.22
# Side of the window that smooths V and O, odd [pixels]
WINDOW = 7
FAR = 1.0e6
MAX_THREADS = 8

BACKGROUND, GROUND, SOLID, CLOTH = wp.constant(0), wp.constant(1), wp.constant(2), wp.constant(3)
# In the place of the number of a cloth
SOLID_PART, BACKDROP_PART = wp.constant(-1), wp.constant(-2)


@dataclass(frozen=True)
class Light:
    """A disc that faces the point looked at."""

    position: np.ndarray  # [m]
    radius: float  # [m]


@wp.struct
class CameraView:
    """What the kernels need of the camera, the light and the ground."""

    eye: wp.vec3
    forward: wp.vec3
    right: wp.vec3  # half the picture's width
    up: wp.vec3  # half the picture's height
    light: wp.vec3
    light_u: wp.vec3  # the disc's radius in two directions
    light_v: wp.vec3
    center: wp.vec3  # a sphere around cloth and solids
    radius: wp.float32
    ground: wp.float32
    pixel: wp.float32  # size of a sample at distance 1
    line_distance: wp.float32
    width: wp.int32
    height: wp.int32
    samples: wp.int32


@wp.struct
class RayHit:
    """A point of a surface: what it is, where, which way it faces and its color."""

    kind: wp.int32
    distance: wp.float32
    point: wp.vec3
    origin: wp.vec3  # where secondary rays start on the side seen
    normal: wp.vec3
    albedo: wp.vec3
    fade: wp.float32  # share of the background in its color


@wp.struct
class Shading:
    """One pixel before V and O are put in."""

    emitted: wp.vec3
    direct: wp.vec3
    ambient: wp.vec3
    seen: wp.float32  # sum of V and O, and of their weights
    seen_weight: wp.float32
    open: wp.float32
    open_weight: wp.float32
    kind: wp.int32
    distance: wp.float32
    normal: wp.vec3


@wp.func
def fraction(x: wp.float32):
    return x - wp.floor(x)


@wp.func
def spread(i: wp.int32):
    """Point i of a sequence that fills the unit square evenly (the R2 sequence)."""
    return wp.vec2(fraction(0.5 + wp.float32(i) * 0.7548777), fraction(0.5 + wp.float32(i) * 0.5698403))


@wp.func
def brightness(color: wp.vec3):
    return 0.2126 * color[0] + 0.7152 * color[1] + 0.0722 * color[2]


@wp.func
def power_16(x: wp.float32):
    x2 = x * x
    x4 = x2 * x2
    return x4 * x4 * x4 * x4


@wp.func
def blocked(view: CameraView, mesh: wp.uint64, start: wp.vec3, direction: wp.vec3, length: wp.float32):
    """Whether something is in the way. Most rays miss the sphere around it, which is cheaper to ask."""
    to_center = view.center - start
    along = wp.clamp(wp.dot(to_center, direction), 0.0, length)
    if wp.length_sq(to_center - along * direction) > view.radius * view.radius:
        return False
    return wp.mesh_query_ray_anyhit(mesh, start, direction, length)


@wp.func
def background(direction: wp.vec3):
    return wp.lerp(HORIZON, ZENITH, wp.smoothstep(0.0, 0.9, direction[2]))


@wp.func
def covered(distance: wp.float32, line: wp.float32, footprint: wp.float32):
    """Share of a sample as wide as `footprint` that a line of width `line` covers."""
    return wp.clamp(0.5 * (line + footprint) - distance, 0.0, wp.min(line, footprint)) / footprint


@wp.func
def woven(uv: wp.vec2, spacing: wp.float32, footprint: wp.float32):
    """0 between the lines, 1 on them."""
    du = wp.abs(fraction(uv[0] / spacing + 0.5) - 0.5)
    dv = wp.abs(fraction(uv[1] / spacing + 0.5) - 0.5)
    f = wp.max(footprint / spacing, 1.0e-4)
    return wp.max(covered(du, LINE_WIDTH, f), covered(dv, LINE_WIDTH, f))


@wp.func
def above_chord(point: wp.vec3, corner: wp.vec3, normal: wp.vec3):
    """From a point of the flat triangle up to the tangent plane of a corner, when that is outside."""
    return wp.max(-wp.dot(point - corner, normal), 0.0) * normal


@wp.func
def hit_triangle(
    # scene
    view: CameraView,
    points: wp.array[wp.vec3],
    normals: wp.array[wp.vec3],
    triangles: wp.array2d[wp.int32],
    # ray and where it met a triangle
    direction: wp.vec3,
    query: wp.MeshQueryRay,
):
    """Where it is and which way it faces, without a kind and a color."""
    a, b, c = triangles[query.face, 0], triangles[query.face, 1], triangles[query.face, 2]
    wa, wb = query.u, query.v
    wc = 1.0 - wa - wb
    flat = query.normal
    side = wp.where(wp.dot(flat, direction) < 0.0, 1.0, -1.0)
    na, nb, nc = side * normals[a], side * normals[b], side * normals[c]

    hit = RayHit()
    hit.distance = query.t
    hit.point = view.eye + query.t * direction
    hit.normal = wp.normalize(wa * na + wb * nb + wc * nc)
    # Secondary rays leave from a rounded surface, or flat triangles would shade themselves where the light grazes.
    rounded = (
        wa * above_chord(hit.point, points[a], na)
        + wb * above_chord(hit.point, points[b], nb)
        + wc * above_chord(hit.point, points[c], nc)
    )
    hit.origin = hit.point + rounded + 1.0e-4 * side * flat
    return hit


@wp.func
def cloth_color(
    view: CameraView, uv: wp.array2d[wp.vec2], front: wp.vec3, back: wp.vec3, direction: wp.vec3, query: wp.MeshQueryRay
):
    facing = wp.dot(query.normal, direction)
    footprint = view.pixel * query.t / wp.max(wp.abs(facing), 0.1)
    wa, wb = query.u, query.v
    wc = 1.0 - wa - wb
    at = wa * uv[query.face, 0] + wb * uv[query.face, 1] + wc * uv[query.face, 2]
    line = woven(at, view.line_distance, footprint)
    return wp.where(facing < 0.0, front, back) * (1.0 - LINE_DARKNESS * line)


@wp.func
def distant(point: wp.vec3):
    """Share of the background in what is far from the middle of the picture."""
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
    hit.fade = distant(hit.point)
    return hit


@wp.kernel
def trace(
    # scene
    first_row: wp.int32,
    view: CameraView,
    mesh: wp.uint64,
    points: wp.array[wp.vec3],
    normals: wp.array[wp.vec3],
    triangles: wp.array2d[wp.int32],
    uv: wp.array2d[wp.vec2],
    parts: wp.array[wp.int32],
    fronts: wp.array[wp.vec3],
    backs: wp.array[wp.vec3],
    # out
    shading_out: wp.array2d[Shading],
):
    band_row, column = wp.tid()
    row = first_row + band_row
    # Wherever the window that smooths lies in the picture, it holds each of these numbers once. So it takes the mean
    # over one even set of points of the light, which random numbers would not give.
    first = (row % WINDOW) * WINDOW + column % WINDOW

    pixel = Shading()
    for s in range(view.samples):
        within = spread(s)  # the first is the middle of the pixel
        x = 2.0 * (wp.float32(column) + within[0]) / wp.float32(view.width) - 1.0
        y = 1.0 - 2.0 * (wp.float32(row) + within[1]) / wp.float32(view.height)
        toss = spread(first + s * WINDOW * WINDOW)
        direction = wp.normalize(view.forward + x * view.right + y * view.up)

        hit = RayHit()
        ground = FAR
        if direction[2] < 0.0 and view.eye[2] > view.ground:  # from below the ground is not seen
            ground = (view.ground - view.eye[2]) / direction[2]
        query = wp.mesh_query_ray(mesh, view.eye, direction, ground)
        if query.result:
            hit = hit_triangle(view, points, normals, triangles, direction, query)
            part = parts[query.face]
            if part >= 0:
                hit.kind = CLOTH + part
                hit.albedo = cloth_color(view, uv, fronts[part], backs[part], direction, query)
            else:
                hit.kind = SOLID
                hit.albedo = SOLID_COLOR
                if part == BACKDROP_PART:
                    hit.fade = distant(hit.point)
        elif ground < FAR:
            hit = hit_ground(view, direction, ground)
        if pixel.kind == BACKGROUND:  # a pixel is of the first surface that it shows
            pixel.kind = hit.kind
            pixel.distance = hit.distance
            pixel.normal = hit.normal
        if hit.kind == BACKGROUND:
            pixel.emitted += background(direction)
            continue
        pixel.emitted += hit.fade * background(direction)
        albedo = (1.0 - hit.fade) * hit.albedo

        # direct light; a little of it comes through the cloth, and none through solids
        angle = 6.2831853 * toss[0]
        radius = wp.sqrt(toss[1])
        target = view.light + radius * (wp.cos(angle) * view.light_u + wp.sin(angle) * view.light_v)
        to_light = wp.normalize(view.light - hit.point)
        cosine = wp.dot(hit.normal, to_light)
        direct = LIGHT * albedo * wp.max(cosine, 0.0)
        start = hit.origin
        if hit.kind >= CLOTH:
            rim = 1.0 - wp.abs(wp.dot(hit.normal, direction))
            direct += wp.max(cosine, 0.0) * SHEEN * rim * rim * rim * wp.vec3(1.0, 1.0, 1.0)
            if cosine < 0.0:
                direct = -THROUGH * cosine * albedo
                start = hit.point - 1.0e-3 * hit.normal
        weight = brightness(direct)
        if weight > 0.0:
            ray = target - start
            length = wp.length(ray)
            if not blocked(view, mesh, start, ray / length, length):
                pixel.seen += weight
        pixel.direct += direct
        pixel.seen_weight += weight

        # light from the sky and back from the ground, less where something is near; it is smooth, so every
        # other sample is enough to find that out
        sky = wp.lerp(BOUNCE, SKY, 0.5 + 0.5 * hit.normal[2])
        ambient = wp.cw_mul(sky, albedo) + LAMP * wp.max(-wp.dot(hit.normal, direction), 0.0) * albedo
        pixel.ambient += ambient
        if s % 2 == 0:
            weight = brightness(ambient)
            height = 1.0 - 2.0 * toss[1]
            flat = wp.sqrt(wp.max(1.0 - height * height, 0.0))
            sphere = wp.vec3(flat * wp.cos(angle), flat * wp.sin(angle), height)
            outward = wp.normalize(1.001 * hit.normal + sphere)  # cosine-weighted
            if not blocked(view, mesh, hit.origin, outward, OPEN_RANGE):
                pixel.open += weight
            pixel.open_weight += weight

    shading_out[row, column] = pixel


@wp.kernel
def compose(
    # in
    first_row: wp.int32,
    shading: wp.array2d[Shading],
    samples: wp.int32,
    # out
    image_out: wp.array3d[wp.uint8],
):
    band_row, column = wp.tid()
    row = first_row + band_row
    here = shading[row, column]
    color = here.emitted
    if here.seen_weight + here.open_weight > 0.0:
        seen, seen_weight, opened, open_weight = float(0.0), float(1.0e-12), float(0.0), float(1.0e-12)
        for i in range(wp.max(row - WINDOW // 2, 0), wp.min(row + WINDOW // 2 + 1, shading.shape[0])):
            for j in range(wp.max(column - WINDOW // 2, 0), wp.min(column + WINDOW // 2 + 1, shading.shape[1])):
                if shading[i, j].kind == here.kind:
                    # Across a fold the distance jumps, and around it the normal turns: both stop the smoothing.
                    apart = 30.0 * (shading[i, j].distance / here.distance - 1.0)
                    turned = wp.max(wp.dot(shading[i, j].normal, here.normal), 0.0)
                    alike = power_16(turned) / (1.0 + apart * apart)
                    seen += alike * shading[i, j].seen
                    seen_weight += alike * shading[i, j].seen_weight
                    opened += alike * shading[i, j].open
                    open_weight += alike * shading[i, j].open_weight
        color += here.direct * (seen / seen_weight) + here.ambient * (opened / open_weight)
    color = color / wp.float32(samples)
    for channel in range(3):
        linear = wp.clamp(color[channel], 0.0, 1.0)
        encoded = wp.where(linear < 0.0031308, 12.92 * linear, 1.055 * wp.pow(linear, 1.0 / 2.4) - 0.055)
        image_out[row, column, channel] = wp.uint8(wp.int32(255.0 * encoded + 0.5))


class RayTracer:
    """Draws one surface as often as asked; what does not change is uploaded once."""

    def __init__(self, surface: Surface, width: int, height: int, samples: int = 4, device: str = "cpu"):
        try:
            self.device = wp.get_device(device)
        except Exception as error:
            message = f'no device "{device}" to draw on: use "cpu", or "cuda" on a machine with a GPU.'
            raise InputError(message) from error
        self.width, self.height, self.samples = width, height, samples
        self.solids = DrawnSolids(surface.solids)
        # A scene without cloth still has a ground; a triangle without area is hit by no ray.
        empty = len(surface.triangles) == 0
        cloth = np.zeros((1, 3), np.int32) if empty else surface.triangles.astype(np.int32)
        self.cloth_points, self.cloth_triangles = max(surface.vertex_count, 1), len(cloth)
        self.host_triangles = np.concatenate([cloth, self.solids.triangles + np.int32(self.cloth_points)])
        uv = np.zeros((1, 3, 2)) if empty else surface.uv
        parts = np.full(len(self.host_triangles), SOLID_PART, np.int32)
        parts[: len(cloth)] = 0
        for i, part in enumerate(surface.parts):
            parts[part.triangles] = i
        colors = [CLOTH_COLORS[i % len(CLOTH_COLORS)] for i in range(max(len(surface.parts), 1))]
        self.marked_part = len(colors)  # triangles that are marked are drawn as if they were a cloth of their own
        colors.append((MARKED_COLOR, MARKED_COLOR))
        self.line_distance = _round_down(float(np.max(np.ptp(uv.reshape(-1, 2), axis=0))) / LINE_COUNT)
        self.triangles = wp.array(self.host_triangles, dtype=wp.int32, device=self.device)
        self.host_parts = parts
        self.uv = wp.array(uv.astype(np.float32), dtype=wp.vec2, device=self.device)
        self.parts = wp.array(parts, dtype=wp.int32, device=self.device)
        self.fronts = wp.array([linear(front) for front, _ in colors], dtype=wp.vec3, device=self.device)
        self.backs = wp.array([linear(back) for _, back in colors], dtype=wp.vec3, device=self.device)

    def draw(self, shown: Shown, stage: Stage, marked: np.ndarray | None = None) -> np.ndarray:
        """A frame as it was staged."""
        positions, solids = shown
        return self.render(positions, stage.camera, stage.ground, None, solids, stage.floor, stage.backdrop, marked)

    def render(
        self,
        positions: np.ndarray,
        camera: Camera,
        ground: float,
        light: Light | None = None,
        solids: Sequence[np.ndarray] = (),
        left_out: Collection[int] = (),
        backdrop: Collection[int] = (),
        marked: np.ndarray | None = None,
    ) -> np.ndarray:
        """The picture as (height, width, 3) uint8. `ground` is the height of the plane under everything [m].

        `solids` are the positions of each solid's vertices. By their numbers some can be left out, or be a backdrop:
        seen from outside only, and less and less far away. `marked` are triangles of the cloth to draw in red.
        """
        half_height = camera.distance * math.tan(math.radians(camera.fov) / 2.0)
        positions = np.zeros((1, 3)) + camera.look_at if len(positions) == 0 else np.asarray(positions, np.float64)
        if self.solids.origins:
            drawn = self.solids.points(solids, left_out, positions[0])
            positions = np.concatenate([positions, drawn])
        inside = ((positions - camera.look_at) / half_height).astype(np.float32)
        points = wp.array(inside, dtype=wp.vec3, device=self.device)
        normals = wp.array(vertex_normals(inside, self.host_triangles), dtype=wp.vec3, device=self.device)
        triangles, parts = self.triangles, self.parts
        if backdrop:
            triangles, parts = self._with_backdrop(drawn, camera.position, backdrop)
        if marked is not None and len(marked):
            painted = parts.numpy().copy()
            painted[marked] = self.marked_part
            parts = wp.array(painted, dtype=wp.int32, device=self.device)
        mesh = wp.Mesh(points, triangles.flatten())
        view = self._view(camera, ground, light or _studio_light(camera, half_height), half_height)
        center = 0.5 * (inside.min(axis=0) + inside.max(axis=0))
        view.center = wp.vec3(*center)
        view.radius = 1.001 * float(np.sqrt(np.max(np.sum((inside - center) ** 2, axis=1)))) + 1e-5
        shading = wp.empty((self.height, self.width), dtype=Shading, device=self.device)
        image = wp.empty((self.height, self.width, 3), dtype=wp.uint8, device=self.device)
        wp.load_module(__name__, device=self.device)  # compiled before several threads ask for it
        scene = [view, mesh.id, points, normals, triangles, self.uv, parts, self.fronts, self.backs]
        self._launch(trace, scene, [shading])
        self._launch(compose, [shading, self.samples], [image])
        return image.numpy()

    def _with_backdrop(self, solids: np.ndarray, eye: np.ndarray, backdrop: Collection[int]) -> list[wp.array]:
        """Triangles and parts when some solids are a backdrop. Its triangles that face away have no area."""
        of_backdrop = np.isin(self.solids.owner, list(backdrop))
        parts, triangles = self.host_parts.copy(), self.host_triangles.copy()
        parts[self.cloth_triangles :][of_backdrop] = BACKDROP_PART
        triangles[self.cloth_triangles :][of_backdrop & self.solids.facing_away(solids, eye)] = 0
        return [wp.array(array, dtype=wp.int32, device=self.device) for array in (triangles, parts)]

    def _launch(self, kernel: wp.Kernel, inputs: list[Any], outputs: list[Any]) -> None:
        """All pixels: at once on a GPU, in bands of rows on the cores of a CPU. A pixel does not depend on its band."""
        threads = min(os.cpu_count() or 1, MAX_THREADS, self.height) if self.device.is_cpu else 1
        if threads == 1:
            wp.launch(kernel, (self.height, self.width), inputs=[0, *inputs], outputs=outputs, device=self.device)
            return
        bands = min(4 * threads, self.height)  # several for each thread: some rows show more than others
        rows = [self.height * i // bands for i in range(bands + 1)]

        def band(i: int) -> None:
            size = (rows[i + 1] - rows[i], self.width)
            wp.launch(kernel, size, inputs=[rows[i], *inputs], outputs=outputs, device=self.device)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(band, range(bands)))

    def _view(self, camera: Camera, ground: float, light: Light, half_height: float) -> CameraView:
        right, up, forward = camera.axes()
        slope = math.tan(math.radians(camera.fov) / 2.0)
        at = (light.position - camera.look_at) / half_height
        toward = -at / np.linalg.norm(at)
        u = np.cross(toward, [0.0, 0.0, 1.0] if abs(toward[2]) < 0.99 else [1.0, 0.0, 0.0])
        u /= np.linalg.norm(u)
        view = CameraView()
        view.eye = wp.vec3(*((camera.position - camera.look_at) / half_height))
        view.forward = wp.vec3(*forward)
        view.right = wp.vec3(*(right * slope * self.width / self.height))
        view.up = wp.vec3(*(up * slope))
        view.light = wp.vec3(*at)
        view.light_u = wp.vec3(*(u * light.radius / half_height))
        view.light_v = wp.vec3(*(np.cross(toward, u) * light.radius / half_height))
        view.ground = (ground - camera.look_at[2]) / half_height
        # in meters at a distance of one half height, since it is compared with uv
        view.pixel = 2.0 * slope / self.height * half_height / math.sqrt(self.samples)
        view.line_distance = self.line_distance
        view.width, view.height, view.samples = self.width, self.height, self.samples
        return view


def vertex_normals(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Unit normals of the vertices: the mean of their triangles' normals, weighted by area."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    area = np.cross(b - a, c - a)
    corners = triangles.ravel()
    # Sums on the host, in order: atomic adds on a GPU would give other last digits each time.
    normals = np.stack(
        [np.bincount(corners, np.repeat(area[:, axis], 3), len(points)) for axis in range(3)], axis=1
    )
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(length > 0.0, normals / np.where(length > 0.0, length, 1.0), [0.0, 0.0, 1.0]).astype(np.float32)


def _studio_light(camera: Camera, half_height: float) -> Light:
    right, _, forward = camera.axes()
    ahead = np.array([forward[0], forward[1], 0.0])
    ahead /= max(np.linalg.norm(ahead), 1e-9)
    offset = -LIGHT_LEFT * right - LIGHT_NEAR * ahead + LIGHT_UP * np.array([0.0, 0.0, 1.0])
    return Light(camera.look_at + half_height * offset, half_height * LIGHT_RADIUS)


def _round_down(length: float) -> float:
    """The largest of 1, 2, 5, 10, ... (times a power of ten) that is not larger; 1 for nothing."""
    if not length > 0.0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(length))
    return power * max(step for step in (1.0, 2.0, 5.0) if step * power <= length * (1.0 + 1e-9))
