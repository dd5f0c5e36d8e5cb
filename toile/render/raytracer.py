"""A small ray tracer: cloth and solids over a ground plane, one area light with soft shadows, light from the sky.

The kernels are in ray_hits.py and shading.py. Their unit of length is half the height of the picture at the target of
the camera, and their origin is that target. So float32 is enough wherever the cloth is in the world, and every
constant has the same meaning at every size. Colors are linear.
"""

import math
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from toile.errors import InputError
from toile.model.frame import Surface
from toile.render import ray_hits, shading
from toile.render.camera import Camera
from toile.render.framing import Framing, ScenePoints
from toile.render.normals import VertexNormals
from toile.render.palette import CLOTH_COLORS, linear
from toile.render.solid_mesh import DrawnSolids

# Judgments of taste
MARKED_COLOR = "#ff0000"  # sRGB  of both sides of triangles that intersect others
# Position and radius of the light: to the left of the camera's target, above it and towards the camera [half heights]
LIGHT_LEFT, LIGHT_UP, LIGHT_NEAR, LIGHT_RADIUS = 2.8, 4.6, 3.6, 0.75
# Weave lines along the longest side of all cloths, at least
LINE_COUNT = 14.0
MAX_THREADS = 8


@dataclass(frozen=True)
class Light:
    """A disc that faces the target of the camera."""

    position: np.ndarray  # [m]
    radius: float  # [m]


