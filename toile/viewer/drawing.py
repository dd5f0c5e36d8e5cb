"""The scene on a viser page: cloths, solids, pins, and the hand that pulls.

viser draws a mesh in one colour. Cloth that is coloured by a figure is therefore several meshes, one for each of a few
colours, whose triangles change from frame to frame.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from toile.model.frame import SolidSurface, Surface
from toile.viewer.palette import BINS, CLOTHS, PIN, PULL, SCALE, SOLID

# A floor that reaches far beyond the cloth is drawn so much larger than the cloth.
FLOOR = 4.0


class Drawing:
    """Nodes of a viser scene, one set for each surface."""

    def __init__(self, server: Any, on_drag: Callable | None = None, on_click: Callable | None = None):
        """`on_drag` and `on_click` are called with viser's events on any part of the cloth."""
        self.server, self.on_drag, self.on_click = server, on_drag, on_click
        self.surface: Surface | None = None
        self._cloths: list[Any] = []
        self._bins: list[Any] = []
        self._solids: list[Any] = []
        self._pins: Any = None
        self._hand: list[Any] = []

    def build(self, surface: Surface) -> None:
        """Another surface in place of the one before."""
        with self.server.atomic():
            for node in (*self._cloths, *self._bins, *self._solids, self._pins, *self._hand):
                if node is not None:
                    node.remove()
            self.surface, self._bins, self._pins, self._hand = surface, [], None, []
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
        figures: np.ndarray | None = None,
    ) -> None:
        """Everything where it is now. `figures` colour the triangles: from 0, as nothing, to 1."""
        with self.server.atomic():
            self._show_cloth(positions, figures)
            assert self.surface is not None
            for node, surface, points in zip(self._solids, self.surface.solids, solids, strict=True):
                if surface.moves:
                    node.vertices = points.astype(np.float32)
            self._show_pins(positions[pinned])
            self._show_hand(grip)

    def frame_all(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where a camera sees the cloth and where it will hang or fall to; and what it looks at."""
        if not len(positions):
            return np.array([2.0, -3.0, 2.0]), np.zeros(3)
        low, high = positions.min(axis=0), positions.max(axis=0)
        size = float(np.linalg.norm(high - low)) or 1.0
        middle = 0.5 * (low + high) - np.array([0.0, 0.0, 0.2 * size])
        return middle + 1.6 * size * np.array([0.48, -0.84, 0.35]), middle

    def _cloth(self, name: str, vertices: np.ndarray, triangles: np.ndarray, colour: tuple[int, int, int]) -> Any:
        node = self.server.scene.add_mesh_simple(
            name, vertices.astype(np.float32), triangles.astype(np.uint32), color=colour, side="double"
        )
        if self.on_drag:
            node.on_drag("left")(self.on_drag)
        if self.on_click:
            node.on_click(self.on_click)
        return node

    def _solid(self, name: str, solid: SolidSurface) -> Any:
        return self.server.scene.add_mesh_simple(
            name, self._bounded(solid).astype(np.float32), solid.triangles.astype(np.uint32), color=SOLID, side="double"
        )

    def _bounded(self, solid: SolidSurface) -> np.ndarray:
        """Its vertices, without those of a floor that would reach to the horizon."""
        assert self.surface is not None
        cloth, points = self.surface.rest, solid.rest
        if solid.moves or not len(cloth) or len(points) > 4:
            return points
        middle, reach = cloth.mean(axis=0), FLOOR * float(np.linalg.norm(np.ptp(cloth, axis=0)))
        offset = points - middle
        distance = np.linalg.norm(offset, axis=1, keepdims=True)
        flat = np.where(distance > reach, middle + offset * (reach / distance), points)
        flat[:, 2] = points[:, 2] if np.ptp(points[:, 2]) == 0.0 else flat[:, 2]
        return flat

    def _show_cloth(self, positions: np.ndarray, figures: np.ndarray | None) -> None:
        assert self.surface is not None
        if figures is None:
            for node in self._bins:
                node.remove()
            self._bins = []
            for node, part in zip(self._cloths, self.surface.parts, strict=True):
                node.vertices = positions[part.vertices]
                node.visible = True
            return
        for node in self._cloths:
            node.visible = False
        bins = np.clip((np.nan_to_num(figures) * BINS).astype(int), 0, BINS - 1)
        pieces = [_piece(positions, self.surface.triangles[bins == number]) for number in range(BINS)]
        if not self._bins:
            self._bins = [
                self._cloth(f"/cloth/colour {number}", *piece, SCALE[number]) for number, piece in enumerate(pieces)
            ]
            return
        for node, (vertices, triangles) in zip(self._bins, pieces, strict=True):
            node.vertices, node.faces = vertices, triangles

    def _show_pins(self, points: np.ndarray) -> None:
        if not len(points):
            if self._pins is not None:
                self._pins.remove()
                self._pins = None
            return
        points = points.astype(np.float32)
        if self._pins is None:
            self._pins = self.server.scene.add_point_cloud(
                "/pins", points, colors=PIN, point_size=0.012 * self._size(), point_shape="circle"
            )
        else:
            with contextlib.suppress(AttributeError):
                self._pins.points = points

    def _show_hand(self, grip: tuple[np.ndarray, np.ndarray] | None) -> None:
        if grip is None:
            for node in self._hand:
                node.remove()
            self._hand = []
            return
        line = np.array([grip], np.float32)
        if not self._hand:
            scene = self.server.scene
            self._hand = [
                scene.add_line_segments("/pull/line", line, colors=PULL, line_width=3.0),
                scene.add_icosphere("/pull/hand", 0.008 * self._size(), color=PULL, position=tuple(grip[1])),
            ]
        else:
            self._hand[0].points = line
            self._hand[1].position = tuple(grip[1])

    def _size(self) -> float:
        assert self.surface is not None
        return float(np.linalg.norm(np.ptp(self.surface.rest, axis=0))) if len(self.surface.rest) else 1.0


def _piece(positions: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some triangles with the vertices they use. An empty mesh is one triangle without extent: viser needs one."""
    if not len(triangles):
        return np.zeros((3, 3), np.float32), np.array([[0, 1, 2]], np.uint32)
    used, inverse = np.unique(triangles, return_inverse=True)
    return positions[used], inverse.reshape(-1, 3).astype(np.uint32)
