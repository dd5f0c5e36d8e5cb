"""[BMF03] sec. 3: the damping solve needs "typically less than ten and sometimes as few as one or two iterations, even
without preconditioning"; no matrix is made."""

from __future__ import annotations

import numpy as np
import pytest

from toile.linear.modified_pcg import Solution
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

# Just below the largest stable step of each fabric [s].
STEPS = {"cotton": 1.65e-4, "wool_tropical": 1.5e-4}


def iterations(device: str, fabric: str, h: float, steps: int) -> list[int]:
    """Iterations of every solve of a sheet that falls from two corners and swings."""
    simulation = Simulation(
        Scene(
            time={"frames": 1, "fps": 1.0 / (steps * h), "max_step": h, "min_step": 1e-7},
            cloth=[{"shape": {"type": "grid", "resolution": (21, 21)}, "fabric": fabric, "rotation": (60.0, 0.0, 0.0)}],
            constraints=[{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}],
            integrator="mixed_robust",
        ),
        device,
    )
    found: list[int] = []
    solve = simulation.integrator.damping.solve

    def counted(*arguments: object) -> Solution:
        solution = solve(*arguments)
        found.append(solution.iterations)
        return solution

    simulation.integrator.damping.solve = counted
    last = simulation.advance_frame()
    assert last.certificate is not None
    assert last.certificate["rejected"] == 0
    assert last.certificate["solver"]["iterations"] == sum(found)
    return found


@pytest.mark.parametrize("fabric", STEPS)
def test_the_damping_solve_needs_few_iterations(device: str, fabric: str) -> None:
    found = iterations(device, fabric, STEPS[fabric], 100)
    assert len(found) == 200
    assert np.median(found) < 10
    assert max(found) < 20


def test_a_tenth_of_the_step_needs_three_iterations(device: str) -> None:
    assert np.median(iterations(device, "cotton", 0.1 * STEPS["cotton"], 20)) <= 3


def test_nothing_to_solve_without_damping(device: str) -> None:
    """Every mixed step is then explicit."""
    scene = Scene(
        time={"frames": 1, "fps": 1000.0, "max_step": 1e-4},
        cloth=[{"shape": {"type": "grid", "resolution": (5, 5)}, "fabric": {"damping": 0.0}}],
        constraints=[{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}],
        integrator="mixed_robust",
    )
    frame = Simulation(scene, device).advance_frame()
    assert frame.certificate is not None
    assert frame.certificate["solver"] == {"solves": 0, "iterations": 0, "residual": 0.0}
