"""Artificial damping: the decay of an undamped oscillator is that of the scheme.

    implicit_euler   |lambda| = 1/sqrt(1 + w^2 h^2) per step
    implicit_bdf2    z_n = A l_1^n + B l_2^n,    l the roots of (1 + 2 i w h/3) l^2 - 4 l/3 + 1/3,    z = x + i v/w

The oscillator is the corner of two triangles pinned at their left side, w^2 = 3 k/(2 rho a^2); z' = -i w z.
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import DENSITY, positions, put, sheet

SIDE, STIFFNESS, START = 0.1, 100.0, 0.01  # [m], [N/m], [m]
FREQUENCY = np.sqrt(1.5 * STIFFNESS / (DENSITY * SIDE**2))  # [rad/s]
CORNER = 3
STEPS = 100


def motion(device: str, integrator: str, wh: float) -> np.ndarray:
    """z after each step, complex."""
    simulation = sheet(
        device,
        (SIDE, SIDE),
        (2, 2),
        h=wh / FREQUENCY,
        frames=STEPS,
        diagonals="single",
        integrator=integrator,
        gravity=0.0,
        fabric={"stretch_warp": STIFFNESS, "stretch_weft": 0.0},
        constraints=[{"type": "pin", "where": {"edges": ["left"]}}],
    )
    x = positions(simulation)
    x[CORNER, 0] += START
    put(simulation, x=x)
    frames = list(simulation.run())
    return np.array([f.positions[CORNER, 0] - 0.5 * SIDE + 1j * f.velocities[CORNER, 0] / FREQUENCY for f in frames])


@pytest.mark.parametrize(("wh", "kept"), [(0.1, 0.99504), (0.2, 0.98058), (0.33, 0.94963)])
def test_backward_euler(device: str, wh: float, kept: float) -> None:
    """1e-6 of the amplitude after each step; the printed numbers have five digits."""
    z = motion(device, "implicit_euler", wh)
    ratios = np.abs(z[1:] / z[:-1])
    np.testing.assert_allclose(ratios, 1.0 / np.sqrt(1.0 + wh**2), rtol=1e-6)
    assert ratios[0] == pytest.approx(kept, abs=6e-6)


@pytest.mark.parametrize("wh", [0.1, 0.2, 0.33])
def test_bdf2(device: str, wh: float) -> None:
    """The whole motion to 1e-10 of its size, from the two roots and a first step of backward Euler."""
    z = motion(device, "implicit_bdf2", wh)
    roots = np.roots([1.0 + 2j / 3.0 * wh, -4.0 / 3.0, 1.0 / 3.0])
    roots = roots[np.argsort(-np.abs(roots))]
    weights = np.linalg.solve([[1.0, 1.0], roots], [START, START / (1.0 + 1j * wh)])
    n = np.arange(STEPS + 1)
    np.testing.assert_allclose(z, weights[0] * roots[0] ** n + weights[1] * roots[1] ** n, atol=1e-10 * START)
    # The loss per step is (w h)^4/4, where that of backward Euler is (w h)^2/2.
    assert 1.0 - abs(z[-1] / z[-2]) == pytest.approx(wh**4 / 4.0, rel=0.25)
