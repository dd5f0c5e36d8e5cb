"""Layers push cloth towards solids: impulses between them do not move it into a solid that it is not in contact with.

    distance of the lower sheet    at least half of the gap at which a solid holds cloth
    without the solid              z_upper - thickness, because the upper sheet is a hundred thousand times as heavy

Contacts with solids are found by the solves of a step; what impulses do afterwards these do not know.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import warp as wp
from analytic.cloths import cloths, contact_of, grid
from analytic.sheets import positions

from toile.math.types import vec3

H, THICKNESS = 1.0 / 60.0, 2e-3
LOWER, UPPER, UPPER_END = 10e-3, 30e-3, 1.2e-3  # [m]  heights


def pushed_down(device: str, solids: list[dict[str, Any]]) -> tuple[np.ndarray, float]:
    """A candidate in which the upper of two sheets comes down to UPPER_END. Returns the heights of the lower one after
    the correction, above z = 0, and the gap at which solids hold cloth."""
    sheets = [
        {"shape": grid(0.1, 6), "translation": (0.0, 0.0, LOWER)},
        {"shape": grid(0.1, 6), "translation": (0.003, 0.002, UPPER), "density": 2e4},
    ]
    simulation = cloths(device, sheets, contact={"thickness": THICKNESS, "friction": 0.0}, solids=solids)
    parts, state = simulation.parts, simulation.state
    end, x = state.empty_like(), positions(simulation)
    lower = slice(0, len(x) // 2)
    simulation.constraints.move(0.0, H, state.x)
    simulation.solids.move(0.0, H)
    parts.contacts.detect(state, H)
    x[len(x) // 2 :, 2] = UPPER_END
    end.x.assign(x)
    none = wp.zeros(len(x), dtype=vec3, device=device)
    assert parts.contacts.check(state, end.x, end.v, none, state.x, H, last=True)
    assert contact_of(simulation).apply(state, end, H) is None
    gap = simulation.solids.gaps[0] if solids else 0.0
    return end.x.numpy()[lower, 2], gap


def test_without_a_solid_the_lower_sheet_gives_way(device: str) -> None:
    z, _ = pushed_down(device, [])
    # Sweeps leave a thousandth of the thickness in each of the contacts.
    assert z.min() == pytest.approx(UPPER_END - THICKNESS, abs=0.05 * THICKNESS)


@pytest.mark.parametrize(
    "solid",
    [
        {"type": "plane", "sharp": False},
        {"type": "box", "size": (1.0, 1.0, 0.2), "translation": (0.0, 0.0, -0.1), "sharp": False},
    ],
)
def test_impulses_do_not_push_cloth_into_a_solid(device: str, solid: dict[str, Any]) -> None:
    z, gap = pushed_down(device, [solid])
    assert UPPER_END - 0.5 * gap > 0.1 * THICKNESS  # there is room for it
    assert z.min() > 0.45 * gap
    assert z.min() < 0.55 * gap
