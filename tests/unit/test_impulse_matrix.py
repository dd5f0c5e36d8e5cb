"""The matrix of [Ye08], A = J W J^T over springs: its pattern, its eigenvalues, and solves of singular systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import qdldl
import scipy.sparse as sparse
import warp as wp
from reference.impulses import flat_grid, grid_springs, jacobian, weights
from scipy.sparse.linalg import eigsh

from toile.filters._impulse_matrix import ImpulseMatrix
from toile.linear.direct.ldlt import Ldlt
from toile.math.types import mat33, real, vec3

N = 41  # figure 4: 41 x 41 nodes


class Springs:
    """Springs between particles of given masses, held in given directions."""

    def __init__(self, x: np.ndarray, pairs: np.ndarray, device: str, masses: np.ndarray | None = None):
        self.x, self.pairs, self.device = x, pairs, device
        self.masses = np.ones(len(x)) if masses is None else masses
        self.C = np.tile(np.eye(3), (len(x), 1, 1))
        particles = np.column_stack([pairs, pairs[:, 0]])
        signs = np.tile([-1.0, 1.0, 0.0], (len(pairs), 1))
        self.matrix = ImpulseMatrix(particles, signs, wp.array(self.masses, dtype=real, device=device))
        d = x[pairs[:, 1]] - x[pairs[:, 0]]
        self.d = wp.array(d / np.linalg.norm(d, axis=1)[:, None], dtype=vec3, device=device)

    def upper(self, c: np.ndarray | None = None) -> sparse.csc_matrix:
        compliance = wp.array(np.zeros(len(self.pairs)) if c is None else c, dtype=wp.float64, device=self.device)
        values = self.matrix.assemble(self._C(), self.d, compliance)
        return sparse.csc_matrix((values, self.matrix.rows, self.matrix.offsets))

    def whole(self) -> sparse.csr_matrix:
        upper = self.upper()
        return (upper + sparse.triu(upper, 1).T).tocsr()

    def correct(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Impulses, and the velocities that they cause from rest."""
        s = self.matrix.solve(wp.array(b, dtype=wp.float64, device=self.device), self._C(), self.d)
        return s, self.matrix.dv.numpy().astype(float)

    def _C(self) -> wp.array:
        return wp.array(self.C, dtype=mat33, device=self.device)


def sheet(device: str, held: tuple[int, ...] = ()) -> Springs:
    springs = Springs(flat_grid(N, N), grid_springs(N, N), device)
    springs.C[list(held)] = 0.0
    return springs


CORNERS = (N * (N - 1), N * N - 1)  # the corners of the upper side


def random_state(device: str, seed: int) -> Springs:
    """A crumpled sheet of unequal masses; particles free, on a plane, on a line, and held."""
    rng = np.random.default_rng(seed)
    x = flat_grid(6, 5) + rng.normal(scale=0.05, size=(30, 3))
    springs = Springs(x, grid_springs(6, 5), device, rng.uniform(0.2, 3.0, 30))
    n = rng.normal(size=(30, 3))
    n /= np.linalg.norm(n, axis=1)[:, None]
    along = np.einsum("pi,pj->pij", n, n)
    kind = rng.integers(0, 4, 30)
    springs.C[kind == 1] -= along[kind == 1]  # eq. (6): ndof 2
    springs.C[kind == 2] = along[kind == 2]  # ndof 1
    springs.C[kind == 3] = 0.0
    return springs


def test_the_matrix_is_the_product_of_its_factors(device: str) -> None:
    """Dense J W J^T; rounding of a few sums."""
    for seed in range(5):
        springs = random_state(device, seed)
        J = jacobian(springs.x, springs.pairs)
        expected = J @ weights(springs.masses, springs.C) @ J.T
        np.testing.assert_allclose(springs.whole().toarray(), expected, rtol=0.0, atol=1e-14 * np.abs(expected).max())


