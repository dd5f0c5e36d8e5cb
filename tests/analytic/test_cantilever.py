"""A strip clamped at one end vibrates like a beam with the rigidity of the thread that curves.

    w_1 = 1.8751^2 sqrt(D / (rho L^4))

The clamp pins two columns of particles. A hinge stands for the half cells on its two sides, so the first one, at the
second column, bends half a pinned cell: the beam begins half a cell before that column.
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import DENSITY, half_periods, positions, put, sheet, trajectory

LENGTH = 0.1  # [m]
D = 1e-4  # [N m]
ROOT = 1.8751040687  # of cosh(b) cos(b) = -1


def first_mode(X: np.ndarray) -> np.ndarray:
    """Shape of a clamped beam's first mode at a fraction X of its length."""
    ratio = (np.cosh(ROOT) + np.cos(ROOT)) / (np.sinh(ROOT) + np.sin(ROOT))
    return np.cosh(ROOT * X) - np.cos(ROOT * X) - ratio * (np.sinh(ROOT * X) - np.sin(ROOT * X))


def period_over(
    device: str, expected: float, cells: int, diagonals: str, along: str, fabric: dict[str, float], integrator: str
) -> float:
    """Measured period divided by the expected one, of a strip one cell wide."""
    cell = LENGTH / (cells - 0.5)
    whole = cells * cell
    axis = 0 if along == "warp" else 1
    simulation = sheet(
        device,
        (whole, cell) if axis == 0 else (cell, whole),
        (cells + 1, 2) if axis == 0 else (2, cells + 1),
        h=expected / 150.0,
        frames=120,
        diagonals=diagonals,
        integrator=integrator,
        gravity=0.0,
        tolerance=1e-8,
        fabric={"shear": 100.0, **fabric},
        constraints=[{"type": "pin", "where": {"box": clamp(axis, -0.5 * whole + 1.01 * cell)}}],
    )
    x = positions(simulation)
    from_end = x[:, axis] + 0.5 * whole
    free = from_end > 1.01 * cell
    # A thousandth of the length: stretch and angles are quadratic in it.
    x[free, 2] += 1e-3 * LENGTH * first_mode((from_end[free] - 0.5 * cell) / LENGTH)
    put(simulation, x=x)
    tip = np.flatnonzero(from_end > whole - 0.01 * cell).tolist()
    (half,) = half_periods(*trajectory(simulation, tip, axis=2))
    return 2.0 * half / expected


def clamp(axis: int, end: float) -> list[list[float]]:
    high = [1.0, 1.0, 1.0]
    high[axis] = end
    return [[-1.0, -1.0, -1.0], high]


def period(rigidity: float) -> float:
    return 2.0 * np.pi / (ROOT**2 * np.sqrt(rigidity / (DENSITY * LENGTH**4)))


@pytest.mark.parametrize("integrator", ["implicit_euler", "implicit_bdf2"])
@pytest.mark.parametrize("diagonals", ["single", "alternating"])
@pytest.mark.parametrize("along", ["warp", "weft"])
def test_a_clamped_strip_vibrates_with_the_rigidity_of_the_thread_that_curves(
    device: str, integrator: str, diagonals: str, along: str
) -> None:
    """Across the strip it is a thousand times as stiff, which keeps every cell flat, as in a beam.

    Less than 0.1 % each from 20 cells, from diagonals that are stiff and not rigid, and from (w h)^2 = 0.2 %: half a
    percent in all. The other rigidity would make the period thirty times shorter.
    """
    across = {"warp": "weft", "weft": "warp"}[along]
    fabric = {f"bend_{along}": D, f"bend_{across}": 1e3 * D}
    assert period_over(device, period(D), 20, diagonals, along, fabric, integrator) == pytest.approx(1.0, rel=0.005)


@pytest.mark.parametrize("diagonals", ["single", "alternating"])
def test_a_strip_of_one_cell_is_softer_than_its_cloth(device: str, diagonals: str) -> None:
    """The same rigidity both ways: the cells of a free strip twist as it curves, and it vibrates with 4/5 of D.

    A known limit of hinges. Let k be the curvature and t the twist of a cell that goes with it. Hinges across the strip
    then turn by k + t per length and diagonals by 2 t, and (k + t)^2 + 4 t^2 is least at t = -k/5: 4/5 k^2.
    In a wide sheet with alternating diagonals hinges along the strip resist as well, and 5/6 is left.
    """
    fabric = {"bend_warp": D, "bend_weft": D}
    errors = [
        period_over(device, period(0.8 * D), cells, diagonals, "warp", fabric, "implicit_bdf2") - 1.0
        for cells in (10, 20, 40)
    ]
    # The twist is zero at the clamp, which stiffens about a cell there: an error of first order.
    assert abs(errors[2]) < 0.007
    assert 1.5 < errors[0] / errors[1] < 2.5
    assert 1.5 < errors[1] / errors[2] < 2.8
