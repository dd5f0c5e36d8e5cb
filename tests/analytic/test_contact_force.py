"""Contact forces on solids: the force of a contact is e/h of [BW98] sec. 5.4, and it never pulls.

at rest                        N = m g
on a plane that sinks with a   N = m (g - a) while a < g, and free fall beyond
landing                        m dv = h (m g + N), backward Euler's own balance
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.sheets import G, positions, velocities
from analytic.solids import CLOTH, THICKNESS, along, dust, forces, on_solids, weight

from toile.simulation.certificate import FrameTally

INTEGRATORS = ["implicit_bdf2", "implicit_euler"]
SUPPORTS: dict[str, dict[str, Any]] = {
    "plane": {"type": "plane"},
    "box": {"type": "box", "size": (1.0, 1.0, 0.4), "translation": (0.0, 0.0, -0.2)},
    "cylinder": {"type": "cylinder", "radius": 0.5, "height": 0.4, "translation": (0.0, 0.0, -0.2)},
}


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("support", SUPPORTS)
def test_weight_at_rest(device: str, support: str, integrator: str) -> None:
    """1e-8, rounding is reached: from the first frame on, as constraint forces and as the load of the solid."""
    simulation = on_solids(
        device, [SUPPORTS[support]], integrator=integrator, tolerance=1e-12, translation=(0.0, 0.0, THICKNESS)
    )
    carried = weight(simulation)
    for frame in simulation.run():
        if frame.number > 0:
            np.testing.assert_allclose(forces(simulation), [(0.0, 0.0, -carried)], atol=1e-8 * carried)
            total = simulation.constraint_forces().sum(axis=0)
            np.testing.assert_allclose(total, (0.0, 0.0, carried), atol=1e-8 * carried)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_each_particle_has_its_own_weight_as_contact_force(device: str, integrator: str) -> None:
    simulation = on_solids(device, [SUPPORTS["plane"]], integrator=integrator, translation=(0.0, 0.0, THICKNESS))
    list(simulation.run(3))
    expected = G * simulation.model.masses[:, None] * (0.0, 0.0, 1.0)
    np.testing.assert_allclose(simulation.constraint_forces(), expected, atol=1e-10)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_sinking_slower_than_free_fall(device: str, integrator: str) -> None:
    """Half the weight is left at a = g/2, after the steps in which the acceleration begins."""
    motion = along(lambda t: np.array((0.0, 0.0, -0.25 * G * t**2)), 1.0, 61)  # linear from step to step
    simulation = on_solids(
        device, [{**SUPPORTS["plane"], "motion": motion}], integrator=integrator, seconds=0.5,
        translation=(0.0, 0.0, THICKNESS),
    )  # fmt: skip
    for frame in simulation.run():
        np.testing.assert_allclose(frame.positions[:, 2], THICKNESS - 0.25 * G * frame.time**2, rtol=0.0, atol=1e-14)
        if frame.number > 1:
            np.testing.assert_allclose(forces(simulation)[0, 2], -0.5 * weight(simulation), rtol=1e-8)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_sinking_faster_than_free_fall(device: str, integrator: str) -> None:
    """Contacts are released at once, and the sheet falls freely."""
    h, start = 1.0 / 60.0, (0.0, 0.0, 0.9999 * THICKNESS)
    motion = along(lambda t: np.array((0.0, 0.0, -G * t**2)), 1.0, 61)
    falling = on_solids(
        device, [{**SUPPORTS["plane"], "motion": motion}], h=h, integrator=integrator, seconds=0.5, translation=start
    )
    alone = on_solids(
        device, [{**SUPPORTS["plane"], "translation": (0.0, 0.0, -100.0)}], h=h, integrator=integrator, seconds=0.5,
        translation=start,
    )  # fmt: skip
    for frame, free in zip(falling.run(), alone.run(), strict=True):
        np.testing.assert_allclose(frame.positions, free.positions, rtol=0.0, atol=1e-13)
        assert np.all(forces(falling) == 0.0)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_sheet_lifted_by_its_corners_does_not_stick(device: str, integrator: str) -> None:
    """The load moves from the plane to the pins, and released particles do not stick."""
    corners = ["lower_left", "lower_right", "upper_left", "upper_right"]
    lift = {"keyframes": [{"time": 0.2}, {"time": 0.6, "translation": (0.0, 0.0, 0.3)}]}
    simulation = on_solids(
        device, [SUPPORTS["plane"]], integrator=integrator, seconds=3.0, translation=(0.0, 0.0, THICKNESS),
        constraints=[{"type": "pin", "where": {"corners": corners}, "motion": lift}],
        forces=[{"type": "drag", "linear": 1.0}],
        fabric={**CLOTH, "damping": 0.02},
    )  # fmt: skip
    pinned = G * simulation.model.masses[[0, 4, 20, 24]].sum()
    for frame in simulation.run():
        load = -forces(simulation)[0, 2]
        assert load >= 0.0
        if 0 < frame.number <= 6:
            assert load == pytest.approx(weight(simulation) - pinned, rel=1e-8)
        if frame.number >= 18:
            assert load == 0.0
            assert frame.positions[:, 2].min() > 0.1
    assert simulation.constraint_forces().sum(axis=0)[2] == pytest.approx(weight(simulation), rel=0.02)


@pytest.mark.parametrize("mu", [0.0, 0.2])
def test_a_solid_gets_the_momentum_that_landing_cloth_loses(device: str, mu: float) -> None:
    """Backward Euler: the plane gets the momentum that particles lose in a step, while they land one after another."""
    rng = np.random.default_rng(4)
    points = np.concatenate([rng.uniform(-1.0, 1.0, (12, 2)), rng.uniform(0.01, 0.1, (12, 1))], axis=1)
    tilt = (12.0, -7.0, 0.0)
    h = 1.0 / 60.0
    simulation = dust(
        device, [{"type": "plane", "rotation": tilt, "translation": (0.0, 0.0, -0.4), "friction": mu}], points,
        integrator="implicit_euler", h=h, velocity=(0.5, -0.2, -1.5),
    )  # fmt: skip
    masses, tally = simulation.model.masses[:, None], FrameTally()
    gravity = masses.sum() * np.array((0.0, 0.0, -G))
    in_contact = 0
    for _ in range(30):
        before = (masses * velocities(simulation)).sum(axis=0)
        start = simulation.state.t
        simulation.step(h, tally)
        step = simulation.state.t - start
        change = (masses * velocities(simulation)).sum(axis=0) - before
        expected = step * (gravity - forces(simulation)[0])
        np.testing.assert_allclose(change, expected, atol=1e-10 * h * np.abs(gravity).max())
        assert simulation.contacts.solid is not None
        in_contact = max(in_contact, simulation.contacts.solid.contact_count())
    assert in_contact == 12
    assert np.isfinite(positions(simulation)).all()


TURNS = {"keyframes": [{"time": 0.1}, {"time": 0.7, "rotation": (0.0, 40.0, 70.0)}]}
SWINGS = {"keyframes": [{"time": 0.0}, {"time": 0.4, "translation": (0.05, 0.0, 0.1)}, {"time": 0.8}]}
BODIES: dict[str, dict[str, Any]] = {
    "turning": {"type": "box", "size": (0.3, 0.2, 0.1), "rounding": 0.02, "motion": TURNS},
    "with a part that moves": {
        "type": "level_set", "cell": 0.01,
        "parts": [
            {"type": "sphere", "radius": 0.12}, {"type": "capsule", "radius": 0.06, "length": 0.3, "motion": SWINGS},
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("body", BODIES)
def test_moving_solids_get_the_momentum_that_cloth_loses(device: str, body: str, mu: float) -> None:
    """The same for cloth that falls on two solids, slides, sticks, is caught and released, in all steps. It includes
    the pull of contacts that are then released, and corrections to the surface after the last solve."""
    h = 1.0 / 60.0
    simulation = on_solids(
        device, [{**BODIES[body], "friction": mu}, {"type": "plane", "translation": (0.0, 0.0, -0.1), "friction": mu}],
        size=(0.5, 0.5), resolution=(13, 13), integrator="implicit_euler", h=h, tolerance=1e-13,
        translation=(0.02, 0.01, 0.2), rotation=(5.0, 3.0, 10.0),
    )  # fmt: skip
    masses, tally, largest = simulation.model.masses[:, None], FrameTally(), weight(simulation)
    for _ in range(50):
        before, start = (masses * velocities(simulation)).sum(axis=0), simulation.state.t
        simulation.step(h, tally)
        change = (masses * velocities(simulation)).sum(axis=0) - before
        step, total = simulation.state.t - start, forces(simulation).sum(axis=0)
        expected = step * (np.array((0.0, 0.0, -weight(simulation))) - total)
        largest = max(largest, float(np.abs(total).max()))
        np.testing.assert_allclose(change, expected, atol=1e-8 * step * largest)
    assert largest > 1.5 * weight(simulation)
