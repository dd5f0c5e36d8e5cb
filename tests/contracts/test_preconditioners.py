"""Contract of every preconditioner: it accelerates the solver and changes neither its solution nor its constraints.

`cholesky` is tested with both of its factors, whichever is installed; without cvxopt only QDLDL. `multigrid` is tested
with all its levels, and where the particles are few enough for its direct solve alone.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest
import warp as wp
from reference.solve import constrained_solve
from reference.systems import LinearSystem, random_system

from toile import plugins
from toile.errors import InputError
from toile.linear.base import Preconditioner
from toile.linear.multigrid import uv_hierarchy
from toile.linear.precondition_block_jacobi import BlockJacobi
from toile.linear.solver import LinearSolver
from toile.math.types import vec3

FOUND = plugins.names("preconditioners")
FACTORS = ("cholesky, CHOLMOD", "cholesky, QDLDL")
CASES = [*(name for name in FOUND if name != "cholesky"), *FACTORS, "multigrid, levels"]
SIZE = 60


@pytest.fixture(params=CASES)
def preconditioner(request: pytest.FixtureRequest, device: str, monkeypatch: pytest.MonkeyPatch) -> Preconditioner:
    return make(request.param, device, monkeypatch)


@pytest.fixture(params=FACTORS)
def factor(request: pytest.FixtureRequest, device: str, monkeypatch: pytest.MonkeyPatch) -> Preconditioner:
    return make(request.param, device, monkeypatch)


def make(case: str, device: str, monkeypatch: pytest.MonkeyPatch) -> Preconditioner:
    name, _, backend = case.partition(", ")
    if name == "cholesky" and device != "cpu":
        pytest.skip("cholesky is for the CPU")
    if backend == "CHOLMOD" and importlib.util.find_spec("cvxopt") is None:
        pytest.skip("cvxopt is not installed")
    if backend == "QDLDL":
        monkeypatch.setitem(sys.modules, "cvxopt", None)  # importing it fails, as if it were not installed
    if backend == "levels":
        monkeypatch.setattr(uv_hierarchy, "COARSEST", 6)
    made = plugins.find("preconditioners", name)()
    assert isinstance(made, Preconditioner)
    return made


def working(preconditioner: Preconditioner, system: LinearSystem) -> Any:
    made = preconditioner.build(system.matrix, system.device_S)
    made.prepare()
    assert made.update()
    return made


def apply(made: Any, system: LinearSystem, r: np.ndarray) -> np.ndarray:
    device = system.matrix.device
    s = wp.zeros(len(r), dtype=vec3, device=device)
    made.apply(wp.array(r, dtype=vec3, device=device), s)
    return s.numpy().astype(float)


def filtered(system: LinearSystem, values: np.ndarray) -> np.ndarray:
    return np.einsum("nij,nj->ni", system.S, values)


def test_the_selected_factor_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise half of the tests would use the other factor."""
    system = random_system(10, "cpu", seed=0)
    for case in FACTORS:
        with monkeypatch.context() as patch:
            if case.endswith("CHOLMOD") and importlib.util.find_spec("cvxopt") is None:
                continue
            made = working(make(case, "cpu", patch), system)
            assert type(made.factor).__name__.upper() == case.split(", ")[1]


def test_filtered_inverse_is_symmetric_and_positive(preconditioner: Preconditioner, device: str) -> None:
    """CG needs S P^-1 S to be symmetric, and positive on the free directions."""
    system = random_system(SIZE, device, seed=1)
    made = working(preconditioner, system)
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, b = (filtered(system, rng.normal(size=(SIZE, 3))) for _ in range(2))
        Pa, Pb = (filtered(system, apply(made, system, r)) for r in (a, b))
        size = float(np.linalg.norm(a) * np.linalg.norm(Pb))
        rounding = 1e-6 if preconditioner.type_name() == "multigrid" else 1e-12  # its cycles are in single precision
        assert np.sum(a * Pb) == pytest.approx(np.sum(b * Pa), abs=rounding * size)
        assert np.sum(a * Pa) > 0.0


@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
def test_constraints_are_exact_after_any_number_of_iterations(
    preconditioner: Preconditioner, iterations: int, device: str
) -> None:
    """To the last bit where nothing is free, to rounding of S elsewhere."""
    system = random_system(SIZE, device, seed=2)
    system.start().solve(working(preconditioner, system), 1e-15, iterations)
    dv = system.dv.numpy().astype(float)
    assert np.array_equal(dv[system.freedom == 0], system.z[system.freedom == 0])
    assert np.abs(dv - filtered(system, dv) - system.z).max() <= 1e-13 * np.abs(dv).max()


