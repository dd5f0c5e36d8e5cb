"""A strip hanging under its own weight.

    strain at distance X below the pinned end   rho g (L - X) / k
    elongation                                  rho g L^2 / (2 k)

[BW98]'s stretch is linear in |w|, so this holds at any strain. With masses of a third of each triangle it holds for
each row of cells exactly, at the middle of the row and averaged over its width, on any grid.
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import DENSITY, G, sheet

from toile.model.model import Model

LENGTH, WIDTH = 1.0, 0.25  # [m]

# Backward Euler of one second shrinks every motion by 1/(w h) with w > 11 rad/s: 1e-31 after thirty steps.
STEPS = 30


def hang(
    device: str, along: str, grid: tuple[int, int], diagonals: str, k: float, k_across: float
) -> tuple[np.ndarray, np.ndarray]:
    """Strain along the strip at rest and distance from its axis, (rows from the top, triangles of the row)."""
    rows, columns = grid
    warp = along == "warp"
    simulation = sheet(
        device,
        (LENGTH, WIDTH) if warp else (WIDTH, LENGTH),
        (rows + 1, columns + 1) if warp else (columns + 1, rows + 1),
        h=1.0,
        frames=STEPS,
        diagonals=diagonals,
        # Either x points down and the left end is pinned, or y points up and the upper end is pinned.
        rotation=(0.0, 90.0, 0.0) if warp else (90.0, 0.0, 0.0),
        fabric={"stretch_warp": k if warp else k_across, "stretch_weft": k_across if warp else k},
        constraints=[{"type": "pin", "where": {"edges": ["left" if warp else "upper"]}}],
    )
    *_, last = simulation.run()
    assert np.abs(last.velocities).max() < 1e-12, "not at rest"
    axis = 0 if warp else 1
    strain = thread_strain(simulation.model, last.positions)[:, axis]
    center = simulation.model.uv.mean(axis=1)
    depth = 0.5 * LENGTH + (center[:, 0] if warp else -center[:, 1])
    row = (depth / LENGTH * rows).astype(int)
    in_rows = [np.flatnonzero(row == i) for i in range(rows)]
    return strain[np.array(in_rows)], center[np.array(in_rows), 1 - axis]


def thread_strain(model: Model, x: np.ndarray) -> np.ndarray:
    """|w_u| - 1 and |w_v| - 1 of each triangle, from positions and uv alone: edges = uv edges times (w_u, w_v)."""
    edges, uv_edges = (of[:, 1:] - of[:, :1] for of in (x[model.triangles], model.uv))
    return np.linalg.norm(np.linalg.solve(uv_edges, edges), axis=2) - 1.0


def expected(rows: int, k: float) -> np.ndarray:
    below = LENGTH * (1.0 - (np.arange(rows) + 0.5) / rows)
    return DENSITY * G * below / k


@pytest.mark.parametrize("grid", [(4, 1), (8, 2), (16, 4)], ids=str)
@pytest.mark.parametrize("diagonals", ["single", "alternating"])
@pytest.mark.parametrize("along", ["warp", "weft"])
# Columns sag differently where different numbers of diagonals end, which tilts threads across the strip; these pull
# columns aside, by the square of the tilt. At 0.1 % strain that is far below 1e-8; at 20 % the cross stiffness is zero.
@pytest.mark.parametrize(("k", "k_across"), [(1000.0, 1000.0), (10.0, 0.0)], ids=["k=1000", "k=10"])
def test_strain_of_each_row_and_elongation(
    device: str, grid: tuple[int, int], diagonals: str, along: str, k: float, k_across: float
) -> None:
    """1e-8: strain is the difference of two lengths of one meter, with rounding of 1e-16 in a strain of 1e-4."""
    strain, _ = hang(device, along, grid, diagonals, k, k_across)
    rows = strain.mean(axis=1)
    np.testing.assert_allclose(rows, expected(grid[0], k), rtol=1e-8)
    np.testing.assert_allclose(rows.mean() * LENGTH, DENSITY * G * LENGTH**2 / (2.0 * k), rtol=1e-8)


def test_strain_of_columns_with_parallel_diagonals(device: str) -> None:
    """Interior columns hang exactly like the whole strip; the two at the edges, whose corners have a third or two
    thirds
    of a cell, deviate by -+ rho g h / (6 k), where h is the height of a row."""
    rows, columns, k = 8, 4, 10.0
    strain, across = hang(device, "weft", (rows, columns), "single", k, 0.0)
    error = strain - expected(rows, k)[:, None]
    edge = DENSITY * G * (LENGTH / rows) / (6.0 * k)
    column = np.floor((across / WIDTH + 0.5) * columns).astype(int)
    # The vertical side of a triangle lies left or right of it; the outermost sides are the edge columns.
    side = np.where(np.round((across / WIDTH + 0.5) * columns * 3.0) % 3 == 1, column, column + 1)
    np.testing.assert_allclose(error[(side > 0) & (side < columns)], 0.0, atol=1e-10)
    np.testing.assert_allclose(np.abs(error[(side == 0) | (side == columns)]), edge, rtol=1e-8)
    np.testing.assert_allclose(error[side == 0], -error[side == columns], rtol=1e-8)


@pytest.mark.parametrize("along", ["warp", "weft"])
def test_each_thread_has_its_own_stiffness(device: str, along: str) -> None:
    """A strip twice as stiff along warp as along weft sags half as much when it hangs by its warp."""
    k = {"warp": 2000.0, "weft": 1000.0}
    across = {"warp": "weft", "weft": "warp"}
    strain, _ = hang(device, along, (4, 1), "alternating", k[along], k[across[along]])
    np.testing.assert_allclose(strain.mean(axis=1), expected(4, k[along]), rtol=1e-8)
