"""A sparse Cholesky factor of the constrained matrix: one or two iterations where block-Jacobi needs hundreds.

    P = S A S + (I - S)

Source      [BW98] sec. 5.3 admits any P; the filter keeps constraints exact whatever P is, so a factor of an earlier
            matrix is still a correct preconditioner
Deviations  The paper doubts that elaborate preconditioners pay. On a hanging sheet of 2,601 particles this one makes a
            step several times faster than block-Jacobi (benchmarks/).
"""

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.errors import InputError
from toile.linear.base import BuiltPreconditioner, Preconditioner
from toile.linear.block_matrix import BlockMatrix
from toile.linear.direct.nested_dissection import nested_dissection
from toile.linear.direct.sparse_factor import make_factor
from toile.math.types import identity, mat33
from toile.model.state_dict import StateDict


@wp.kernel
def fill_lower_triangle(
    # model
    slots: wp.array(dtype=wp.int32), rows: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    places: wp.array(dtype=wp.vec3i),
    # in
    values: wp.array(dtype=mat33), S: wp.array(dtype=mat33),
    # out
    lower_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    k = wp.tid()
    i, j = rows[k], columns[k]
    block = S[i] * values[slots[k]] * S[j]
    first = places[k]
    if i == j:
        block += identity() - S[i]
        for c in range(3):
            for r in range(c, 3):
                lower_out[first[c] + r - c] = wp.float64(block[r, c])
    else:
        for c in range(3):
            for r in range(3):
                lower_out[first[c] + r] = wp.float64(block[r, c])


class Cholesky(Preconditioner):
    """Sparse direct factor (CHOLMOD or QDLDL); for the CPU."""

    def build(self, A: BlockMatrix, S: wp.array) -> BuiltPreconditioner:
        if not wp.get_device(A.device).is_cpu:
            raise InputError("solver.preconditioner = cholesky runs on the CPU only: choose block_jacobi.")
        return CholeskyPreconditioner(A, S)


class CholeskyPreconditioner(BuiltPreconditioner):
    """A sparse factor of a matrix, and the positions of its blocks in the lower triangle."""

    def __init__(self, A: BlockMatrix, S: wp.array):
        self.A, self.S = A, S
        lower = np.flatnonzero(A.rows >= A.columns)
        order = np.lexsort((A.rows[lower], A.columns[lower]))  # by column, then row, for compressed columns
        slots = lower[order]
        rows, columns = A.rows[slots], A.columns[slots]
        heights = np.stack([np.where(rows == columns, 3 - c, 3) for c in range(3)], axis=1)
        # Scalar column 3 j + c contains rows 3 i .. 3 i + 2 of every block (i, j), from the diagonal down.
        column_heights = np.stack([np.bincount(columns, heights[:, c], A.row_count) for c in range(3)], axis=1)
        offsets = np.concatenate([[0], np.cumsum(column_heights.ravel())]).astype(np.int64)
        before = np.cumsum(heights, axis=0) - heights
        first_of_column = np.searchsorted(columns, columns)  # columns are sorted
        places = offsets[3 * columns[:, None] + np.arange(3)] + before - before[first_of_column]
        row_indices = np.empty(offsets[-1], np.int64)
        for c in range(3):
            for r in range(3):
                here = (rows != columns) | (r >= c)
                shift = np.where(rows == columns, r - c, r)
                row_indices[(places[:, c] + shift)[here]] = 3 * rows[here] + r
        if A.points is None:
            self.factor = make_factor(offsets, row_indices)
        else:
            order = nested_dissection(A.rows, A.columns, A.points)
            self.factor = make_factor(offsets, row_indices, (3 * order[:, None] + np.arange(3)).ravel())
        self.give_up_after = self.factor.give_up_after
        device = A.device
        self._model = [
            wp.array(slots, dtype=wp.int32, device=device),
            wp.array(rows, dtype=wp.int32, device=device),
            wp.array(columns, dtype=wp.int32, device=device),
            wp.array(places, dtype=wp.vec3i, device=device),
        ]
        self._launch = Launcher(device)
        self._lower = wp.array(self.factor.values, dtype=wp.float64, device=device, copy=False)

    def update(self) -> bool:
        inputs = [*self._model, self.A.values, self.S, self._lower]
        self._launch(fill_lower_triangle, len(self._model[0]), inputs)
        return self.factor.factor()

    def apply(self, r: wp.array, s_out: wp.array) -> None:
        self.factor.solve(r.numpy().ravel(), s_out.numpy().reshape(-1))

    def state_dict(self) -> StateDict:
        return {"values": self.factor.values}

    def load_state_dict(self, state_dict: StateDict) -> bool:
        self.factor.values[:] = state_dict["values"]
        return self.factor.factor()
