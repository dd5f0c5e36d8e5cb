"""Fabrics that stiffen shortly before their extension: a strip that hangs under its own weight, and swinging cloth.

    load p = k s + K max(0, s - 0.8 e)    =>    s = (p + 0.8 e K) / (k + K)    where p > 0.8 e k

with p = rho g (L - X) at distance X below the pinned end: exactly, for each row of cells, as without the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.sheets import DENSITY, G, sheet
from analytic.test_hanging_strip import LENGTH, WIDTH, thread_strain

from toile.scene.load import load
from toile.scene.schema import fabric_names
from toile.simulation.simulation import Simulation
from toile.simulation.strain import Strain

ROWS = 8


@pytest.mark.parametrize("K", [0.0, 100.0, 1e4])
def test_hanging_strip(K: float, device: str) -> None:
    """A soft strip (20 N/m; its own weight is 2 N/m) with an extension of 6 %."""
    k, extension = 20.0, 0.06
    simulation = sheet(
        device,
        (LENGTH, WIDTH),
        (ROWS + 1, 3),
        h=0.1,
        frames=200,
        rotation=(0.0, 90.0, 0.0),
        fabric={"stretch_warp": k, "stretch_weft": 1e3, "extension_warp": extension, "damping": 0.5},
        energies=[{"type": "stretch", "limit_stiffness": K}],
        constraints=[{"type": "pin", "where": {"edges": ["left"]}}],
    )
    *_, last = simulation.run()
    strain = thread_strain(simulation.model, last.positions)[:, 0]
    depth = 0.5 * LENGTH + simulation.model.uv.mean(axis=1)[:, 0]
    row = (depth / LENGTH * ROWS).astype(int)
    found = np.bincount(row, strain) / np.bincount(row)
    load_of_row = DENSITY * G * LENGTH * (1.0 - (np.arange(ROWS) + 0.5) / ROWS)
    felt = 0.8 * extension
    beyond = load_of_row > felt * k
    expected = np.where(beyond, (load_of_row + felt * K) / (k + K), load_of_row / k)
    assert 2 <= beyond.sum() < ROWS
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("fabric", fabric_names())
def test_every_fabric_stays_within_its_extension(fabric: str, device: str) -> None:
    """The sheet of `hang` at 1/60 s, including its corners, after the first second, in which one knit exceeds it."""
    simulation = Simulation(load("hang", overrides=["outputs=[]", f"cloth[0].fabric={fabric}"]), device)
    for _ in simulation.run():
        pass
    extension = simulation.model.parts[0].fabric.extension_warp
    later = [frame["strain"] for frame in simulation.report()["frames"] if frame["time"] > 1.0]
    assert max(max(strain["warp_max"], strain["weft_max"]) for strain in later) <= 1.02 * extension


def test_cloth_without_a_limit_is_not_solved_again(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloth beyond the extension of its fabric, without a limit of stretch, takes one linearization a step."""

    needs_linearization = Strain.needs_linearization

    def added(limit: float) -> int:
        calls: list[bool] = []

        def counted(strain: Strain, *inputs: Any) -> bool:
            calls.append(needs_linearization(strain, *inputs))
            return calls[-1]

        monkeypatch.setattr(Strain, "needs_linearization", counted)
        simulation = sheet(
            device,
            (0.2, 0.2),
            (5, 5),
            h=1.0 / 60.0,
            frames=10,
            fabric={"stretch_warp": 20.0, "stretch_weft": 20.0, "extension_warp": 0.01, "extension_weft": 0.01},
            energies=[{"type": "stretch", "limit_stiffness": limit}, {"type": "shear", "limit_stiffness": 0.0}],
            constraints=[{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}],
        )
        for _ in simulation.run():
            pass
        assert calls
        return sum(calls)

    assert not added(0.0)
    assert added(1e3)
