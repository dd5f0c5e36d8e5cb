"""A free sheet falls as one body.

    implicit_euler   drop after n steps = g h^2 n (n + 1) / 2
    implicit_bdf2    drop after n steps = g h^2 (n^2 / 2 + 3 (1 - 3^-n) / 4)
    explicit_euler   as implicit_euler: it moves with the new velocity
    mixed schemes    g t^2 / 2

Backward Euler adds g h to the velocity and then moves with the new one. BDF2 is exact for parabolas; its first step is
backward Euler's and half a g h^2 too long, and from then on the difference d from the parabola obeys
d_(n+1) = (4 d_n - d_(n-1))/3: its increments shrink threefold, so it tends to 3/4 g h^2.
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import ALL_ENERGIES, G, positions, sheet, walk

# Stiff, so that a spurious force would show
FABRIC = {**ALL_ENERGIES, "damping": 1e-3}


def steps_fallen(integrator: str, n: int) -> float:
    """Drop in units of g h^2."""
    if integrator == "implicit_bdf2":
        return n * n / 2.0 + 0.75 * (1.0 - 3.0**-n)
    return n * n / 2.0 if integrator.startswith("mixed") else n * (n + 1) / 2.0


STEPS = [(integrator, h) for integrator in ("implicit_euler", "implicit_bdf2") for h in (1.0 / 30.0, 1.0 / 240.0)]
STEPS += [(integrator, 1e-3) for integrator in ("mixed_leapfrog", "mixed_newmark", "mixed_robust")]
STEPS += [("explicit_euler", 1e-4)]


@pytest.mark.parametrize(("integrator", "h"), STEPS)
def test_free_fall(device: str, integrator: str, h: float) -> None:
    """1e-12: rounding of some hundred steps. There is neither lateral drift nor strain."""
    simulation = sheet(device, (1.0, 1.0), (5, 5), h=h, frames=60, integrator=integrator, fabric=FABRIC)
    start = positions(simulation)
    for frame in simulation.run():
        drop = start[:, 2] - frame.positions[:, 2]
        np.testing.assert_allclose(drop, G * h**2 * steps_fallen(integrator, frame.number), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(frame.positions[:, :2], start[:, :2], atol=1e-12)
        if frame.certificate is not None:
            assert all(abs(strain) < 1e-12 for strain in frame.certificate["strain"].values())
            assert sum(frame.certificate["energy"][name] for name in ("stretch", "shear", "bend_mode")) < 1e-20


def test_free_fall_of_bdf2_with_variable_steps(device: str) -> None:
    """At steps h_n the velocity is g t exactly, and the difference from g t^2/2 grows from g h_1^2/2 by increments that
    shrink by r^2/(1 + 2 r), r = h_(n+1)/h_n; a restart of the scheme, r > 2.4, adds g h^2/2 of its own."""
    simulation = sheet(device, (1.0, 1.0), (3, 3), h=0.1, integrator="implicit_bdf2", fabric=FABRIC)
    start = positions(simulation)
    steps = list(np.random.default_rng(5).uniform(0.005, 0.02, 40))
    difference = increment = 0.5 * G * steps[0] ** 2
    time = 0.0
    for n, h in enumerate(steps):
        walk(simulation, [h])
        time += h
        if n > 0:
            ratio = h / steps[n - 1]
            increment = 0.5 * G * h**2 if ratio > 2.4 else increment * ratio**2 / (1.0 + 2.0 * ratio)
            difference += increment
        np.testing.assert_allclose(simulation.state.v.numpy()[:, 2], -G * time, rtol=1e-12)
        drop = start[:, 2] - positions(simulation)[:, 2]
        np.testing.assert_allclose(drop, 0.5 * G * time**2 + difference, rtol=1e-12)
