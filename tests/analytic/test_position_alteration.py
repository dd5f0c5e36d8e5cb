"""A particle inside a solid is in front of it after one step, without gaining velocity ([BW98] sec. 6.2).

    distance after the step = thickness,    velocity along the normal = the solid's

A particle deeper than `max_recovery` moves by that much in every step of max_step until it is out, and in proportion in
shorter steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.sheets import G, positions, velocities, walk
from analytic.solids import THICKNESS, dust, on_solids, weight

H = 1.0 / 60.0
RECOVERY = 0.02  # [m]
INTEGRATORS = ["implicit_bdf2", "implicit_euler"]
SOLIDS: dict[str, dict[str, Any]] = {
    "plane": {"type": "plane"},
    "sphere": {"type": "sphere", "radius": 0.3},
    "box": {"type": "box", "size": (0.4, 0.5, 0.6)},
    "cylinder": {"type": "cylinder", "radius": 0.3, "height": 0.5},
    "capsule": {"type": "capsule", "radius": 0.2, "length": 0.4},
}


def surface(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Points of a solid's surface, away from edges, and the normals there."""
    rng = np.random.default_rng(7)
    n = 16
    if kind == "plane":
        return np.c_[rng.uniform(-1.0, 1.0, (n, 2)), np.zeros(n)], np.tile((0.0, 0.0, 1.0), (n, 1))
    if kind == "box":
        half, axis, side = np.array((0.2, 0.25, 0.3)), rng.integers(0, 3, n), rng.choice([-1.0, 1.0], n)
        points, normals = rng.uniform(-0.1, 0.1, (n, 3)), np.zeros((n, 3))
        points[np.arange(n), axis] = side * half[axis]
        normals[np.arange(n), axis] = side
        return points, normals
    normals = rng.normal(size=(n, 3))
    normals[:, 2] *= kind == "sphere"  # the sides of the other shapes
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    along = np.c_[np.zeros((n, 2)), rng.uniform(-0.15, 0.15, n) * (kind != "sphere")]
    return SOLIDS[kind]["radius"] * normals + along, normals


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("depth", [-0.5 * THICKNESS, 0.0, 1e-6, 0.005, 0.0189], ids="{:g} m".format)
@pytest.mark.parametrize("kind", SOLIDS)
def test_a_particle_is_out_of_the_solid_after_one_step(device: str, kind: str, depth: float, integrator: str) -> None:
    """1e-12, rounding is reached. No velocity is left, so it stays there in the next steps."""
    points, normals = surface(kind)
    simulation = dust(
        device, [SOLIDS[kind]], points - depth * normals, h=H, integrator=integrator, gravity=(0.0, 0.0, 0.0)
    )
    for _ in range(3):
        walk(simulation, [H])
        np.testing.assert_allclose(positions(simulation), points + THICKNESS * normals, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(velocities(simulation), 0.0, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("kind", SOLIDS)
def test_a_deep_particle_recovers_in_several_steps(device: str, kind: str, integrator: str) -> None:
    """0.05 m at 0.02 m a step."""
    points, normals = surface(kind)
    simulation = dust(
        device, [SOLIDS[kind]], points - 0.05 * normals, h=H, integrator=integrator, gravity=(0.0, 0.0, 0.0),
        contact={"max_recovery": RECOVERY},
    )  # fmt: skip
    for n in range(1, 5):
        walk(simulation, [H])
        distance = min(n * RECOVERY - 0.05, THICKNESS)
        np.testing.assert_allclose(positions(simulation), points + distance * normals, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(velocities(simulation), 0.0, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_recovery_is_proportional_to_the_step(device: str, integrator: str) -> None:
    """The speed is 0.02 m in H: after any steps with the sum n H, the particle has moved by n 0.02 m."""
    points, normals = surface("sphere")
    simulation = dust(
        device, [SOLIDS["sphere"]], points - 0.05 * normals, h=H, integrator=integrator, gravity=(0.0, 0.0, 0.0),
        contact={"max_recovery": RECOVERY},
    )  # fmt: skip
    elapsed = 0.0
    for share in (0.5, 0.25, 0.25, 1.0, 0.125):
        walk(simulation, [share * H])
        elapsed += share
        expected = points + (elapsed * RECOVERY - 0.05) * normals
        np.testing.assert_allclose(positions(simulation), expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_recovered_particle_has_the_normal_velocity_of_the_solid(device: str, integrator: str) -> None:
    """Along the normal, it gets the velocity of the plane and no more, and keeps its distance."""
    rate = np.array((0.0, 0.0, 0.5))
    motion = {"interpolation": "linear", "keyframes": [{"time": 0.0}, {"time": 2.0, "translation": (0.0, 0.0, 1.0)}]}
    points, normals = surface("plane")
    simulation = dust(
        device, [{"type": "plane", "motion": motion}], points - 0.01 * normals, h=H, integrator=integrator
    )
    for n in range(1, 10):
        walk(simulation, [H])
        expected = points + THICKNESS * normals + n * H * rate
        np.testing.assert_allclose(positions(simulation), expected, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(velocities(simulation), np.tile(rate, (len(points), 1)), atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("rotation", [(0.0, 0.0, 0.0), (20.0, 10.0, 0.0)], ids=["flat", "tilted"])
def test_energy_of_a_sheet_that_starts_inside(
    device: str, rotation: tuple[float, float, float], integrator: str
) -> None:
    """Moving a sheet out of a plane adds m g (depth + thickness) and nothing else: no strain, no velocity. It sticks,
    so
    nothing changes afterwards."""
    depth = 0.01
    solid = {"type": "plane", "rotation": rotation, "friction": 1.0}
    normal = np.array((0.0, 0.0, 1.0)) if rotation == (0.0, 0.0, 0.0) else None
    if normal is None:
        from analytic.solids import turned

        normal = turned(rotation, (0.0, 0.0, 1.0))
    x, y, z = -depth * normal
    simulation = on_solids(
        device, [solid], h=H, fps=60.0, seconds=0.5, integrator=integrator, rotation=rotation, translation=(x, y, z)
    )
    start = None
    for frame in simulation.run():
        if start is None:
            start = frame.positions
            continue
        moved = (depth + THICKNESS) * normal
        np.testing.assert_allclose(frame.positions, start + moved, rtol=0.0, atol=1e-12)
        assert frame.certificate is not None
        energy = frame.certificate["energy"]
        assert energy["kinetic"] < 1e-20
        assert energy["stretch"] + energy["shear"] + energy["bend_mode"] < 1e-18
        lifted = weight(simulation) * moved[2]
        height = (simulation.model.masses * start[:, 2]).sum() * G
        assert energy["gravity"] - height == pytest.approx(lifted, rel=1e-9)
