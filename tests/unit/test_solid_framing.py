"""Framing of pictures with solids: the camera, the floor and the ground follow from where cloth and solids are."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.reference.solid_scenes import SMALL, cylinder, flat, is_blue, scene, solid, sphere, square, upright
from toile.model.frame import Frame, SolidSurface, Surface
from toile.outputs.picture import Picture
from toile.render.camera import GROUND_GAP, MARGIN, Camera
from toile.render.framing import FLOOR_GAP, Framing, FramingPlanner
from toile.render.raytracer import RayTracer


def plan(surface: Surface, frames: list[Frame] | None = None, **settings: object) -> Framing:
    frames = frames or [Frame(0, 0.0, surface.rest, surface.rest)]
    planner = FramingPlanner(surface)
    for frame in frames:
        planner.add(frame)
    shown = [(frame.positions, surface.solids_at(frame)) for frame in frames]
    return planner.plan(lambda: shown, Picture(**settings).camera)


def reach(points: np.ndarray, camera: Camera) -> float:
    """How far the points come towards the edge of a picture of 4 : 3, which is at 1."""
    right, up, forward = ((points - camera.position) @ camera.axes().T).T
    slope = math.tan(math.radians(15.0))
    return max(np.abs(right / (forward * slope * 4.0 / 3.0)).max(), np.abs(up / (forward * slope)).max())


def test_a_solid_like_the_cloth_is_framed_with_it() -> None:
    ball = solid(sphere(0.4, 12), (0.0, 0.0, 0.4))
    camera = plan(scene(flat(0.9), ball)).camera
    assert reach(np.concatenate([flat(0.9), ball.rest]), camera) == pytest.approx(MARGIN, rel=1e-6)


@pytest.mark.parametrize(
    "large",
    [square(flat(0.0, 4.0)), solid(sphere(50.0, 12), (0.0, 0.0, -50.0)), solid(sphere(0.3, 12), (40.0, 0.0, 0.3))],
    ids=["a floor", "a planet", "a ball far away"],
)
def test_what_is_much_larger_or_far_away_does_not_shrink_the_cloth(large: SolidSurface) -> None:
    """The camera is the one of the cloth alone."""
    alone, together = plan(scene(flat(0.5))).camera, plan(scene(flat(0.5), large)).camera
    np.testing.assert_array_equal(together.position, alone.position)
    np.testing.assert_array_equal(together.look_at, alone.look_at)


def test_a_ball_that_flies_past_is_framed_while_it_is_near() -> None:
    ball = solid(sphere(0.2, 12), moves=True)
    surface = scene(flat(0.5), ball)
    places = [ball.rest + np.array([0.0, y, 0.5]) for y in (-30.0, -1.0, 1.0, 30.0)]
    frames = [Frame(k, k / 30.0, surface.rest, surface.rest, solids=(p,)) for k, p in enumerate(places)]
    camera = plan(surface, frames).camera
    assert reach(np.concatenate([places[1], places[2], flat(0.5)]), camera) == pytest.approx(MARGIN, rel=1e-6)
    assert reach(places[3], camera) > 1.0


def test_solids_alone_are_framed() -> None:
    ball = solid(sphere(0.3, 12), (0.0, 0.0, 0.3))
    assert reach(ball.rest, plan(scene(None, ball, square(flat(0.0, 9.0)))).camera) == pytest.approx(MARGIN, rel=1e-6)


@pytest.mark.parametrize(
    ("solids", "ground"),
    [
        ([solid(cylinder(0.2, 0.5))], 0.0),
        ([solid(cylinder(0.2, 0.5), (0, 0, 0.2))], 0.0),
        ([solid(cylinder(0.2, 0.5), (0, 0, -0.2))], -0.2),
        ([solid(sphere(0.25, 12), (0, 0, 0.25))], 0.0),
        ([solid(cylinder(0.2, 0.5)), solid(sphere(0.1, 12), (0.3, 0, -0.4))], -0.5),
    ],
    ids=["stands on it", "hangs above it", "stands lower", "a ball lies on it", "the lowest counts"],
)
def test_the_ground_is_under_the_solids(solids: list[SolidSurface], ground: float) -> None:
    assert plan(scene(flat(0.6), *solids)).ground == pytest.approx(ground, abs=1e-12)


def test_the_ground_is_under_a_solid_wherever_it_goes() -> None:
    post = solid(cylinder(0.2, 0.5), moves=True)
    surface = scene(flat(0.6), post)
    frames = [Frame(k, k / 30.0, surface.rest, surface.rest, solids=(post.rest - [0, 0, z],)) for k, z in
              enumerate((0.0, 0.7, 0.1))]  # fmt: skip
    assert plan(surface, frames).ground == pytest.approx(-0.7)


def test_a_wide_flat_solid_under_everything_is_the_ground() -> None:
    surface = scene(flat(0.5), solid(cylinder(0.2, 0.4), (0, 0, 0.1)), square(flat(0.1, 4.0)))
    found = plan(surface)
    assert found.floor == {1}
    # lower by less than a pixel of the standard picture
    pixel = 2.0 * found.camera.distance * math.tan(math.radians(15.0)) / 768
    assert 0.1 - pixel < found.ground < 0.1 and found.ground == pytest.approx(0.1 - FLOOR_GAP * found.camera.distance)


@pytest.mark.parametrize(("size", "is_floor"), [(40.0, True), (1.0, False)], ids=["a wall", "a leg"])
def test_a_wall_may_go_on_under_the_floor(size: float, is_floor: bool) -> None:
    """What is about as large as the cloth and reaches under a level solid shows that one can look under it."""
    found = plan(scene(flat(0.5), square(flat(0.0, 4.0)), square(upright(0.7, size))))
    assert found.floor == ({0} if is_floor else set())


@pytest.mark.parametrize(
    ("cloth", "top"),
    [
        (flat(0.5), square(flat(0.0, 1.2))),
        (upright(0.0) + np.array([0.0, 0.0, 0.3]), square(flat(0.2, 4.0))),
        (flat(0.5), square(flat(0.0, 4.0)[::-1])),
        (flat(0.5), square(flat(0.0, 4.0), moves=True)),
        (flat(0.5), square(upright(0.5, 4.0))),
    ],
    ids=["as small as the cloth", "cloth hangs over its side", "faces down", "moves", "a wall"],
)
def test_other_flat_solids_are_drawn_above_the_ground(cloth: np.ndarray, top: SolidSurface) -> None:
    found = plan(scene(cloth, top))
    assert not found.floor
    lowest = min(cloth[:, 2].min(), top.rest[:, 2].min())
    assert found.ground <= lowest
    if np.ptp(top.rest[:, 2]) == 0.0 and top.rest[0, 1] < top.rest[2, 1]:  # seen from above: kept apart
        assert found.ground <= top.rest[0, 2] - 0.999 * GROUND_GAP * found.camera.distance


def test_a_large_solid_is_seen_from_outside_only(tmp_path: Path) -> None:
    """A wall between the camera and the cloth that faces the cloth; then one that faces the camera, which hides it."""
    towards_cloth = upright(-0.8, 40.0)[::-1]  # [m]  in front of the cloth; the camera stands at y < -2
    for wall, hidden in ((towards_cloth, False), (towards_cloth[::-1], True)):
        surface = scene(upright(0.0) + np.array([0.0, 0.0, 1.0]), square(wall))
        found = plan(surface, **SMALL)
        assert found.backdrop == {0} and found.camera.position[1] < -2.0
        image = RayTracer(surface, 64, 48, 1).draw((surface.rest, [wall]), found).astype(int)
        assert (is_blue(image).sum() == 0) == hidden
