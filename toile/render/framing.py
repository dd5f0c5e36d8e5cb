"""Framing of a picture: which solids the camera shows with the cloth, which is the floor, and where the ground is.

The subject of a picture is the cloth. Solids of about its size and near it are framed with it; larger ones are a
backdrop that the picture cuts off and that is seen only from outside. A wide flat solid under everything is replaced
by the ground of the picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toile.model.frame import Frame, SolidSurface, Surface
from toile.render.camera import Camera, ground_height

# Judgments of taste, as multiples of the diagonal of the box around the cloth.
REACH = 2.5  # cloth and solid together are at most this large if both are framed
FLOOR_SIZE = 1.5  # a floor is at least this large
FLOOR_MARGIN = 0.02  # cloth that is pressed into the floor by less than this does not hang over its side
# A floor is drawn lower by this, so that float32 separates it from the cloth on it. It is less than a pixel.
FLOOR_GAP = 5e-4  # [share of the camera's distance]

ScenePoints = tuple[np.ndarray, Sequence[np.ndarray]]  # positions of the cloth and of each solid in one frame
Frames = Callable[[], Iterable[ScenePoints]]


@dataclass(frozen=True)
class Framing:
    """Camera, ground and roles of the solids, for a picture or a whole film."""

    camera: Camera
    ground: float  # [m]
    floor: frozenset[int]  # numbers of the solids that the ground replaces
    backdrop: frozenset[int]  # numbers of the solids that are larger than the picture


class FramingPlanner:
    """Collects the lowest points of all frames, and then decides on the framing."""

    def __init__(self, surface: Surface):
        self.surface = surface
        self.cloth = math.inf  # [m]  lowest point of the cloth
        self.feet: dict[int, float] = {}  # [m]  lowest point of each solid that cannot be a floor
        self.tread = math.inf  # [m]  lowest face of the solids that faces up
        self.flat = {i: float(s.rest[0, 2]) for i, s in enumerate(surface.solids) if _may_be_floor(s)}
        self.started = False

    def add(self, frame: Frame) -> None:
        if len(frame.positions):
            self.cloth = min(self.cloth, float(frame.positions[:, 2].min()))
        for number, points in enumerate(self.surface.solids_at(frame)):
            solid = self.surface.solids[number]
            if number not in self.flat and (solid.moves or not self.started):
                self.feet[number] = min(self.feet.get(number, math.inf), float(points[:, 2].min()))
                self.tread = min(self.tread, _lowest_tread(points, solid.triangles))
        self.started = True

    def plan(self, shown: Frames, frame_camera: Callable[..., Camera]) -> Framing:
        """`shown` iterates over the frames to draw, and is called several times; `frame_camera` frames their points."""
        sizes = self._solid_sizes(shown)
        low, high = self._cloth_box(shown, sizes)
        size = float(np.linalg.norm(high - low))
        backdrop = frozenset(i for i, own in enumerate(sizes) if own > REACH * size)
        # A wall may extend below the floor; cloth, or the legs of a table, may not.
        lowest = min([self.cloth, *(foot for i, foot in self.feet.items() if i not in backdrop)])
        beneath = lowest + FLOOR_MARGIN * size
        floors = {i: z for i, z in self.flat.items() if sizes[i] >= FLOOR_SIZE * size and z <= beneath}
        camera = frame_camera(self._framed(shown, size, frozenset(floors)))
        return Framing(camera, self._ground(camera.distance, floors), frozenset(floors), backdrop)

    def _ground(self, distance: float, floors: dict[int, float]) -> float:
        if floors:
            return max(floors.values()) - FLOOR_GAP * distance
        # Faces that are seen from above are kept apart from the ground; solids that stand on it may touch it.
        seen = min([self.cloth, self.tread, *self.flat.values()])
        return min([ground_height(seen, distance), *self.feet.values()])

    def _solid_sizes(self, shown: Frames) -> list[float]:
        solids = self.surface.solids
        sizes = [_diagonal(solid.rest) for solid in solids]
        if self.surface.solids_move:
            for _, positions in shown():
                sizes = [max(size, _diagonal(points)) for size, points in zip(sizes, positions, strict=True)]
        return sizes

    def _cloth_box(self, shown: Frames, sizes: list[float]) -> tuple[np.ndarray, np.ndarray]:
        """The box around the cloth in all frames shown, or around the smallest solid if there is no cloth."""
        if not self.surface.solids:
            return np.zeros(3), np.zeros(3)
        if self.surface.vertex_count == 0:
            points = self.surface.solids[int(np.argmin(sizes))].rest
            return points.min(axis=0), points.max(axis=0)
        boxes = [(cloth.min(axis=0), cloth.max(axis=0)) for cloth, _ in shown()]
        return np.min([low for low, _ in boxes], axis=0), np.max([high for _, high in boxes], axis=0)

    def _framed(self, shown: Frames, size: float, floor: frozenset[int]) -> Iterator[np.ndarray]:
        for cloth, solids in shown():
            near = [
                points
                for number, points in enumerate(solids)
                if number not in floor and _diagonal(cloth, points) <= REACH * size
            ]
            yield np.concatenate([cloth, *near]) if near else cloth


def _diagonal(*points: np.ndarray) -> float:
    """Diagonal of the box around all of these points."""
    low = np.min([p.min(axis=0) for p in points if len(p)], axis=0)
    high = np.max([p.max(axis=0) for p in points if len(p)], axis=0)
    return float(np.linalg.norm(high - low))


def _may_be_floor(solid: SolidSurface) -> bool:
    """Whether a solid stands still, is level and faces up."""
    heights = solid.rest[:, 2]
    level = np.ptp(heights) <= 1e-6 * _diagonal(solid.rest)
    return bool(not solid.moves and level and np.all(_upward(solid.rest, solid.triangles) > 0.0))


def _lowest_tread(points: np.ndarray, triangles: np.ndarray) -> float:
    """Height of the lowest triangle that faces up."""
    up = triangles[_upward(points, triangles) > 0.0]
    return float(points[up, 2].max(axis=1).min()) if len(up) else math.inf


def _upward(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Twice the signed area of every triangle, projected along z."""
    a, b, c = (points[triangles[:, i], :2] for i in range(3))
    p, q = b - a, c - a
    return p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]
