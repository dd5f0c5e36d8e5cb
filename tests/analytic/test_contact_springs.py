"""Contacts between cloths in the linear system: they carry the weight above them, keep the thickness, and never pull.

sum of forces between two layers = weight above them    gap = thickness    v = v0 where nothing presses
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.cloths import PIN_ALL, THICKNESS, cloths, contact_of, grid, mean, part, walk_on
from analytic.sheets import G, positions, put, velocities

from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

INTEGRATORS = ["implicit_bdf2", "implicit_euler"]
H = 1.0 / 60.0


def pile(device: str, count: int, integrator: str, gravity: float, density: float = 0.2) -> Simulation:
    """`count` sheets in contact, turned against each other, each smaller than the one below; the lowest is held."""
    sheets = [
        {
            "shape": grid(0.3 - 0.06 * k, 8),
            "translation": (0.003 * k, 0.002 * k, THICKNESS * k),
            "rotation": (0.0, 0.0, 17.0 * k),
            "density": density if k == count - 1 else 0.2,
        }
        for k in range(count)
    ]
    return cloths(device, sheets, integrator=integrator, gravity=(0.0, 0.0, -gravity), constraints=[PIN_ALL])


def forces_on(simulation: Simulation, number: int) -> tuple[float, float]:
    """The upward forces of the springs between a sheet and those below it [N]: the sum of those that push, and of those
    that pull."""
    contact, of = contact_of(simulation), simulation.model.parts[number].particles
    contact_set, springs = contact.resolver.contact_set, contact.springs
    n = springs.count
    vertices, weights, normals = (
        getattr(contact_set.contacts, name).numpy()[:n] for name in ("vertices", "weights", "normal")
    )
    share = (weights * (vertices >= of.start)).sum(axis=1) * normals[:, 2]  # of this sheet and all above it
    normal = np.einsum("ti,ti->t", springs.springs.force.numpy()[:n], normals) * springs.springs.in_system.numpy()[:n]
    return float((share * np.maximum(normal, 0.0)).sum()), float((share * np.minimum(normal, 0.0)).sum())


def settled_forces(simulation: Simulation) -> np.ndarray:
    """Pushes and pulls on each layer, relative to the weight from it upwards, over six steps after a second."""
    walk_on(simulation, 1.0, on_the_way=False)
    weights = [G * part(simulation, k, simulation.model.masses).sum() for k in (1, 2, 3)]
    above, found = np.cumsum(weights[::-1])[::-1], []
    for _ in range(6):
        simulation.step(H, FrameTally())
        found.append([forces_on(simulation, k) for k in (1, 2, 3)])
    return np.mean(found, axis=0) / above[:, None]


@pytest.mark.parametrize("density", [0.2, 20.0], ids=["light", "heavy"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_springs_carry_the_weight_of_a_pile(integrator: str, density: float, device: str) -> None:
    """Four layers at rest for a second; the uppermost is as heavy as the others or a hundred times heavier. The force
    between any two is the weight above, within 1 %.
    """
    simulation = pile(device, 4, integrator, G, density)
    np.testing.assert_allclose(settled_forces(simulation).sum(axis=1), 1.0, atol=0.01)


@pytest.mark.parametrize("density", [0.2, 20.0], ids=["light", "heavy"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_pile_at_rest_keeps_its_thickness(integrator: str, density: float, device: str) -> None:
    """Springs pull with less than 0.3 % of the weight, no particle is faster than 0.1 mm/s, and gaps are the thickness
    within 1 %: a spring without a load of its own would be compressed by h^2 g times the mass on it."""
    simulation = pile(device, 4, integrator, G, density)
    assert settled_forces(simulation)[:, 1].min() > -3e-3
    assert np.abs(velocities(simulation)).max() < 1e-4
    heights = [mean(simulation, k, positions(simulation))[2] for k in range(4)]
    np.testing.assert_allclose(np.diff(heights), THICKNESS, rtol=0.01)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("away", [2e-4, 1e-3, 0.1], ids="{} m/s".format)
def test_contacts_that_pull_are_released(away: float, integrator: str, device: str) -> None:
    """Without gravity a sheet leaves another from exactly the thickness. Its contacts act from the start, because
    it rests there, and are released: the sheet keeps its velocity."""
    simulation = pile(device, 2, integrator, 0.0)
    v = velocities(simulation)
    v[simulation.model.parts[1].particles, 2] = away
    put(simulation, v=v)
    for _ in range(5):
        simulation.step(H, FrameTally())
        np.testing.assert_allclose(part(simulation, 1, velocities(simulation))[:, 2], away, rtol=1e-5)
    assert forces_on(simulation, 1) == (0.0, 0.0)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_loads_do_not_hold_a_pile_that_is_lifted(integrator: str, device: str) -> None:
    """A sheet that rested on another with a load is thrown upwards: from then on it falls freely, v = v0 - g t."""
    simulation = pile(device, 2, integrator, G)
    walk_on(simulation, 0.5, on_the_way=False)
    assert sum(forces_on(simulation, 1)) > 0.9 * G * part(simulation, 1, simulation.model.masses).sum()
    v = velocities(simulation)
    v[simulation.model.parts[1].particles, 2] = 0.5
    put(simulation, v=v)
    simulation.integrator.restart()  # the velocity jumps
    start = simulation.state.t
    for _ in range(4):
        simulation.step(H, FrameTally())
        wanted = 0.5 - G * (simulation.state.t - start)
        assert mean(simulation, 1, velocities(simulation))[2] == pytest.approx(wanted, abs=1e-5)
