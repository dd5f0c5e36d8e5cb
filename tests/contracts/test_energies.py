"""What every energy must satisfy, through the real assembly: derivatives, invariance, momentum, dissipation.

Two irregular sheets (tests/reference/sheets.py) in random states. The oracle for forces
and matrices is the dense NumPy assembly of tests/reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from reference.dense import Dense
from reference.sheets import (
    EDGE,
    FABRICS,
    Bench,
    flat,
    perturbed,
    rest_stretch_at,
    sheet,
    sheets_in_contact,
    small_model,
    turned,
)
from reference.springs import Spring, springs
from scipy.spatial.transform import Rotation

from toile import plugins
from toile.energies.base import Energy
from toile.energies.wind import Wind
from toile.model.model import Model
from toile.model.springs import springs_of

MODEL = small_model()

# What an energy needs besides its defaults. An energy that is not here fails `test_every_energy_is_tested`.
SETTINGS: dict[str, dict[str, Any]] = {
    "stretch": {},
    "shear": {},
    "bend_angle": {},
    "bend_mode": {},
    "bend_buckling": {"rigidity_warp": 3e-3, "rigidity_weft": 2e-3, "stiffness": 700.0},
    "spring": {"structural": 800.0, "shear": 300.0, "flexion": 50.0, "damping": 0.015},
    "viscous": {"rate": 1.7},
    "gravity": {"acceleration": (1.0, -2.0, -9.81)},
    "drag": {"linear": 0.7, "quadratic": 1.3},
    "wind": {"velocity": (2.0, -1.0, 3.0), "linear": 0.4, "quadratic": 0.6},
    "wind_particle": {"velocity": (2.0, -1.0, 3.0), "linear": 0.4},
    "pull": {"cloth": "disc", "triangle": 5, "weights": (0.5, 0.3, 0.2), "target": (0.1, 0.2, 0.5)},
    "push": {"acceleration": (-3.0, 1.0, 19.62)},
    "penalty": {"thickness": 0.04, "stiffness": 2e4, "damping": 0.01, "friction": 0.4, "slip_speed": 0.5},
}
FOUND = plugins.names("energies")
KNOWN = [type_name for type_name in FOUND if type_name in SETTINGS]
INTERNAL = [type_name for type_name in KNOWN if plugins.find("energies", type_name).scope == "cloth"]  # type: ignore[attr-defined]
OF_AIR = ("drag", "wind")
WITHOUT_POTENTIAL = (*OF_AIR, "viscous", "wind_particle")
OF_COMPRESSION = ("bend_buckling",)  # nothing where cloth is stretched
OF_MASS = ("gravity", "push")  # the same force wherever a particle is, and however fast
STORED = [type_name for type_name in KNOWN if type_name not in WITHOUT_POTENTIAL]


def make(type_name: str) -> Energy:
    energy = plugins.find("energies", type_name)(**SETTINGS[type_name])
    assert isinstance(energy, Energy)
    return energy


def bench(device: str, *type_names: str, time: float = 0.0) -> Bench:
    return Bench.of(MODEL, [make(type_name) for type_name in type_names], device, time)


@cache
def springs_of_model() -> list[Spring]:
    return springs(MODEL, *sheets_in_contact(MODEL), **SETTINGS["penalty"])


def threads(model: Model, part: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of particles two apart along the grid's threads, or across an edge of the disc: with their distance in the
    plane, the area they stand for, and how much of their direction is warp."""
    of, uv = sheet(model, part), np.zeros((model.particle_count, 2))
    uv[of.triangles] = of.uv
    if part == 1:
        hinges = of.hinges()
        ends = np.array([points[:2] for points, _, _ in hinges])
        warp = np.array([edge[1] ** 2 / (edge @ edge) for _, edge, _ in hinges])
        area = np.array([8.0 / 9.0 * area for _, _, area in hinges])
        return ends, np.linalg.norm(uv[ends[:, 0]] - uv[ends[:, 1]], axis=1), area, warp
    number = np.arange(16).reshape(4, 4)
    lines = np.array([line[k : k + 3] for line in (*number, *number.T) for k in (0, 1)])
    d = np.diff(uv[lines], axis=1)
    squares = np.sum(d**2, axis=2)
    area = np.zeros(model.particle_count)
    for corners, flat_corners in zip(of.triangles, of.uv, strict=True):
        area[corners] += abs(np.linalg.det(np.diff(flat_corners, axis=0))) / 6.0
    return lines[:, [0, 2]], np.sqrt(squares).sum(axis=1), area[lines[:, 1]], (d[:, :, 0] ** 2 / squares).mean(axis=1)