def test_a_row_has_seven_entries(device: str) -> None:
    """A spring and the six that share a node with it; three at a corner of the sheet. Symmetric by construction."""
    crumpled = flat_grid(N, N) + np.random.default_rng(6).normal(scale=0.005, size=(N * N, 3))
    counts = np.diff(Springs(crumpled, grid_springs(N, N), device).whole().indptr)
    assert counts.max() == 7 and counts.min() == 4
    assert len(counts) == 2 * N * (N - 1)


def test_the_quadratic_form_is_the_power_of_impulses(device: str) -> None:
    """s^T A s = sum of m |dv|^2 ([Ye08] sec. 6), with constraints; 1e-12 of the sum of magnitudes."""
    for seed in range(5):
        springs = random_state(device, seed)
        A = springs.whole()
        springs.matrix.factor.factor()
        b = np.random.default_rng(seed).normal(size=len(springs.pairs))
        s, dv = springs.correct(b)
        added = np.abs(s) @ (abs(A) @ np.abs(s))
        assert s @ (A @ s) == pytest.approx(np.sum(springs.masses[:, None] * dv**2), abs=1e-12 * added)


@pytest.mark.parametrize(("held", "smallest"), [((), 5.87e-3), (CORNERS[:1], 1.50e-3)], ids=["free", "one corner"])
def test_the_smallest_eigenvalue_of_the_paper(held: tuple[int, ...], smallest: float, device: str) -> None:
    """For the flat sheet of figure 4; three digits of the reference."""
    assert eigsh(sheet(device, held).whole(), k=1, sigma=-1e-3, return_eigenvectors=False)[0] == pytest.approx(
        smallest, abs=0.005 * 10.0 ** np.floor(np.log10(smallest))
    )


def test_two_corners_of_a_flat_sheet_make_it_singular(device: str) -> None:
    """The row of springs between them can be in tension without motion: there is exactly one null vector."""
    springs = sheet(device, CORNERS)
    A = springs.whole()
    values, vectors = eigsh(A, k=2, sigma=-1e-3)
    order = np.argsort(values)
    assert abs(values[order[0]]) < 1e-12 and values[order[1]] > 1e-4
    between = (springs.pairs >= CORNERS[0]).all(axis=1)
    null = vectors[:, order[0]]
    np.testing.assert_allclose(np.abs(null), between / np.sqrt(between.sum()), atol=1e-9)


def test_a_singular_system_corrects_the_feasible_rates(device: str) -> None:
    """Feasible rates are corrected, the rest is spread evenly, and velocities have the size of the requested rates."""
    springs = sheet(device, CORNERS)
    A = springs.whole()
    springs.matrix.factor.factor()
    assert springs.matrix.factor.regularized
    null = (springs.pairs >= CORNERS[0]).all(axis=1) / np.sqrt(N - 1)
    b = np.random.default_rng(1).normal(size=len(springs.pairs))
    s, dv = springs.correct(b)
    reached = A @ s
    assert np.abs(reached - b).max() > 0.01  # the pins cannot move
    possible = b - (null @ b) * null
    # eps/(eps + eigenvalue) of the other modes remains: eps is 0.04, most of the eigenvalues are of the order of 1.
    assert np.linalg.norm(reached - possible) < 0.2 * np.linalg.norm(b)
    assert np.linalg.norm(dv) < 2.5 * np.linalg.norm(b)


def test_regular_systems_are_not_regularized(device: str) -> None:
    springs = sheet(device, CORNERS[:1])
    A = springs.whole()
    springs.matrix.factor.factor()
    assert not springs.matrix.factor.regularized
    b = np.random.default_rng(2).normal(size=len(springs.pairs))
    np.testing.assert_allclose(A @ springs.correct(b)[0], b, atol=1e-10)


