"""Cloth that slides off an edge flies on: it does not follow the edge, and it is not compressed."""

from __future__ import annotations

import numpy as np
import pytest
from analytic.solids import CLOTH, THICKNESS, on_solids


@pytest.mark.parametrize("rounding", [0.0, 0.01, 0.029])
def test_a_sheet_flies_off_an_edge(rounding: float, device: str) -> None:
    """Level and without friction at 2 m/s: only gravity acts on it across the edge, so it keeps its momentum along x
    and its width, and it does not stretch. (Its rear part still lies, so a rounded rim may push by a few percent.)"""
    v = 2.0
    box = {"type": "box", "size": (1.0, 0.6, 0.06), "rounding": rounding, "translation": (-0.5, 0.0, -0.03)}
    simulation = on_solids(
        device, [{**box, "friction": 0.0}], size=(0.3, 0.3), resolution=(13, 13), seconds=0.3,
        translation=(-0.2, 0.0, THICKNESS),
        velocity=(v, 0.0, 0.0), fabric=CLOTH,
    )  # fmt: skip
    masses = simulation.model.masses
    for frame in simulation.run():
        np.testing.assert_allclose(masses @ frame.velocities[:, 0] / masses.sum(), v, rtol=0.05)
        assert np.abs(frame.velocities[:, 1]).max() < 0.05
    assert frame.positions[:, 2].max() < 0.01
    summary = simulation.report()["summary"]
    assert summary["rejected"] == 0
    assert summary["max_strain"] < 0.02
