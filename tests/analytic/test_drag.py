"""A sheet falling through still air.

linear      rho dv/dt = rho g - c v      v_t = rho g / c;    backward Euler: v_(n+1) = (v_n + h g)/(1 + h c/rho)
quadratic   rho dv/dt = rho g - q v^2    v = v_t tanh(g t / v_t),    v_t = sqrt(rho g / q)
edge-on     no drag: free fall
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import DENSITY, G, sheet


@pytest.mark.parametrize("tilt", [0.0, 180.0], ids=["face up", "face down"])
def test_linear_drag(device: str, tilt: float) -> None:
    """The step is linear in v, so every velocity agrees to rounding; 1e-10."""
    c, h = 2.0, 1.0 / 60.0
    simulation = sheet(
        device,
        (1.0, 1.0),
        (4, 4),
        h=h,
        frames=60,
        rotation=(tilt, 0.0, 0.0),
        forces=[{"type": "drag", "linear": c, "quadratic": 0.0}],
    )
    v = 0.0
    for frame in simulation.run():
        np.testing.assert_allclose(frame.velocities[:, 2], -v, rtol=1e-10, atol=1e-13)
        v = (v + h * G) / (1.0 + h * c / DENSITY)
    # Ten times rho/c: the remaining difference from the terminal velocity is (1 + h c/rho)^-60.
    terminal = DENSITY * G / c
    assert v == pytest.approx(terminal * (1.0 - (1.0 + h * c / DENSITY) ** -61), rel=1e-10)


@pytest.mark.parametrize(
    # Errors are largest near t = v_t/(2 g): about 0.55 g h v'/v_t for first order, a fifth of (g h/v_t)^2 for second.
    ("integrator", "h"),
    [("implicit_euler", 1.0 / 480.0), ("implicit_bdf2", 1.0 / 60.0)],
)
def test_quadratic_drag(device: str, integrator: str, h: float) -> None:
    q = 1.2
    terminal = np.sqrt(DENSITY * G / q)
    assert terminal == pytest.approx(1.279, abs=5e-4)
    simulation = sheet(
        device,
        (1.0, 1.0),
        (4, 4),
        h=h,
        frames=round(0.6 / h),
        integrator=integrator,
        forces=[{"type": "drag", "linear": 0.0, "quadratic": q}],
    )
    for frame in simulation.run():
        expected = terminal * np.tanh(G * frame.time / terminal)
        np.testing.assert_allclose(-frame.velocities[:, 2], expected, atol=0.005 * terminal)
    np.testing.assert_allclose(-frame.velocities[:, 2], terminal, rtol=0.001)


@pytest.mark.parametrize("integrator", ["implicit_euler", "implicit_bdf2"])
def test_an_edge_on_sheet_falls_freely(device: str, integrator: str) -> None:
    """The velocity of free fall is g t in both schemes; a sheet whose normal is horizontal to rounding has no drag."""
    simulation = sheet(
        device,
        (1.0, 1.0),
        (4, 4),
        h=1.0 / 60.0,
        frames=30,
        integrator=integrator,
        rotation=(90.0, 0.0, 0.0),
        forces=[{"type": "drag", "linear": 2.0, "quadratic": 1.2}],
    )
    *_, last = simulation.run()
    np.testing.assert_allclose(last.velocities[:, 2], -G * last.time, rtol=1e-10)
    np.testing.assert_allclose(last.velocities[:, :2], 0.0, atol=1e-10)


def test_a_steady_wind_carries_the_sheet_along(device: str) -> None:
    """Without gravity a sheet facing a wind u approaches it: dv/dt = (c/rho)(u - v), in backward Euler's form."""
    c, h, u = 2.0, 1.0 / 60.0, 3.0
    simulation = sheet(
        device,
        (1.0, 1.0),
        (4, 4),
        h=h,
        frames=40,
        gravity=0.0,
        forces=[{"type": "wind", "velocity": (5.0, 0.0, u), "linear": c, "quadratic": 0.0}],
    )
    v = 0.0
    for frame in simulation.run():
        np.testing.assert_allclose(frame.velocities[:, 2], v, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(frame.velocities[:, :2], 0.0, atol=1e-13)  # only along the normal
        v = (v + h * c / DENSITY * u) / (1.0 + h * c / DENSITY)
