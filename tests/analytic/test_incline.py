"""A sheet on an incline, and one that slides on a level plane until friction stops it.

    at rest on the incline     acceleration  g (sin a - mu cos a),    none for mu >= tan a
    sliding on the level       stops after   v^2 / (2 mu g)

tan a = 1/2, so mu = 0.5 is the limit itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic.sheets import G, positions, velocities
from analytic.solids import THICKNESS, on_solids, triple, turned

SECONDS = 2.5
ANGLE = float(np.arctan(0.5))  # [rad]
INTEGRATORS = ["implicit_bdf2", "implicit_euler"]
# The axis of the incline; downhill is perpendicular to it.
AXES = {"about y": (0.0, 1.0, 0.0), "about a slanted axis": (-0.6, 0.8, 0.0)}
INCLINES = [("plane", "about y"), ("plane", "about a slanted axis"), ("box", "about a slanted axis")]


def slide(
    device: str, mu: float, solid: str, axis: str, integrator: str, h: float = 1.0 / 60.0
) -> tuple[np.ndarray, np.ndarray]:
    """How far each particle has gone downhill and up from the surface, frame by frame."""
    rotation = triple(np.degrees(ANGLE) * np.array(AXES[axis]))
    normal = turned(rotation, (0.0, 0.0, 1.0))
    downhill = np.cross(AXES[axis], normal)
    shapes = {
        "plane": {"type": "plane"},
        "box": {"type": "box", "size": (40.0, 40.0, 0.2), "translation": triple(-0.1 * normal)},
    }
    simulation = on_solids(
        device, [{**shapes[solid], "rotation": rotation, "friction": mu}], size=(0.3, 0.3), resolution=(5, 5), h=h,
        seconds=SECONDS, integrator=integrator, rotation=rotation, translation=triple(1.001 * THICKNESS * normal),
    )  # fmt: skip
    start = positions(simulation)
    frames = np.array([frame.positions - start for frame in simulation.run()])
    return frames @ downhill, frames @ normal


@pytest.mark.parametrize("h", [1.0 / 30.0, 1.0 / 60.0], ids=["h=1/30", "h=1/60"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize(("solid", "axis"), INCLINES)
def test_a_sheet_sticks_at_the_friction_limit(device: str, solid: str, axis: str, integrator: str, h: float) -> None:
    """Less than 1 mm in 2.5 s, and nothing after the first frame, in which it lands."""
    down, up = slide(device, 0.5, solid, axis, integrator, h)
    assert np.abs(down).max() < 1e-3
    assert np.ptp(down[1:], axis=0).max() < 1e-12
    np.testing.assert_allclose(up[1:], -1e-3 * THICKNESS, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize(("solid", "axis"), INCLINES)
@pytest.mark.parametrize("mu", [0.49, 0.3, 0.0])
def test_a_sheet_slips_below_the_friction_limit(device: str, mu: float, solid: str, axis: str, integrator: str) -> None:
    """2 %: half of the first step is lost or gained, which is 0.7 % here. The sheet stays on the surface, and flat."""
    down, up = slide(device, mu, solid, axis, integrator)
    expected = 0.5 * G * (np.sin(ANGLE) - mu * np.cos(ANGLE)) * SECONDS**2
    np.testing.assert_allclose(down[-1], expected, rtol=0.02)
    assert np.ptp(down[-1]) < 1e-9
    np.testing.assert_allclose(up[1:], -1e-3 * THICKNESS, atol=1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("direction", [(1.0, 0.0), (-0.6, 0.8)], ids=["along x", "aslant"])
def test_friction_stops_a_sliding_sheet(device: str, direction: tuple[float, float], integrator: str) -> None:
    """v^2/(2 mu g) within half a step at v, and straight. Once stopped, the sheet does not move again."""
    v, mu, h = 2.0, 0.3, 1.0 / 120.0
    start_velocity = (v * direction[0], v * direction[1], 0.0)
    simulation = on_solids(
        device, [{"type": "plane", "friction": mu}], h=h, seconds=1.5, integrator=integrator,
        translation=(0.0, 0.0, THICKNESS), velocity=start_velocity,
    )  # fmt: skip
    start, way = positions(simulation), {}
    for frame in simulation.run():
        way[frame.number] = frame.positions - start
    gone = way[45][:, :2]
    distance = v**2 / (2.0 * mu * G)  # 0.68 m, after 0.68 s
    np.testing.assert_allclose(gone @ direction, distance, atol=0.5 * h * v)
    np.testing.assert_allclose(gone @ (-direction[1], direction[0]), 0.0, atol=1e-9)
    assert np.abs(way[45] - way[30]).max() < 1e-12
    assert np.abs(velocities(simulation)).max() < 1e-12
