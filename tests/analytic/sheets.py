"""Small sheets for tests against closed forms: a grid of one fabric, without gravity or solids unless they are
added."""

from __future__ import annotations

from typing import Any

import numpy as np

from toile.scene.schema import Scene
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

G = 9.81  # [m/s^2]
DENSITY = 0.2  # [kg/m^2]

# Only undamped stretch; a test adds what it needs.
BARE = {
    "density": DENSITY,
    "stretch_warp": 1e3,
    "stretch_weft": 1e3,
    "shear": 0.0,
    "bend_warp": 0.0,
    "bend_weft": 0.0,
    "damping": 0.0,
}
# A cloth with all internal forces
ALL_ENERGIES = {"stretch_warp": 5e3, "stretch_weft": 5e3, "shear": 5e2, "bend_warp": 5e-5, "bend_weft": 5e-5}


def sheet(
    device: str,
    size: tuple[float, float],
    resolution: tuple[int, int],
    *,
    h: float,
    frames: int = 0,
    diagonals: str = "alternating",
    integrator: str | dict[str, Any] = "implicit_euler",
    gravity: float = G,
    tolerance: float = 1e-12,
    constraints: list[dict[str, Any]] | None = None,
    forces: list[dict[str, Any]] | None = None,
    fabric: dict[str, float] | None = None,
    **cloth: Any,
) -> Simulation:
    """A grid whose frames are single steps of h; u is x and v is y until `rotation` turns it."""
    shape = {"type": "grid", "size": size, "resolution": resolution, "diagonals": diagonals}
    scene = Scene(
        time={"frames": frames, "fps": 1.0 / h, "max_step": h, "min_step": min(h, 1e-5)},
        gravity=(0.0, 0.0, -gravity),
        cloth=[{"shape": shape, "fabric": {**BARE, **(fabric or {})}, **cloth}],
        constraints=constraints or [],
        forces=forces or [],
        integrator=integrator,
        # Far below the tolerances of the tests, so that the scheme is tested and not the tolerance of CG.
        solver={"tolerance": tolerance},
    )
    return Simulation(scene, device)


def positions(simulation: Simulation) -> np.ndarray:
    return simulation.state.x.numpy().astype(float)


def velocities(simulation: Simulation) -> np.ndarray:
    return simulation.state.v.numpy().astype(float)


def put(simulation: Simulation, x: np.ndarray | None = None, v: np.ndarray | None = None) -> None:
    """Replaces the initial positions or velocities of the scene."""
    if x is not None:
        simulation.state.x.assign(x)
    if v is not None:
        simulation.state.v.assign(v)


def walk(simulation: Simulation, steps: list[float]) -> None:
    """Takes these steps, none of which may be rejected."""
    tally = FrameTally()
    for h in steps:
        simulation.step(h, tally)
    assert tally.rejected == 0


def half_periods(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Times between zero crossings, each found on a straight line between two samples."""
    before = np.flatnonzero(np.signbit(values[1:]) != np.signbit(values[:-1]))
    after = before + 1
    intersections = times[before] - values[before] * (times[after] - times[before]) / (values[after] - values[before])
    return np.diff(intersections)


def trajectory(simulation: Simulation, particles: list[int], axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Time and mean position of some particles along an axis, frame by frame."""
    frames = [(frame.time, frame.positions[particles, axis].mean()) for frame in simulation.run()]
    times, values = np.array(frames).T
    return times, values
