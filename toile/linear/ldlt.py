"""Factor of a symmetric matrix whose numbers change and whose pattern does not.

    P A P^T = L D L^T

The order P (approximate minimum degree), the permuted pattern and the pattern of L depend on the pattern of A alone:
they are found once, and later factors only renew the numbers.

A Gram matrix J W J^T is only positive semidefinite when its rows are linearly dependent. What the pivots D show of that
is cured by A + eps I: its solution leaves out what the rows contradict each other in, and is otherwise the same.

Source      [Ye08] sec. 7 and table 1: "skipping the three stages"; QDLDL of the OSQP project
Deviations  [Ye08] sec. 6 takes A for positive definite. A flat sheet held at two points is a counterexample: the row of
            threads between them can be in tension with nothing moving.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sparse

# Pivots below this part of the largest entry on the diagonal are those of rows that depend on others, or nearly so,
# and ask for velocities a hundred times those that were to be corrected. In hanging, folded and pulled sheets the
# smallest are 1e-2, at times 2e-4.
SMALLEST_PIVOT = 1e-4
# eps, of the largest entry on the diagonal. Solutions then amplify nothing by more than 1/(2 sqrt(eps)) = 5.
REGULARISATION = 1e-2


class Ldlt:
    """The upper triangle in compressed columns, by its offsets and row indices; `values` are to be written to."""

    def __init__(self, offsets: np.ndarray, rows: np.ndarray):
        n = len(offsets) - 1
        self._matrix = sparse.csc_matrix((np.zeros(len(rows)), rows, offsets), (n, n))
        self.values = self._matrix.data
        self._diagonal = offsets[1:] - 1  # rows are sorted: the last of each column
        self._solver: Any = None
        self.regularised = False  # whether the last factor is one of A + eps I

    def factor(self) -> None:
        largest = self.values[self._diagonal].max()
        self.regularised = not self._factor() > SMALLEST_PIVOT * largest
        if self.regularised:
            self.values[self._diagonal] += REGULARISATION * largest
            self._factor()

    def solve(self, right: np.ndarray) -> np.ndarray:
        return self._solver.solve(right)

    def forget_pattern(self) -> None:
        """The next factor finds order and patterns anew."""
        self._solver = None

    def _factor(self) -> float:
        """The smallest pivot; not a number where there is no factor."""
        import qdldl

        try:
            if self._solver is None:
                self._solver = qdldl.Solver(self._matrix, upper=True)
            else:
                self._solver.update(self._matrix, upper=True)
        except RuntimeError:  # a pivot is exactly zero
            return float("nan")
        return float(self._solver.factors()[1].min())
