"""A moving solid carries the cloth on it, up to the limit of friction.

acceleration a below mu g     carried exactly: the position relative to the solid does not change
above it                      the acceleration of the sheet is mu g
turning with w at radius r    carried while w^2 r < mu g
tilting slowly                slips beyond tan(angle) = mu
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.sheets import G, positions
from analytic.solids import DUST, THICKNESS, along, forces, on_solids, turned, weight

from toile.model.motion import Motion

INTEGRATORS = ["implicit_bdf2", "implicit_euler"]
MU = 0.3
REST = 0.2  # [s]  before the solid begins to move
# The sheet starts in contact.
TOUCHING = 0.9999 * THICKNESS


def sideways(acceleration: float) -> dict[str, Any]:
    """Rests, then accelerates along an oblique direction; linear between keyframes 0.8 ms apart."""
    direction = np.array((0.6, -0.8, 0.0))
    return along(lambda t: 0.5 * acceleration * max(t - REST, 0.0) ** 2 * direction, 2.0, 2401)


def in_its_frame(motion: dict[str, Any], origin: tuple[float, float, float], x: np.ndarray, time: float) -> np.ndarray:
    """World points in the frame of a solid that started at `origin`."""
    R, o, _, _ = Motion(**motion).frame(np.asarray(origin), time)
    return (x - o) @ R


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_cloth_is_carried_exactly_below_the_limit(device: str, share: float, integrator: str) -> None:
    """No drift at all: 1e-12 m over a meter."""
    motion = sideways(share * MU * G)
    simulation = on_solids(
        device, [{"type": "plane", "friction": MU, "motion": motion}], translation=(0.0, 0.0, TOUCHING),
        integrator=integrator,
    )  # fmt: skip
    start = positions(simulation)[:, :2]
    for frame in simulation.run():
        seen = in_its_frame(motion, (0.0, 0.0, 0.0), frame.positions, frame.time)
        np.testing.assert_allclose(seen[:, :2], start, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("share", [1.2, 2.0, 6.0])
def test_cloth_accelerates_with_mu_g_above_the_limit(device: str, share: float, integrator: str) -> None:
    """mu g t^2/2 within 2 %: half a step at the start is worth 1 % at h = 1/120 s. Friction is mu times the weight."""
    seconds = 1.0
    simulation = on_solids(
        device, [{"type": "plane", "friction": MU, "motion": sideways(share * MU * G)}], h=1.0 / 120.0,
        seconds=REST + seconds, translation=(0.0, 0.0, TOUCHING), integrator=integrator,
    )  # fmt: skip
    start = positions(simulation)
    list(simulation.run())
    moved = (positions(simulation) - start) @ (0.6, -0.8, 0.0)
    np.testing.assert_allclose(moved, 0.5 * MU * G * seconds**2, rtol=0.02)
    assert np.ptp(moved) < 1e-9
    load = forces(simulation)[0] / weight(simulation)
    np.testing.assert_allclose(load, (-0.6 * MU, 0.8 * MU, -1.0), atol=1e-6)


TURNTABLES: dict[str, dict[str, Any]] = {
    "plane": {"type": "plane"},
    "cylinder": {"type": "cylinder", "radius": 0.6, "height": 0.5, "translation": (0.0, 0.0, -0.25)},
    "box": {"type": "box", "size": (1.2, 1.2, 0.5), "translation": (0.0, 0.0, -0.25)},
}


@pytest.mark.parametrize("center", [None, (0.3, 0.0, 0.0)], ids=["about its middle", "about another point"])
@pytest.mark.parametrize("table", TURNTABLES)
def test_cloth_is_carried_by_a_turntable(device: str, table: str, center: tuple[float, float, float] | None) -> None:
    """Half a turn in two seconds, from rest to rest: on a circle, and no drift to 1e-9 m (1e-15 reached)."""
    motion: dict[str, Any] = {"keyframes": [{"time": 0.1}, {"time": 2.1, "rotation": (0.0, 0.0, 180.0)}]}
    if center is not None:
        motion["center"] = center
    solid = TURNTABLES[table]
    origin = solid.get("translation", (0.0, 0.0, 0.0))
    simulation = on_solids(
        device, [{**solid, "friction": 0.5, "motion": motion}], size=(0.1, 0.1), seconds=2.3,
        translation=(0.2, 0.0, TOUCHING),
    )  # fmt: skip
    start = in_its_frame(motion, origin, positions(simulation), 0.0)[:, :2]
    for frame in simulation.run():
        seen = in_its_frame(motion, origin, frame.positions, frame.time)[:, :2]
        np.testing.assert_allclose(seen, start, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_particles_are_carried_by_a_tumbling_box(device: str, integrator: str) -> None:
    """Rotated about changing axes and translated at the same time. Particles have no threads between them, so that the
    force is exact in both integrators."""
    keys = [
        {"time": 0.1},
        {"time": 0.8, "rotation": (15.0, 10.0, 0.0), "translation": (0.1, 0.05, 0.2)},
        {"time": 1.6, "rotation": (0.0, 0.0, 40.0), "translation": (0.0, 0.05, 0.1)},
    ]
    origin = (0.0, 0.0, -0.25)
    motion = {"keyframes": keys}
    box = {"type": "box", "size": (1.0, 1.0, 0.5), "translation": origin, "friction": 1.0, "motion": motion}
    simulation = on_solids(
        device, [box], seconds=2.0, translation=(0.2, 0.1, TOUCHING), integrator=integrator, fabric=DUST
    )
    start = in_its_frame(motion, origin, positions(simulation), 0.0)
    start[:, 2] = 0.25 + THICKNESS
    for frame in simulation.run():
        if frame.number > 0:
            seen = in_its_frame(motion, origin, frame.positions, frame.time)
            np.testing.assert_allclose(seen, start, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_cloth_is_carried_by_a_lift(device: str, integrator: str) -> None:
    """Up from rest to rest within a second, with less than g both ways, so that the cloth never leaves the box."""
    keys = [{"time": 0.0}, {"time": 1.0, "translation": (0.0, 0.0, 0.5)}]
    box = {"type": "box", "size": (1.0, 1.0, 0.2), "translation": (0.0, 0.0, -0.1), "motion": {"keyframes": keys}}
    simulation = on_solids(device, [box], seconds=1.2, translation=(0.0, 0.0, THICKNESS), integrator=integrator)
    start = positions(simulation)
    for frame in simulation.run():
        np.testing.assert_allclose(
            in_its_frame(box["motion"], (0.0, 0.0, 0.0), frame.positions, frame.time), start, rtol=0.0, atol=1e-12
        )
    assert forces(simulation)[0, 2] == pytest.approx(-weight(simulation), rel=1e-8)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_cloth_slips_on_a_plane_tilted_beyond_the_friction_angle(device: str, integrator: str) -> None:
    """At 20 degrees a second the excess g (sin q - mu cos q) moves it by a millimeter 2 degrees after the limit of
    26.6, and not at all before. Particles have no threads, as above."""
    motion = {"interpolation": "linear", "keyframes": [{"time": 0.0}, {"time": 3.0, "rotation": (0.0, 60.0, 0.0)}]}
    simulation = on_solids(
        device, [{"type": "plane", "friction": 0.5, "motion": motion}], seconds=2.0, translation=(0.0, 0.0, TOUCHING),
        integrator=integrator, fabric=DUST,
    )  # fmt: skip
    start = positions(simulation)[:, 0]
    gone = {}
    for frame in simulation.run():
        downhill = turned((0.0, 20.0 * frame.time, 0.0), (1.0, 0.0, 0.0))
        gone[round(20.0 * frame.time, 6)] = (frame.positions @ downhill - start).max()
    assert max(way for angle, way in gone.items() if angle < 26.5) < 1e-4
    assert min(way for angle, way in gone.items() if angle > 30.0) > 1e-3
