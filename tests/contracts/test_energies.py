"""Contract of every energy: derivatives, invariance under rigid motion, momentum, and agreement with a dense reference.

Two irregular sheets (tests/reference/sheets.py) are in random states and are assembled as in a simulation. The oracle
for forces and matrices is the dense NumPy assembly of tests/reference/energies.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference.energies import (
    FOUND,
    INTERNAL,
    MODEL,
    OF_COMPRESSION,
    OF_MASS,
    SETTINGS,
    STORED,
    bench,
    close,
    differences,
    reference,
    states,
)
from reference.sheets import EDGE, flat, turned


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
    s = 1e-5 edges both are below 1e-9, so the best of several steps must reach 1e-7.
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
def test_energy_and_force_match_the_reference(type_name: str, device: str) -> None:
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
    """-df/dx along a motion that shortens every thread in proportion: no thread rotates, so the matrix is complete."""
    x = flat(MODEL, 0.8, 0.8)
    tested = bench(device, type_name)
    K = tested.matrices(x, np.zeros_like(x))[2]
    step = 1e-5
    expected = (tested.force((1.0 - step) * x) - tested.force((1.0 + step) * x)) / (2.0 * step)
    close((K @ x.ravel()).reshape(x.shape), expected, 1e-7)


def test_stretch_has_its_whole_hessian_in_tension(device: str) -> None:
    """The same for a sheet that is not flat: every thread direction is longer than at rest."""
    rng = np.random.default_rng(5)
    x = flat(MODEL, 1.3, 1.3) + rng.uniform(-0.04 * EDGE, 0.04 * EDGE, (MODEL.particle_count, 3))
    tested = bench(device, "stretch")
    K = tested.matrices(x, np.zeros_like(x))[2]
    close(K, -differences(lambda at: tested.force(at), x, 1e-5 * EDGE), 1e-7)


@pytest.mark.parametrize("type_name", ["bend_angle", "bend_mode"])
def test_the_matrix_of_bending_is_the_product_of_gradients(type_name: str, device: str) -> None:
    """The matrix of bending is k dC dC^T alone, also where the hinges are folded. Rounding only."""
    tested = bench(device, type_name)
    for x, v in states(3, seed=6):
        close(tested.matrices(x, v)[2], reference([type_name], x, v).K, 1e-12)


@pytest.mark.parametrize("type_name", FOUND)
def test_force_is_linearized_to_another_velocity(type_name: str, device: str) -> None:
    """The linearized force at v_at is f(x, v) + df/dv (v_at - v), for implicit steps linearized at another velocity."""
    tested = bench(device, type_name)
    x, v = states(1, seed=8)[0]
    v_at = v + np.random.default_rng(8).normal(size=v.shape)
    D = tested.matrices(x, v)[1]
    expected = tested.force(x, v) - (D @ (v_at - v).ravel()).reshape(v.shape)
    close(tested.linearized(x, v, 0.01, v_at)[1], expected, 1e-12)


@pytest.mark.parametrize("type_name", INTERNAL)
def test_energy_and_force_are_invariant_under_rigid_motion(type_name: str, device: str) -> None:
    """E(R x + t) = E(x), f(R x + t) = R f(x). Positions of up to 2 m and edges of 0.1 m lose two digits of 16."""
    tested = bench(device, type_name)
    rng = np.random.default_rng(9)
    for x, _ in states(100, seed=9):
        moved, R = turned(x, rng)
        assert tested.energy(moved) == pytest.approx(tested.energy(x), rel=1e-12)
        close(tested.force(moved), tested.force(x) @ R.T, 1e-12)


@pytest.mark.parametrize("type_name", INTERNAL)
def test_internal_forces_conserve_momentum(type_name: str, device: str) -> None:
    """The total force and torque on each cloth are zero, elastic and damping."""
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


@pytest.mark.parametrize("time", [0.0, 0.5])
def test_all_energies_together_match_the_dense_reference(time: float, device: str) -> None:
    """Force and matrix of all energies at several steps; the rest stretch of one cloth changes with time.

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
