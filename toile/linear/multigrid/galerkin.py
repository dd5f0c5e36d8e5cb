"""Galerkin products P^T A P of a matrix A of blocks and a matrix P of weights, on fixed patterns.

    B = A P,    A_coarse = P^T B

The patterns are found once. So is the target of each term, the index in its row of the block to which it is added: two
bytes a term, in the order in which the rows of the factors are traversed. Every row is one independent sum, in the same
order on every device and for any number of threads.

Source      [BW98] has no such products; they are those of any multigrid method
Symbols     S  free directions: the matrix is S A S + eps (I - S)     D  blocks on the diagonal
            K  contribution of contacts to D, beside the elastic part
Deviations  none
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import warp as wp

from toile.device.launcher import Launcher
from toile.linear.multigrid.galerkin_blocks import ROUNDER, BlockFilter, filtered, inverse_of, on_diagonal
from toile.linear.multigrid.galerkin_gpu import GpuProduct
from toile.math.types import mat33, real


class Matrix:
    """A matrix of blocks on a fixed pattern, with the free directions of its rows."""

    def __init__(self, pattern: sparse.csr_array, offsets: wp.array, columns: wp.array, values: wp.array, S: wp.array):
        self.pattern, self.offsets, self.columns, self.values, self.S = pattern, offsets, columns, values, S

    @property
    def arrays(self) -> list[wp.array]:
        return [self.offsets, self.columns, self.values, self.S]


class Weights:
    """P on a device: rows are the finer nodes, columns the coarser ones."""

    def __init__(self, P: sparse.csr_array, device: str):
        self.offsets = wp.array(P.indptr, dtype=wp.int32, device=device)
        self.columns = wp.array(P.indices, dtype=wp.int32, device=device)
        self.weights = wp.array(P.data, dtype=wp.float32, device=device)

    @property
    def arrays(self) -> list[wp.array]:
        return [self.offsets, self.columns, self.weights]


@wp.struct
class ProductRows:
    """Where the blocks and the terms of each row of a product begin."""

    offsets: wp.array(dtype=wp.int32)
    starts: wp.array(dtype=wp.int32)


@dataclass(frozen=True)
class Terms:
    """Terms of Z = X Y, in the order in which the rows of X and then those of Y are traversed."""

    rows: ProductRows  # of Z
    targets: wp.array  # index in its row of the block of Z to which a term is added

    @staticmethod
    def of(X: sparse.csr_array, Y: sparse.csr_array, Z: sparse.csr_array, device: str) -> "Terms":
        ends = np.concatenate([[0], np.cumsum(np.diff(Y.indptr)[X.indices], dtype=np.int64)])
        rows = ProductRows()
        rows.offsets = wp.array(Z.indptr, dtype=wp.int32, device=device)
        rows.starts = wp.array(ends[X.indptr], dtype=wp.int32, device=device)
        targets = wp.zeros(int(ends[-1]), dtype=wp.uint16, device=device)
        patterns = [array for matrix in (X, Y, Z) for array in Weights(matrix, device).arrays[:2]]
        Launcher(device).split(find_targets, X.shape[0], [*patterns, rows.starts, targets])
        return Terms(rows, targets)


class Product:
    """The product P^T A P; its result is `coarse`."""

    def __init__(self, A: Matrix, P: sparse.csr_array, device: str):
        down = sparse.csr_array(P.T)
        half = _product(A.pattern, P)
        whole = _product(down, half)
        self.up, self.down = Weights(P, device), Weights(down, device)
        self._A, self._launch = A, Launcher(device)
        self._B = wp.zeros(half.nnz, dtype=mat33, device=device)
        self._right, self._left = Terms.of(A.pattern, P, half, device), Terms.of(down, half, whole, device)
        n = whole.shape[0]
        free = wp.full(n, mat33(np.eye(3)), dtype=mat33, device=device)
        values = wp.zeros(whole.nnz, dtype=mat33, device=device)
        pattern = Weights(whole, device)
        self.coarse = Matrix(whole, pattern.offsets, pattern.columns, values, free)
        self._on_gpu: GpuProduct | None = None
        if self.runs_on_gpu(device):
            self._on_gpu = GpuProduct(A, self._B, self.coarse, (self.up, self._right), (self.down, self._left))

    @staticmethod
    def runs_on_gpu(device: str) -> bool:
        return wp.get_device(device).is_cuda

    def update(self, filters: BlockFilter, rounded_out: wp.array, inverse_out: wp.array) -> None:
        """Computes the product from the current values of A, and the rounded blocks and inverses for cycles."""
        if self._on_gpu is not None:
            self._on_gpu.update(filters, rounded_out, inverse_out)
            return
        A, P, right, left = self._A, self.up, self._right, self._left
        matrix, product = [A.offsets, A.columns, A.values, filters], [P.offsets, P.weights, right.rows, right.targets]
        inputs = [*matrix, *product, rounded_out, inverse_out, self._B]
        self._launch.split(multiply_right, A.pattern.shape[0], inputs, fewest=1)
        inputs = [*self.down.arrays, right.rows.offsets, left.rows, left.targets, self._B, self.coarse.values]
        self._launch.split(multiply_left, self.coarse.pattern.shape[0], inputs)


def _product(X: sparse.csr_array, Y: sparse.csr_array) -> sparse.csr_array:
    """Returns the pattern of X Y with increasing columns."""
    found = sparse.csr_array(X @ Y)
    found.sort_indices()
    return found


@wp.kernel
def multiply_right(
    first: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), filters: BlockFilter,
    # model
    offsets_P: wp.array(dtype=wp.int32), weights: wp.array(dtype=wp.float32), rows_B: ProductRows,
    targets: wp.array(dtype=wp.uint16),
    # out
    rounded_out: wp.array(dtype=wp.mat33f), inverse_out: wp.array(dtype=wp.mat33f), B_out: wp.array(dtype=mat33),
):  # fmt: skip
    """Computes row i of A as cycles use it, of D^-1 and of B = A P."""
    i = first + wp.tid()
    begin = rows_B.offsets[i] + 0
    for at in range(begin, rows_B.offsets[i + 1]):
        B_out[at] = mat33()
    D = mat33()
    t = rows_B.starts[i] + 0
    slot, end = offsets[i] + 0, offsets[i + 1] + 0
    while slot < end:
        j = columns[slot]
        block = filtered(values[slot], filters.S[i], filters.S[j])
        if j == i:
            own = on_diagonal(values[slot], filters, i)
            block = own.block
            D = own.D
        rounded_out[slot] = wp.mat33f((block + ROUNDER) - ROUNDER)
        e, end_P = offsets_P[j] + 0, offsets_P[j + 1] + 0
        while e < end_P:
            at = begin + int(targets[t])
            B_out[at] = B_out[at] + real(weights[e]) * block
            t += 1
            e += 1
        slot += 1
    inverse_out[i] = inverse_of(D)


@wp.kernel
def multiply_left(
    first: wp.int32,
    # model
    offsets_P: wp.array(dtype=wp.int32), columns_P: wp.array(dtype=wp.int32), weights: wp.array(dtype=wp.float32),
    offsets_B: wp.array(dtype=wp.int32), rows: ProductRows, targets: wp.array(dtype=wp.uint16),
    # in
    B: wp.array(dtype=mat33),
    # out
    values_out: wp.array(dtype=mat33),
):  # fmt: skip
    """Computes row a of P^T B, where the weights are those of P^T."""
    a = first + wp.tid()
    begin = rows.offsets[a] + 0
    for slot in range(begin, rows.offsets[a + 1]):
        values_out[slot] = mat33()
    t = rows.starts[a] + 0
    e, end_P = offsets_P[a] + 0, offsets_P[a + 1] + 0
    while e < end_P:
        i = columns_P[e]
        at, end = offsets_B[i] + 0, offsets_B[i + 1] + 0
        while at < end:
            slot = begin + int(targets[t])
            values_out[slot] = values_out[slot] + real(weights[e]) * B[at]
            t += 1
            at += 1
        e += 1


@wp.func
def find_column(columns: wp.array(dtype=wp.int32), begin: int, end: int, wanted: int) -> int:
    """Returns the index of `wanted` among increasing columns, or -1."""
    low, high = begin + 0, end + 0
    while low < high:
        middle = (low + high) // 2
        if columns[middle] == wanted:
            return middle
        if columns[middle] < wanted:
            low = middle + 1
        else:
            high = middle + 0
    return -1


@wp.kernel
def find_targets(
    first: wp.int32,
    # model
    offsets_X: wp.array(dtype=wp.int32), columns_X: wp.array(dtype=wp.int32),
    offsets_Y: wp.array(dtype=wp.int32), columns_Y: wp.array(dtype=wp.int32),
    offsets_Z: wp.array(dtype=wp.int32), columns_Z: wp.array(dtype=wp.int32), starts: wp.array(dtype=wp.int32),
    # out
    targets_out: wp.array(dtype=wp.uint16),
):  # fmt: skip
    i = first + wp.tid()
    t = starts[i] + 0
    for slot in range(offsets_X[i], offsets_X[i + 1]):
        j = columns_X[slot]
        for e in range(offsets_Y[j], offsets_Y[j + 1]):
            at = find_column(columns_Z, offsets_Z[i], offsets_Z[i + 1], columns_Y[e])
            targets_out[t] = wp.uint16(at - offsets_Z[i])
            t += 1
