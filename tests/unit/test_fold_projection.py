"""The map of depths of fold_projection, and its effect on points near one, two or no solids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from toile.post.fold_projection import BEND, REST, FoldProjection
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

SPHERE = {"type": "sphere", "radius": 0.3}
POST = FoldProjection(epsilon=1e-3, tau=1e-2, deepest=5e-3)


@st.composite
def maps(draw: st.DrawFn) -> FoldProjection:
    tau = 10.0 ** draw(st.floats(-4.0, -0.5))
    share, ratio = draw(st.floats(0.0, 0.9)), draw(st.floats(0.0, 20.0))
    return FoldProjection(epsilon=share * tau, tau=tau, deepest=ratio * tau)


@given(maps(), st.lists(st.floats(-30.0, 2.0), min_size=2, max_size=30))
def test_the_map_is_strictly_increasing(post: FoldProjection, shares: list[float]) -> None:
    """Distances that differ, from 30 tau inside to beyond tau, stay in order; differences above rounding of tau.

    In the tail the slope is at least about REST^2/depth^2, so distances that differ by 1e-9 tau stay distinct.
    """
    phi = np.unique(np.round(shares, 6)) * post.tau
    assert (np.diff(post.target(phi)) > 0.0).all()


@given(maps(), st.floats(0.0, 1e6))
def test_the_map_is_the_identity_beyond_tau_and_above_epsilon(post: FoldProjection, far: float) -> None:
    """f(tau) = tau, the identity above, above epsilon everywhere, and nearly epsilon at the deepest."""
    band = post.tau - post.epsilon
    tau, deepest, outside, inside = (
        float(post.target(np.array([value]))[0]) for value in (post.tau, -post.deepest, post.tau + far, -far)
    )
    assert tau == pytest.approx(post.tau, rel=1e-14)
    assert outside == post.tau + far
    assert inside > post.epsilon - 1e-15 * post.tau
    assert deepest == pytest.approx(post.epsilon + REST * band, rel=1e-12)
    assert deepest < post.epsilon + 0.1 * band


@given(maps(), st.floats(-30.0, 2.0))
def test_the_map_never_moves_inwards(post: FoldProjection, share: float) -> None:
    phi = np.array([share * post.tau])
    assert post.target(phi)[0] >= phi[0] - 1e-15 * post.tau


@given(maps())
def test_the_map_has_no_crease(post: FoldProjection) -> None:
    """The slope is 1 on both sides of tau and continuous at the other joints, by differences over d = 1e-5 band.

    The second derivative of the parabola is (1 - m)/bend, so slopes over d differ by 1e-5/BEND = 1e-4; those of the
    hyperbola, 2 m^2/(REST band) at its start, by 1e-3.
    """
    band = post.tau - post.epsilon
    d = 1e-5 * band
    for joint in (post.tau, post.tau - BEND * band, -post.deepest):
        f = post.target(np.array([joint - d, joint, joint + d]))
        below, above = np.diff(f) / d
        assert below == pytest.approx(above, abs=2e-3)
        if joint == post.tau:
            assert above == pytest.approx(1.0, abs=1e-9) and below == pytest.approx(1.0, abs=1e-4)


def test_the_depths_of_a_frame_share_the_band_uniformly() -> None:
    """Between the bend and the deepest point f is linear, with a slope close to the maximum of a uniform map."""
    phi = np.linspace(-POST.deepest, POST.tau - BEND * (POST.tau - POST.epsilon), 50)
    slopes = np.diff(POST.target(phi)) / np.diff(phi)
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-10)
    most = (POST.tau - POST.epsilon) / (POST.tau + POST.deepest)
    assert 0.85 * most < slopes[0] < most


def test_tau_must_exceed_epsilon() -> None:
    with pytest.raises(ValidationError, match=r"below tau = 0\.001"):
        FoldProjection(epsilon=1e-3, tau=1e-3)


def finish(device: str, solids: list[dict[str, Any]], x: np.ndarray, time: float = 0.0) -> np.ndarray:
    """Positions after the post-process."""
    simulation = Simulation(Scene(solids=solids, post=[POST]), device)
    before = x.copy()
    result = simulation.parts.post[0].apply(x, time)
    assert np.array_equal(x, before)  # the input is not changed
    return result


def shell(count: int = 500, thickness: float = 0.04, seed: int = 2) -> np.ndarray:
    """Points on both sides of the sphere."""
    random = np.random.default_rng(seed)
    out = random.normal(size=(count, 3))
    r = 0.3 + random.uniform(-thickness, thickness, count)
    return out / np.linalg.norm(out, axis=1)[:, None] * r[:, None]


def test_points_near_a_sphere_move_along_its_normal(device: str) -> None:
    """Points move along the normal to the distance of the map, to rounding; points beyond tau are not changed."""
    x = shell()
    r = np.linalg.norm(x, axis=1)
    moved = finish(device, [SPHERE], x)
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1) - 0.3, POST.target(r - 0.3), rtol=0, atol=1e-14)
    np.testing.assert_allclose(np.cross(moved, x), 0.0, atol=1e-14)
    outside = r - 0.3 > POST.tau
    assert 0.2 < outside.mean() < 0.8 and np.array_equal(moved[outside], x[outside])


def test_a_moving_solid_has_its_pose_at_the_time_of_the_frame(device: str) -> None:
    motion = {"keyframes": [{"time": 0.0}, {"time": 1.0, "translation": [0.0, 2.0, 0.0]}]}
    x, way = shell(), np.array([0.0, 2.0, 0.0])
    there = finish(device, [{**SPHERE, "motion": motion}], x + way, time=1.0)
    np.testing.assert_allclose(there - way, finish(device, [SPHERE], x), rtol=0, atol=1e-14)


def test_no_solids_and_no_points(device: str) -> None:
    x = shell()
    assert np.array_equal(finish(device, [], x), x)
    assert finish(device, [SPHERE], np.zeros((0, 3))).shape == (0, 3)


def test_points_inside_two_solids_are_not_moved(device: str) -> None:
    """A plane through the center of a sphere: points below and inside are pinched; the others are moved."""
    x = shell()
    moved = finish(device, [SPHERE, {"type": "plane"}], x)
    r, z = np.linalg.norm(x, axis=1) - 0.3, x[:, 2]
    pinched = (r < 0.0) & (z < 0.0)
    assert pinched.any() and np.array_equal(moved[pinched], x[pinched])
    above = (r < POST.tau) & (z > 0.05)
    assert (np.linalg.norm(moved[above], axis=1) > 0.3).all()


def test_points_pinched_within_a_level_set_are_not_moved(device: str) -> None:
    """Points inside two of its parts at once; points inside only one of them are moved out."""
    centers = np.array([[-0.08, 0.0, 0.0], [0.08, 0.0, 0.0]])
    parts = [{"type": "sphere", "radius": 0.1, "translation": center.tolist()} for center in centers]
    x = np.random.default_rng(3).uniform(-0.15, 0.15, (4000, 3))
    depth = np.stack([np.linalg.norm(x - center, axis=1) - 0.1 for center in centers])
    moved = finish(device, [{"type": "level_set", "cell": 0.01, "parts": parts}], x)
    both = (depth < -0.005).all(axis=0)
    assert both.sum() > 5 and np.array_equal(moved[both], x[both])
    one = (depth[0] < -0.005) & (depth[0] > -0.03) & (depth[1] > 0.05)
    assert one.sum() > 20
    out = np.linalg.norm(moved[one] - centers[0], axis=1) - 0.1
    np.testing.assert_allclose(out, POST.target(depth[0, one]), atol=5e-4)  # the error of a sphere on a grid of 1 cm


def test_points_in_a_corner_end_clear_of_both_solids(device: str) -> None:
    """Near both walls of a corner of 120 degrees, points end at their distance from the closer wall, clear of the
    other."""
    walls = [{"type": "plane", "rotation": [angle, 0.0, 0.0]} for angle in (30.0, -30.0)]
    normals = np.array([[0.0, -0.5, np.sqrt(0.75)], [0.0, 0.5, np.sqrt(0.75)]])
    random = np.random.default_rng(4)
    x = np.column_stack(
        [random.uniform(-1, 1, 400), random.uniform(-0.02, 0.02, 400), random.uniform(-0.01, 0.03, 400)]
    )
    before, after = x @ normals.T, finish(device, walls, x) @ normals.T
    pinched = (before < 0.0).all(axis=1)
    target = POST.target(before.min(axis=1))
    assert pinched.any() and (~pinched).sum() > 200
    np.testing.assert_allclose(after.min(axis=1)[~pinched], target[~pinched], atol=1e-4)


def test_points_in_a_narrow_gap_are_not_worse_off(device: str) -> None:
    """Between two planes 8 mm apart no point can be 9 mm away from both: no smallest distance decreases."""
    gap = 8e-3
    upper = {"type": "plane", "rotation": [180.0, 0.0, 0.0], "translation": [0.0, 0.0, gap]}
    x = np.column_stack([np.zeros((50, 2)), np.linspace(-2e-3, gap + 2e-3, 50)])
    moved = finish(device, [{"type": "plane"}, upper], x)
    phi, phi_out = (np.minimum(of[:, 2], gap - of[:, 2]) for of in (x, moved))
    target = POST.target(phi)
    assert (np.abs(phi_out - target) <= np.abs(phi - target) + 1e-15).all()
    assert (phi_out[phi < 0.0] > phi[phi < 0.0]).all()


@pytest.mark.parametrize("integrator", ["implicit_bdf2", "implicit_euler"])
def test_the_post_process_does_not_affect_the_simulation(device: str, integrator: str) -> None:
    """States and certificates are the same with and without it, to the last bit; frames differ, and lie in front."""
    fields: dict[str, Any] = {
        "time": {"frames": 12, "fps": 30.0, "max_step": 1.0 / 120.0},
        "cloth": [{"shape": {"type": "grid", "size": (0.6, 0.6), "resolution": (9, 9)}, "translation": (0, 0, 0.33)}],
        "solids": [SPHERE],
        "filters": [{"type": "forecast", "thickness": 0.0, "relaxation": 0.05}],
        "integrator": integrator,
    }
    with_post, without = (Simulation(Scene(**fields, post=post), device) for post in ([POST], []))
    for one, two in zip(with_post.run(), without.run(), strict=True):
        assert np.array_equal(with_post.state.x.numpy(), without.state.x.numpy())
        assert np.array_equal(one.velocities, two.velocities)
    distance, plain = (np.linalg.norm(frame.positions, axis=1) - 0.3 for frame in (one, two))
    assert plain.min() < POST.epsilon < distance.min()
    assert with_post.report()["summary"]["solid_depth"] == without.report()["summary"]["solid_depth"]
