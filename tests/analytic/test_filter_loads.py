"""Loads that strain filters transmit reach pins and solids: at rest these carry the weight of the cloth.

sum of constraint forces = weight        sum of forces on solids = -weight
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toile.scene.schema import Scene
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

FILTERS = {
    "strain_impulse": {"extension": 0.05},
    "strain_velocity": {"extension": 0.05, "passes": 100},
    "strain_deformation_rate": {"structural": 0.05, "shear": 0.05, "passes": 20},
}
WEAK = {
    "density": 0.2,
    "stretch_warp": 10.0,
    "stretch_weft": 10.0,
    "shear": 5.0,
    "bend_warp": 1e-5,
    "bend_weft": 1e-5,
    "damping": 0.02,
}


SECONDS, MEAN_OF = 2.0, 15  # frames until it is at rest, and frames over which forces are averaged


def strip(device: str, name: str, integrator: str, **more: Any) -> Simulation:
    """So weak that without the filter its weight would double its length. A filter reverses the effect of gravity in
    every step, and the viscous damping acts before it: it takes the share rate h of the weight, 0.3 %.
    """
    shape = {"type": "grid", "size": (0.2, 1.0), "resolution": (3, 11)}
    scene = Scene(
        time={"frames": round(30 * SECONDS), "fps": 30.0, "max_step": 1.0 / 300.0, "min_step": 1e-6},
        cloth=[{"shape": shape, "fabric": WEAK, **more.pop("place", {})}],
        forces=[{"type": "viscous", "rate": 1.0}],
        filters=[{"type": name, **FILTERS[name]}],
        integrator=integrator,
        **more,
    )
    return Simulation(scene, device)


def weight(simulation: Simulation) -> float:
    return 9.81 * float(simulation.model.masses.sum())


PINNED = [*((name, "implicit_bdf2") for name in FILTERS), ("strain_velocity", "mixed_robust")]


@pytest.mark.parametrize(("name", "integrator"), PINNED)
def test_pins_carry_the_weight(device: str, name: str, integrator: str) -> None:
    """To 1 %. The solve alone contains a third of it."""
    pins = {"type": "pin", "where": {"edges": ["upper"]}}
    simulation = strip(device, name, integrator, gravity=(0.0, -9.81, 0.0), constraints=[pins])
    found = np.array([(simulation.constraint_forces(), known(simulation)) for _ in simulation.run()])
    forces, solved = found[-MEAN_OF:].mean(axis=0)
    held = simulation.constraints.particles
    np.testing.assert_array_equal(np.delete(forces, held, axis=0), 0.0)
    assert forces.sum(axis=0)[1] == pytest.approx(weight(simulation), rel=0.01)
    assert solved.sum(axis=0)[1] < 0.4 * weight(simulation)


def known(simulation: Simulation) -> np.ndarray:
    """Forces of the solve alone [N]."""
    return simulation.integrator.constraint_forces.numpy().astype(float)


@pytest.mark.parametrize("name", list(FILTERS))
def test_a_solid_carries_the_weight(device: str, name: str) -> None:
    """A strip over a rod, whose ends swing: over one second, the rest of the force changes its momentum. To 1 %."""
    rod = {"type": "cylinder", "radius": 0.1, "height": 1.0, "rotation": (0.0, 90.0, 0.0), "friction": 0.5}
    simulation = strip(device, name, "implicit_euler", solids=[rod], place={"translation": (0.0, 0.0, 0.102)})
    h, tally, forces, solved, momenta = 1.0 / 300.0, FrameTally(), [], [], []
    for _ in range(600):
        simulation.step(h, tally)
        forces.append(simulation.contacts.solid.forces(simulation.filter_reaction())[0][2])
        solved.append(simulation.contacts.solid.forces()[0][2])
        momenta.append(simulation.model.masses @ simulation.state.v.numpy()[:, 2])
    assert tally.rejected == 0
    expected = weight(simulation) + (momenta[-1] - momenta[-301])
    assert -np.mean(forces[-300:]) == pytest.approx(expected, rel=0.01)
    assert -np.mean(solved[-300:]) < 0.9 * expected
