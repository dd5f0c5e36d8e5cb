"""Particles between two faces that leave no room for them.

faces that fold up about an axis     held on their bisector, at the distance from the axis at which they were caught:
                                     d_a = d_b = r sin(b) for the half angle b; one that is fixed turns it half as far
two balls of radii r_1 and r_2       |x - c_1| - r_1 = |x - c_2| - r_2, a hyperboloid
in every step                        |change of x| <= motion of the faces there, also when they open
layers between plates                keep their order
two boxes                            hold cloth in the middle between them, also beside their rims
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic.solids import CLOTH, THICKNESS, along, dust, positions_of_frames

from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

INTEGRATORS = ["implicit_bdf2", "implicit_euler"]
H = 1.0 / 60.0


def leaf(side: float, half: float, turns: float, friction: float) -> dict[str, Any]:
    """A plane through the x axis whose normal points to +y or -y, `half` degrees from the bisector; it turns by `turns`
    degrees to the bisector in half a second, waits as long, and turns back by more than that in a second."""
    keys = [(0.0, 0.0), (0.5, -turns), (1.0, -turns), (2.0, 20.0)]
    motion = [{"time": time, "rotation": (side * angle, 0.0, 0.0)} for time, angle in keys]
    return {
        "type": "plane",
        "rotation": (-side * (90.0 - half), 0.0, 0.0),
        "friction": friction,
        "motion": {"interpolation": "linear", "keyframes": motion},
    }


def normals(half_a: float, half_b: float) -> np.ndarray:
    a, b = np.radians((half_a, half_b))
    return np.array([(0.0, np.cos(a), np.sin(a)), (0.0, -np.cos(b), np.sin(b))])


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("turns", [(25.0, 25.0), (0.0, 50.0)], ids=["both turn", "one turns"])
def test_faces_that_fold_up_hold_a_particle_on_their_bisector(
    device: str, turns: tuple[float, float], integrator: str
) -> None:
    """Caught in the first step. A step turns by less than two degrees, whose cosine is 1 to 6e-4: the mean of two
    chords is that much shorter, in each of 30 steps. The line of both targets would move 2.5 times as far away."""
    leaves = [leaf(1.0, 40.0, turns[0], 0.3), leaf(-1.0, 40.0, turns[1], 0.3)]
    if turns[0] == 0.0:
        leaves[0].pop("motion")
    r = THICKNESS / np.sin(np.radians(40.0))
    points = np.array([(float(x), 0.0, r) for x in range(4)])
    simulation = dust(device, leaves, points, gravity=(0.0, 0.0, 0.0), integrator=integrator, seconds=0.8)
    list(simulation.run())
    x = simulation.state.x.numpy().astype(float)
    distances = x @ normals(40.0 - turns[0], 40.0 - turns[1]).T
    np.testing.assert_allclose(distances[:, 0], distances[:, 1], rtol=0.0, atol=1e-3 * THICKNESS)
    np.testing.assert_allclose(distances, r * np.sin(np.radians(15.0)), rtol=0.02)
    np.testing.assert_allclose(x[:, 0], points[:, 0], atol=1e-12)
    assert simulation.report()["frames"][-1]["pinched"] == 4
    assert simulation.report()["summary"]["solid_depth"] == 0.0


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_particle_between_faces_is_never_flung(device: str, integrator: str) -> None:
    """Its displacement in a step is at most that of the faces there, while they close, wait and open again; at the
    thickness from both it is let go."""
    leaves = [leaf(1.0, 40.0, 25.0, 0.3), leaf(-1.0, 40.0, 25.0, 0.3)]
    r = THICKNESS / np.sin(np.radians(40.0))
    points = np.array([(float(x), 0.0, r) for x in range(4)])
    simulation = dust(device, leaves, points, gravity=(0.0, 0.0, 0.0), integrator=integrator, seconds=2.2, fps=60.0)
    steps = positions_of_frames(simulation)
    per_step = r * np.radians(50.0) * H  # while they close at 50 degrees a second; they open at 45
    moved = np.linalg.norm(np.diff(steps, axis=0), axis=2)
    assert moved.max() <= 1.05 * per_step
    assert simulation.report()["summary"]["pinched"] == 4
    assert simulation.report()["frames"][-1]["pinched"] == 0


@pytest.mark.parametrize("friction", [0.0, 0.3])
def test_two_balls_hold_a_particle_on_their_surface_of_minima(device: str, friction: float) -> None:
    """Off the line of centers, with different radii. Caught with a quarter of the thickness to spare, it moves by at
    most that besides the motion of the balls."""
    near, far, overlap = 0.05, 0.08, 0.01
    start, end = near + far + 0.02, near + far - overlap
    path = along(lambda t: np.array((-min(2.0 * t, 1.0) * (start - end), 0.0, 0.0)), 0.5, 2)
    balls = [
        {"type": "sphere", "radius": near, "friction": friction},
        {"type": "sphere", "radius": far, "translation": (start, 0.0, 0.0), "friction": friction, "motion": path},
    ]
    angles = np.radians([0.0, 4.0, 8.0, 12.0])
    points = (near + THICKNESS) * np.column_stack([np.cos(angles), np.sin(angles), 0.0 * angles])
    simulation = dust(device, balls, points, gravity=(0.0, 0.0, 0.0), seconds=0.6, fps=60.0)
    steps = positions_of_frames(simulation)
    x = steps[-1]
    to_near = np.linalg.norm(x, axis=1) - near
    to_far = np.linalg.norm(x - (end, 0.0, 0.0), axis=1) - far
    assert np.all(to_near < 0.0)
    np.testing.assert_allclose(to_near, to_far, rtol=0.0, atol=1e-3 * THICKNESS)
    moved = np.linalg.norm(np.diff(steps, axis=0), axis=2)
    assert moved.max() <= (start - end) / 0.5 * H + 0.25 * THICKNESS
    assert simulation.report()["frames"][-1]["pinched"] == 4


@pytest.mark.parametrize("layers", [2, 3])
def test_layers_between_plates_keep_their_order(device: str, layers: int) -> None:
    """Plates close until they overlap by 2 mm, and open again."""

    def plate(side: float) -> dict[str, Any]:
        way = 0.011
        keys = [(0.0, 0.0), (0.5, -side * way), (0.7, -side * way), (1.2, 0.0)]
        motion = [{"time": time, "translation": (0.0, 0.0, z)} for time, z in keys]
        place = {"size": (1.0, 1.0, 0.2), "translation": (0.0, 0.0, side * 0.11), "friction": 0.3}
        return {"type": "box", **place, "motion": {"keyframes": motion}}

    shape = {"type": "grid", "size": (0.2, 0.2), "resolution": (9, 9)}
    sheets = [
        {"name": f"sheet_{k}", "shape": shape, "fabric": CLOTH, "translation": (0.003 * k, 0.0, 0.002 * k - 0.006)}
        for k in range(layers)
    ]
    scene = Scene(
        time={"frames": 40, "fps": 30.0},
        cloth=sheets,
        solids=[plate(-1.0), plate(1.0)],
        filters=[{"type": "self_contact", "thickness": THICKNESS}],
    )
    simulation = Simulation(scene, device)
    for frame in simulation.run():
        # A sheet is 3 mm beside the one below it, over whose rim its own may hang.
        z = frame.positions[:, 2].reshape(layers, 9, 9)[:, 1:-1, 1:-1]
        assert np.all(np.diff(z, axis=0) > 0.0)
    report = simulation.report()
    assert report["summary"]["ok"]
    assert report["summary"]["pinched"] == 81 * layers
    assert report["frames"][-1]["pinched"] == 0
    assert report["summary"]["max_strain"] < 0.25  # what edges may stretch in contact


def jaw(side: float, overlap: float, **settings: Any) -> dict[str, Any]:
    """A box of 12 cm that closes along x until two of them overlap, waits, and opens again."""
    way = -side * (0.06 + 0.5 * overlap)
    keys = [(0.1, 0.0), (0.6, way), (0.8, way), (1.3, 0.0)]
    motion = [{"time": time, "translation": (x, 0.0, 0.0)} for time, x in keys]
    place = {"size": (0.12, 0.12, 0.12), "translation": (side * 0.12, 0.0, 0.0), "friction": 0.3}
    return {"type": "box", **place, "motion": {"keyframes": motion}, **settings}


def test_a_pinched_particle_keeps_its_faces_beside_a_rim(device: str) -> None:
    """15 mm deep inside both boxes, and 1 or 3 mm from their sides: the face that it came from holds it, not the
    nearest one. In the middle, x = 0, by symmetry."""
    boxes = [jaw(side, 0.03) for side in (-1.0, 1.0)]
    points = np.array([(0.0, y, z) for y in (0.0, 0.057) for z in (0.0, 0.059)])
    simulation = dust(device, boxes, points, gravity=(0.0, 0.0, 0.0), seconds=0.7)
    list(simulation.run())
    x = simulation.state.x.numpy().astype(float)
    np.testing.assert_allclose(x, points, rtol=0.0, atol=1e-3 * THICKNESS)
    assert simulation.report()["frames"][-1]["pinched"] == 4


@pytest.mark.parametrize("friction", [0.0, 0.3])
@pytest.mark.parametrize("columns", [15, 17], ids=["rims at vertices", "corners inside triangles"])
@pytest.mark.parametrize("overlap", [0.0, 0.01, 0.03])
def test_boxes_whose_faces_take_part_hold_cloth_in_the_middle(
    device: str, overlap: float, columns: int, friction: float
) -> None:
    """The sheet between them is the plane of symmetry: it need not move, and does so by less than the thickness until
    it is let go, and slowly then."""
    sheet = {"type": "grid", "size": (0.14, 0.14), "resolution": (columns, columns)}
    scene = Scene(
        time={"frames": 42, "fps": 30.0},
        gravity=(0.0, 0.0, 0.0),
        cloth=[{"shape": sheet, "rotation": (0.0, 90.0, 0.0), "fabric": CLOTH}],
        solids=[jaw(side, overlap, friction=friction) for side in (-1.0, 1.0)],
        filters=[{"type": "self_contact"}],
    )
    simulation = Simulation(scene, device, audit="step")
    assert len(simulation.solids.contact_surfaces) == 2
    x = positions_of_frames(simulation)
    inside = np.abs(x[0, :, 1:]).max(axis=1) < 0.058
    assert np.abs(x[:25, inside] - x[0, inside]).max() < THICKNESS
    assert np.linalg.norm(np.diff(x, axis=0), axis=2).max() < 5.0 * THICKNESS
    report = simulation.report()
    summary = report["summary"]
    assert summary["intersections"] == 0
    assert summary["max_strain"] < 0.25  # what edges may stretch in contact
    assert summary["pinched"] >= 100
    assert report["frames"][-1]["pinched"] == 0
    assert sum(frame["steps"] for frame in report["frames"]) <= 3 * 42


def test_cloth_under_a_box_that_sinks_into_the_floor_is_not_torn(device: str) -> None:
    """The surface between the two ends with a step of 15 mm at the rims of the box, more than a cell of the cloth is
    wide: cloth there stays behind both faces, but off that surface."""
    way = (0.0, 0.0, -0.09)
    motion = [{"time": 0.1}, {"time": 0.6, "translation": way}, {"time": 0.8, "translation": way}, {"time": 1.3}]
    box = {"type": "box", "size": (0.15, 0.15, 0.1), "translation": (0.0, 0.0, 0.112)}
    scene = Scene(
        time={"frames": 42, "fps": 30.0},
        cloth=[{"shape": {"type": "grid", "size": (0.4, 0.4), "resolution": (31, 31)}, "translation": (0, 0, 0.002)}],
        solids=[{"type": "plane"}, {**box, "motion": {"keyframes": motion}}],
        filters=[{"type": "self_contact"}],
    )
    simulation = Simulation(scene, device, audit="step")
    lowest = min(float(frame.positions[:, 2].min()) for frame in simulation.run())
    summary = simulation.report()["summary"]
    assert lowest == pytest.approx(-0.014, abs=1e-3)  # the box is 28 mm deep, and the middle of the sheet half as much
    assert summary["intersections"] == 0
    assert summary["max_strain"] < 0.25
    assert simulation.report()["frames"][-1]["pinched"] == 0
