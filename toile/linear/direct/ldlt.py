"""Factor of a symmetric matrix whose numbers change and whose pattern does not.

    P A P^T = L D L^T

The order P (approximate minimum degree), the permuted pattern and the pattern of L depend on the pattern of A alone:
they are found once, and later factors only renew the numbers.

A Gram matrix J W J^T is only positive semidefinite when its rows are linearly dependent. What the pivots D show of that
is cured by A + eps I, with an eps for each part of A that has nothing to do with the others: the solution leaves out
what the rows contradict each other in, and is otherwise the same.

Source      [Ye08] sec. 7 and table 1: "skipping the three stages"; QDLDL of the OSQP project
Deviations  [Ye08] sec. 6 takes A for positive definite. A flat sheet held at two points is a counterexample: the row of
            threads between them can be in tension with nothing moving.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.csgraph import connected_components

# Pivots below this part of the largest entry on the diagonal are those of rows that depend on others, or nearly so,
# and ask for velocities a hundred times those that were to be corrected. In hanging, folded and pulled sheets the
# smallest are 1e-2, at times 2e-4. The largest of their own part: a heavy cloth is small beside a light one.
SMALLEST_PIVOT = 1e-4
# eps, of the same. Solutions then amplify nothing by more than 1/(2 sqrt(eps)) = 5.
REGULARISATION = 1e-2


class Ldlt:
    """The upper triangle in compressed columns, by its offsets and row indices; `values` are to be written to."""

    def __init__(self, offsets: np.ndarray, rows: np.ndarray):
        n = len(offsets) - 1
        self._matrix = sparse.csc_matrix((np.zeros(len(rows)), rows, offsets), (n, n))
        self.values = self._matrix.data
        self._diagonal = offsets[1:] - 1  # rows are sorted: the last of each column
        self._parts = connected_components(self._pattern(rows, offsets), directed=False)[1]
        self._solver: Any = None
        self.regularised = False  # whether the last factor is one of A + eps I

    def factor(self) -> None:
        largest = self._largest()
        self.regularised = not self._factor(largest) > SMALLEST_PIVOT
        if self.regularised:
            self.values[self._diagonal] += REGULARISATION * largest
            self._factor(largest)

    def solve(self, right: np.ndarray) -> np.ndarray:
        return self._solver.solve(right)

    def forget_pattern(self) -> None:
        """The next factor finds order and patterns anew."""
        self._solver = None

    @staticmethod
    def _pattern(rows: np.ndarray, offsets: np.ndarray) -> sparse.csc_matrix:
        return sparse.csc_matrix((np.ones(len(rows)), rows, offsets), (len(offsets) - 1, len(offsets) - 1))

    def _largest(self) -> np.ndarray:
        """For each row the largest entry on the diagonal of its part; where all are zero, that of all."""
        diagonal = self.values[self._diagonal]
        found = np.zeros(self._parts.max(initial=-1) + 1)
        np.maximum.at(found, self._parts, diagonal)
        return np.where(found > 0.0, found, diagonal.max(initial=0.0))[self._parts]

    def _factor(self, largest: np.ndarray) -> float:
        """The smallest pivot relative to the largest entries; not a number where there is no factor."""
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
