"""Friction between sheets: on an incline of 20 degrees, and of a sheet that slides on a level one until it stops.

    on the incline     stays for mu >= tan a,    else accelerates with  g (sin a - mu cos a)
    on the level       stops after  v^2 / (2 mu g)

The lowest sheet lies in the xy plane and is held; gravity is inclined instead. Sheets are turned against each other, so
that no vertex lies on a vertex.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.cloths import PIN_ALL, THICKNESS, cloths, grid, mean, steps, walk_on
from analytic.sheets import G, positions, put, velocities

from toile.simulation.simulation import Simulation

ANGLE = float(np.radians(20.0))
DOWN = (G * float(np.sin(ANGLE)), 0.0, -G * float(np.cos(ANGLE)))
INTEGRATORS = ["implicit_bdf2", "implicit_euler"]


def pile(device: str, mu: float, integrator: str, count: int, turn: float = 17.0, **more: Any) -> Simulation:
    """`count` sheets in contact, each smaller than the one below; the lowest is held."""
    sizes = [(0.8, 13), (0.4, 9), (0.2, 6)][:count]
    sheets = [
        {
            "shape": grid(size, resolution),
            "translation": (-0.1 * min(k, 1), 0.003 * k, THICKNESS * k),
            "rotation": (0.0, 0.0, turn * k),
        }
        for k, (size, resolution) in enumerate(sizes)
    ]
    settings: dict[str, Any] = {"gravity": DOWN, "constraints": [PIN_ALL], **more}
    return cloths(device, sheets, integrator=integrator, contact={"friction": mu}, **settings)


def slide(simulation: Simulation, seconds: float, settle: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Downhill acceleration of each sheet after it has settled, and its displacement relative to the one below."""
    count = len(simulation.model.parts)
    walk_on(simulation, settle)
    x0 = np.array([mean(simulation, k, positions(simulation))[0] for k in range(count)])
    times, speeds = [], []
    for _ in steps(simulation, seconds):
        times.append(simulation.state.t)
        speeds.append([mean(simulation, k, velocities(simulation))[0] for k in range(count)])
    x1 = np.array([mean(simulation, k, positions(simulation))[0] for k in range(count)])
    return np.polyfit(times, np.array(speeds), 1)[0], np.diff(x1 - x0)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("turn", [0.0, 17.0])
def test_a_stack_stays_on_an_incline(turn: float, integrator: str, device: str) -> None:
    """mu = 0.5 > tan 20 degrees: three sheets, none of which moves by 1 mm on the one below in a second."""
    simulation = pile(device, 0.5, integrator, 3, turn)
    acceleration, moved = slide(simulation, 1.0)
    assert np.abs(moved).max() < 1e-3
    assert np.abs(acceleration).max() < 1e-3 * G


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_stack_that_stays_does_not_creep(integrator: str, device: str) -> None:
    """mu = 0.5: once it has settled, no sheet moves by more than 1 um on the one below in a second."""
    _, moved = slide(pile(device, 0.5, integrator, 3), 1.0, settle=1.0)
    assert np.abs(moved).max() < 1e-6


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("count", [2, 3])
def test_a_stack_slides_where_friction_is_below_the_limit(count: int, integrator: str, device: str) -> None:
    """mu = 0.2: every free sheet gains g (sin a - mu cos a) = 1.51 m/s^2, within 10 %: a stack slides as one."""
    acceleration, _ = slide(pile(device, 0.2, integrator, count), 0.4)
    np.testing.assert_allclose(acceleration[1:], G * (np.sin(ANGLE) - 0.2 * np.cos(ANGLE)), rtol=0.1)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_sheet_without_friction_slides_freely(integrator: str, device: str) -> None:
    """g sin a = 3.36 m/s^2, within 2 %: nothing else slows a sheet, and the steps lose nothing."""
    acceleration, _ = slide(pile(device, 0.0, integrator, 2), 0.3)
    assert acceleration[1] == pytest.approx(G * np.sin(ANGLE), rel=0.02)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("direction", [(1.0, 0.0), (-0.6, 0.8)], ids=["along x", "aslant"])
def test_friction_stops_a_sliding_sheet(direction: tuple[float, float], integrator: str, device: str) -> None:
    """v^2/(2 mu g) within 10 %, straight to 2 mm; after that it stays within 0.1 mm."""
    v, mu = 1.0, 0.3
    simulation = pile(device, mu, integrator, 2, h=1.0 / 120.0, gravity=(0.0, 0.0, -G))
    velocity = velocities(simulation)
    velocity[simulation.model.parts[1].particles, :2] = v * np.array(direction)
    put(simulation, v=velocity)
    start = mean(simulation, 1, positions(simulation))
    walk_on(simulation, 1.3 * v / (mu * G))
    stopped = mean(simulation, 1, positions(simulation))
    way = (stopped - start)[:2]
    assert way @ direction == pytest.approx(v**2 / (2.0 * mu * G), rel=0.1)
    assert abs(way @ (-direction[1], direction[0])) < 2e-3
    walk_on(simulation, 0.2)
    assert np.linalg.norm((mean(simulation, 1, positions(simulation)) - stopped)[:2]) < 1e-4
