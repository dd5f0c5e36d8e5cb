"""The state of a live simulation at one moment, as pages show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from toile.model.frame import Surface
from toile.scene.schema import Scene

PREPARING, RUNNING, PAUSED, FAILED = "preparing", "running", "paused", "failed"

NO_VERTICES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Snapshot:
    """The state of a live simulation at one moment. Its arrays never change."""

    serial: int  # grows with every change of the state
    build: int  # grows with every new simulation, which may have another surface and other solids
    handled: int  # number of the last request to open or change a scene that was carried out or refused
    state: str  # one of PREPARING, RUNNING, PAUSED, FAILED
    message: str  # the last error, or ""
    warnings: tuple[str, ...]  # about the scene
    title: str  # under which the scene was opened
    scene: Scene
    surface: Surface | None  # None until the first simulation is built
    frame: int
    time: float  # [s]
    positions: np.ndarray  # (vertices, 3) [m]
    velocities: np.ndarray  # (vertices, 3) [m/s]
    solids: tuple[np.ndarray, ...]  # vertices of each solid
    pinned: np.ndarray  # vertices that are held in all directions
    vertices_on_solids: np.ndarray  # vertices in contact with solids
    vertices_on_cloth: np.ndarray  # vertices in contact with cloth
    forces: np.ndarray  # (vertices, 3) of constraints and contacts with solids, in the last step [N]
    rest_stretch: np.ndarray | None  # (triangles, 2): the stretch at rest, if it is not 1
    entry: dict[str, Any] | None  # of the certificate, for this frame
    speed: float  # simulated time / real time over the last second; 1 at real time
    milliseconds: float  # to compute the last frame
    grip: tuple[np.ndarray, np.ndarray] | None  # the point of the cloth that the mouse holds, and its target


def empty_snapshot(scene: Scene, title: str) -> Snapshot:
    """The state before the first simulation is built."""
    points = np.zeros((0, 3), np.float32)
    return Snapshot(
        serial=0,
        build=0,
        handled=0,
        state=PREPARING,
        message="",
        warnings=(),
        title=title,
        scene=scene,
        surface=None,
        frame=0,
        time=0.0,
        positions=points,
        velocities=points,
        solids=(),
        pinned=NO_VERTICES,
        vertices_on_solids=NO_VERTICES,
        vertices_on_cloth=NO_VERTICES,
        forces=points,
        rest_stretch=None,
        entry=None,
        speed=1.0,
        milliseconds=0.0,
        grip=None,
    )
