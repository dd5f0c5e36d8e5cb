"""Surfaces with solids, and the camera to draw them: squares, surfaces of revolution and cubes."""

from __future__ import annotations

import math

import numpy as np

from toile.model.frame import Part, SolidSurface, Surface
from toile.render.camera import Camera

SQUARE = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
TWO = np.array([[0, 1, 2], [0, 2, 3]], np.int32)
SMALL = {"width": 64, "height": 48, "samples": 1}  # settings of a picture


def flat(z: float, size: float = 1.0) -> np.ndarray:
    """A square that faces up."""
    return np.column_stack([size * SQUARE, np.full(4, z)])


def upright(y: float, size: float = 1.0) -> np.ndarray:
    """A square in the plane y that faces -y."""
    return np.column_stack([size * SQUARE[:, 0], np.full(4, y), size * SQUARE[:, 1]])


def square(points: np.ndarray, name: str = "square", moves: bool = False) -> SolidSurface:
    return SolidSurface(name, TWO, points, moves)


def turned(profile: list[tuple[float, float]], segments: int) -> tuple[np.ndarray, np.ndarray]:
    """A closed surface of revolution about z, from (radius, height) bottom to top; both ends are on the axis."""
    angles = 2.0 * np.pi * np.arange(segments) / segments
    rings = [np.column_stack([r * np.cos(angles), r * np.sin(angles), np.full(segments, z)]) for r, z in profile[1:-1]]
    last = segments * len(rings) + 1
    triangles = []
    for i in range(segments):
        j = (i + 1) % segments
        triangles += [(0, 1 + j, 1 + i), (last, last - segments + i, last - segments + j)]
        for ring in range(len(rings) - 1):
            a, b = 1 + segments * ring + i, 1 + segments * ring + j
            triangles += [(a, b, b + segments), (a, b + segments, a + segments)]
    ends = [np.array([[0.0, 0.0, z]]) for _, z in (profile[0], profile[-1])]
    return np.concatenate([ends[0], *rings, ends[1]]), np.array(triangles, np.int32)


def sphere(radius: float, rings: int = 48) -> tuple[np.ndarray, np.ndarray]:
    angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, rings)
    return turned([(radius * math.cos(a), radius * math.sin(a)) for a in angles], 2 * rings)


def cylinder(radius: float, height: float, segments: int = 24) -> tuple[np.ndarray, np.ndarray]:
    return turned([(0.0, 0.0), (radius, 0.0), (radius, height), (0.0, height)], segments)


def cube() -> tuple[np.ndarray, np.ndarray]:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    return corners, np.concatenate([quads[:, :3], quads[:, [0, 2, 3]]]).astype(np.int32)


def solid(
    shape: tuple[np.ndarray, np.ndarray], at: tuple[float, float, float] = (0, 0, 0), moves: bool = False
) -> SolidSurface:
    return SolidSurface("solid", shape[1], shape[0] + np.array(at, float), moves)


def scene(cloth: np.ndarray | None, *solids: SolidSurface) -> Surface:
    """A square of cloth, or none, with solids."""
    if cloth is None:
        return Surface(np.zeros((0, 3), np.int32), np.zeros((0, 3, 2)), np.zeros((0, 3)), (), 30.0, solids)
    return Surface(TWO, SQUARE[TWO], cloth, (Part("sheet", slice(0, 4), slice(0, 2)),), 30.0, solids)


def camera_at(*position: float, look_at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Camera:
    return Camera(np.array(position), np.array(look_at), 30.0)


def is_blue(image: np.ndarray) -> np.ndarray:
    """The front of the first cloth; nothing else is."""
    return image[..., 2] - image[..., 0] > 40
