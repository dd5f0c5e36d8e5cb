"""A strip hanging from its upper edge swings like a chain.

    w_1 = 1.20241 sqrt(g/L),    shape J0(2 w sqrt(s/g)) at height s above the free end

The start has the shape of the first mode, so that there is a single frequency.
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import DENSITY, G, half_periods, positions, put, sheet, trajectory
from scipy.special import j0

LENGTH, CELLS = 1.0, 20
STIFFNESS = 1e4  # [N/m]: its weight stretches the strip by 1e-4
FREQUENCY = 1.20241 * np.sqrt(G / LENGTH)  # [rad/s]: half of J0's first zero


@pytest.mark.parametrize(
    # At two degrees the frequency is 1e-4 lower than at none, twenty cells bring 2e-4 and the longer strip 1e-4. Time:
    # backward Euler (w h)^2/3, 5e-6 here; BDF2 linearized once (w h)^2 = 1.4e-3, at a step ten times as long.
    ("integrator", "h", "tolerance"),
    [("implicit_euler", 1e-3, 0.01), ("implicit_bdf2", 1e-2, 0.003)],
)
def test_period(device: str, integrator: str, h: float, tolerance: float) -> None:
    period = 2.0 * np.pi / FREQUENCY
    assert period == pytest.approx(1.66837, rel=1e-5)
    simulation = sheet(
        device,
        (LENGTH / CELLS, LENGTH),
        (2, CELLS + 1),
        h=h,
        frames=round(0.8 * period / h),
        diagonals="single",
        integrator=integrator,
        tolerance=1e-6,
        rotation=(90.0, 0.0, 0.0),
        fabric={"stretch_warp": STIFFNESS, "stretch_weft": STIFFNESS, "shear": 0.1 * STIFFNESS},
        constraints=[{"type": "pin", "where": {"edges": ["upper"]}}],
    )
    x = positions(simulation)
    height, depth = x[:, 2] + 0.5 * LENGTH, 0.5 * LENGTH - x[:, 2]
    x[:, 1] += np.radians(2.0) * LENGTH * j0(2.0 * FREQUENCY * np.sqrt(height / G))
    x[:, 2] -= DENSITY * G / STIFFNESS * (LENGTH * depth - 0.5 * depth**2)  # stretched by its weight
    put(simulation, x=x)
    (half,) = half_periods(*trajectory(simulation, [0, 1], axis=1))
    assert 2.0 * half == pytest.approx(period, rel=tolerance)
