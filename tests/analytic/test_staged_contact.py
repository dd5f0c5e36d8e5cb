"""Explicit and mixed schemes with solids, friction, moving pins, contact between cloths, and forces that begin.

on an incline      sticks for mu >= tan a, else g (sin a - mu cos a)
on the level       stops after v^2/(2 mu g)
landing            the solid gets m v and m g t in total: its force is the momentum that the constraint removed
pins               follow their keyframes to the last bit
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.cloths import cloths, grid, steps
from analytic.sheets import G, positions, sheet, velocities, walk
from analytic.solids import CLOTH, THICKNESS, forces, on_solids, triple, turned, weight

from toile.model.motion import Motion
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

STAGED = [
    "explicit_euler",
    "mixed_robust",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("mixed_leapfrog", "mixed_newmark")),
]
H = 1.0 / 1200.0
ANGLE = float(np.arctan(0.5))
SOFT = {**CLOTH, "stretch_warp": 100.0, "stretch_weft": 100.0, "shear": 20.0}  # stable at H


@pytest.fixture(params=STAGED)
def integrator(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def slide(device: str, integrator: str, mu: float, seconds: float) -> tuple[np.ndarray, np.ndarray, Simulation]:
    """Displacement of each particle downhill and along the normal, frame by frame."""
    axis = (-0.6, 0.8, 0.0)
    rotation = triple(np.degrees(ANGLE) * np.array(axis))
    normal = turned(rotation, (0.0, 0.0, 1.0))
    simulation = on_solids(
        device, [{"type": "plane", "rotation": rotation, "friction": mu}], size=(0.3, 0.3), h=H, seconds=seconds,
        integrator=integrator, rotation=rotation, translation=triple(1.001 * THICKNESS * normal), fabric=SOFT,
    )  # fmt: skip
    start = positions(simulation)
    frames = np.array([frame.positions - start for frame in simulation.run()])
    return frames @ np.cross(axis, normal), frames @ normal, simulation


def test_a_sheet_sticks_at_the_friction_limit(device: str, integrator: str) -> None:
    """Friction and weight are in balance to 1e-8."""
    down, up, simulation = slide(device, integrator, 0.5, 0.3)
    assert np.abs(down).max() < 1e-6
    np.testing.assert_allclose(up[1:], -1e-3 * THICKNESS, atol=1e-12)
    load = weight(simulation)
    np.testing.assert_allclose(forces(simulation), [(0.0, 0.0, -load)], atol=1e-8 * load)


@pytest.mark.parametrize("mu", [0.3, 0.0])
def test_a_sheet_slips_below_the_friction_limit(device: str, integrator: str, mu: float) -> None:
    """0.5 %: the first step, in which it lands, may be lost; that is 2 h/t = 0.4 % here."""
    seconds = 0.4
    down, up, _ = slide(device, integrator, mu, seconds)
    expected = 0.5 * G * (np.sin(ANGLE) - mu * np.cos(ANGLE)) * seconds**2
    np.testing.assert_allclose(down[-1], expected, rtol=0.005)
    np.testing.assert_allclose(up[1:], -1e-3 * THICKNESS, atol=1e-9)


def test_friction_stops_a_sliding_sheet(device: str, integrator: str) -> None:
    v, mu = 1.0, 0.5
    simulation = on_solids(
        device, [{"type": "plane", "friction": mu}], h=H, seconds=0.3, integrator=integrator, fabric=SOFT,
        translation=(0.0, 0.0, THICKNESS), velocity=(-0.6 * v, 0.8 * v, 0.0),
    )  # fmt: skip
    start = positions(simulation)
    *_, before, last = simulation.run()
    gone = (last.positions - start)[:, :2]
    np.testing.assert_allclose(gone @ (-0.6, 0.8), v**2 / (2.0 * mu * G), atol=H * v)
    np.testing.assert_allclose(gone @ (0.8, 0.6), 0.0, atol=1e-9)
    np.testing.assert_array_equal(last.positions, before.positions)


def test_the_impulse_of_landing_and_rest(device: str, integrator: str) -> None:
    """Dropped from 5 cm on a plane: the sum of force times step is the weight times the time. Nothing penetrates."""
    simulation = on_solids(
        device, [{"type": "plane"}], h=H, integrator=integrator, fabric=SOFT, translation=(0.0, 0.0, 0.05)
    )
    taken = np.zeros(3)
    tally = FrameTally()
    for _ in range(round(0.25 / H)):
        simulation.step(H, tally)
        taken += H * forces(simulation)[0]
        assert positions(simulation)[:, 2].min() > 0.5 * THICKNESS
    load = weight(simulation)
    np.testing.assert_allclose(taken, (0.0, 0.0, -load * simulation.state.t), atol=1e-8 * load)
    np.testing.assert_allclose(forces(simulation), [(0.0, 0.0, -load)], atol=1e-6 * load)
    np.testing.assert_allclose(positions(simulation)[:, 2], THICKNESS, atol=1e-9)
    assert tally.rejected == 0


def test_a_sheet_over_a_ball_is_carried_by_it(device: str, integrator: str) -> None:
    """The sheet stays outside and, after a while, the ball carries it, within the forces of its swing."""
    simulation = on_solids(
        device, [{"type": "sphere", "radius": 0.15, "friction": 0.4}], size=(0.4, 0.4), resolution=(9, 9), h=H,
        seconds=0.8, integrator=integrator, fabric=SOFT, translation=(0.0, 0.0, 0.17), tolerance=1e-3,
        forces=[{"type": "drag", "linear": 1.0}],
    )  # fmt: skip
    for frame in simulation.run():
        assert np.linalg.norm(frame.positions, axis=1).min() > 0.15 + 0.5 * THICKNESS
    load = weight(simulation)
    np.testing.assert_allclose(forces(simulation), [(0.0, 0.0, -load)], atol=0.03 * load)
    assert frame.positions[:, 2].min() < 0.1
    assert simulation.report()["summary"]["rejected"] == 0


def test_a_plate_that_falls_away_releases_the_sheet(device: str, integrator: str) -> None:
    """A plate that falls away at 2 g releases the sheet: then only gravity acts on it."""
    keys = [{"time": t, "translation": (0.0, 0.0, -G * t**2)} for t in np.linspace(0.0, 0.2, 241).tolist()]
    motion = {"interpolation": "linear", "keyframes": keys}
    simulation = on_solids(
        device, [{"type": "plane", "motion": motion}], h=H, seconds=0.2, integrator=integrator, fabric=SOFT,
        translation=(0.0, 0.0, THICKNESS),
    )  # fmt: skip
    *_, last = simulation.run()
    np.testing.assert_allclose(last.positions[:, 2], THICKNESS - 0.5 * G * 0.2**2, atol=2.0 * G * 0.2 * H)
    np.testing.assert_allclose(forces(simulation), 0.0, atol=1e-12)


def test_pins_follow_their_keyframes(device: str, integrator: str) -> None:
    """To the last bit in position and velocity; the total force on a sheet is its mass times its acceleration."""
    keys = [{"time": t, "translation": (0.5 * t * t, 0.0, 0.1 * t)} for t in np.linspace(0.0, 0.1, 11).tolist()]
    simulation = sheet(
        device, (0.3, 0.3), (4, 4), h=H, frames=100, integrator=integrator, fabric=SOFT,
        constraints=[{"type": "pin", "where": {"all": True}, "motion": {"keyframes": keys}}],
    )  # fmt: skip
    motion = Motion(keyframes=keys)
    start = positions(simulation)
    before = np.zeros((16, 3))
    for frame in simulation.run():
        x, v = motion.carry(start, 0.0, frame.time)
        np.testing.assert_array_equal(frame.positions, x)
        if frame.number > 0:
            np.testing.assert_array_equal(frame.velocities, v)
            masses = simulation.model.masses[:, None]
            expected = masses * ((v - before) / H + np.array((0.0, 0.0, G)))
            np.testing.assert_allclose(simulation.constraint_forces(), expected, atol=1e-9)
            before = v


def colliding_sheets(
    device: str, integrator: str, contact: str, sheets: list[dict[str, Any]], **scene: Any
) -> Simulation:
    """Two sheets kept apart by the filter, or by springs alone."""
    forces = scene.pop("forces", [])
    if contact == "penalty":
        forces = [*forces, {"type": "penalty", "thickness": 2e-3, "stiffness": 2e4, "damping": 1e-4}]
    sheets = [{"shape": grid(0.2, 7), "fabric": SOFT, **each} for each in sheets]
    settings = {"h": 5e-4, "integrator": integrator, "tolerance": 1e-3, "filtered": contact != "penalty"}
    return cloths(device, sheets, forces=forces, **settings, **scene)


@pytest.mark.parametrize("contact", ["self_contact", "penalty"])
def test_momentum_is_conserved_when_sheets_collide(device: str, integrator: str, contact: str) -> None:
    """One is thrown at the other: their total momentum is conserved, and they do not pass through each other."""
    above = {"translation": (0.01, 0.02, 0.04), "rotation": (12.0, 5.0, 17.0), "velocity": (0.2, 0.1, -0.5)}
    simulation = colliding_sheets(device, integrator, contact, [{}, above], gravity=(0.0, 0.0, 0.0))
    before = simulation.model.masses @ velocities(simulation)
    for _ in steps(simulation, 0.13):
        momentum = simulation.model.masses @ velocities(simulation)
        np.testing.assert_allclose(momentum, before, atol=1e-12 * np.linalg.norm(before))
    lower, upper = (positions(simulation)[part.particles, 2] for part in simulation.model.parts)
    assert velocities(simulation)[: len(lower), 2].mean() < -0.1, "the one that was hit goes along"
    assert lower.mean() < upper.mean()


def test_a_sheet_rests_on_penalty_springs(device: str, integrator: str) -> None:
    """Springs between cloths are compressed by weight / stiffness: 98 um of 2 mm."""
    pinned = [{"type": "pin", "cloth": "0", "where": {"all": True}}]
    air = [{"type": "viscous", "rate": 40.0}]
    above = {"translation": (0.0, 0.0, 2e-3)}
    simulation = colliding_sheets(device, integrator, "penalty", [{}, above], constraints=pinned, forces=air)
    walk(simulation, [5e-4] * 500)
    masses = simulation.model.masses[49:]
    gap = masses @ positions(simulation)[49:, 2] / masses.sum()
    assert 2e-3 - gap == pytest.approx(SOFT["density"] * G / 2e4, rel=0.02)
    # Explicit friction reverses a slow motion in every step: velocities stay below its change in one step.
    jitter = 2.5 * 0.3 * G * 5e-4 if integrator == "explicit_euler" else 1e-3
    assert np.abs(velocities(simulation)).max() < jitter


@pytest.mark.parametrize("start", [0.0, 0.01])
def test_a_pull_acts_from_its_start_on(device: str, integrator: str, start: float) -> None:
    """A pull acts from its start on, and not before: its impulse is exact to the order of the scheme."""
    pull = {"type": "pull", "triangle": 0, "target": (0.0, 0.0, 1.0), "stiffness": 1.0, "damping": 0.0, "start": start}
    simulation = sheet(
        device, (0.3, 0.3), (2, 2), h=1e-3, gravity=0.0, frames=20, integrator=integrator, fabric=SOFT, forces=[pull]
    )
    for frame in simulation.run():
        if frame.time <= start + 1e-9:
            np.testing.assert_array_equal(frame.velocities, 0.0)
    impulse = simulation.model.masses @ frame.velocities
    # The pulled corner is at rest at first: the error is its own motion, 1.5 % here.
    np.testing.assert_allclose(impulse[2], 1.0 * (frame.time - start), rtol=0.05)


def test_free_fall_at_variable_steps(device: str, integrator: str) -> None:
    """Free fall at any steps: the velocity is g t, and the mixed schemes fall by g t^2/2."""
    simulation = sheet(device, (0.3, 0.3), (4, 4), h=H, integrator=integrator, fabric=SOFT)
    start = positions(simulation)
    sizes = list(np.random.default_rng(5).uniform(0.1 * H, H, 40))
    walk(simulation, sizes)
    time = sum(sizes)
    np.testing.assert_allclose(velocities(simulation)[:, 2], -G * time, rtol=1e-12)
    drop = start[:, 2] - positions(simulation)[:, 2]
    ahead = 0.5 * G * np.sum(np.square(sizes)) if integrator == "explicit_euler" else 0.0
    np.testing.assert_allclose(drop, 0.5 * G * time**2 + ahead, rtol=1e-10)
