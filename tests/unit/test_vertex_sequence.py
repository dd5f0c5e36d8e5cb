"""Vertex sequences against closed forms, curves of SciPy and difference quotients; jumps against a slow count."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicHermiteSpline, interp1d

from toile.errors import InputError
from toile.model import solid_shapes as shapes
from toile.model.motion import Motion
from toile.model.solid_mesh import SolidMesh, check_surface
from toile.model.vertex_sequence import VertexSequence, motion_teleports, sequence_for

BOX = check_surface(*shapes.box((1.0, 1.0, 1.0)))
DIAGONAL = np.sqrt(3.0)
RANDOM = np.random.default_rng(3).normal(size=(7, 5, 3))


def sequence(
    positions: np.ndarray, interpolation: Literal["linear", "smooth"] = "smooth", fps: float = 25.0, start: float = 2.0
) -> VertexSequence:
    return VertexSequence(positions, fps, start, interpolation)


def shifted(*shifts: float) -> np.ndarray:
    """Frames of the box, moved along x."""
    return np.array([BOX.positions + np.array([shift, 0, 0]) for shift in shifts])


@pytest.mark.parametrize("interpolation", ["linear", "smooth"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_sequence_passes_through_its_frames(interpolation: Literal["linear", "smooth"], kind: type) -> None:
    moves = sequence(RANDOM.astype(kind), interpolation)
    for frame in range(7):
        x, v = moves.at(2.0 + frame / 25.0)
        np.testing.assert_allclose(x, RANDOM.astype(kind)[frame], atol=1e-12)
        assert x.dtype == v.dtype == np.float64


def test_a_linear_sequence_is_straight_between_frames() -> None:
    times = 2.0 + np.arange(7) / 25.0
    line = interp1d(times, RANDOM, axis=0)
    for time in np.linspace(times[0], times[-1] - 1e-6, 50):
        x, v = sequence(RANDOM, "linear").at(time)
        np.testing.assert_allclose(x, line(time), atol=1e-12)
        k = int((time - 2.0) * 25.0)
        np.testing.assert_allclose(v, 25.0 * (RANDOM[k + 1] - RANDOM[k]), atol=1e-12)


def test_smooth_is_the_hermite_curve_with_central_rates() -> None:
    times = 2.0 + np.arange(7) / 25.0
    rates = np.zeros_like(RANDOM)
    rates[1:-1] = (RANDOM[2:] - RANDOM[:-2]) / (times[2:] - times[:-2])[:, None, None]
    curve = CubicHermiteSpline(times, RANDOM, rates, axis=0)
    for time in np.linspace(times[0], times[-1] - 1e-6, 50):
        x, v = sequence(RANDOM).at(time)
        np.testing.assert_allclose(x, curve(time), atol=1e-11)
        np.testing.assert_allclose(v, curve(time, 1), atol=1e-9)


def test_smooth_follows_a_parabola_exactly() -> None:
    """Away from the ends, central differences of a quadratic are its derivative, and a cubic reproduces a quadratic."""
    time = np.arange(8) / 25.0
    path = np.array([1.0, -2.0, 0.5]) * (3.0 + 2.0 * time - 4.9 * time**2)[:, None]
    moves = sequence(path[:, None], start=0.0)
    for t in np.linspace(time[1], time[-2], 17):
        x, v = moves.at(t)
        np.testing.assert_allclose(x[0], np.array([1.0, -2.0, 0.5]) * (3.0 + 2.0 * t - 4.9 * t**2), atol=1e-13)
        np.testing.assert_allclose(v[0], np.array([1.0, -2.0, 0.5]) * (2.0 - 9.8 * t), atol=1e-11)


@given(st.floats(1.9, 2.35))
def test_velocity_of_a_smooth_sequence_is_continuous_and_the_derivative(time: float) -> None:
    """At frames and at both ends too. Accelerations stay below 5e4 m/s^2, so 2e-6 s change a velocity by 0.1 m/s."""
    moves, small = sequence(RANDOM), 1e-6
    before, after = moves.at(time - small), moves.at(time + small)
    np.testing.assert_allclose(moves.at(time)[1], (after[0] - before[0]) / (2 * small), atol=0.05)
    assert np.abs(after[1] - before[1]).max() < 0.1  # a discontinuity would be of the order of 25 * 1


@pytest.mark.parametrize("interpolation", ["linear", "smooth"])
def test_still_before_the_first_frame_and_after_the_last(interpolation: Literal["linear", "smooth"]) -> None:
    moves = sequence(RANDOM, interpolation)
    for time, frame in ((-1.0, 0), (1.999, 0), (2.0 + 6 / 25, 6), (9.0, 6)):
        x, v = moves.at(time)
        np.testing.assert_array_equal(x, RANDOM[frame])
        assert not v.any()
    x[:] = 7.0  # the returned array belongs to the caller
    np.testing.assert_array_equal(moves.at(9.0)[0], RANDOM[6])


def test_one_frame_stands_still() -> None:
    moves = sequence(RANDOM[:1])
    for time in (0.0, 2.0, 3.0):
        x, v = moves.at(time)
        np.testing.assert_array_equal(x, RANDOM[0])
        assert not v.any()


def test_speeds_of_a_constant_motion() -> None:
    """Linear: 3 m/s. Smooth: the first frame from rest to 3 m/s over the same distance has a maximum of 4/3, at 2/3."""
    frames = np.arange(6)[:, None, None] * np.array([0.12, 0.0, 0.0])
    assert sequence(frames, "linear").at(2.0 + 0.5 / 25)[1][0, 0] == pytest.approx(3.0)
    assert sequence(frames).at(2.0 + 2 / 3 / 25)[1][0, 0] == pytest.approx(4.0)


# Fitting to a mesh


def test_frames_have_the_numbering_of_the_mesh_file() -> None:
    positions, triangles = shapes.box((1, 1, 1))
    nine = np.insert(positions, 3, (7, 7, 7), axis=0)
    mesh = check_surface(nine, triangles + (triangles >= 3))
    frames = np.array([nine, nine + 0.1])
    frames[:, 3] = np.nan  # it is not used
    moves = sequence_for(mesh, frames, fps=24.0)
    np.testing.assert_array_equal(moves.positions, np.delete(frames, 3, axis=1))
    assert moves.warnings == ()
    same = sequence_for(mesh, np.delete(frames, 3, axis=1), fps=24.0)
    np.testing.assert_array_equal(same.positions, moves.positions)


def nan_at(frame: int, vertex: int, value: float = np.nan) -> np.ndarray:
    frames = shifted(0, 0.1, 0.2, 0.3)
    frames[frame, vertex, 1] = value
    return frames


ERRORS = {
    "count": (
        np.zeros((4, 9, 3)),
        "the sequence has 9 vertices, but the mesh has 8: they must be the same vertices in the same order. "
        "Export both from one object, without modifiers that change its vertices.",
    ),
    "no frames": (np.zeros((0, 8, 3)), "the sequence has no frames."),
    "shape": (np.zeros((8, 3)), "a sequence must be (frames, vertices, 3), but this one is (8, 3)."),
    "NaN": (
        nan_at(2, 5),
        "frame 2, vertex 5 = (0.7, nan, 0.5): not finite (1 such in 1 frames, counted from 0).",
    ),
    "far": (
        nan_at(3, 0, 1e9),
        "frame 3, vertex 0 = (-0.2, 1e+09, -0.5): farther than 1e+06 m from the origin "
        "(1 such in 1 frames, counted from 0).",
    ),
}


@pytest.mark.parametrize(("frames", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_frames_that_do_not_fit_are_refused(frames: np.ndarray, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        sequence_for(BOX, frames, fps=24.0)
    assert str(caught.value) == expected


def test_a_vertex_count_that_fits_neither_the_file_nor_the_mesh() -> None:
    mesh = check_surface(np.vstack([BOX.positions, [[3, 3, 3]]]), BOX.triangles)
    with pytest.raises(InputError, match=r"^the sequence has 7 vertices, but the mesh has 9 \(8 of them in use\): "):
        sequence_for(mesh, np.zeros((2, 7, 3)), fps=24.0)


def test_a_vertex_is_named_by_its_number_in_the_file() -> None:
    mesh: SolidMesh = check_surface(np.vstack([[[3, 3, 3]], BOX.positions]), BOX.triangles + 1)
    frames = np.array([np.vstack([[[3, 3, 3]], BOX.positions])])
    frames[0, 4] = np.inf
    with pytest.raises(InputError, match=r"^frame 0, vertex 4 = \(inf, inf, inf\): not finite"):
        sequence_for(mesh, frames, fps=24.0)


@pytest.mark.parametrize(("fps", "start"), [(0.0, 0.0), (-24.0, 0.0), (np.nan, 0.0), (np.inf, 0.0), (24.0, np.nan)])
def test_invalid_frame_rates_are_refused(fps: float, start: float) -> None:
    with pytest.raises(InputError, match=r"fps must be > 0 \[1/s\] and both finite\.$"):
        sequence_for(BOX, shifted(0, 1), fps=fps, start=start)


TELEPORT = (
    "teleport at frame {}: the solid moves {} m from one frame to the next and is only {} m large. "
    "Cloth in its path may be left behind. Add frames in between, or start it there."
)


def test_a_jump_is_reported_and_a_fast_move_is_not() -> None:
    """1.73 m is the diagonal: 1.7 m in a frame is fast, 5 m is a teleport."""
    assert sequence_for(BOX, shifted(0, 1.7, 3.4), fps=24.0).warnings == ()
    messages = sequence_for(BOX, shifted(0, 1.7, 6.7, 6.8, 4.5), fps=24.0).warnings
    assert messages == (TELEPORT.format("2, 4", 5, 1.73),)


def test_a_fast_rotation_is_no_jump() -> None:
    frames = np.array([BOX.positions, -BOX.positions, BOX.positions])
    assert sequence_for(BOX, frames, fps=24.0).warnings == ()


def test_other_units_and_a_single_frame_are_reported() -> None:
    assert sequence_for(BOX, 100 * shifted(0, 0), fps=24.0).warnings == (
        "the first frame is 100 times as large as the mesh: are both in meters? Set scale.",
    )
    assert sequence_for(BOX, shifted(0), fps=24.0).warnings == (
        "the sequence has one frame, so the solid does not move.",
    )


# Keyframes


def keyed(*keys: tuple[float, float], interpolation: str = "linear") -> Motion:
    frames = [{"time": time, "translation": (x, 0, 0)} for time, x in keys]
    return Motion.model_validate({"keyframes": frames, "interpolation": interpolation})


def test_keyframes_that_jump_are_reported_with_the_frame() -> None:
    """5 m within a millisecond at 0.5 s, at 24 frames a second: between frames 12 (0.5 s) and 13."""
    jump = keyed((0, 0), (0.501, 0), (0.502, 5), (1, 5))
    assert motion_teleports(jump, 1.0, 1 / 24) == [TELEPORT.format(13, 5, 1)]
    assert motion_teleports(jump, 6.0, 1 / 24) == []
    assert motion_teleports(keyed((0, 0), (1, 20)), 1.0, 1 / 24) == []
    assert motion_teleports(keyed((0, 0)), 1.0, 1 / 24) == []
    assert motion_teleports(keyed((-2, 0), (-1.999, 50)), 1.0, 1 / 24) == []  # before the run
    assert motion_teleports(keyed((0, 0), (1, 100)), 1.0, 1 / 24) == [TELEPORT.format("1, 2, 3, 4, 5, ...", 4.17, 1)]


def test_a_slow_motion_of_a_year_is_checked_quickly() -> None:
    assert motion_teleports(keyed((0, 0), (3e7, 1000), (3.1e7, 0)), 1.0, 1 / 60) == []


@given(st.integers(0, 10_000), st.sampled_from(["linear", "smooth"]))
def test_jumps_of_keyframes_agree_with_a_check_of_every_frame(seed: int, interpolation: str) -> None:
    random = np.random.default_rng(seed)
    times = np.cumsum(random.choice([0.01, 0.05, 0.4], 5)) - 0.2
    motion = keyed(*zip(times, random.normal(scale=2.0, size=5), strict=True), interpolation=interpolation)
    path = [motion.pose(n / 24)[1] for n in range(60)]
    slow = [n for n in range(1, 60) if np.linalg.norm(path[n] - path[n - 1]) > 1.0]
    messages = motion_teleports(motion, 1.0, 1 / 24)
    found = [int(n) for line in messages for n in re.findall(r"\d+", line.partition(":")[0])]
    assert found == slow[:5]