def add_reference(dense: Dense, type_name: str, model: Model, time: float) -> None:
    """The same energy in NumPy."""
    settings = SETTINGS[type_name]
    for part, fabric in enumerate(FABRICS):
        k = (fabric.stretch_warp, fabric.stretch_weft)
        if type_name == "stretch":
            dense.add_stretch(sheet(model, part), k, rest_stretch_at(part, time), fabric.damping)
        elif type_name == "shear":
            dense.add_shear(sheet(model, part), fabric.shear, fabric.damping)
        elif type_name == "bend_angle":
            dense.add_bend(sheet(model, part), fabric.bend_warp, fabric.bend_weft, fabric.damping)
        elif type_name == "bend_mode":
            dense.add_bend_mode(sheet(model, part), fabric.bend_warp, fabric.bend_weft, fabric.damping)
        elif type_name == "spring":
            of_kind = np.array([settings[kind] for kind in ("structural", "shear", "flexion")])
            pairs = springs_of(model.parts[part])
            dense.add_lines(pairs.particles, pairs.lengths, of_kind[pairs.kind], settings["damping"])
        elif type_name == "bend_buckling":
            ends, L, area, warp = threads(model, part)
            D = settings["rigidity_warp"] * warp + settings["rigidity_weft"] * (1.0 - warp)
            dense.add_buckling(ends, L, 4.0 / 3.0 * D * area / L, settings["stiffness"] * area / L**2, fabric.damping)
    if type_name in OF_MASS:
        dense.add_gravity(np.array(settings["acceleration"]))
    elif type_name == "viscous":
        dense.add_viscous(settings["rate"])
    elif type_name == "wind_particle":
        dense.add_air_at_particles(model.triangles, model.areas, np.array(settings["velocity"]), settings["linear"])
    elif type_name in OF_AIR:
        u = np.array(settings.get("velocity", (0.0, 0.0, 0.0)))
        dense.add_air(model.triangles, u, settings["linear"], settings["quadratic"])
    elif type_name == "penalty":
        dense.add_springs(springs_of_model())
    elif type_name == "pull":
        corners = model.triangles[model.parts[1].triangles][5]
        weights, target = np.array(settings["weights"]), np.array(settings["target"])
        dense.add_pull(corners, weights, target, np.zeros(3), 50.0, 0.5)


def reference(type_names: list[str], x: np.ndarray, v: np.ndarray, time: float = 0.0) -> Dense:
    dense = Dense(x, v, MODEL.masses)
    for type_name in type_names:
        add_reference(dense, type_name, MODEL, time)
    return dense


