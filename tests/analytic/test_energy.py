"""Backward Euler dissipates energy and never adds any.

    E_(n+1) <= E_n    for an isolated sheet in the linear range, damped or not

For quadratic energies one step of backward Euler loses exactly the energy of the changes, (dv^T M dv + dx^T K dx)/2.
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import ALL_ENERGIES, put, sheet


@pytest.mark.parametrize("damping", [0.0, 1e-3])
@pytest.mark.parametrize("h", [1.0 / 240.0, 1.0 / 30.0], ids=["h=1/240", "h=1/30"])
def test_energy_never_rises(device: str, damping: float, h: float) -> None:
    """Velocities of 1e-4 m/s: displacements are so small that angles and tilts are linear."""
    simulation = sheet(
        device,
        (1.0, 1.0),
        (8, 8),
        h=h,
        frames=100,
        gravity=0.0,
        fabric={**ALL_ENERGIES, "damping": damping},
    )
    masses = simulation.model.masses
    v = 1e-4 * np.random.default_rng(3).normal(size=(len(masses), 3))
    put(simulation, v=v)
    energy = [0.5 * np.sum(masses * np.sum(v**2, axis=1))]
    energy += [sum(frame.certificate["energy"].values()) for frame in simulation.run() if frame.certificate]
    assert np.diff(energy).max() <= 1e-10 * energy[0]
    # Some energy must remain: bending modes decay more slowly than this.
    assert 0.01 * energy[0] < energy[-1] < 0.9 * energy[0]
