"""Forces that change with time: a pull and a push act in their interval, and gusts of wind follow the seed."""

from __future__ import annotations

import numpy as np
from reference.dense import Dense
from reference.energies import MODEL, SETTINGS, states
from reference.sheets import Bench

from toile import plugins
from toile.energies.base import Energy
from toile.energies.wind import Wind


def test_a_pull_follows_its_target_in_its_interval(device: str) -> None:
    """The target moves at (1, 2, 0) m/s; the pull acts in steps that end after 0.2 s and not after 0.6 s."""
    fields = {
        **SETTINGS["pull"],
        "start": 0.2,
        "end": 0.6,
        "motion": {
            "interpolation": "linear",
            "keyframes": [{"time": 0.0}, {"time": 1.0, "translation": (1.0, 2.0, 0.0)}],
        },
    }
    energy = plugins.find("energies", "pull").model_validate(fields)
    assert isinstance(energy, Energy)
    x, v = states(1, seed=15)[0]
    corners = MODEL.triangles[MODEL.parts[1].triangles][5]
    velocity = np.array([1.0, 2.0, 0.0])
    for time, grips in ((0.1, False), (0.2, False), (0.21, True), (0.4, True), (0.6, True), (0.61, False)):
        dense = Dense(x, v, MODEL.masses)
        if grips:
            target = np.array(SETTINGS["pull"]["target"]) + velocity * time
            dense.add_pull(corners, np.array(SETTINGS["pull"]["weights"]), target, velocity, 50.0, 0.5)
        A, f = Bench.of(MODEL, [energy], device, time).linearized(x, v, 0.01)
        np.testing.assert_allclose(f, dense.f, rtol=0, atol=1e-12 * 50.0)
        np.testing.assert_allclose(A.dense(), dense.A(0.01), rtol=0, atol=1e-15)


def test_a_push_acts_in_its_interval(device: str) -> None:
    """In steps that end after 0.2 s and not after 0.6 s: m a on every particle, and nothing outside of them."""
    energy = plugins.find("energies", "push").model_validate({**SETTINGS["push"], "start": 0.2, "end": 0.6})
    assert isinstance(energy, Energy)
    x, v = states(1, seed=16)[0]
    expected = MODEL.masses[:, None] * np.array(SETTINGS["push"]["acceleration"])
    for time, acts in ((0.1, False), (0.2, False), (0.21, True), (0.6, True), (0.61, False)):
        f = Bench.of(MODEL, [energy], device, time).linearized(x, v, 0.01)[1]
        np.testing.assert_allclose(f, expected if acts else 0.0, rtol=1e-14)


def test_gusts_stay_within_bounds_and_follow_the_seed() -> None:
    """u(t) varies between (1 - gust) and (1 + gust) times the velocity, along it, and is the same for the same seed."""
    wind = Wind(velocity=(3.0, 0.0, 4.0), gust=0.5)
    times = np.linspace(0.0, 40.0, 400)
    u = np.array([wind.velocity_at(time, seed=7) for time in times])
    along = u @ np.array([0.6, 0.0, 0.8])
    np.testing.assert_allclose(u, np.outer(along, [0.6, 0.0, 0.8]), atol=1e-14)
    assert 2.5 <= along.min() < 4.0 and 6.0 < along.max() <= 7.5
    assert np.array_equal(u, [wind.velocity_at(time, seed=7) for time in times])
    assert not np.allclose(u, [wind.velocity_at(time, seed=8) for time in times])
    steady = Wind(velocity=(3.0, 0.0, 4.0))
    assert np.array_equal(steady.velocity_at(1.3, seed=7), (3.0, 0.0, 4.0))
