"""Order of the integrators: halving the step divides the error by 2 or by 4.

oscillator   two triangles pinned at their left side. The corner that belongs to one triangle alone moves along u
             with w^2 = 3 k/(2 rho a^2), independent of all others, x = x0 cos(w t)
sheet        36 particles with stretch, shear, bending and damping, falling and waving; against 1,600 steps of BDF2
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.sheets import DENSITY, positions, put, sheet, velocities, walk

from toile.simulation.simulation import Simulation

SIDE, STIFFNESS, START = 0.1, 100.0, 0.01  # [m], [N/m], [m]
FREQUENCY = np.sqrt(1.5 * STIFFNESS / (DENSITY * SIDE**2))  # [rad/s]
CORNER = 3  # mass rho a^2/3 from two triangles, one of which stretches with it: k_eff = k/2

# The measured order at these steps is within 0.06 of the true one.
BETWEEN = {"implicit_euler": (0.9, 1.1), "implicit_bdf2": (1.9, 2.1)}


def steps(time: float, count: int, ratio: float) -> list[float]:
    """`count` steps that alternate in this ratio."""
    short = 2.0 * time / (count * (1.0 + ratio))
    return [short, ratio * short] * (count // 2)


def orders(errors: list[float]) -> np.ndarray:
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


def oscillator(device: str, integrator: str) -> Simulation:
    simulation = sheet(
        device,
        (SIDE, SIDE),
        (2, 2),
        h=1.0,
        diagonals="single",
        integrator=integrator,
        gravity=0.0,
        fabric={"stretch_warp": STIFFNESS, "stretch_weft": 0.0},
        constraints=[{"type": "pin", "where": {"edges": ["left"]}}],
    )
    x = positions(simulation)
    x[CORNER, 0] += START
    put(simulation, x=x)
    return simulation


@pytest.mark.parametrize("ratio", [1.0, 2.0])
@pytest.mark.parametrize("integrator", ["implicit_euler", "implicit_bdf2"])
def test_oscillator(device: str, integrator: str, ratio: float) -> None:
    time = 0.7 * 2.0 * np.pi / FREQUENCY
    phase = FREQUENCY * time
    errors = []
    for count in (200, 400, 800) if integrator == "implicit_euler" else (40, 80, 160, 320):
        simulation = oscillator(device, integrator)
        walk(simulation, steps(time, count, ratio))
        x = positions(simulation)[CORNER, 0] - 0.5 * SIDE - START * np.cos(phase)
        v = velocities(simulation)[CORNER, 0] + START * FREQUENCY * np.sin(phase)
        errors.append(np.hypot(x, v / FREQUENCY))
    low, high = BETWEEN[integrator]
    assert ((low < orders(errors)) & (orders(errors) < high)).all(), orders(errors)


SHEET_TIME = 0.2  # [s]
# So soft that 100 steps resolve every mode.
SOFT = {"stretch_warp": 2e2, "stretch_weft": 2e2, "shear": 20.0, "bend_warp": 1e-3, "bend_weft": 1e-3, "damping": 2e-3}


def waving_sheet(device: str, integrator: str | dict[str, Any]) -> Simulation:
    simulation = sheet(
        device,
        (0.5, 0.5),
        (6, 6),
        h=SHEET_TIME,
        integrator=integrator,
        tolerance=1e-10,
        fabric=SOFT,
        constraints=[{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}],
    )
    x = positions(simulation)
    v = np.zeros_like(x)
    u_, v_ = x[:, 0].copy(), x[:, 1].copy()
    x[:, 2] += 0.03 * np.sin(6.0 * u_ + 1.0) * np.cos(5.0 * v_)
    v[:, 2] = 0.2 * np.cos(4.0 * u_) * (v_ - 0.25)
    put(simulation, x=x, v=v)
    return simulation


@pytest.fixture(scope="module")
def converged(device: str) -> np.ndarray:
    """Positions of the sheet at the end; its error is a fourteenth, or less, of the smallest one measured below."""
    simulation = waving_sheet(device, "implicit_bdf2")
    walk(simulation, steps(SHEET_TIME, 1600, 1.0))
    return positions(simulation)


@pytest.mark.parametrize("ratio", [1.0, 2.0])
@pytest.mark.parametrize("integrator", ["implicit_euler", "implicit_bdf2"])
def test_sheet(device: str, converged: np.ndarray, integrator: str, ratio: float) -> None:
    errors = []
    for count in (100, 200, 400):
        simulation = waving_sheet(device, integrator)
        walk(simulation, steps(SHEET_TIME, count, ratio))
        errors.append(float(np.sqrt(np.mean(np.sum((positions(simulation) - converged) ** 2, axis=1)))))
    assert errors[0] < 0.01 < np.abs(converged[:, 2]).max(), "the motion must be larger than its error"
    low, high = BETWEEN[integrator]
    assert ((low < orders(errors)) & (orders(errors) < high)).all(), orders(errors)
