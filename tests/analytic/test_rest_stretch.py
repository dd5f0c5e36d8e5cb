"""Rest stretch: cloth whose rest length differs from that in uv ([BW98] sec. 4.2: b_u and b_v).

    length along u at rest = b_u times the length in uv,    E = 0,    nothing changes along v

A region with another b that spans the sheet from side to side takes its own length; the other cells keep theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.sheets import positions, sheet

SIZE = (0.6, 0.4)  # [m]
COLUMNS, ROWS = 7, 5
# Backward Euler of one second leaves 1/(w h) of a motion per step, w = sqrt(k/rho) pi/L > 300 rad/s.
STEPS = 12


def lengths(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the edges along u, (rows, columns - 1), and along v, (rows - 1, columns)."""
    grid = x.reshape(ROWS, COLUMNS, 3)
    return np.linalg.norm(np.diff(grid, axis=1), axis=2), np.linalg.norm(np.diff(grid, axis=0), axis=2)


def relaxed(device: str, rest_stretch: list[dict[str, Any]], **more: Any) -> tuple[np.ndarray, np.ndarray, dict]:
    simulation = sheet(
        device, SIZE, (COLUMNS, ROWS), h=1.0, frames=STEPS, gravity=0.0, rest_stretch=rest_stretch, **more
    )
    *_, last = simulation.run()
    assert last.certificate is not None
    return *lengths(last.positions), last.certificate


@pytest.mark.parametrize(("b_u", "b_v"), [(1.1, 1.0), (1.0, 0.9), (1.05, 1.2)])
def test_a_sheet_takes_its_rest_stretch(device: str, b_u: float, b_v: float) -> None:
    """1e-8; energy is quadratic in the remaining strain."""
    along_u, along_v, certificate = relaxed(device, [{"warp": b_u, "weft": b_v}])
    np.testing.assert_allclose(along_u, b_u * SIZE[0] / (COLUMNS - 1), rtol=1e-8)
    np.testing.assert_allclose(along_v, b_v * SIZE[1] / (ROWS - 1), rtol=1e-8)
    assert certificate["energy"]["stretch"] < 1e-15
    # The certificate measures strain relative to b, not to uv.
    for name in ("warp_max", "warp_mean", "weft_max", "weft_mean"):
        assert abs(certificate["strain"][name]) < 1e-8


def test_a_region_takes_its_own_rest_stretch(device: str) -> None:
    """Cells with all their corners in the region stretch; the others keep their length."""
    left = [row * COLUMNS + column for row in range(ROWS) for column in range(4)]
    along_u, along_v, _ = relaxed(
        device, [{"region": "cuff", "warp": 1.1}], regions={"cuff": {"indices": left}}, fabric={"shear": 10.0}
    )
    cell = SIZE[0] / (COLUMNS - 1)
    np.testing.assert_allclose(along_u, np.broadcast_to([1.1] * 3 + [1.0] * 3, along_u.shape) * cell, rtol=1e-8)
    np.testing.assert_allclose(along_v, SIZE[1] / (ROWS - 1), rtol=1e-8)


def test_cloth_follows_rest_stretch_that_changes_in_time(device: str) -> None:
    """b is linear between its keyframes and the cloth follows b, during the change and after it.

    Accelerating from rest to db/dt = 0.01/s takes a force of k times a strain of about (db/dt)/(w h)^2/h, 1e-7 here.
    Hence 1e-6 while it moves, and 1e-8 at the end as in the other tests.
    """
    left = [row * COLUMNS + column for row in range(ROWS) for column in range(4)]
    simulation = sheet(
        device,
        SIZE,
        (COLUMNS, ROWS),
        h=1.0,
        gravity=0.0,
        regions={"cuff": {"indices": left}},
        rest_stretch=[{"region": "cuff", "warp": [[2.0, 1.0], [12.0, 1.1]]}],
        fabric={"shear": 10.0},
    )
    cell = SIZE[0] / (COLUMNS - 1)
    for second in range(1, 25):
        simulation.advance_frame()
        tolerance = 1e-6 if second < 24 else 1e-8
        b = np.interp(second, [2.0, 12.0], [1.0, 1.1])
        along_u, along_v = lengths(positions(simulation))
        np.testing.assert_allclose(along_u[:, :3], b * cell, rtol=tolerance)
        np.testing.assert_allclose(along_u[:, 3:], cell, rtol=tolerance)
        np.testing.assert_allclose(along_v, SIZE[1] / (ROWS - 1), rtol=tolerance)
