"""Forces that overflow: every integrator with a linear solve reports them with the same message."""

from __future__ import annotations

import pytest

from toile.errors import StepFailed
from toile.scene.schema import Scene
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

INTEGRATORS = ["implicit_euler", "implicit_bdf2", "mixed_leapfrog", "mixed_newmark", "mixed_robust"]


@pytest.mark.parametrize("damping", [0.0, 0.01])
@pytest.mark.parametrize("wind", [1e100, 1e160])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_wind_that_overflows_is_reported(integrator: str, wind: float, damping: float, device: str) -> None:
    """1e160 m/s squared is not finite; neither is the kinetic energy of cloth in a wind of 1e100 m/s."""
    stretch = {"type": "stretch", "damping": damping}
    scene = Scene(
        time={"frames": 1, "max_step": 1e-4, "min_step": 5e-5},
        cloth=[{"shape": {"type": "grid", "resolution": (3, 3)}, "energies": [stretch]}],
        constraints=[{"type": "pin", "where": {"indices": [0]}}],
        forces=[{"type": "wind", "velocity": (wind, 0.0, wind)}],
        integrator=integrator,
    )
    simulation = Simulation(scene, device)
    with pytest.raises(StepFailed) as caught:
        simulation.step(1e-4, FrameTally())
    messages = "the linear system could not be solved: a force or a matrix entry is not a finite number."
    assert messages in str(caught.value)
