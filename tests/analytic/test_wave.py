"""A pulse of tension travels along a strip at the speed of sound of the cloth.

    c = sqrt(k / rho)

A step in displacement, smooth like an error function, with velocities -c du/dx moves to the right without changing its
shape. Its strain is positive everywhere: nothing is compressed, nothing buckles.
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import DENSITY, positions, put, sheet
from scipy.special import erf

LENGTH, CELLS = 1.0, 100


@pytest.mark.parametrize("along", ["warp", "weft"])
def test_a_pulse_travels_at_the_speed_of_sound(device: str, along: str) -> None:
    """A wave of wavelength 2 pi/q lags by (q dx)^2/24 on the grid and by (q dx n)^2/3 in BDF2 with n cells a step; with
    q about 1/width that is 0.4 % for n = 0.3. 1 %."""
    k = 50.0
    c = np.sqrt(k / DENSITY)
    cell, width, amplitude = LENGTH / CELLS, 0.06, 1e-3
    axis = 0 if along == "warp" else 1
    h = 0.3 * cell / c
    other = 2.0 * k  # the cross thread has another stiffness, which must not matter
    simulation = sheet(
        device,
        (LENGTH, cell) if axis == 0 else (cell, LENGTH),
        (CELLS + 1, 2) if axis == 0 else (2, CELLS + 1),
        h=h,
        frames=round(0.5 * LENGTH / c / h),
        diagonals="single",  # all interior particles then have the same mass
        integrator="implicit_bdf2",
        gravity=0.0,
        tolerance=1e-8,
        fabric={
            "stretch_warp": k if axis == 0 else other,
            "stretch_weft": other if axis == 0 else k,
            "shear": 0.1 * k,
        },
    )
    x = positions(simulation)
    v = np.zeros_like(x)
    from_start = (x[:, axis] + 0.25 * LENGTH) / width
    x[:, axis] += amplitude * erf(from_start)
    v[:, axis] = -c * amplitude * 2.0 / np.sqrt(np.pi) / width * np.exp(-(from_start**2))
    put(simulation, x=x, v=v)
    column = slice(0, CELLS + 1) if axis == 0 else slice(0, None, 2)
    middle = (np.arange(CELLS) + 0.5) * cell
    times, centers = [], []
    for frame in simulation.run():
        strain = np.diff(frame.positions[column, axis]) / cell - 1.0
        times.append(frame.time)
        centers.append(strain**2 @ middle / np.sum(strain**2))
    assert centers[-1] - centers[0] > 0.45 * LENGTH
    assert np.polyfit(times, centers, 1)[0] == pytest.approx(c, rel=0.01)
