"""Drawing of a scene on a viser page: cloths, solids, pins, and the spring by which the mouse pulls.

viser draws a mesh in one color. Cloth that is colored by a value is therefore several meshes, one for each of a few
colors, whose triangles change from frame to frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toile.model.frame import SolidSurface, Surface
from toile.viewer.draw.palette import BACKGROUND, CLOTHS, MARK, PIN, PULL, SCALE, SOLID, Color

# A larger floor is drawn with this size [sizes of the cloth]
MAX_FLOOR = 4.0

# Distance of the camera from the cloth, at which a square page shows all of it [sizes of the cloth]
DISTANCE = 1.7
FIELD_OF_VIEW = 0.7  # [rad]

# [sizes of the cloth]
PIN_SIZE, HAND_SIZE, MARK_SIZE = 0.012, 0.008, 0.009


class SceneDrawing:
    """The nodes of a viser scene that draw one surface."""

    def __init__(self, server: Any, on_drag: Callable | None = None):
        """`on_drag` gets viser's drag events on any part of the cloth."""
        self.server, self.on_drag = server, on_drag
        self.surface: Surface | None = None
        self._cloths: list[Any] = []
        self._bins: list[Any] = []
        self._bin_colors: tuple[Color, ...] = ()
        self._solids: list[Any] = []
        self._pins: Any = None
        self._hand: list[Any] = []
        self._mark: Any = None
        self._light()

    def build(self, surface: Surface) -> bool:
        """Replaces the surface. Returns False if the new one differs only in names."""
        before, self.surface = self.surface, surface
        if before is not None and _same(before, surface):
            return False
        try:
            self._rebuild(surface)
        except BaseException:
            self.surface = None  # so that the next call tries again
            raise
        return True

    def _rebuild(self, surface: Surface) -> None:
        with self.server.atomic():
            for node in (*self._cloths, *self._bins, *self._solids, self._pins, *self._hand, self._mark):
                if node is not None:
                    node.remove()
            self._bins, self._pins, self._hand, self._mark = [], None, [], None
            self._cloths = [
                self._cloth(
                    f"/cloth/{number}",
                    surface.rest[part.vertices],
                    surface.triangles[part.triangles] - part.vertices.start,
                    CLOTHS[number % len(CLOTHS)],
                )
                for number, part in enumerate(surface.parts)
            ]
            self._solids = [self._solid(f"/solid/{number}", solid) for number, solid in enumerate(surface.solids)]

    def show(
        self,
        positions: np.ndarray,
        solids: tuple[np.ndarray, ...],
        pinned: np.ndarray,
        grip: tuple[np.ndarray, np.ndarray] | None,
        values: np.ndarray | None = None,
        colors: Sequence[Color] | None = None,
        mark: int | None = None,
    ) -> None:
        """Draws everything at its current position.

        `values` give each triangle one of `colors`: 0 the first, up to 1, the last; by default the colors of the strain
        scale. Without values, each cloth has one of the colors. `mark` is a vertex to highlight.
        """
        with self.server.atomic():
            self._show_cloth(positions, values, tuple(colors or (CLOTHS if values is None else SCALE)))
            assert self.surface is not None
            for node, surface, points in zip(self._solids, self.surface.solids, solids, strict=True):
                if surface.moves:
                    node.vertices = points.astype(np.float32)
            self._show_pins(positions[pinned])
            self._show_pull(grip)
            self._show_mark(None if mark is None else positions[mark])

    def camera_for(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position and target of a camera that sees the cloth and some space below, into which it will hang or fall."""
        if not len(positions):
            return np.array([2.0, -3.0, 2.0]), np.zeros(3)
        low, high = positions.min(axis=0), positions.max(axis=0)
        size = float(np.linalg.norm(high - low)) or 1.0
        middle = 0.5 * (low + high) - np.array([0.0, 0.0, 0.2 * size])
        return middle + DISTANCE * size * np.array([0.48, -0.84, 0.35]), middle

    def aim_cameras(self, positions: np.ndarray) -> None:
        """Shows all of the cloth on the pages that are open and on those that open later."""
        position, target = self.camera_for(positions)
        for camera in (self.server.initial_camera, *(client.camera for client in self.server.get_clients().values())):
            camera.position, camera.look_at, camera.fov = position, target, FIELD_OF_VIEW

    def _light(self) -> None:
        """Adds lights from above and from the sides, without shadows and reflections, for browsers without a GPU."""
        scene = self.server.scene
        scene.configure_default_lights(False)
        scene.configure_environment_map(None)
        scene.set_background_image(np.full((1, 1, 3), BACKGROUND, np.uint8))
        scene.add_light_ambient("/lights/ambient", intensity=1.1)
        scene.add_light_directional("/lights/key", intensity=2.0, position=(1.0, -2.0, 3.0))
        scene.add_light_directional("/lights/fill", intensity=0.7, position=(-3.0, -1.0, 0.5))
        scene.add_light_directional("/lights/back", intensity=0.5, position=(0.5, 3.0, 1.0))

    def _cloth(self, name: str, vertices: np.ndarray, triangles: np.ndarray, color: Color) -> Any:
        node = self.server.scene.add_mesh_simple(
            name, vertices.astype(np.float32), triangles.astype(np.uint32), color=color, side="double"
        )
        if self.on_drag:
            node.on_drag("left")(self.on_drag)
        return node

    def _solid(self, name: str, solid: SolidSurface) -> Any:
        assert self.surface is not None
        points = with_bounded_floor(solid, self.surface.rest).astype(np.float32)
        return self.server.scene.add_mesh_simple(
            name, points, solid.triangles.astype(np.uint32), color=SOLID, side="double"
        )

    def _show_cloth(self, positions: np.ndarray, values: np.ndarray | None, colors: tuple[Color, ...]) -> None:
        assert self.surface is not None
        for node in self._cloths:
            node.visible = values is None
        if values is None or colors != self._bin_colors:
            for node in self._bins:
                node.remove()
            self._bins, self._bin_colors = [], colors
        if values is None:
            for number, (node, part) in enumerate(zip(self._cloths, self.surface.parts, strict=True)):
                node.vertices = positions[part.vertices]
                node.color = colors[number % len(colors)]
            return
        count = len(colors)
        bins = np.clip((np.nan_to_num(values) * count).astype(int), 0, count - 1)
        pieces = [_piece(positions, self.surface.triangles[bins == number]) for number in range(count)]
        if not self._bins:
            self._bins = [
                self._cloth(f"/cloth/color {number}", *piece, color)
                for number, (piece, color) in enumerate(zip(pieces, colors, strict=True))
            ]
            return
        for node, (vertices, triangles) in zip(self._bins, pieces, strict=True):
            node.vertices, node.faces = vertices, triangles

    def _show_pins(self, points: np.ndarray) -> None:
        if self._pins is not None and len(points) != len(self._pins.points):
            self._pins.remove()
            self._pins = None
        if not len(points):
            return
        if self._pins is None:
            self._pins = self.server.scene.add_point_cloud(
                "/pins",
                points,
                colors=PIN,
                point_size=PIN_SIZE * self._size(),
                point_shape="circle",
                precision="float32",
            )
        else:
            self._pins.points = points

    def _show_mark(self, point: np.ndarray | None) -> None:
        if point is None:
            if self._mark is not None:
                self._mark.remove()
                self._mark = None
        elif self._mark is None:
            self._mark = self.server.scene.add_icosphere(
                "/mark", MARK_SIZE * self._size(), color=MARK, position=tuple(point.tolist())
            )
        else:
            self._mark.position = tuple(point.tolist())

    def _show_pull(self, grip: tuple[np.ndarray, np.ndarray] | None) -> None:
        if grip is None:
            for node in self._hand:
                node.remove()
            self._hand = []
            return
        line = np.array([grip], np.float32)
        if not self._hand:
            scene = self.server.scene
            self._hand = [
                scene.add_line_segments("/pull/line", line, colors=PULL, thickness=3.0, thickness_units="screen"),
                scene.add_icosphere("/pull/hand", HAND_SIZE * self._size(), color=PULL, position=tuple(grip[1])),
            ]
        else:
            self._hand[0].points = line
            self._hand[1].position = tuple(grip[1])

    def _size(self) -> float:
        assert self.surface is not None
        return float(np.linalg.norm(np.ptp(self.surface.rest, axis=0))) if len(self.surface.rest) else 1.0


def with_bounded_floor(solid: SolidSurface, cloth: np.ndarray) -> np.ndarray:
    """The vertices of a solid. Those of a floor are moved towards the cloth if it would extend to the horizon."""
    points = solid.rest
    if solid.moves or not len(cloth) or len(points) > 4:
        return points
    middle, reach = cloth.mean(axis=0), MAX_FLOOR * float(np.linalg.norm(np.ptp(cloth, axis=0)))
    offset = points - middle
    distance = np.linalg.norm(offset, axis=1, keepdims=True)
    flat = np.where(distance > reach, middle + offset * (reach / distance), points)
    flat[:, 2] = points[:, 2] if np.ptp(points[:, 2]) == 0.0 else flat[:, 2]
    return flat


def _same(one: Surface, other: Surface) -> bool:
    """Whether the geometry of both is the same at the start."""

    def geometry(surface: Surface) -> list[np.ndarray]:
        solids = [array for solid in surface.solids for array in (solid.triangles, solid.rest)]
        vertices = np.array([part.vertices.start for part in surface.parts])
        return [surface.triangles, surface.rest, vertices, *solids]

    a, b = geometry(one), geometry(other)
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _piece(positions: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some triangles with the vertices that they use. An empty mesh is one triangle without area: viser needs one."""
    if not len(triangles):
        return np.zeros((3, 3), np.float32), np.array([[0, 1, 2]], np.uint32)
    used = np.zeros(len(positions), bool)
    used[triangles] = True
    return positions[used], (np.cumsum(used, dtype=np.uint32) - np.uint32(1))[triangles]
