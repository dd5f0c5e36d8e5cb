"""The depth of the cloth inside a solid, measured on triangles, against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation
from toile.simulation.solid_report import SolidReport

R = 0.05  # [m]


def measured(device: str, positions: np.ndarray) -> dict[str, Any]:
    """The entry of a ball of radius R around the origin, with one triangle at these positions."""
    scene = Scene(
        cloth=[
            {"shape": {"type": "grid", "size": (0.2, 0.2), "resolution": (2, 2)}, "translation": (0.0, 0.0, 1.0)},
            {"name": "low", "shape": {"type": "grid", "size": (0.2, 0.2), "resolution": (2, 2)},
             "translation": (0.0, 0.0, 2.0)},
        ],
        solids=[{"type": "sphere", "radius": R}],
        filters=[],
    )  # fmt: skip
    simulation = Simulation(scene, device)
    x = simulation.state.x.numpy()
    corners = simulation.model.triangles[2]  # the first of the second cloth
    x[corners] = positions
    simulation.state.x.assign(x)
    entry: dict[str, Any] = SolidReport(simulation.parts).measure(simulation.state, None)["sphere"]
    return entry


@pytest.mark.parametrize("height", [0.0, 0.03, 0.0499, 0.051])
def test_the_middle_of_an_edge_counts(device: str, height: float) -> None:
    """An edge of 0.2 m across a ball, at this height above its center: its middle is R - height deep, and the corners
    and the center of the triangle are outside."""
    entry = measured(device, np.array([[-0.1, 0.0, height], [0.1, 0.0, height], [0.0, 0.0, height + 0.2]]))
    assert entry["depth"] == pytest.approx(max(0.0, R - height), abs=1e-7)
    assert entry["deepest"] == ({"cloth": "low", "triangle": 0} if height < R else None)


@pytest.mark.parametrize("height", [0.0, 0.02, 0.0499, 0.06])
def test_the_center_of_a_triangle_counts(device: str, height: float) -> None:
    """A triangle above the center of a ball, so large that its edges pass it by."""
    angle = 2.0 * np.pi * np.arange(3) / 3.0
    ring = np.stack([0.12 * np.cos(angle), 0.12 * np.sin(angle), np.full(3, height)], axis=1)
    entry = measured(device, ring)
    assert entry["depth"] == pytest.approx(max(0.0, R - height), abs=1e-7)


def test_a_vertex_is_named(device: str) -> None:
    """One corner 2 cm deep."""
    entry = measured(device, np.array([[0.0, 0.0, 0.03], [0.1, 0.0, 0.2], [0.0, 0.1, 0.2]]))
    assert entry["depth"] == pytest.approx(0.02, abs=1e-7)
    assert list(entry["deepest"]) == ["cloth", "vertex"]