def test_held_springs_do_not_affect_the_others(device: str) -> None:
    """A row of pins along one side: a compliance instead of a deleted row does not affect the other springs."""
    top = tuple(range(N * (N - 1), N * N))
    springs = sheet(device, top)
    held = np.isin(springs.pairs, top).all(axis=1)
    A = springs.whole()
    assert not A[held].toarray().any()
    springs.upper(np.where(held, 2.0, 0.0))
    springs.matrix.factor.factor()
    assert not springs.matrix.factor.regularized
    b = np.where(held, 0.0, np.random.default_rng(3).normal(size=len(springs.pairs)))
    s = springs.correct(b)[0]
    kept = np.flatnonzero(~held)
    deleted = Ldlt(*upper_of(A[kept][:, kept]))
    deleted.values[:] = sparse.triu(A[kept][:, kept]).tocsc().data
    deleted.factor()
    np.testing.assert_allclose(s[kept], deleted.solve(b[kept]), atol=1e-10)
    assert not s[held].any()


def upper_of(A: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    upper = sparse.triu(A).tocsc()
    upper.sort_indices()
    return upper.indptr, upper.indices


def spd(seed: int) -> tuple[Ldlt, np.ndarray]:
    rng = np.random.default_rng(seed)
    B = sparse.random(40, 40, 0.1, random_state=rng).toarray()
    A = B @ B.T + np.eye(40)
    factor = Ldlt(*upper_of(sparse.csr_matrix(A)))
    factor.values[:] = sparse.triu(A).tocsc().data
    return factor, A


def test_the_symbolic_factor_is_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """New values on the same pattern give the same bits as a new factor; QDLDL analyzes the pattern once."""
    analyses, solver = [], qdldl.Solver

    def analyze(*arguments: Any, **options: Any) -> Any:
        analyses.append(1)
        return solver(*arguments, **options)

    monkeypatch.setattr(qdldl, "Solver", analyze)
    factor, A = spd(4)
    factor.factor()
    b = np.random.default_rng(5).normal(size=40)
    np.testing.assert_allclose(A @ factor.solve(b), b, atol=1e-12)
    factor.values[upper_of(sparse.csr_matrix(A))[0][1:] - 1] += 0.5  # the diagonal is the last entry of each column
    factor.factor()
    assert len(analyses) == 1
    renewed = factor.solve(b)
    factor.forget_pattern()
    factor.factor()
    assert len(analyses) == 2
    assert np.array_equal(factor.solve(b), renewed)


@pytest.mark.parametrize("values", [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]])
def test_zero_and_negative_pivots_give_finite_solutions(values: list[list[float]]) -> None:
    """Two equal rows, an indefinite matrix, and a row of zeros: each solution is finite."""
    full = sparse.csr_matrix(np.ones((2, 2)))
    factor = Ldlt(*upper_of(full))
    factor.values[:] = [values[0][0], values[0][1], values[1][1]]
    factor.factor()
    assert factor.regularized
    assert np.isfinite(factor.solve(np.array([1.0, 1.0]))).all()
    # The next factor is not affected.
    factor.values[:] = [2.0, 1.0, 2.0]
    factor.factor()
    assert not factor.regularized
    np.testing.assert_allclose(factor.solve(np.array([1.0, 1.0])), 1.0 / 3.0, atol=1e-14)


def test_uncoupled_systems_of_different_scale_are_not_regularized(device: str) -> None:
    """Two uncoupled systems, one with entries a million times smaller: they are not regularized, and each has the
    solution that it has alone."""
    random = np.random.default_rng(3)
    parts = []
    for scale in (1.0, 1e-6):
        J = random.normal(size=(6, 9))
        parts.append(scale * (J @ J.T))
    factor = Ldlt(*upper_of(sparse.csr_matrix(sparse.block_diag(parts))))
    both = sparse.triu(sparse.block_diag(parts), format="csc")
    both.sort_indices()
    factor.values[:] = both.data
    factor.factor()
    assert not factor.regularized
    right = random.normal(size=12)
    found = factor.solve(right)
    for part, rows in zip(parts, (slice(0, 6), slice(6, 12)), strict=True):
        np.testing.assert_allclose(part @ found[rows], right[rows], rtol=1e-8, atol=1e-10)
