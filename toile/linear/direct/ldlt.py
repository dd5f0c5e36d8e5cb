"""LDL^T factor of a symmetric matrix on a fixed pattern.

    P A P^T = L D L^T

The order P (approximate minimum degree), the permuted pattern and the pattern of L depend on the pattern of A alone:
they are found once, and later factorizations only compute the numbers.

A Gram matrix J W J^T is only positive semidefinite when the rows of J are linearly dependent. Where the pivots D show
that, A + eps I is factored instead, with an eps for each connected component of A: the solution leaves out the
components in which the rows contradict each other, and is otherwise the same.

Source      [Ye08] sec. 7 and table 1: "skipping the three stages"; QDLDL of the OSQP project
Deviations  [Ye08] sec. 6 assumes that A is positive definite. A flat sheet held at two points is a counterexample: the
            row of threads between them can be in tension without any motion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.csgraph import connected_components

# Pivots below this share of the largest diagonal entry belong to rows that are linearly dependent, or nearly so, and
# demand velocities a hundred times those that were to be corrected. In hanging, folded and pulled sheets the smallest
# are 1e-2, at times 2e-4. The largest entry is that of the same connected component: those of a heavy cloth are small
# beside those of a light one.
SMALLEST_PIVOT = 1e-4
# eps, relative to the same entry. Solutions then amplify nothing by more than 1/(2 sqrt(eps)) = 5.
REGULARIZATION = 1e-2


class Ldlt:
    """Factor of an upper triangle in compressed columns, given by offsets and row indices; callers write `values`."""

    def __init__(self, offsets: np.ndarray, rows: np.ndarray):
        n = len(offsets) - 1
        self._matrix = sparse.csc_matrix((np.zeros(len(rows)), rows, offsets), (n, n))
        self.values = self._matrix.data
        self._diagonal = offsets[1:] - 1  # rows are sorted: the diagonal is the last of each column
        self._parts = connected_components(self._pattern(rows, offsets), directed=False)[1]
        self._solver: Any = None
        self.regularized = False  # whether the last factor is one of A + eps I

    def factor(self) -> None:
        largest = self._largest()
        self.regularized = not self._factor(largest) > SMALLEST_PIVOT
        if self.regularized:
            self.values[self._diagonal] += REGULARIZATION * largest
            self._factor(largest)

    def solve(self, right: np.ndarray) -> np.ndarray:
        return self._solver.solve(right)

    def forget_pattern(self) -> None:
        """Makes the next factorization find the order and the patterns anew."""
        self._solver = None

    @staticmethod
    def _pattern(rows: np.ndarray, offsets: np.ndarray) -> sparse.csc_matrix:
        return sparse.csc_matrix((np.ones(len(rows)), rows, offsets), (len(offsets) - 1, len(offsets) - 1))

    def _largest(self) -> np.ndarray:
        """Returns for each row the largest diagonal entry of its component, or of the matrix where that is zero."""
        diagonal = self.values[self._diagonal]
        found = np.zeros(self._parts.max(initial=-1) + 1)
        np.maximum.at(found, self._parts, diagonal)
        return np.where(found > 0.0, found, diagonal.max(initial=0.0))[self._parts]

    def _factor(self, largest: np.ndarray) -> float:
        """Returns the smallest pivot relative to the largest entries; NaN where there is no factor."""
        import qdldl

        try:
            if self._solver is None:
                self._solver = qdldl.Solver(self._matrix, upper=True)
            else:
                self._solver.update(self._matrix, upper=True)
        except RuntimeError:  # a pivot is exactly zero
            return float("nan")
        _, pivots, order = self._solver.factors()
        return float((pivots / largest[order]).min())
