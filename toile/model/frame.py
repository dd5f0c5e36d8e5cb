"""What outputs see: the surface that does not change, and one host copy of the moving cloth per frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Part:
    """One cloth inside the arrays of a surface."""

    name: str
    vertices: slice
    triangles: slice
    fabric: str = ""


@dataclass(frozen=True)
class Surface:
    """All cloths of a scene as one triangle list; the same for every frame."""

    triangles: np.ndarray  # (triangles, 3) int32
    uv: np.ndarray  # [m]  (triangles, 3, 2) float64
    rest: np.ndarray  # [m]  (vertices, 3) float64: the start state
    parts: tuple[Part, ...]
    fps: float  # [1/s]

    @property
    def vertex_count(self) -> int:
        return len(self.rest)


@dataclass(frozen=True)
class Frame:
    """The cloth at one frame time. Frame 0 is the start state."""

    number: int
    time: float  # [s]
    positions: np.ndarray  # [m]  (vertices, 3) float64
    velocities: np.ndarray  # [m/s]  (vertices, 3) float64
    certificate: dict | None = None  # this frame's entry of report.json
