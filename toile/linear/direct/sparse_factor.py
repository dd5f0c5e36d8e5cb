"""Sparse Cholesky of a symmetric matrix on a fixed pattern: CHOLMOD when it is installed, QDLDL otherwise.

Both take the lower triangle in compressed columns and keep their symbolic analysis. CHOLMOD's supernodal factor is
several times as fast at the sizes of cloth; it comes with cvxopt, which is GPL and therefore an optional dependency.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sparse

if TYPE_CHECKING:
    from collections.abc import Iterator


def make_factor(offsets: np.ndarray, rows: np.ndarray, order: np.ndarray | None = None) -> Cholmod | Qdldl:
    """Returns the fastest factor that is installed, for a lower triangle given by column offsets and row indices.

    `order` is an elimination order; minimum degree is the default of both, and QDLDL takes no other.
    """
    try:
        return Cholmod(offsets, rows, order)
    except ImportError:
        return Qdldl(offsets, rows)


class Cholmod:
    """CHOLMOD through cvxopt."""

    # A new factor costs about as much as six iterations; with that of the step before, thirty are needed.
    give_up_after = 0

    def __init__(self, offsets: np.ndarray, rows: np.ndarray, order: np.ndarray | None = None):
        with _fast_blas():
            from cvxopt import cholmod, matrix, spmatrix
        self._cholmod = cholmod
        columns = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        n = len(offsets) - 1
        self._V = matrix(0.0, (len(rows), 1))
        self.values = np.asarray(self._V).ravel()  # a view of what is factored
        self._matrix = spmatrix(1.0, rows.astype(int).tolist(), columns.tolist(), (n, n))
        cholmod.options["supernodal"] = 2
        permutation = [] if order is None else [matrix(order.tolist())]  # cvxopt takes no None here
        self._symbolic = cholmod.symbolic(self._matrix, *permutation, uplo="L")
        self._right = matrix(0.0, (n, 1))
        self._right_view = np.asarray(self._right).ravel()

    def factor(self) -> bool:
        """Factors the current `values`; returns False when the matrix is not positive definite."""
        self._matrix.V = self._V
        try:
            self._cholmod.numeric(self._matrix, self._symbolic)
        except ArithmeticError:
            return False
        return True

    def solve(self, right: np.ndarray, out: np.ndarray) -> None:
        self._right_view[:] = right
        self._cholmod.solve(self._symbolic, self._right)
        out[:] = self._right_view


class Qdldl:
    """QDLDL, simplicial and slower to factor, so that a stale factor is kept while it serves."""

    give_up_after = 30  # a factor costs as much as some thirty iterations

    def __init__(self, offsets: np.ndarray, rows: np.ndarray):
        n = len(offsets) - 1
        self.values = np.zeros(len(rows))
        # QDLDL takes the upper triangle: the transpose of the lower, the same numbers in another order.
        order = sparse.csc_matrix((np.arange(1.0, len(rows) + 1), rows, offsets), (n, n)).T.tocsc()
        self._order = order.data.astype(np.int64) - 1
        self._upper = sparse.csc_matrix((np.zeros(len(rows)), order.indices, order.indptr), (n, n))
        self._solver: Any = None

    def factor(self) -> bool:
        import qdldl

        self._upper.data[:] = self.values[self._order]
        try:
            if self._solver is None:
                self._solver = qdldl.Solver(self._upper, upper=True)
            else:
                self._solver.update(self._upper, upper=True)
        except RuntimeError:
            return False
        # LDL^T exists for indefinite matrices too: the signs of the pivots decide. NaN is not greater than 0 either.
        return bool((self._solver.factors()[1] > 0.0).all())

    def solve(self, right: np.ndarray, out: np.ndarray) -> None:
        out[:] = self._solver.solve(right)


@contextmanager
def _fast_blas() -> Iterator[None]:
    """Makes cvxopt's BLAS use AVX2 where the CPU has it.

    The OpenBLAS inside cvxopt 1.3 does not know CPUs newer than itself and falls back to SSE3 kernels, which makes a
    factorization half as fast. NumPy's OpenBLAS is recent: where it found AVX2, Haswell's kernels run.
    """
    from threadpoolctl import threadpool_info

    known = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids"}
    has_avx2 = any(library.get("architecture") in known for library in threadpool_info())
    if not has_avx2 or "OPENBLAS_CORETYPE" in os.environ:
        yield
        return
    os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    try:
        yield
    finally:
        del os.environ["OPENBLAS_CORETYPE"]
