"""Particles in contact with two planes have one free direction, and with three none.

V groove, half angle b from its middle, valley inclined by s     N = m g cos s/(2 sin b) on each face
                                                                 a = g sin s - 2 mu N/m along the valley
corner of three faces at right angles, pointing down             N = m g/sqrt(3) on each face
two plates a < 2 thickness apart                                 held half way; released by the one that leaves
a corner of floor and wall, pressed into it by g_z and g_y       N = m g_z and m g_y; the floor carries it along
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.sheets import G, positions, velocities
from analytic.solids import CLOTH, THICKNESS, along, dust, forces, on_solids, triple, weight

from toile.model.motion import rotation_matrix

INTEGRATORS = ["implicit_bdf2", "implicit_euler"]
ORDERS = {"as they are": 1, "the other way round": -1}


def facing(normal: np.ndarray, friction: float) -> dict[str, Any]:
    """A plane through the origin with this normal, which is not straight down."""
    axis = np.cross((0.0, 0.0, 1.0), normal)
    sine = np.linalg.norm(axis)
    angle = float(np.degrees(np.arctan2(sine, normal[2])))
    return {"type": "plane", "rotation": triple(angle * axis / sine), "friction": friction}


def groove(half: float, slope: float) -> tuple[np.ndarray, np.ndarray]:
    """The two normals, and the direction down the valley."""
    incline = rotation_matrix(np.array((0.0, slope, 0.0)))
    faces = np.array([(0.0, np.cos(half), np.sin(half)), (0.0, -np.cos(half), np.sin(half))])
    return faces @ incline.T, incline @ (1.0, 0.0, 0.0)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("mu", [0.0, 0.1])
@pytest.mark.parametrize("half_degrees", [30.0, 45.0, 60.0])
def test_particle_in_a_valley(device: str, half_degrees: float, mu: float, integrator: str) -> None:
    """Forces to rounding; distance within 2 %, which is one step more or less; on both faces to 1e-12."""
    half, slope = np.radians(half_degrees), np.radians(20.0)
    normals, down = groove(half, slope)
    # In the valley, a ten-thousandth of the thickness too close.
    bottom = 0.9999 * THICKNESS * normals.sum(axis=0) / (1.0 + normals[0] @ normals[1])
    points = bottom + np.outer(np.arange(4.0), down)
    simulation = dust(device, [facing(normal, mu) for normal in normals], points, h=1.0 / 120.0, integrator=integrator)
    list(simulation.run())
    N = G * np.cos(slope) / (2.0 * np.sin(half))  # [N/kg]
    moved = positions(simulation) - points
    np.testing.assert_allclose(moved @ down, 0.5 * (G * np.sin(slope) - 2.0 * mu * N), rtol=0.02)
    np.testing.assert_allclose(positions(simulation) @ normals.T, THICKNESS, rtol=0.0, atol=1e-12)
    on_faces = -forces(simulation) / simulation.model.masses.sum()
    np.testing.assert_allclose((on_faces * normals).sum(axis=1), N, rtol=1e-8)
    np.testing.assert_allclose(on_faces @ down, -mu * N, atol=1e-8 * G)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_level_valley_holds(device: str, integrator: str) -> None:
    """Dropped into a level groove off its middle, the particle slides to the bottom and stays."""
    half = np.radians(45.0)
    normals, _ = groove(half, 0.0)
    points = np.array([(0.0, 0.01, 0.05), (1.0, -0.02, 0.08), (2.0, 0.0, 0.1), (3.0, 0.005, 0.03)])
    simulation = dust(device, [facing(normal, 0.0) for normal in normals], points, integrator=integrator, seconds=2.0)
    list(simulation.run())
    np.testing.assert_allclose(positions(simulation) @ normals.T, THICKNESS, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(positions(simulation)[:, 0], points[:, 0], atol=1e-12)
    np.testing.assert_allclose(velocities(simulation), 0.0, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_corner_of_three_planes(device: str, mu: float, integrator: str) -> None:
    """No direction is free: the particle is at the thickness from all three faces, to rounding."""
    third = 2.0 * np.pi / 3.0
    level, up = np.sqrt(2.0 / 3.0), np.sqrt(1.0 / 3.0)
    normals = np.array([(level * np.cos(k * third), level * np.sin(k * third), up) for k in range(3)])
    bottom = THICKNESS * normals.sum(axis=0)
    points = bottom + np.array([(0.0, 0.0, 0.02), (0.0, 0.0, 0.1), (0.0, 0.0, 0.0), (0.0, 0.0, -5e-4)])
    simulation = dust(device, [facing(normal, mu) for normal in normals], points, integrator=integrator)
    list(simulation.run())
    np.testing.assert_allclose(positions(simulation), np.tile(bottom, (4, 1)), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(velocities(simulation), 0.0, atol=1e-12)
    on_faces = -forces(simulation) / weight(simulation)
    np.testing.assert_allclose((on_faces * normals).sum(axis=1), up, rtol=1e-8)
    np.testing.assert_allclose(on_faces.sum(axis=0), (0.0, 0.0, 1.0), atol=1e-8)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("apart", [0.01, 0.004, 0.002], ids="{:g} m".format)
def test_sheet_between_plates_that_close(device: str, apart: float, integrator: str) -> None:
    """The lower plate lifts it to half the opening, or the gap is exactly its size; it stays flat and unstretched."""
    way = 0.1 - 0.5 * apart

    def plate(side: float) -> dict[str, Any]:
        keys = [{"time": 0.0}, {"time": 0.5, "translation": (0.0, 0.0, -side * way)}]
        place = {"size": (1.0, 1.0, 0.2), "translation": (0.0, 0.0, side * 0.2)}
        return {"type": "box", **place, "motion": {"interpolation": "linear", "keyframes": keys}}

    simulation = on_solids(
        device, [plate(-1.0), plate(1.0)], fabric=CLOTH, resolution=(7, 7), integrator=integrator, tolerance=1e-8
    )
    start = positions(simulation)
    list(simulation.run())
    end = positions(simulation)
    np.testing.assert_allclose(end[:, 2], THICKNESS - 0.5 * apart, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(end[:, :2], start[:, :2], atol=1e-9)
    np.testing.assert_allclose(velocities(simulation), 0.0, atol=1e-9)
    np.testing.assert_allclose(forces(simulation).sum(axis=0), (0.0, 0.0, -weight(simulation)), atol=1e-8)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("apart", [0.0015, 0.0005], ids="{:g} m".format)
def test_a_sheet_is_released_by_plates_that_open(device: str, apart: float, order: int, integrator: str) -> None:
    """Squeezed, it is in the middle; then the upper plate leaves, and it lies on the lower one as if that were
    alone."""
    way = 0.1 - 0.5 * apart

    def plate(side: float, opens: float) -> dict[str, Any]:
        ways = [(0.0, 0.0), (0.3, -side * way), (0.5, -side * way), (0.8, -side * way + opens)]
        keys = [{"time": time, "translation": (0.0, 0.0, z)} for time, z in ways]
        place = {"size": (1.0, 1.0, 0.2), "translation": (0.0, 0.0, side * 0.2)}
        return {"type": "box", **place, "motion": {"interpolation": "linear", "keyframes": keys}}

    plates = [plate(-1.0, 0.0), plate(1.0, 0.1)]
    simulation = on_solids(
        device, plates[::order], fabric=CLOTH, resolution=(7, 7), integrator=integrator, tolerance=1e-8, seconds=1.0
    )
    start = positions(simulation)
    for frame in simulation.run():
        lower, upper = forces(simulation)[::order]
        if 0.4 < frame.time < 0.49:
            np.testing.assert_allclose(frame.positions[:, 2], 0.0, atol=1e-12)
        if frame.time > 0.5 + 2.0 / 60.0:
            assert simulation.contacts.solid is not None
            assert simulation.contacts.solid.counts()[::order][1] == 0
            assert np.all(upper == 0.0)
    end = positions(simulation)
    np.testing.assert_allclose(end[:, 2], THICKNESS - 0.5 * apart, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(end[:, :2], start[:, :2], atol=1e-9)
    np.testing.assert_allclose(velocities(simulation), 0.0, atol=1e-9)
    np.testing.assert_allclose(lower, (0.0, 0.0, -weight(simulation)), atol=1e-8)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_a_belt_carries_cloth_that_leans_on_a_wall(device: str, mu: float, order: int, integrator: str) -> None:
    """The rougher of the two determines the motion, whichever is first in the scene. Beyond the end of the wall, the
    friction of the belt, which is large enough, carries the load of the wall."""
    g_y, g_z, speed = 3.0, 9.0, 0.5
    run = along(lambda t: np.array((speed * t, 0.0, 0.0)), 3.0, 2)
    wall = {"type": "box", "size": (1.0, 0.2, 0.2), "translation": (0.0, -0.1, 0.05), "friction": mu}  # ends at 0.5 m
    belt = {"type": "box", "size": (10.0, 4.0, 0.2), "translation": (0.0, 0.0, -0.1), "friction": 1.0, "motion": run}
    points = np.array([(0.1 * k - 0.4, 1.5 * THICKNESS, 1.5 * THICKNESS) for k in range(4)])
    simulation = dust(
        device, [wall, belt][::order], points, integrator=integrator, gravity=(0.0, -g_y, -g_z), seconds=2.0
    )
    m = simulation.model.masses.sum()
    for frame in simulation.run():
        if frame.time >= 0.2:
            # It lands within a step or two, and friction g_z then needs v/g_z = 0.06 s.
            np.testing.assert_allclose(frame.velocities, np.tile((speed, 0.0, 0.0), (4, 1)), atol=1e-9)
            np.testing.assert_allclose(frame.positions[:, 1:], THICKNESS, rtol=0.0, atol=1e-9)
        on_wall, on_belt = forces(simulation)[::order]
        if 0.2 <= frame.time <= 1.0:
            np.testing.assert_allclose(on_wall, (0.0, -m * g_y, 0.0), atol=1e-8 * m * g_z)
            np.testing.assert_allclose(on_belt, (0.0, 0.0, -m * g_z), atol=1e-8 * m * g_z)
    assert positions(simulation)[:, 0].min() > 0.5
    assert np.all(on_wall == 0.0)
    np.testing.assert_allclose(on_belt, (0.0, -m * g_y, -m * g_z), atol=1e-8 * m * g_z)
