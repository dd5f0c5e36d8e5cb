"""Small scenes of cloth and solids for tests against closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from analytic.sheets import ALL_ENERGIES, BARE, G, put

from toile.model.motion import rotation_matrix
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

THICKNESS = 1e-3  # [m]  distance at which cloth is held, in every scene here

# Particles without forces between them, so that the motion of each has a closed form.
DUST = {**BARE, "stretch_warp": 0.0, "stretch_weft": 0.0}
CLOTH = {**BARE, **ALL_ENERGIES, "damping": 1e-3}


def on_solids(
    device: str,
    solids: Sequence[dict[str, Any]],
    *,
    size: tuple[float, float] = (0.2, 0.2),
    resolution: tuple[int, int] = (5, 5),
    h: float = 1.0 / 60.0,
    seconds: float = 1.0,
    fps: float = 30.0,
    gravity: tuple[float, float, float] = (0.0, 0.0, -G),
    integrator: str | dict[str, Any] = "implicit_bdf2",
    tolerance: float = 1e-10,
    contact: dict[str, float] | None = None,
    constraints: Sequence[dict[str, Any]] = (),
    forces: Sequence[dict[str, Any]] = (),
    fabric: dict[str, float] | None = None,
    shape: dict[str, Any] | None = None,
    **cloth: Any,
) -> Simulation:
    """A scene of a grid, or of another shape, and solids; vertices are held, and cloth does not meet cloth."""
    shape = shape or {"type": "grid", "size": size, "resolution": resolution}
    scene = Scene(
        time={"frames": round(seconds * fps), "fps": fps, "max_step": h, "min_step": min(1e-5, h)},
        gravity=gravity,
        cloth=[{"shape": shape, "fabric": fabric or CLOTH, **cloth}],
        solids=list(solids),
        constraints=[{"type": "solid_contact", "thickness": THICKNESS, **(contact or {})}, *constraints],
        filters=[],
        forces=list(forces),
        integrator=integrator,
        solver={"tolerance": tolerance},
    )
    return Simulation(scene, device)


def dust(device: str, solids: Sequence[dict[str, Any]], points: np.ndarray, **settings: Any) -> Simulation:
    """An even number of particles at these points, without forces between them."""
    # Wide cells: a large change of the stretch of a triangle would count as an unstable step.
    columns = len(points) // 2
    cloth = {"size": (100.0 * (columns - 1), 100.0), "resolution": (columns, 2), "fabric": DUST, **settings}
    cloth["contact"] = {"deepest_start": 1e6, **cloth.get("contact", {})}  # before they are at these points
    simulation = on_solids(device, solids, **cloth)
    place(simulation, points)
    return simulation


def place(simulation: Simulation, points: np.ndarray) -> None:
    """Replaces the initial positions of the scene."""
    put(simulation, points)
    assert simulation.contacts.solid is not None
    simulation.contacts.solid.start(simulation.state.x, 0.0)


def turned(rotation: Sequence[float], vector: Sequence[float]) -> np.ndarray:
    """Rotates a vector by a rotation given as in scenes: axis times angle in degrees."""
    return rotation_matrix(np.radians(rotation)) @ np.asarray(vector, float)


def triple(vector: np.ndarray) -> tuple[float, float, float]:
    x, y, z = (float(component) for component in vector)
    return x, y, z


def along(path: Callable[[float], np.ndarray], seconds: float, keys: int) -> dict[str, Any]:
    """Keyframes on a curve, with straight lines between them."""
    times = np.linspace(0.0, seconds, keys)
    frames = [{"time": float(time), "translation": triple(path(float(time)))} for time in times]
    return {"interpolation": "linear", "keyframes": frames}


def forces(simulation: Simulation) -> np.ndarray:
    """Forces of the cloth on each solid in the last step [N]."""
    assert simulation.contacts.solid is not None
    return simulation.contacts.solid.forces()


def weight(simulation: Simulation) -> float:
    """Weight of all cloth [N]."""
    return float(G * simulation.model.masses.sum())


def positions_of_frames(simulation: Simulation) -> np.ndarray:
    """Runs a scene; returns the positions after every frame [frames, particles, 3]."""
    return np.array([frame.positions.astype(float) for frame in simulation.run()])
