"""Dense inverse of a small matrix of blocks, for the coarsest level of a multigrid cycle.

On the CPU LAPACK computes it, on a GPU a Gauss-Jordan elimination with two pivot blocks in each launch.

Source      [BW98] has no direct solves; elimination without pivoting is stable for positive definite matrices
Symbols     a  the matrix, which its inverse replaces step by step
Deviations  none
"""

import numpy as np
import warp as wp
from scipy.linalg import get_lapack_funcs

from toile.device.lanes import lane_count, lanes_for, own_row, thread_count, vector_sum_of_lanes, writes_row
from toile.device.launcher import Launcher
from toile.linear.multigrid.galerkin import Matrix, find_column
from toile.linear.multigrid.galerkin_blocks import REGULARIZATION, TINY_BLOCK, filtered, held_part
from toile.math.types import identity, mat33, real, vec3

NOT_A_NUMBER = wp.constant(real(float("nan")))


def dense_inverse(A: Matrix, device: str) -> "DenseInverse":
    """Returns the implementation for a device."""
    return ByLapack(A, device) if wp.get_device(device).is_cpu else ByElimination(A, device)


class DenseInverse:
    """Dense inverse of S A S + eps (I - S), for at most a few hundred rows."""

    matrix: wp.array  # other terms may be added to it between `fill` and `invert`

    def __init__(self, A: Matrix, device: str):
        self._A, self._n, self._launch = A, A.pattern.shape[0], Launcher(device)
        self._lanes = lanes_for(self._n, device)
        self.matrix = self.inverse = wp.zeros((self._n, self._n), dtype=mat33, device=device)

    def fill(self) -> None:
        """Sets `matrix` to the current values of A."""
        self._launch(fill_dense, self._n * self._n, [*self._A.arrays, self.matrix])

    def invert(self) -> bool:
        """Computes the inverse; returns False when the matrix is found not to be positive definite."""
        raise NotImplementedError

    def multiply(self, given: wp.array, x_out: wp.array) -> None:
        """x = A^-1 given."""
        inputs = [self._lanes, self.inverse, given, x_out]
        self._launch(multiply_dense, thread_count(self._n, self._lanes), inputs)


class ByLapack(DenseInverse):
    """Inverse by LAPACK, on the CPU."""

    def invert(self) -> bool:
        blocks, n = self.matrix.numpy(), self._n  # the array itself, not a copy
        if not n:
            return True
        # In double precision nearly singular matrices stay positive definite.
        dense = blocks.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n).astype(np.float64)
        factorize, invert = get_lapack_funcs(("potrf", "potri"), (dense,))
        factor, failed = factorize(dense, lower=1)
        if failed or not np.isfinite(factor).all():
            return False
        lower = np.tril(invert(factor, lower=1)[0])
        blocks[:] = (lower + np.tril(lower, -1).T).reshape(n, 3, n, 3).transpose(0, 2, 1, 3)
        return True


class ByElimination(DenseInverse):
    """Inverse by elimination, without a readback: where the matrix is not positive definite, the inverse is NaN."""

    def __init__(self, A: Matrix, device: str):
        super().__init__(A, device)
        # Launches alternate between two arrays, and the last one writes the inverse.
        other = wp.zeros_like(self.inverse)
        self._turns = list(range(0, self._n, 2))
        self._arrays = [self.inverse, other] if len(self._turns) % 2 == 0 else [other, self.inverse]
        self.matrix = self._arrays[0]

    def invert(self) -> bool:
        for turn, k in enumerate(self._turns):
            self._launch(eliminate, self._n * self._n, [k, self._arrays[turn % 2], self._arrays[1 - turn % 2]])
        return True


@wp.kernel
def fill_dense(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), S: wp.array(dtype=mat33),
    # out
    dense_out: wp.array2d(dtype=mat33),
):  # fmt: skip
    k = wp.tid()
    i, j = k // dense_out.shape[0], k % dense_out.shape[0]
    block = mat33()
    at = find_column(columns, offsets[i], offsets[i + 1], j)
    if at >= 0:
        block = filtered(values[at], S[i], S[j])
        if i == j:
            block += held_part(values[at], S[i])
    if i == j:
        mean = wp.trace(block) / real(3.0)
        block += wp.where(mean > TINY_BLOCK, REGULARIZATION * mean, real(1.0)) * identity()
    dense_out[i, j] = block


@wp.func
def inverse_of_pivot(pivot: mat33) -> mat33:
    minor = pivot[0, 0] * pivot[1, 1] - pivot[0, 1] * pivot[1, 0]
    if pivot[0, 0] > real(0.0) and minor > real(0.0) and wp.determinant(pivot) > real(0.0):
        return wp.inverse(pivot)
    return NOT_A_NUMBER * identity()  # not positive definite: the NaN shows in every product with the inverse


@wp.func
def eliminated(block: mat33, row: mat33, column: mat33, pivot: mat33, i: int, j: int, k: int) -> mat33:
    """Returns block (i, j) after step k of Gauss-Jordan; `row` is block (k, j) before it, and `column` is (i, k)."""
    inverse = inverse_of_pivot(pivot)
    if i == k and j == k:
        return inverse
    if i == k:
        return inverse * row
    if j == k:
        return -(column * inverse)
    return block - column * (inverse * row)


@wp.func
def after_one(a: wp.array2d(dtype=mat33), i: int, j: int, k: int) -> mat33:
    return eliminated(a[i, j], a[k, j], a[i, k], a[k, k], i, j, k)


@wp.kernel
def eliminate(
    # in
    k: wp.int32, a: wp.array2d(dtype=mat33),
    # out
    a_out: wp.array2d(dtype=mat33),
):  # fmt: skip
    """Makes steps k and k + 1. Each thread computes for itself the blocks of the first that the second needs."""
    t = wp.tid()
    i, j, m = t // a.shape[0], t % a.shape[0], k + 1
    block = after_one(a, i, j, k)
    if m < a.shape[0]:
        row, column, pivot = after_one(a, m, j, k), after_one(a, i, m, k), after_one(a, m, m, k)
        block = eliminated(block, row, column, pivot, i, j, m)
    a_out[i, j] = block


@wp.kernel
def multiply_dense(
    # in
    lanes: wp.int32, inverse: wp.array2d(dtype=mat33), given: wp.array(dtype=wp.vec3f),
    # out
    x_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    t, m, n = wp.tid(), lane_count(lanes), inverse.shape[0]
    i, lane = t // m, t % m
    at = own_row(i, n)
    total = vec3()
    for j in range(lane, n, m):
        total += inverse[at, j] * vec3(given[j])
    x = vector_sum_of_lanes(wp.vec3f(total), m)
    if writes_row(i, lane, n):
        x_out[i] = x
