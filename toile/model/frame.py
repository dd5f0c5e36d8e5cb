"""Data that outputs read: the surface, which does not change, and one host copy of the moving data per frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Part:
    """One cloth inside the arrays of a surface."""

    name: str
    vertices: slice
    triangles: slice
    fabric: str = ""
    properties: Mapping[str, tuple[float, str]] = field(default_factory=dict)  # of the fabric: value and unit (SI)


@dataclass(frozen=True)
class SolidSurface:
    """One solid as triangles, counterclockwise seen from outside."""

    name: str
    triangles: np.ndarray  # (triangles, 3) int32, into the solid's own vertices
    rest: np.ndarray  # [m]  (vertices, 3) float64: positions at the start
    moves: bool


@dataclass(frozen=True)
class Surface:
    """All cloths of a scene as one triangle list, and its solids; the same for every frame."""

    triangles: np.ndarray  # (triangles, 3) int32
    uv: np.ndarray  # [m]  (triangles, 3, 2) float64
    rest: np.ndarray  # [m]  (vertices, 3) float64: the start state
    parts: tuple[Part, ...]
    fps: float  # [1/s]
    solids: tuple[SolidSurface, ...] = ()

    @property
    def vertex_count(self) -> int:
        return len(self.rest)

    @property
    def solids_move(self) -> bool:
        return any(solid.moves for solid in self.solids)

    def solids_at(self, frame: Frame) -> tuple[np.ndarray, ...]:
        """Returns the vertex positions of each solid at a frame."""
        return frame.solids or tuple(solid.rest for solid in self.solids)


@dataclass(frozen=True)
class Frame:
    """The cloth and the solids at one frame time. Frame 0 is the start state."""

    number: int
    time: float  # [s]
    positions: np.ndarray  # [m]  (vertices, 3) float64
    velocities: np.ndarray  # [m/s]  (vertices, 3) float64
    certificate: dict | None = None  # this frame's entry of report.json
    solids: tuple[np.ndarray, ...] = ()  # [m]  (vertices, 3) float64 of each solid of the surface; () means all at rest
    intersecting: np.ndarray | None = None  # cloth triangles that intersect others; None if not counted
