"""Explicit and mixed schemes: their order, artificial damping and stability of an oscillator, damped and not.

oscillator   as in test_order.py: one corner moves by itself, w^2 = 3 k/(2 rho a^2)
sheet        36 particles with stretch, shear, bending and damping, falling and waving
leapfrog     without damping all mixed schemes are the same: x_n = x_0 cos(n q), cos q = 1 - (w h)^2/2, so that
             x^2 + v^2/(w^2 (1 - (w h)^2/4)) does not change
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.sheets import positions, put, sheet, velocities, walk
from analytic.test_order import CORNER, FREQUENCY, SHEET_TIME, SIDE, START, STIFFNESS, orders, steps, waving_sheet

from toile.simulation.simulation import Simulation

MIXED = ["mixed_leapfrog", "mixed_newmark", "mixed_robust"]
BETWEEN = {"explicit_euler": (0.9, 1.1), **dict.fromkeys(MIXED, (1.9, 2.1))}


def insisted(integrator: str) -> dict[str, Any]:
    """Sets steps beyond the stability limit to be kept, for tests that choose their steps themselves."""
    return {"type": integrator, "insist": True}


def oscillator(device: str, integrator: str, damping: float = 0.0, h: float = 1.0) -> Simulation:
    """`damping` is in seconds: c = damping w^2."""
    simulation = sheet(
        device,
        (SIDE, SIDE),
        (2, 2),
        h=h,
        diagonals="single",
        integrator=insisted(integrator),
        gravity=0.0,
        fabric={"stretch_warp": STIFFNESS, "stretch_weft": 0.0, "damping": damping},
        constraints=[{"type": "pin", "where": {"indices": [0, 1, 2]}}],  # another corner would have another w
    )
    x = positions(simulation)
    x[CORNER, 0] += START
    put(simulation, x=x)
    return simulation


def elongation(simulation: Simulation) -> tuple[float, float]:
    """Elongation of the corner, and its rate."""
    return float(positions(simulation)[CORNER, 0] - 0.5 * SIDE), float(velocities(simulation)[CORNER, 0])


def damped(time: float, damping: float) -> tuple[float, float]:
    """x'' + c x' + w^2 x = 0 from x = START at rest."""
    c = damping * FREQUENCY**2
    rate = np.sqrt(FREQUENCY**2 - c * c / 4.0)
    fading = START * np.exp(-0.5 * c * time)
    x = fading * (np.cos(rate * time) + 0.5 * c / rate * np.sin(rate * time))
    return x, -fading * FREQUENCY**2 / rate * np.sin(rate * time)


@pytest.mark.parametrize("ratio", [1.0, 3.0])
@pytest.mark.parametrize("integrator", BETWEEN)
@pytest.mark.parametrize("damping", [0.0, 0.2 / FREQUENCY])
def test_oscillator(device: str, integrator: str, ratio: float, damping: float) -> None:
    """At constant steps, and at steps that alternate 1:3. The second scheme keeps its order too, contrary to the paper:
    it is a one-step map that is its own adjoint."""
    time = 0.7 * 2.0 * np.pi / FREQUENCY
    errors = []
    for count in (200, 400, 800) if integrator == "explicit_euler" else (40, 80, 160):
        simulation = oscillator(device, integrator, damping)
        walk(simulation, steps(time, count, ratio))
        (x, v), (x_true, v_true) = elongation(simulation), damped(time, damping)
        errors.append(np.hypot(x - x_true, (v - v_true) / FREQUENCY))
    assert errors[0] < 0.05 * START
    low, high = BETWEEN[integrator]
    assert ((low < orders(errors)) & (orders(errors) < high)).all(), orders(errors)


@pytest.fixture(scope="module")
def converged(device: str) -> np.ndarray:
    """Positions by extrapolation from BDF2 with 800 and 1,600 steps."""
    ends = []
    for count in (800, 1600):
        simulation = waving_sheet(device, "implicit_bdf2")
        walk(simulation, steps(SHEET_TIME, count, 1.0))
        ends.append(positions(simulation))
    return ends[1] + (ends[1] - ends[0]) / 3.0


@pytest.mark.parametrize("ratio", [1.0, 3.0])
@pytest.mark.parametrize(
    "integrator",
    ["explicit_euler", "mixed_robust", *(pytest.param(name, marks=pytest.mark.slow) for name in MIXED[:2])],
)
def test_sheet(device: str, converged: np.ndarray, integrator: str, ratio: float) -> None:
    errors = []
    for count in (200, 400):
        simulation = waving_sheet(device, insisted(integrator))
        walk(simulation, steps(SHEET_TIME, count, ratio))
        errors.append(float(np.sqrt(np.mean(np.sum((positions(simulation) - converged) ** 2, axis=1)))))
    assert errors[0] < 0.01 < np.abs(converged[:, 2]).max(), "the motion must be larger than its error"
    low, high = BETWEEN[integrator]
    assert ((low < orders(errors)) & (orders(errors) < high)).all(), orders(errors)


