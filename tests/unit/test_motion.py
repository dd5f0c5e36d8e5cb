"""Keyframed motion against closed forms: positions and velocities of straight lines, cubics and turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.interpolate import PchipInterpolator
from scipy.spatial.transform import Rotation

from toile.model.motion import Motion, rotation_matrix

POINTS = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 2.0, 0.5], [0.0, -2.0, -0.5]])  # mean 0


def motion(*keys: dict, **fields: object) -> Motion:
    return Motion.model_validate({"keyframes": keys, **fields})


def test_linear_translation_is_a_straight_line() -> None:
    move = motion({"time": 1}, {"time": 3, "translation": (4, 0, 2)}, interpolation="linear")
    x, v = move.move(POINTS, 1.5)
    np.testing.assert_allclose(x, POINTS + np.array([1, 0, 0.5]), atol=1e-15)
    np.testing.assert_allclose(v, np.broadcast_to((2, 0, 1), POINTS.shape), atol=1e-15)


def test_smooth_translation_between_two_keys_is_the_cubic_at_rest_at_both() -> None:
    """p(s) = L (3 s^2 - 2 s^3), dp/dt = 6 L s (1 - s) / T"""
    move = motion({"time": 0}, {"time": 2, "translation": (0, 0, 1)})
    for time in np.linspace(0, 2, 9):
        s = time / 2
        x, v = move.move(POINTS, time)
        np.testing.assert_allclose(x[:, 2] - POINTS[:, 2], 3 * s**2 - 2 * s**3, atol=1e-15)
        np.testing.assert_allclose(v[:, 2], 6 * s * (1 - s) / 2, atol=1e-15)


def test_smooth_translation_is_the_monotone_cubic() -> None:
    """At uneven keyframes, against an independent implementation between inner ones; it is at rest at both ends."""
    times = [0.0, 0.3, 1.0, 1.4, 3.0]
    values = np.random.default_rng(1).normal(size=(5, 3))
    move = motion(*({"time": t, "translation": tuple(x)} for t, x in zip(times, values, strict=True)))
    curve = PchipInterpolator(times, values)
    for time in np.linspace(0.3, 1.399, 40):
        x, v = move.move(np.zeros((1, 3)), time)
        np.testing.assert_allclose(x[0], curve(time), atol=1e-13)
        np.testing.assert_allclose(v[0], curve(time, 1), atol=1e-12)
    assert not move.move(np.zeros((1, 3)), 0.0)[1].any()


def test_smooth_motion_rests_between_equal_keyframes() -> None:
    """Rest, motion, rest: no overshoot before, during or after."""
    keys = ({"time": t, "translation": (x, 0, 0)} for t, x in ((0, 0), (1, 0), (2, 1), (3, 1)))
    move = motion(*keys)
    path = np.array([move.move(np.zeros((1, 3)), time)[0][0, 0] for time in np.linspace(0, 3, 301)])
    assert (path[:101] == 0).all() and (path[200:] == 1).all()
    assert (np.diff(path[100:201]) > 0).all()


def test_motion_is_relative_to_the_start_of_the_constraint() -> None:
    """From the pose at one time to that at another, independent of the motion before."""
    move = motion({"time": 0, "translation": (5, 0, 0)}, {"time": 1, "rotation": (0, 0, 90)}, center=(0, 0, 0))
    there = move.move(POINTS, 0.4)[0]
    x, v = move.carry(there, 0.4, 0.9)
    expected_x, expected_v = move.move(POINTS, 0.9)
    np.testing.assert_allclose(x, expected_x, atol=1e-14)
    np.testing.assert_allclose(v, expected_v, atol=1e-13)


def test_still_before_the_first_key_and_after_the_last() -> None:
    move = motion({"time": 1, "translation": (1, 0, 0)}, {"time": 2, "translation": (2, 0, 0)}, interpolation="linear")
    for time, shift in ((-5.0, 1.0), (0.999, 1.0), (2.0, 2.0), (7.0, 2.0)):
        x, v = move.move(POINTS, time)
        np.testing.assert_allclose(x, POINTS + np.array([shift, 0, 0]), atol=1e-15)
        assert not v.any()


def test_one_keyframe_is_a_displacement() -> None:
    x, v = motion({"time": 0, "translation": (1, 2, 3), "rotation": (0, 0, 90)}).move(POINTS, 5.0)
    np.testing.assert_allclose(x[0], (1, 3, 3), atol=1e-15)
    assert not v.any()


def test_linear_rotation_turns_at_a_constant_rate() -> None:
    """Two turns in one second about z: x = (cos wt, sin wt), v = w (-sin wt, cos wt), w = 4 pi."""
    move = motion({"time": 0}, {"time": 1, "rotation": (0, 0, 720)}, interpolation="linear")
    w = 4 * np.pi
    for time in (0.0, 0.1, 0.37, 0.9):
        x, v = move.move(POINTS, time)
        np.testing.assert_allclose(x[0], (np.cos(w * time), np.sin(w * time), 0), atol=1e-14)
        np.testing.assert_allclose(v[0], (-w * np.sin(w * time), w * np.cos(w * time), 0), atol=1e-13)


def test_rotation_is_about_the_center() -> None:
    turn = {"time": 0, "rotation": (0, 0, 180)}
    np.testing.assert_allclose(motion(turn, center=(1, 0, 0)).move(POINTS, 0)[0][0], (1, 0, 0), atol=1e-15)
    np.testing.assert_allclose(motion(turn).move(POINTS + 3, 0)[0][0], (2, 3, 3), atol=1e-15)  # mean of the points


@given(st.integers(0, 10_000))
def test_velocity_is_the_derivative_of_position(seed: int) -> None:
    """Rotation about a changing axis; the error of a central difference over 2e-5 s is about 1e-10 third
    derivatives."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.uniform(0.2, 1.0, 4))
    keys = [
        {"time": t, "translation": tuple(random.normal(size=3)), "rotation": tuple(random.normal(scale=120.0, size=3))}
        for t in times
    ]
    move = motion(*keys, interpolation="smooth")
    time, interval = random.uniform(times[0], times[-1] - 1e-4), 1e-5
    velocity = move.move(POINTS, time)[1]
    difference = (move.move(POINTS, time + interval)[0] - move.move(POINTS, time - interval)[0]) / (2 * interval)
    np.testing.assert_allclose(velocity, difference, atol=2e-5)


@given(st.integers(0, 10_000), st.sampled_from([1e-9, 1e-5, 1e-4, 1.0, 6.0]))
def test_rotation_matrix_agrees_with_scipy(seed: int, size: float) -> None:
    vector = size * np.random.default_rng(seed).normal(size=3)
    np.testing.assert_allclose(rotation_matrix(vector), Rotation.from_rotvec(vector).as_matrix(), atol=1e-14)


@pytest.mark.parametrize(
    "keys", [(), ({"time": 1}, {"time": 1}), ({"time": 1}, {"time": 0}), ({"time": float("nan")},)]
)
def test_invalid_keyframes_are_refused(keys: tuple) -> None:
    with pytest.raises(ValidationError):
        motion(*keys)