def test_the_converged_solution_is_the_reduced_solve(preconditioner: Preconditioner, device: str) -> None:
    """1e-9 in dv from a residual of 1e-12 and condition numbers below 1e3."""
    for seed in (3, 4):
        system = random_system(SIZE, device, seed)
        assert np.linalg.cond(system.A) < 1e3
        assert system.start().solve(working(preconditioner, system), 1e-12, 1000).converged
        expected = constrained_solve(system.A, system.b, system.S, system.z)
        np.testing.assert_allclose(system.dv.numpy(), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_an_update_uses_the_new_values(preconditioner: Preconditioner, device: str) -> None:
    """After an update it equals one that was made for the new matrix."""
    system = random_system(SIZE, device, seed=5)
    made = working(preconditioner, system)
    r = filtered(system, system.b)
    before = apply(made, system, r)
    system.fill(4.0 * system.A)  # a power of two: rounding is the same, in any precision
    made.prepare()
    assert made.update()
    after, free = apply(made, system, r), system.freedom == 3
    np.testing.assert_allclose(after[free], before[free] / 4.0, rtol=1e-10)


def test_an_outdated_preconditioner_gives_the_same_solution(preconditioner: Preconditioner, device: str) -> None:
    """Filtering keeps constraints exact for any P: a preconditioner of another matrix costs iterations, not
    accuracy."""
    system = random_system(SIZE, device, seed=6)
    made = working(preconditioner, system)
    rng = np.random.default_rng(6)
    scale = np.repeat(rng.uniform(0.8, 1.25, SIZE), 3)
    system.fill(scale[:, None] * system.A * scale[None, :])
    assert system.start().solve(made, 1e-12, 1000).converged
    expected = constrained_solve(system.A, system.b, system.S, system.z)
    np.testing.assert_allclose(system.dv.numpy(), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_the_solver_updates_an_outdated_preconditioner(preconditioner: Preconditioner, device: str) -> None:
    """Through `LinearSolver`, for matrices that change slowly and one that differs from all before."""
    system = random_system(SIZE, device, seed=7)
    solver = LinearSolver(system.start(), preconditioner.build(system.matrix, system.device_S), 1e-12, 1000)
    rng = np.random.default_rng(7)
    A = system.A.copy()
    for spread in (0.0, 0.05, 0.1, 3.0):
        scale = np.repeat(10.0 ** (spread * rng.uniform(-1.0, 1.0, SIZE)), 3)
        A = scale[:, None] * A * scale[None, :]
        system.fill(A)
        system.dv.assign(wp.array(system.z, dtype=vec3, device=device))
        assert solver.solve().converged
        # In units in which the matrix is well conditioned; held particles count by their effect on the others.
        dv, expected = system.dv.numpy(), constrained_solve(A, system.b, system.S, system.z)
        error = (dv - expected).ravel()
        assert error @ A @ error <= 1e-18 * (expected.ravel() @ A @ expected.ravel())


def test_block_jacobi_solves_uncoupled_particles_in_one_iteration(device: str) -> None:
    """Its inverse is that of the free directions alone, which is exact for particles without coupling."""
    system = random_system(SIZE, device, seed=12)
    alone = np.kron(np.eye(SIZE), np.ones((3, 3)))
    system.fill(alone * system.A)
    solution = system.start().solve(working(BlockJacobi(), system), 1e-12, 2)
    assert solution.converged and (solution.iterations == 1 or device != "cpu")


def test_a_factor_solves_in_two_iterations(factor: Preconditioner, device: str) -> None:
    """An exact inverse needs one iteration, and another to remove the rounding of the first."""
    system = random_system(SIZE, device, seed=8)
    solution = system.start().solve(working(factor, system), 1e-10, 10)
    assert solution.converged and solution.iterations <= 2


def test_factor_refuses_a_matrix_that_is_not_positive_definite(factor: Preconditioner, device: str) -> None:
    """`update` reports it, and the solver returns a solve that did not converge."""
    system = random_system(SIZE, device, seed=9, held=0.0)
    lowest = np.linalg.eigvalsh(system.A)[0]
    made = factor.build(system.matrix, system.device_S)
    solver = LinearSolver(system.start(), made, 1e-6, 100)
    system.fill(system.A - 2.0 * lowest * np.eye(3 * SIZE))
    made.prepare()
    assert not made.update()
    assert not solver.solve().converged
    system.fill(system.A + 2.0 * lowest * np.eye(3 * SIZE))  # and works again when the matrix does
    assert solver.solve().converged


def test_a_factor_recovers_from_nan(factor: Preconditioner, device: str) -> None:
    """NaN in the matrix: no crash, no convergence, and the next finite matrix is solved."""
    system = random_system(SIZE, device, seed=10)
    good = system.A.copy()
    bad = good.copy()
    bad[4, 4] = np.nan
    solver = LinearSolver(system.start(), factor.build(system.matrix, system.device_S), 1e-10, 100)
    system.fill(bad)
    assert not solver.solve().converged
    system.fill(good)
    system.dv.assign(wp.array(system.z, dtype=vec3, device=device))
    assert solver.solve().converged


def test_cholesky_on_a_gpu_names_the_alternatives() -> None:
    if not wp.is_cuda_available():
        pytest.skip("no GPU")
    system = random_system(10, "cuda", seed=11)
    with pytest.raises(InputError, match="choose block_jacobi"):
        plugins.find("preconditioners", "cholesky")().build(system.matrix, system.device_S)  # type: ignore[attr-defined]
