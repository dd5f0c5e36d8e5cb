"""Filtered conjugate gradients ([BW98] sec. 5.3): exact constraints at any number of iterations, and the solution.

Matrices and constraints are random; the oracle is a dense solve in the free directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import warp as wp
from reference.solve import constrained_solve
from reference.systems import LinearSystem, random_system

from toile.linear.block_matrix import BlockMatrix
from toile.linear.precondition_block_jacobi import BlockJacobi
from toile.linear.precondition_diagonal import Diagonal
from toile.math.types import vec3

SIZE = 60


class Scale:
    """A preconditioner for tests: s_i = factors_i r_i, coordinate by coordinate."""

    def __init__(self, factors: np.ndarray):
        self.factors = factors

    def apply(self, r: Any, s_out: Any) -> None:
        s_out.assign(wp.array(self.factors * r.numpy(), dtype=vec3, device=r.device))


def working(system: LinearSystem, preconditioner: Diagonal | BlockJacobi) -> Any:
    made = preconditioner.build(system.matrix, system.device_S)
    assert made.update()
    return made


def error_of_constraints(system: LinearSystem, dv: np.ndarray) -> np.ndarray:
    """(I - S) dv - z for every particle."""
    return dv - np.einsum("nij,nj->ni", system.S, dv) - system.z


def residual(system: LinearSystem, dv: np.ndarray) -> np.ndarray:
    """S (b - A dv)."""
    return np.einsum("nij,nj->ni", system.S, system.b - (system.A @ dv.ravel()).reshape(-1, 3))


@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
@pytest.mark.parametrize("preconditioner", [Diagonal(), BlockJacobi()], ids=["diagonal", "block_jacobi"])
def test_constraints_are_exact_after_any_number_of_iterations(
    iterations: int, preconditioner: Diagonal | BlockJacobi, device: str
) -> None:
    """To the last bit where no direction is free; elsewhere S is a projection only to rounding."""
    for seed in range(5):
        system = random_system(SIZE, device, seed)
        solution = system.start().solve(working(system, preconditioner), 1e-14, iterations)
        assert solution.iterations == iterations and not solution.converged
        dv = system.dv.numpy().astype(float)
        assert np.array_equal(dv[system.freedom == 0], system.z[system.freedom == 0])
        assert np.abs(error_of_constraints(system, dv)).max() <= 1e-13 * np.abs(dv).max()
        if iterations > 0:
            assert np.abs(dv - system.z)[system.freedom > 0].max() > 1e-3  # the solve changed dv


@pytest.mark.parametrize("preconditioner", [Diagonal(), BlockJacobi()], ids=["diagonal", "block_jacobi"])
def test_the_converged_solution_is_the_reduced_solve(preconditioner: Diagonal | BlockJacobi, device: str) -> None:
    """A residual of 1e-12 of the start and condition numbers below 1e3 leave 1e-9 in dv."""
    for seed in range(5):
        system = random_system(SIZE, device, seed)
        assert np.linalg.cond(system.A) < 1e3
        solution = system.start().solve(working(system, preconditioner), 1e-12, 1000)
        assert solution.converged and solution.residual <= 1e-12
        dv = system.dv.numpy().astype(float)
        expected = constrained_solve(system.A, system.b, system.S, system.z)
        np.testing.assert_allclose(dv, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
        assert np.abs(residual(system, dv)).max() <= 1e-10 * np.abs(system.b).max()


def test_the_reported_residual_is_the_true_one(device: str) -> None:
    """|S (b - A dv)| relative to its start, after so few iterations that the recurrence has not drifted."""
    system = random_system(SIZE, device, seed=6)
    solution = system.start().solve(working(system, BlockJacobi()), 1e-14, 8)
    at_start, at_end = (np.linalg.norm(residual(system, dv)) for dv in (system.z, system.dv.numpy().astype(float)))
    assert solution.residual == pytest.approx(at_end / at_start, rel=1e-9)


def test_a_fully_held_system_needs_no_iteration(device: str) -> None:
    """Without free directions the residual is zero at once and dv remains z."""
    system = random_system(SIZE, device, seed=7)
    system.device_S.zero_()
    solution = system.start().solve(working(system, BlockJacobi()), 1e-3, 100)
    assert solution.converged and solution.iterations == 0 and solution.residual == 0.0
    assert np.array_equal(system.dv.numpy(), system.z)


def test_conjugate_gradients_end_after_as_many_iterations_as_unknowns(device: str) -> None:
    """The finite termination of CG: 8 free particles have 24 unknowns, so 24 iterations and a few for rounding."""
    system = random_system(8, device, seed=8, held=0.0)
    solution = system.start().solve(working(system, Diagonal()), 1e-10, 30)
    assert solution.converged


def test_nan_is_not_convergence(device: str) -> None:
    system = random_system(SIZE, device, seed=9)
    system.b[3, 1] = np.nan
    system.S[3] = np.eye(3)
    system.device_S.assign(wp.array(system.S, dtype=system.device_S.dtype, device=device))
    solution = system.start().solve(working(system, BlockJacobi()), 1e-3, 10)
    assert not solution.converged and np.isnan(solution.residual)


def plain_pcg(A: np.ndarray, b: np.ndarray, diagonal: np.ndarray, tolerance: float) -> int:
    """Iterations of textbook CG with a diagonal preconditioner, in NumPy."""
    x, r = np.zeros_like(b), b.copy()
    c = s = r / diagonal
    target = tolerance * np.linalg.norm(b)
    for iteration in range(1, 10_000):
        q = A @ c
        alpha = (r @ s) / (c @ q)
        x, before = x + alpha * c, r @ s
        r = r - alpha * q
        if np.linalg.norm(r) <= target:
            return iteration
        s = r / diagonal
        c = s + (r @ s) / before * c
    raise AssertionError("plain CG did not converge")


@pytest.mark.parametrize("seed", range(4))
def test_filtering_costs_no_iterations(seed: int, device: str) -> None:
    """Compared with plain CG on the penalty system A + 1e8 (I - S) with z = 0; [BW98] saw no substantial difference.

    Pins only: a penalty across the axes would make the diagonal a bad preconditioner for plain CG.
    """
    system = random_system(200, device, seed, contrast=100.0)
    free = (system.freedom > 0).astype(float)
    system.S, system.z = free[:, None, None] * np.eye(3), np.zeros((200, 3))
    system.device_S.assign(wp.array(system.S, dtype=system.device_S.dtype, device=device))
    solution = system.start().solve(working(system, Diagonal()), 1e-6, 5000)
    penalty = system.A + np.diag(np.repeat(1e8 * (1.0 - free), 3))
    plain = plain_pcg(penalty, system.b.ravel() * np.repeat(free, 3), np.diag(penalty), 1e-6)
    assert solution.converged and plain > 20
    # On a GPU the residual is read back every ten iterations.
    slack = 0 if device == "cpu" else 10
    assert 0.8 * plain <= solution.iterations <= 1.25 * plain + slack


def test_preconditioner_as_printed_does_not_converge(device: str) -> None:
    """[BW98] prints P_ii = 1/A_ii and steps by P^-1, which multiplies by A_ii. The corrected form converges fast."""
    rng = np.random.default_rng(10)
    system = random_system(100, device, seed=10)
    # Stiffness contrast: the unknowns of particles have scales that differ by factors of up to 1e4.
    scale = np.repeat(10.0 ** rng.uniform(-1.0, 1.0, 100), 3)
    system.fill(scale[:, None] * system.A * scale[None, :])
    right = system.start().solve(working(system, Diagonal()), 1e-6, 500)
    as_printed = system.start().solve(Scale(np.diag(system.A).reshape(-1, 3)), 1e-6, 10 * right.iterations)
    assert right.converged and right.iterations < 150
    assert not as_printed.converged and as_printed.residual > 1e-3


def test_product_and_pattern(device: str) -> None:
    """BlockMatrix: y = A x, its dense form, and the slots of every block; the diagonal exists without stencils."""
    system = random_system(SIZE, device, seed=11)
    np.testing.assert_array_equal(system.matrix.dense(), system.A)
    x = np.random.default_rng(11).normal(size=(SIZE, 3))
    y = wp.zeros(SIZE, dtype=vec3, device=device)
    system.matrix.multiply(wp.array(x, dtype=vec3, device=device), y)
    rounding = 1e-14 * float(np.linalg.norm(system.A))
    np.testing.assert_allclose(y.numpy().ravel(), system.A @ x.ravel(), rtol=0, atol=rounding)
    matrix = system.matrix
    assert np.array_equal(matrix.slots(matrix.rows, matrix.columns), np.arange(len(matrix.columns)))
    alone = BlockMatrix.from_stencils(3, [], device)
    assert alone.rows.tolist() == alone.columns.tolist() == [0, 1, 2]