@pytest.mark.parametrize("wh", [0.1, 1.0, 1.9])
@pytest.mark.parametrize("integrator", MIXED)
def test_no_artificial_damping(device: str, integrator: str, wh: float) -> None:
    """|lambda| = 1 to 1e-12: the amplitude after 1,000 steps is that of the start to 1e-9, and x is the closed form."""
    keeps_amplitude(device, integrator, wh, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", MIXED)
def test_no_artificial_damping_in_ten_thousand_steps(device: str, integrator: str) -> None:
    keeps_amplitude(device, integrator, 1.0, 10000)


def keeps_amplitude(device: str, integrator: str, wh: float, count: int) -> None:
    h = wh / FREQUENCY
    simulation = oscillator(device, integrator)
    walk(simulation, [h] * count)
    x, v = elongation(simulation)
    amplitude = np.sqrt(x**2 + v**2 / (FREQUENCY**2 * (1.0 - wh**2 / 4.0)))
    assert abs((amplitude / START) ** (1.0 / count) - 1.0) < 1e-12
    angle = np.arccos(1.0 - 0.5 * wh**2)
    # x0 has the rounding of positions twenty times as large, which is an error of w h.
    assert x == pytest.approx(START * np.cos(count * angle), abs=1e-12 * count * START)


@pytest.mark.parametrize("stronger", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("integrator", MIXED)
def test_damping_does_not_lower_the_stability_limit(device: str, integrator: str, stronger: float) -> None:
    """The oscillation does not grow at 0.97 of 2/w, with critical damping or a million times that."""
    assert growth(device, integrator, stronger * 2.0 / FREQUENCY, 0.97) <= 1.0 + 1e-9


@pytest.mark.parametrize("damping", [0.0, 1.0 / FREQUENCY])
@pytest.mark.parametrize("integrator", MIXED)
def test_the_stability_limit_of_each_scheme(device: str, integrator: str, damping: float) -> None:
    """h w = 2. Damping does not raise it for the first two schemes; the third is stable up to h^2 w^2 = 4 + 2 h c."""
    c = damping * FREQUENCY**2 if integrator == "mixed_robust" else 0.0
    limit = (c + np.sqrt(c * c + 4.0 * FREQUENCY**2)) / (2.0 * FREQUENCY)
    assert growth(device, integrator, damping, 0.97 * limit) <= 1.0 + 1e-9
    assert growth(device, integrator, damping, 1.03 * limit) > 10.0


def growth(device: str, integrator: str, damping: float, share: float) -> float:
    """Ratio of the largest elongations in the third and second fifty steps, of this share of 2/w.

    The elongation is small: a large one would count as a failed step.
    """
    simulation = oscillator(device, integrator, damping)
    x = positions(simulation)
    x[CORNER, 0] = 0.5 * SIDE + 1e-9 * START
    put(simulation, x=x)
    sizes = []
    for _ in range(150):
        walk(simulation, [share * 2.0 / FREQUENCY])
        sizes.append(abs(elongation(simulation)[0]))
        if sizes[-1] > 1e-2 * START:
            return np.inf
    return max(sizes[100:]) / max(sizes[50:100])


def test_the_third_scheme_is_monotone(device: str) -> None:
    """An overdamped corner that is released creeps back to its rest position, x = x_0 exp(-t/damping), monotonically
    and without overshoot. The first scheme oscillates about it at the same steps."""
    h, damping = 0.5 * 2.0 / FREQUENCY, 100.0 / FREQUENCY

    def way(integrator: str) -> np.ndarray:
        simulation = oscillator(device, integrator, damping)
        found = [START]
        for _ in range(100):
            walk(simulation, [h])
            found.append(elongation(simulation)[0])
        return np.array(found)

    robust, leapfrog = way("mixed_robust"), way("mixed_leapfrog")
    assert (np.diff(robust) < 0.0).all()
    np.testing.assert_allclose(robust[-1] / START, np.exp(-100.0 * h / damping), rtol=0.01)
    assert (np.diff(leapfrog) > 0.0).sum() > 20


@pytest.mark.parametrize("integrator", ["mixed_newmark", "mixed_robust"])
def test_mixed_schemes_reverse_a_strongly_damped_velocity(device: str, integrator: str) -> None:
    """A velocity that damping should stop at once is not stopped: the trapezoidal rule reverses it in every step. The
    velocity u that carries positions is v/(1 + h c/2), and from step to step is multiplied by
    (1 - h_n c/2)/(1 + h_(n+1) c/2): it grows when steps shrink, in the second scheme and in the third alike."""
    c = 1e3 * FREQUENCY
    simulation = oscillator(device, integrator, c / FREQUENCY**2)
    x, v = positions(simulation), np.zeros((4, 3))
    x[CORNER, 0] = 0.5 * SIDE
    v[CORNER, 0] = 1e-3
    put(simulation, x=x, v=v)
    steps = np.array([1.0, 1.0, 0.1, 0.1]) / FREQUENCY
    moved = []
    for h in steps:
        before = elongation(simulation)[0]
        walk(simulation, [h])
        moved.append((elongation(simulation)[0] - before) / h)
    assert moved[0] == pytest.approx(1e-3 / (1.0 + 0.5 * c * steps[0]), rel=1e-6)
    factors = np.array(moved[1:]) / np.array(moved[:-1])
    # The spring adds a thousandth.
    expected = (1.0 - 0.5 * c * steps[:-1]) / (1.0 + 0.5 * c * steps[1:])
    np.testing.assert_allclose(factors, expected, rtol=0.01)
