"""strain_velocity: its velocities are the nearest ones within the limits, and momentum is conserved."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sheets import positions, put, sheet, velocities, walk

from toile.filters.strain_velocity import TOLERANCE
from toile.model.motion import rotation_matrix
from toile.model.springs import SHEAR, STRUCTURAL, ClothSprings, springs_of
from toile.model.state import State
from toile.plugins import names
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

H = 1.0 / 60.0
WEAK = {"stretch_warp": 50.0, "stretch_weft": 50.0, "shear": 20.0, "bend_warp": 1e-5, "bend_weft": 1e-5}


def limited(device: str, resolution: tuple[int, int], passes: int = 10, **more: Any) -> Simulation:
    limits = {key: more.pop(key) for key in list(more) if "tension" in key or "pression" in key}
    scene = {
        "cloth": [{"shape": {"type": "grid", "size": (1.0, 1.0), "resolution": resolution}}],
        "filters": [{"type": "strain_velocity", "passes": passes, **limits}],
        **more,
    }
    return Simulation(Scene(**scene), device)


def limit(simulation: Simulation, x: np.ndarray, v: np.ndarray, h: float = H) -> np.ndarray:
    """The filtered velocities of v."""
    simulation.constraints.move(0.0, h, simulation.state.x)
    state = State.of(x, v, simulation.device)
    simulation.filters[0].limit(state.x, state.v, h)
    assert np.array_equal(state.x.numpy(), x)
    return state.v.numpy().astype(float)


def springs(simulation: Simulation, *kinds: int) -> ClothSprings:
    return springs_of(simulation.model.parts[0]).of(*(kinds or (STRUCTURAL, SHEAR)))


def strains(simulation: Simulation, x: np.ndarray, *kinds: int) -> np.ndarray:
    found = springs(simulation, *kinds)
    i, j = found.particles.T
    return np.linalg.norm(x[j] - x[i], axis=1) / found.lengths - 1.0


def excess(simulation: Simulation, x: np.ndarray, v: np.ndarray, h: float = H) -> float:
    """Largest excess of a spring beyond +10 %/0 % in rest lengths: too long along n, or too short."""
    found = springs(simulation)
    i, j = found.particles.T
    n = (x[j] - x[i]) / np.linalg.norm(x[j] - x[i], axis=1)[:, None]
    along = np.sum(n * (x[j] - x[i] + h * (v[j] - v[i])), axis=1) / found.lengths - 1.0
    return float(max((along - 0.1).max(), -strains(simulation, x + h * v, STRUCTURAL).min()))


def masses(simulation: Simulation) -> np.ndarray:
    return simulation.system.masses.numpy().astype(float)


def crumpled(simulation: Simulation, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """A sheet in pleats of one cell, 3 % too large, and velocities that would stretch and compress it."""
    x, random = positions(simulation), np.random.default_rng(seed)
    columns, number = np.unique(x[:, 0].round(9), return_inverse=True)
    height = np.sin(0.5) * (columns[1] - columns[0]) * (number % 2)
    pleats = np.column_stack([np.cos(0.5) * x[:, 0], x[:, 1], height])
    return 1.03 * pleats, random.normal(scale=0.5, size=x.shape)


def test_a_uniformly_stretched_sheet_is_limited_about_its_middle(device: str) -> None:
    """Every thread would be 30 % longer: the sheet becomes 10 % longer about its middle, and as wide as before."""
    simulation = limited(device, (9, 5), passes=2000)
    x = positions(simulation)
    v = np.zeros_like(x)
    v[:, 0] = 0.3 / H * (x[:, 0] - 0.2)
    expected = np.zeros_like(x)
    expected[:, 0] = 0.1 / H * x[:, 0] + 0.3 / H * (np.average(x[:, 0], weights=masses(simulation)) - 0.2)
    # Eight springs in a row, each of which may exceed its limit by the tolerance.
    np.testing.assert_allclose(limit(simulation, x, v), expected, atol=2 * TOLERANCE / H)


@pytest.mark.parametrize("seed", range(3))
def test_filtered_velocities_are_the_nearest_within_the_limits(
    seed: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least kinetic energy of the change under linear limits, by an independent solver (SLSQP)."""
    monkeypatch.setattr("toile.filters.strain_velocity.TOLERANCE", 1e-12)
    simulation = limited(device, (4, 3), passes=10000, compression=None)
    x, v = crumpled(simulation, seed)
    v *= 10.0  # cells are large
    found = springs(simulation)
    i, j = found.particles.T
    n = (x[j] - x[i]) / np.linalg.norm(x[j] - x[i], axis=1)[:, None]
    J = np.zeros((len(i), *x.shape))
    J[np.arange(len(i)), j], J[np.arange(len(i)), i] = n, -n
    J = J.reshape(len(i), -1) / found.lengths[:, None]
    A, b = -H * J, 0.1 - strains(simulation, x)  # A u + b >= 0
    m = np.repeat(masses(simulation), 3) / masses(simulation).mean()
    wanted = v.ravel()
    best = minimize(
        lambda u: 0.5 * np.sum(m * (u - wanted) ** 2),
        np.zeros_like(wanted),
        jac=lambda u: m * (u - wanted),
        constraints={"type": "ineq", "fun": lambda u: A @ u + b, "jac": lambda u: A},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert best.success
    out = limit(simulation, x, v).ravel()
    np.testing.assert_allclose(out, best.x, atol=1e-6)  # of 5 m/s; the tolerance of SLSQP
    assert (A @ out + b).min() >= -1e-11 and (A @ wanted + b).min() < -0.01


def test_the_excess_falls_with_the_passes(device: str) -> None:
    """The largest excess of a sheet of 33 x 33 falls with the passes, and vanishes after enough of them."""
    found = []
    for passes in (1, 2, 5, 10, 20, 100, 2000):
        simulation = limited(device, (33, 33), passes)
        x, v = crumpled(simulation)
        found.append(excess(simulation, x, limit(simulation, x, v)))
    assert all(later < earlier for earlier, later in pairwise(found)), found
    assert excess(simulation, x, v) > 1.0 and found[-1] <= 1.01 * TOLERANCE


@pytest.mark.parametrize("passes", [1, 10])
def test_the_filter_conserves_linear_and_angular_momentum(passes: int, device: str) -> None:
    simulation = limited(device, (12, 9), passes)
    m = masses(simulation)[:, None]
    for seed in range(5):
        x, v = crumpled(simulation, seed)
        out = limit(simulation, x, v)
        simulation.filters[0].accept()  # the next call starts from the impulses of this one
        change = m * (out - v)
        assert np.abs(change.sum(axis=0)).max() <= 1e-12 * np.abs(change).sum()
        torque = np.cross(x, change)
        assert np.abs(torque.sum(axis=0)).max() <= 1e-12 * np.abs(torque).sum()
        assert np.abs(change).max() > 1e-6


@pytest.mark.parametrize("integrator", ["explicit_euler", "mixed_newmark"])
def test_momentum_of_a_free_sheet_is_conserved_over_a_run(integrator: str, device: str) -> None:
    """With schemes that conserve angular momentum themselves and continue with the limited velocity.

    mixed_leapfrog and mixed_robust move positions by it but do not limit the velocity at the end, as in the paper,
    which conserves linear momentum only.
    """
    simulation = sheet(device, (1.0, 1.0), (9, 9), h=2e-3, gravity=0.0, integrator=integrator, fabric=WEAK)
    simulation = _with_filter(simulation)
    start = positions(simulation)
    put(simulation, v=np.random.default_rng(2).normal(scale=1.0, size=start.shape) + np.cross([0.0, 0.0, 2.0], start))

    def momenta() -> tuple[np.ndarray, np.ndarray]:
        p = masses(simulation)[:, None] * velocities(simulation)
        return p.sum(axis=0), np.cross(positions(simulation), p).sum(axis=0)

    p0, L0 = momenta()
    most = 0.0
    for _ in range(100):
        walk(simulation, [2e-3])
        most = max(most, float(strains(simulation, positions(simulation)).max()))
        p, L = momenta()
        assert np.abs(p - p0).max() <= 1e-10 and np.abs(L - L0).max() <= 1e-10
    assert 0.09 < most < 0.11


def _with_filter(simulation: Simulation, **settings: Any) -> Simulation:
    fields = {**simulation.scene.model_dump(), "filters": [{"type": "strain_velocity", **settings}]}
    return Simulation(Scene(**fields), simulation.device)


def test_velocities_within_the_limits_keep_their_bits(device: str) -> None:
    """This also holds after a step with impulses."""
    simulation = limited(device, (9, 9))
    x, v = crumpled(simulation)
    assert not np.array_equal(limit(simulation, x, v), v)
    simulation.filters[0].accept()
    slow = 1e-3 * v
    assert excess(simulation, x, slow) < 0.0
    assert np.array_equal(limit(simulation, x, slow), slow)


def test_velocities_of_rotation_keep_their_bits(device: str) -> None:
    """A sheet at rest length that rotates by half a radian: n . d is shorter by an eighth, and no spring is."""
    simulation = limited(device, (9, 9))
    x = positions(simulation)
    v = (x @ rotation_matrix(np.array([0.3, 0.4, 0.0])).T - x) / H
    assert np.abs(strains(simulation, x + H * v)).max() < 1e-12
    assert np.array_equal(limit(simulation, x, v), v)


def test_a_uniformly_compressed_sheet_keeps_its_size(device: str) -> None:
    """Every thread would be 20 % shorter: none is, and the sheet moves as a rigid body."""
    simulation = limited(device, (9, 5), passes=2000)
    x = positions(simulation)
    v = np.zeros_like(x)
    v[:, 0] = -0.2 / H * (x[:, 0] - 0.3)
    expected = np.zeros_like(x)
    expected[:, 0] = -0.2 / H * (np.average(x[:, 0], weights=masses(simulation)) - 0.3)
    np.testing.assert_allclose(limit(simulation, x, v), expected, atol=2 * TOLERANCE / H)


@pytest.mark.parametrize("passes", [1, 3, 1000])
def test_the_filter_does_not_add_kinetic_energy(passes: int, device: str) -> None:
    """Where the step begins within the limits, rest is feasible: the velocities nearest to v are then not faster."""
    for seed in range(5):
        simulation = limited(device, (12, 9), passes)
        m = masses(simulation)[:, None]
        x, v = crumpled(simulation, seed)
        out = limit(simulation, x, v)
        assert np.sum(m * out**2) < np.sum(m * v**2)


@pytest.mark.parametrize("h", [2e-3, H])
def test_energy_never_rises(h: float, device: str) -> None:
    """An undamped free sheet with random velocities; backward Euler by itself only dissipates energy."""
    simulation = sheet(device, (1.0, 1.0), (9, 9), h=h, gravity=0.0, fabric=WEAK)
    simulation = _with_filter(simulation)
    x = positions(simulation)
    put(simulation, v=np.random.default_rng(0).normal(scale=2.0, size=x.shape))
    totals = []
    for frame in simulation.run(40):
        if frame.certificate is not None:
            totals.append(sum(frame.certificate["energy"].values()))
    assert np.diff(totals).max() <= 1e-10 * totals[0]


@pytest.mark.parametrize("integrator", names("integrators"))
def test_limits_hold_with_every_integrator(integrator: str, device: str) -> None:
    """A weak sheet that hangs from two corners: without the filter springs stretch by 40 %, with it by 10 %."""
    h, fixed = 2e-3, [{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}]
    worst = []
    for passes in (None, 40):
        simulation = sheet(device, (1.0, 1.0), (11, 11), h=h, integrator=integrator, constraints=fixed,
                           fabric={**WEAK, "stretch_warp": 20.0, "stretch_weft": 20.0, "damping": 1e-3})  # fmt: skip
        if passes is not None:
            simulation = _with_filter(simulation, passes=passes)
        most = 0.0
        for _ in range(120):
            walk(simulation, [h])
            most = max(most, float(strains(simulation, positions(simulation), STRUCTURAL).max()))
        worst.append(most)
        held = simulation.constraints.particles
        start = simulation.surface.rest
        assert np.array_equal(positions(simulation)[held], start[held])
    assert worst[0] > 0.35
    assert worst[1] < 0.115


def test_edges_are_limited_where_a_mesh_has_no_threads(device: str) -> None:
    simulation = limited(device, (3, 3), passes=3000, cloth=[{"shape": {"type": "disc", "radius": 0.5, "rings": 4}}])
    x = positions(simulation)
    v = np.random.default_rng(1).normal(scale=1.0, size=x.shape)
    assert excess(simulation, x, v) > 0.1
    out = limit(simulation, x, v)
    assert excess(simulation, x, out) <= 1.01 * TOLERANCE


def test_a_cell_may_be_sheared_unless_its_diagonals_are_limited(device: str) -> None:
    """Shear at constant side lengths shortens one diagonal; the other is longer by less than 10 %."""
    for limits, changes in (({}, False), ({"shear_compression": 0.0}, True), ({"shear_extension": 0.01}, True)):
        simulation = limited(device, (5, 5), compression=0.01, **limits)
        x = positions(simulation)
        v = np.zeros_like(x)
        v[:, 0] = 0.1 / H * x[:, 1]
        assert np.array_equal(limit(simulation, x, v), v) is not changes


def test_a_filter_without_limits_changes_nothing(device: str) -> None:
    simulation = limited(device, (5, 5), extension=None, compression=None, shear_extension=None)
    x, v = crumpled(simulation)
    assert np.array_equal(limit(simulation, x, v), v)


def test_limits_hold_behind_a_moving_pin(device: str) -> None:
    """A row that is pulled away: the cloth behind it is not stretched by more than 10 %, and pins follow keyframes."""
    motion = {"keyframes": [{"time": 0.0}, {"time": 0.2, "translation": [0.0, 0.3, 0.0]}]}
    fixed = [{"type": "pin", "where": {"edges": ["upper"]}, "motion": motion}]
    h = 2e-3
    simulation = sheet(device, (1.0, 0.5), (9, 5), h=h, gravity=0.0, constraints=fixed,
                       fabric={**WEAK, "stretch_weft": 5.0})  # fmt: skip
    simulation = _with_filter(simulation, passes=50)
    top = np.flatnonzero(simulation.surface.rest[:, 1] == 0.5)
    for _ in range(100):
        walk(simulation, [h])
        assert strains(simulation, positions(simulation), STRUCTURAL).max() < 0.103
    np.testing.assert_allclose(positions(simulation)[top, 1], 0.8, atol=1e-12)