def states(count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random (x, v): positions off by up to 30 % of an edge, velocities of meters per second."""
    rng = np.random.default_rng(seed)
    return [(perturbed(MODEL, rng), rng.normal(size=(MODEL.particle_count, 3))) for _ in range(count)]


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Equal relative to the largest entry."""
    scale = np.abs(expected).max()
    assert scale > 0.0, "the state does not excite what is compared"
    assert np.abs(found - expected).max() <= tolerance * scale


def test_every_energy_is_tested() -> None:
    """A new energy needs an entry in SETTINGS, and a reference."""
    assert set(FOUND) == set(SETTINGS)
    x, v = states(1, seed=0)[0]
    for type_name in FOUND:
        assert np.abs(reference([type_name], x, v).f).max() > 0.0


@pytest.mark.parametrize("type_name", STORED)
def test_force_is_minus_the_gradient_of_the_energy(type_name: str, device: str) -> None:
    """f = -dE/dx: all coordinates of a few states.

    A central difference with step s has an error of order s^2 from its own expansion and eps E/s from rounding: near
    s = 1e-5 edges both are below 1e-9, so the best of a sweep is asked for 1e-7.
    """
    tested = bench(device, type_name)
    for x, _ in states(2, seed=1):
        force = tested.force(x)
        errors = []
        for step in EDGE * np.array([1e-3, 1e-4, 1e-5, 1e-6]):
            slope = np.zeros_like(x)
            for place in np.ndindex(*x.shape):
                offset = np.zeros_like(x)
                offset[place] = step
                slope[place] = (tested.energy(x + offset) - tested.energy(x - offset)) / (2.0 * step)
            errors.append(np.linalg.norm(slope + force) / np.linalg.norm(force))
        assert min(errors) < 1e-7


@pytest.mark.parametrize("type_name", STORED)
def test_force_is_the_slope_of_the_energy_in_many_states(type_name: str, device: str) -> None:
    """f = -dE/dx: 200 states, each along one random direction d: dE/ds = -f . d.

    Relative to |f| |d|, which exceeds |f . d| some tenfold for a random d, so the tolerance is a tenth of that above.
    """
    tested = bench(device, type_name)
    rng = np.random.default_rng(2)
    for x, _ in states(200, seed=2):
        d = rng.normal(size=x.shape)
        d /= np.linalg.norm(d)
        force = tested.force(x)
        steps = EDGE * np.array([1e-3, 1e-4, 1e-5])
        slopes = [(tested.energy(x + s * d) - tested.energy(x - s * d)) / (2.0 * s) for s in steps]
        assert min(abs(slope + np.sum(force * d)) for slope in slopes) < 1e-8 * np.linalg.norm(force)


@pytest.mark.parametrize("type_name", FOUND)
def test_energy_and_force_are_those_of_the_reference(type_name: str, device: str) -> None:
    """Rounding only: a few hundred operations on each side."""
    tested = bench(device, type_name)
    for x, v in states(3, seed=3):
        expected = reference([type_name], x, v)
        close(tested.force(x, v), expected.f, 1e-12)
        assert tested.energy(x) == pytest.approx(expected.energy, rel=1e-12)


@pytest.mark.parametrize("type_name", STORED)
def test_matrix_is_the_derivative_of_the_force_where_nothing_is_clamped(type_name: str, device: str) -> None:
    """The matrix is -df/dx.

    A flat sheet stretched along its threads: stretch is in tension, and shear and bending have no tension that
    their second derivative could be multiplied by, so the matrix is the whole Hessian.

    Differences of forces with step s: error s^2/EDGE^2 from expansion, eps |f|/s from rounding; 1e-7 at s = 1e-5 EDGE
    for a state in which |f| is of the order of k EDGE.
    """
    x = turned(flat(MODEL, 1.2, 1.15), np.random.default_rng(4))[0]
    tested = bench(device, type_name)
    K = tested.matrices(x, np.zeros_like(x))[2]
    assert np.abs(K - K.T).max() <= 1e-12 * np.abs(K).max()
    step = 1e-5 * EDGE
    expected = -differences(lambda at: tested.force(at), x, step)
    if type_name in OF_MASS or type_name in OF_COMPRESSION:
        assert not K.any() and not expected.any()
    else:
        close(K, expected, 1e-7)


@pytest.mark.parametrize("type_name", OF_COMPRESSION)
def test_matrix_is_the_derivative_of_the_force_along_compressed_threads(type_name: str, device: str) -> None:
    """-df/dx along a motion that shortens every thread in proportion: nothing turns, so nothing is left out."""
    x = flat(MODEL, 0.8, 0.8)
    tested = bench(device, type_name)
    K = tested.matrices(x, np.zeros_like(x))[2]
    step = 1e-5
    expected = (tested.force((1.0 - step) * x) - tested.force((1.0 + step) * x)) / (2.0 * step)
    close((K @ x.ravel()).reshape(x.shape), expected, 1e-7)


def test_stretch_keeps_its_whole_hessian_in_tension(device: str) -> None:
    """The same away from flat: every thread direction longer than at rest, in all directions of space."""
    rng = np.random.default_rng(5)
    x = flat(MODEL, 1.3, 1.3) + rng.uniform(-0.04 * EDGE, 0.04 * EDGE, (MODEL.particle_count, 3))
    tested = bench(device, "stretch")
    K = tested.matrices(x, np.zeros_like(x))[2]
    close(K, -differences(lambda at: tested.force(at), x, 1e-5 * EDGE), 1e-7)


@pytest.mark.parametrize("type_name", ["bend_angle", "bend_mode"])
def test_bending_keeps_the_product_of_gradients(type_name: str, device: str) -> None:
    """The matrix of bending: k dC dC^T and no more, also where the hinges are folded. Rounding only."""
    tested = bench(device, type_name)
    for x, v in states(3, seed=6):
        close(tested.matrices(x, v)[2], reference([type_name], x, v).K, 1e-12)


@pytest.mark.parametrize("type_name", FOUND)
def test_damping_matrix_is_the_derivative_of_the_force_by_velocity(type_name: str, device: str) -> None:
    """The matrix of damping is -df/dv.

    Forces are linear in v, or quadratic (air), for which a central difference is exact: what is left
    is rounding, eps |f|/s."""
    tested = bench(device, type_name)
    x, v = states(1, seed=7)[0]
    D = tested.matrices(x, v)[1]
    assert np.abs(D - D.T).max() <= 1e-12 * np.abs(D).max()
    expected = -differences(lambda at: tested.force(x, at), v, 1e-3)
    if type_name in OF_MASS:
        assert not D.any()
    else:
        close(D, expected, 1e-9)


@pytest.mark.parametrize("type_name", FOUND)
def test_force_is_carried_to_another_velocity_along_its_derivative(type_name: str, device: str) -> None:
    """The linearized force at v_at is f(x, v) + df/dv (v_at - v): what an implicit step linearized elsewhere needs."""
    tested = bench(device, type_name)
    x, v = states(1, seed=8)[0]
    v_at = v + np.random.default_rng(8).normal(size=v.shape)
    D = tested.matrices(x, v)[1]
    expected = tested.force(x, v) - (D @ (v_at - v).ravel()).reshape(v.shape)
    close(tested.linearized(x, v, 0.01, v_at)[1], expected, 1e-12)


@pytest.mark.parametrize("type_name", FOUND)
def test_product_with_the_damping_matrix(type_name: str, device: str) -> None:
    """The same without the matrix."""
    tested = bench(device, type_name)
    x, v, u = *sheets_in_contact(MODEL), np.random.default_rng(8).normal(size=(MODEL.particle_count, 3))
    expected = (tested.matrices(x, v)[1] @ u.ravel()).reshape(-1, 3)
    if type_name in OF_MASS:
        assert not tested.damping(x, v, u).any()
    else:
        close(tested.damping(x, v, u), expected, 1e-10)



@pytest.mark.parametrize("type_name", INTERNAL)
def test_rigid_motion_changes_nothing(type_name: str, device: str) -> None:
    """E(R x + t) = E(x), f(R x + t) = R f(x). Positions of up to 2 m and edges of 0.1 m lose two digits of 16."""
    tested = bench(device, type_name)
    rng = np.random.default_rng(9)
    for x, _ in states(100, seed=9):
        moved, R = turned(x, rng)
        assert tested.energy(moved) == pytest.approx(tested.energy(x), rel=1e-12)
        close(tested.force(moved), tested.force(x) @ R.T, 1e-12)


@pytest.mark.parametrize("type_name", INTERNAL)
def test_internal_forces_keep_momentum(type_name: str, device: str) -> None:
    """No total force and no total torque, elastic and damping, on each cloth."""
    tested = bench(device, type_name)
    for x, v in states(20, seed=10):
        elastic = tested.force(x)
        for f in (elastic, tested.force(x, v) - elastic):
            for part in MODEL.parts:
                own, arms = f[part.particles], x[part.particles]
                assert np.abs(own).max() > 0.0
                size = np.linalg.norm(own, axis=1)
                assert np.abs(own.sum(axis=0)).max() <= 1e-12 * size.sum()
                assert np.abs(np.cross(arms, own).sum(axis=0)).max() <= 1e-12 * size @ np.linalg.norm(arms, axis=1)


@pytest.mark.parametrize("type_name", INTERNAL)
def test_damping_dissipates(type_name: str, device: str) -> None:
    """The power of damping is -k_d (dC/dt)^2, summed over elements."""
    tested = bench(device, type_name)
    for x, v in states(5, seed=11):
        power = np.sum((tested.force(x, v) - tested.force(x)) * v)
        assert power < 0.0
        assert power == pytest.approx(-reference([type_name], x, v).dissipated, rel=1e-11)


@pytest.mark.parametrize("type_name", INTERNAL)
def test_damping_lets_rigid_motion_be(type_name: str, device: str) -> None:
    """No damping force for translation and rotation, relative to that for a random velocity of the same size."""
    tested = bench(device, type_name)
    rng = np.random.default_rng(12)
    for x, v in states(20, seed=12):
        rigid = rng.normal(size=3) + np.cross(rng.normal(size=3), x)
        v = v / np.abs(v).max() * np.abs(rigid).max()
        elastic = tested.force(x)
        other = np.abs(tested.force(x, v) - elastic).max()
        # The difference of two forces is rounded like the larger of them.
        assert np.abs(tested.force(x, rigid) - elastic).max() <= 1e-12 * (other + np.abs(elastic).max())


# Velocities of a flat sheet at (X, Y) that change one condition alone, and the energies that may damp them.
MODES: dict[str, tuple[tuple[str, ...], Callable[[np.ndarray, np.ndarray], tuple[Any, Any, Any]]]] = {
    "along the warp": (("stretch", "spring", "bend_buckling"), lambda X, Y: (X, 0 * X, 0 * X)),
    "along the weft": (("stretch", "spring", "bend_buckling"), lambda X, Y: (0 * X, Y, 0 * X)),
    "shearing": (("shear", "spring", "bend_buckling"), lambda X, Y: (Y, X, 0 * X)),
    "bending": (("bend_angle", "bend_mode"), lambda X, Y: (0 * X, 0 * X, X * X - 2.0 * X * Y)),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_damping_acts_on_its_own_mode_only(mode: str, device: str) -> None:
    """Stretching, shearing and bending a flat sheet dissipate in their own energy, and nowhere else."""
    own, velocity = MODES[mode]
    x = flat(MODEL)
    v = np.stack(velocity(x[:, 0], x[:, 1]), axis=1) / EDGE
    turn = Rotation.from_rotvec([0.3, -0.8, 0.5]).as_matrix()
    x, v = x @ turn.T, v @ turn.T
    noise = np.random.default_rng(13).normal(size=v.shape)
    noise *= np.linalg.norm(v) / np.linalg.norm(noise)
    for type_name in INTERNAL:
        tested = bench(device, type_name)
        elastic = tested.force(x)
        power, typical = (-np.sum((tested.force(x, at) - elastic) * at) for at in (v, noise))
        if type_name in own:
            assert power > 1e-3 * typical
        else:  # dC/dt is rounding, and enters squared; the elastic force is subtracted
            rounding = 1e-14 * np.linalg.norm(elastic) * np.linalg.norm(v)
            assert abs(power) <= 1e-12 * typical + rounding


@pytest.mark.parametrize("time", [0.0, 0.5])
def test_everything_together_is_the_dense_reference(time: float, device: str) -> None:
    """All energies at once, force and matrix at several steps; the rest stretch of one cloth changes with time.

    Closed-form and numeric eigenvalues agree to rounding of the numeric ones, 1e-13 of the largest.
    """
    tested = bench(device, *FOUND, time=time)
    for x, v in states(3, seed=14):
        dense = reference(list(FOUND), x, v, time)
        for h in (1e-3, 1.0 / 30.0):
            A, f = tested.linearized(x, v, h)
            close(f, dense.f, 1e-12)
            close(A.dense(), dense.A(h), 1e-11)
            assert np.abs(A.dense() - A.dense().T).max() <= 1e-12 * np.abs(dense.A(h)).max()


def test_pull_follows_its_target_while_it_grips(device: str) -> None:
    """A target moving at (1, 2, 0) m/s; pulls in steps that end after 0.2 s and not after 0.6 s."""
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


def test_push_acts_within_its_window(device: str) -> None:
    """In steps that end after 0.2 s and not after 0.6 s: m a on every particle, and nothing before and after."""
    energy = plugins.find("energies", "push").model_validate({**SETTINGS["push"], "start": 0.2, "end": 0.6})
    assert isinstance(energy, Energy)
    x, v = states(1, seed=16)[0]
    expected = MODEL.masses[:, None] * np.array(SETTINGS["push"]["acceleration"])
    for time, acts in ((0.1, False), (0.2, False), (0.21, True), (0.6, True), (0.61, False)):
        f = Bench.of(MODEL, [energy], device, time).linearized(x, v, 0.01)[1]
        np.testing.assert_allclose(f, expected if acts else 0.0, rtol=1e-14)


def test_gusts_stay_within_bounds_and_follow_the_seed() -> None:
    """u(t) between (1 - gust) and (1 + gust) times the velocity, varying, along it, the same for the same seed."""
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


def differences(force: Callable[[np.ndarray], np.ndarray], at: np.ndarray, step: float) -> np.ndarray:
    """The matrix of derivatives of a force, column by column, by central differences."""
    columns = []
    for place in np.ndindex(*at.shape):
        offset = np.zeros_like(at)
        offset[place] = step
        columns.append((force(at + offset) - force(at - offset)).ravel() / (2.0 * step))
    return np.array(columns).T