class RayTracer:
    """Draws any number of frames of one surface. Arrays that do not change are uploaded once."""

    def __init__(self, surface: Surface, width: int, height: int, samples: int = 4, device: str = "cpu"):
        try:
            self.device = wp.get_device(device)
        except Exception as error:
            message = f'no device "{device}" to draw on: use "cpu", or "cuda" on a machine with a GPU.'
            raise InputError(message) from error
        self.width, self.height, self.samples = width, height, samples
        self.solids = DrawnSolids(surface.solids)
        # A scene without cloth still has a ground; no ray hits a triangle without area.
        empty = len(surface.triangles) == 0
        cloth = np.zeros((1, 3), np.int32) if empty else surface.triangles.astype(np.int32)
        self.cloth_points, self.cloth_triangles = max(surface.vertex_count, 1), len(cloth)
        self.host_triangles = np.concatenate([cloth, self.solids.triangles + np.int32(self.cloth_points)])
        self.vertex_normals = VertexNormals(self.host_triangles, self.cloth_points + self.solids.point_count)
        uv = np.zeros((1, 3, 2)) if empty else surface.uv
        self.host_owners = np.full(len(self.host_triangles), ray_hits.SOLID_OWNER, np.int32)
        self.host_owners[: len(cloth)] = 0
        for i, part in enumerate(surface.parts):
            self.host_owners[part.triangles] = i
        colors = [CLOTH_COLORS[i % len(CLOTH_COLORS)] for i in range(max(len(surface.parts), 1))]
        self.marked_owner = len(colors)  # marked triangles are drawn as if they were a cloth of their own
        colors.append((MARKED_COLOR, MARKED_COLOR))
        self.line_spacing = _round_down(float(np.max(np.ptp(uv.reshape(-1, 2), axis=0))) / LINE_COUNT)
        self.triangles = self._array(self.host_triangles, wp.int32)
        self.owners = self._array(self.host_owners, wp.int32)
        self.uv = self._array(uv.astype(np.float32), wp.vec2)
        self.fronts = self._array([linear(front) for front, _ in colors], wp.vec3)
        self.backs = self._array([linear(back) for _, back in colors], wp.vec3)

    def draw(self, shown: ScenePoints, framing: Framing, marked: np.ndarray | None = None) -> np.ndarray:
        """A frame with the camera, ground and backdrop of a framing."""
        positions, solids = shown
        return self.render(
            positions, framing.camera, framing.ground, None, solids, framing.floor, framing.backdrop, marked
        )

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

        `solids` are the positions of each solid's vertices. The solids in `left_out` are not drawn; those in
        `backdrop` are drawn from outside only and fade with distance. Both hold numbers of solids. `marked` are
        triangles of the cloth to draw in red.
        """
        half_height = camera.distance * math.tan(math.radians(camera.fov) / 2.0)
        positions = np.zeros((1, 3)) + camera.look_at if len(positions) == 0 else np.asarray(positions, np.float64)
        triangles, owners = self.triangles, self.owners
        if self.solids.origins:
            drawn = self.solids.points(solids, left_out, positions[0])
            positions = np.concatenate([positions, drawn])
            if backdrop:
                triangles, owners = self._with_backdrop(drawn, camera.position, backdrop)
        if marked is not None and len(marked):
            host_owners = owners.numpy().copy()
            host_owners[marked] = self.marked_owner
            owners = self._array(host_owners, wp.int32)
        points = ((positions - camera.look_at) / half_height).astype(np.float32)
        view = self._view(camera, ground, light or _studio_light(camera, half_height), half_height, points)
        scene, mesh = self._scene(points, triangles, owners)
        return self._trace(view, scene, mesh)

    def _scene(self, points: np.ndarray, triangles: wp.array, owners: wp.array) -> tuple[ray_hits.SceneArrays, wp.Mesh]:
        """Arrays for the kernels, and the mesh that they refer to by its number."""
        scene = ray_hits.SceneArrays()
        scene.points = self._array(points, wp.vec3)
        scene.normals = self._array(self.vertex_normals.at(points).astype(np.float32), wp.vec3)
        scene.triangles, scene.owners = triangles, owners
        scene.uv, scene.fronts, scene.backs = self.uv, self.fronts, self.backs
        mesh = wp.Mesh(scene.points, triangles.flatten())
        scene.mesh = mesh.id
        return scene, mesh

    def _trace(self, view: ray_hits.CameraView, scene: ray_hits.SceneArrays, mesh: wp.Mesh) -> np.ndarray:
        """The picture; the kernels need `mesh` to stay alive."""
        pixels = wp.empty((self.height, self.width), dtype=shading.PixelShading, device=self.device)
        image = wp.empty((self.height, self.width, 3), dtype=wp.uint8, device=self.device)
        wp.load_module(shading, device=self.device)  # compiles the kernels before several threads launch them
        self._launch(shading.trace, [view, scene], [pixels])
        self._launch(shading.compose, [pixels, self.samples], [image])
        return image.numpy()

    def _with_backdrop(self, solids: np.ndarray, eye: np.ndarray, backdrop: Collection[int]) -> list[wp.array]:
        """Triangles and owners if some solids are a backdrop, whose back faces get no area."""
        in_backdrop = np.isin(self.solids.owner, list(backdrop))
        owners, triangles = self.host_owners.copy(), self.host_triangles.copy()
        owners[self.cloth_triangles :][in_backdrop] = ray_hits.BACKDROP_OWNER
        triangles[self.cloth_triangles :][in_backdrop & self.solids.facing_away(solids, eye)] = 0
        return [self._array(array, wp.int32) for array in (triangles, owners)]

    def _launch(self, kernel: wp.Kernel, inputs: list[Any], outputs: list[Any]) -> None:
        """Runs a kernel for all pixels: at once on a GPU, in bands of rows on the cores of a CPU.

        The result does not depend on the bands.
        """
        threads = min(os.cpu_count() or 1, MAX_THREADS, self.height) if self.device.is_cpu else 1
        if threads == 1:
            wp.launch(kernel, (self.height, self.width), inputs=[0, *inputs], outputs=outputs, device=self.device)
            return
        bands = min(4 * threads, self.height)  # several for each thread, because rows take different times
        rows = [self.height * i // bands for i in range(bands + 1)]

        def band(i: int) -> None:
            size = (rows[i + 1] - rows[i], self.width)
            wp.launch(kernel, size, inputs=[rows[i], *inputs], outputs=outputs, device=self.device)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(band, range(bands)))

    def _view(
        self, camera: Camera, ground: float, light: Light, half_height: float, points: np.ndarray
    ) -> ray_hits.CameraView:
        right, up, forward = camera.axes()
        slope = math.tan(math.radians(camera.fov) / 2.0)
        at = (light.position - camera.look_at) / half_height
        toward = -at / np.linalg.norm(at)
        u = np.cross(toward, [0.0, 0.0, 1.0] if abs(toward[2]) < 0.99 else [1.0, 0.0, 0.0])
        u /= np.linalg.norm(u)
        view = ray_hits.CameraView()
        view.eye = wp.vec3(*((camera.position - camera.look_at) / half_height))
        view.forward = wp.vec3(*forward)
        view.right = wp.vec3(*(right * slope * self.width / self.height))
        view.up = wp.vec3(*(up * slope))
        view.light = wp.vec3(*at)
        view.light_u = wp.vec3(*(u * light.radius / half_height))
        view.light_v = wp.vec3(*(np.cross(toward, u) * light.radius / half_height))
        view.ground = (ground - camera.look_at[2]) / half_height
        # in meters at a distance of one half height, because it is compared with uv
        view.pixel = 2.0 * slope / self.height * half_height / math.sqrt(self.samples)
        view.line_spacing = self.line_spacing
        view.width, view.height, view.samples = self.width, self.height, self.samples
        center = 0.5 * (points.min(axis=0) + points.max(axis=0))
        view.center = wp.vec3(*center)
        view.radius = 1.001 * float(np.sqrt(np.max(np.sum((points - center) ** 2, axis=1)))) + 1e-5
        return view

    def _array(self, values: Any, dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device=self.device)


def _studio_light(camera: Camera, half_height: float) -> Light:
    right, _, forward = camera.axes()
    ahead = np.array([forward[0], forward[1], 0.0])
    ahead /= max(np.linalg.norm(ahead), 1e-9)
    offset = -LIGHT_LEFT * right - LIGHT_NEAR * ahead + LIGHT_UP * np.array([0.0, 0.0, 1.0])
    return Light(camera.look_at + half_height * offset, half_height * LIGHT_RADIUS)


def _round_down(length: float) -> float:
    """The largest of 1, 2, 5, 10, ... (times a power of ten) that is at most `length`; 1 if that is not positive."""
    if not length > 0.0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(length))
    return power * max(step for step in (1.0, 2.0, 5.0) if step * power <= length * (1.0 + 1e-9))
