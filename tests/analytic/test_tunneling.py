"""No tunneling: cloth does not pass through a plate, however fast it is and however thin the plate is.

h v = 33 m in a step at 1,000 m/s, through 2 mm
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.solids import THICKNESS, on_solids, triple, turned

from toile.simulation.simulation import Simulation

H = 1.0 / 30.0
INTEGRATORS = ["implicit_bdf2", "implicit_euler"]
SPEEDS = [10.0, 100.0, 1000.0]  # [m/s]


def nearest(simulation: Simulation, center: Any, normal: np.ndarray, half: float) -> float:
    """The smallest distance in front of a plate's face, over all frames; `center` is a function of time."""
    return float(min(((frame.positions - center(frame.time)) @ normal - half).min() for frame in simulation.run()))


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("tilt", [(0.0, 0.0, 0.0), (20.0, 10.0, 0.0)], ids=["level", "tilted"])
@pytest.mark.parametrize("plate", [0.01, 0.002], ids=["1 cm", "2 mm"])
@pytest.mark.parametrize("speed", SPEEDS, ids="{:g} m/s".format)
def test_a_fast_sheet_stops_in_front_of_a_plate(
    device: str, speed: float, plate: float, tilt: tuple[float, float, float], integrator: str
) -> None:
    """The sheet ends at `thickness` in front of the face; no step fails, and none is rejected."""
    box = {"type": "box", "size": (3e3, 3e3, plate), "rotation": tilt}  # it may slide far on a tilted plate
    simulation = on_solids(
        device, [box], h=H, seconds=0.3, tolerance=1e-4, integrator=integrator,
        translation=(0.0, 0.0, 0.12), velocity=(0.0, 0.0, -speed),
    )  # fmt: skip
    closest = nearest(simulation, lambda time: np.zeros(3), turned(tilt, (0.0, 0.0, 1.0)), 0.5 * plate)
    assert closest == pytest.approx(THICKNESS, rel=1e-6)
    assert simulation.report()["summary"]["rejected"] == 0


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("tilt", [(0.0, 0.0, 0.0), (20.0, 10.0, 0.0)], ids=["level", "tilted"])
@pytest.mark.parametrize("plate", [0.01, 0.002], ids=["1 cm", "2 mm"])
@pytest.mark.parametrize("speed", SPEEDS, ids="{:g} m/s".format)
def test_a_fast_plate_carries_a_sheet_along(
    device: str, speed: float, plate: float, tilt: tuple[float, float, float], integrator: str
) -> None:
    """The sheet at rest is carried along; it starts to move in the middle of a step."""
    normal = turned(tilt, (0.0, 0.0, 1.0))
    begin, start = 0.01, -0.06 * normal
    way = speed * 0.5 * normal
    keys = [{"time": begin}, {"time": begin + 0.5, "translation": triple(way)}]
    box = {"type": "box", "size": (30.0, 30.0, plate), "rotation": tilt, "translation": triple(start)}
    motion = {"interpolation": "linear", "keyframes": keys}
    simulation = on_solids(
        device, [{**box, "motion": motion}], h=H, seconds=0.3, tolerance=1e-4, integrator=integrator, rotation=tilt,
        gravity=(0.0, 0.0, 0.0),
    )  # fmt: skip
    closest = nearest(simulation, lambda time: start + speed * max(time - begin, 0.0) * normal, normal, 0.5 * plate)
    # The plate is up to 300 m away, where rounding is 1e-13 m.
    assert closest == pytest.approx(THICKNESS, rel=1e-6)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("speed", SPEEDS[:2], ids="{:g} m/s".format)
def test_a_fast_ball_keeps_the_sheet_in_front_of_it(device: str, speed: float, integrator: str) -> None:
    """No particle is ever inside the ball, and those in its way stay in front of it."""
    radius, start = 0.05, np.array((0.0, 0.0, -0.2))
    keys = [{"time": 0.0}, {"time": 0.5, "translation": (0.0, 0.0, 0.5 * speed)}]
    ball = {"type": "sphere", "radius": radius, "translation": triple(start)}
    simulation = on_solids(
        device, [{**ball, "motion": {"interpolation": "linear", "keyframes": keys}}], resolution=(15, 15), h=H,
        seconds=0.3, tolerance=1e-4, integrator=integrator, gravity=(0.0, 0.0, 0.0),
    )  # fmt: skip
    middle = 7 * 15 + 7
    for frame in simulation.run():
        center = start + np.array((0.0, 0.0, speed * frame.time))
        assert np.linalg.norm(frame.positions - center, axis=1).min() > radius
        assert frame.positions[middle, 2] > center[2] + radius
