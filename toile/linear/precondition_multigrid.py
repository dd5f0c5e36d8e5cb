"""Multigrid over grids in uv: iterations hardly grow with the size of the mesh.

    A_0 = S A S + eps (I - S),    A_(l+1) = P^T A_l P

One V-cycle is the preconditioner: smooth on each level from fine to coarse, solve on the coarsest, correct and smooth
back. The smoother is a Chebyshev polynomial in D^-1 A_l, D the blocks on the diagonal; before and after are the same,
so that the whole is symmetric. What contacts add to the diagonal blocks of A is in A_0; what they add elsewhere takes
part in the products of the solver alone.

The hierarchy depends on the mesh alone and is made once. Each product is then a sum of weighted blocks over a list that
does not change, first B = A P and then P^T B: no host loop, and the same sums in the same order on every device.

Source      [BW98] sec. 5.3 has room for any P; Chebyshev smoothing: Adams, Brezina, Hu & Tuminaro 2003
Symbols     P  weights of a level (toile/linear/uv_hierarchy.py)     S  free directions     r  residual
            d  correction     lambda  bound of the eigenvalues of D^-1 A_l
Deviations  none
"""

from typing import Any

import numpy as np
import scipy.sparse as sparse
import warp as wp

from toile.launcher import Launcher
from toile.linear.base import Preconditioner
from toile.linear.block_matrix import BlockMatrix, row_product
from toile.linear.uv_hierarchy import interpolations
from toile.math.types import identity, mat33, numpy_real, real, vec3
from toile.plugins import quantity

# The part of the eigenvalues that smoothing is for: above lambda / SMOOTHED. The rest is smooth on the next grid.
SMOOTHED = 10.0
# Of elements with p points D^-1 A has no eigenvalue above p, because x A_e x <= p (sum of x_i A_e,ii x_i) for each of
# them. Hinges have 4. On coarser grids elements reach more nodes, but as smooth functions: 2.9 was the largest found.
BOUND = 4.0
# Added to diagonal blocks, of their mean: nodes that only held particles reach, or two that the same ones do, would
# make them singular.
REGULARISATION = 1e-6
REGULARISED = wp.constant(real(REGULARISATION))
# What resists in held directions, of the mean of the particle's block. Nothing may move there, so it only has to be
# far from rounding; as large as the block itself it would keep a grid node from moving the free among its particles.
HELD = wp.constant(real(1e-3))
TINY_BLOCK = wp.constant(real(1e-30))


class Multigrid(Preconditioner):
    """V-cycle over grids in uv; for large meshes, and for the GPU."""

    smoothing: int = quantity(3, doc="terms of the smoother before and after each coarse correction", ge=1, le=10)

    def build(self, A: BlockMatrix, S: wp.array) -> Any:
        return _Working(A, S, self.smoothing)


class _Working:
    give_up_after = 0  # making it anew costs a few iterations

    def __init__(self, A: BlockMatrix, S: wp.array, smoothing: int):
        self.A, self.S = A, S
        device = A.device
        self._launch = Launcher(device)
        self._rows = wp.array(A.rows, dtype=wp.int32, device=device)
        weights = [] if A.sites is None else interpolations(A.sites(), A.row_count)
        finest = _Level(A.offsets, A.columns, device)
        self.levels = [finest]
        self.transfers: list[_Transfer] = []
        for P in weights:
            transfer = _Transfer(self.levels[-1], P, device)
            self.transfers.append(transfer)
            self.levels.append(transfer.coarse)
        self.coarsest = _Direct(self.levels[-1], device)
        self._steps = _chebyshev(smoothing)

    def update(self) -> bool:
        A, launch, finest = self.A, self._launch, self.levels[0]
        launch(filter_blocks, len(A.rows), [self._rows, A.device_columns, A.values, self.S, finest.values])
        for transfer in self.transfers:
            transfer.update()
        for level in self.levels[:-1]:
            launch(invert_diagonals, level.n, [level.diagonal, level.values, level.inverse])
        return self.coarsest.update()

    def apply(self, r: wp.array, s_out: wp.array) -> None:
        launch, levels, steps = self._launch_levels, self.levels, self._steps
        finest = levels[0]
        if not self.transfers:
            self.coarsest.apply(r, s_out)
            return
        for k, transfer in enumerate(self.transfers):
            level = levels[k]
            x = s_out if k == 0 else level.x
            given = r if k == 0 else level.given
            launch(k, begin, [level.inverse, given, steps[0][1], level.r, level.d[0], x])
            d = self._smooth(k, steps[1:], 0, x)
            launch(k, subtract_product, [*level.matrix, level.d[d], level.r])
            transfer.launch(restrict, levels[k + 1].n, [*transfer.down, level.r, levels[k + 1].given])
        self.coarsest.apply(levels[-1].given, levels[-1].x)
        for k in reversed(range(len(self.transfers))):
            level, transfer = levels[k], self.transfers[k]
            x = s_out if k == 0 else level.x
            transfer.launch(correct, level.n, [*transfer.up, levels[k + 1].x, level.d[0], x])
            self._smooth(k, steps, 0, x)
        finest.launch(filter_vectors, finest.n, [self.S, s_out])

    def _launch_levels(self, k: int, kernel: wp.Kernel, inputs: list) -> None:
        level = self.levels[k]
        level.launch(kernel, level.n, inputs)

    def _smooth(self, k: int, steps: list[tuple[float, float]], d: int, x: wp.array) -> int:
        """Steps from the correction in d[d], which the residual does not know yet; where the last correction is."""
        level = self.levels[k]
        for keep, add in steps:
            inputs = [*level.matrix, level.inverse, level.d[d], keep, add, level.r, level.d[1 - d], x]
            level.launch(smooth, level.n, inputs)
            d = 1 - d
        return d


class _Level:
    """A matrix on its pattern, and the vectors of a cycle."""

    def __init__(self, offsets: np.ndarray, columns: np.ndarray, device: str):
        self.offsets, self.columns = offsets, columns
        n = self.n = len(offsets) - 1
        self.rows = np.repeat(np.arange(n), np.diff(offsets))
        diagonal = np.flatnonzero(self.rows == columns)
        self.values = wp.zeros(len(columns), dtype=mat33, device=device)
        self.matrix = [
            wp.array(offsets, dtype=wp.int32, device=device),
            wp.array(columns, dtype=wp.int32, device=device),
            self.values,
        ]
        self.diagonal = wp.array(diagonal, dtype=wp.int32, device=device)
        self.inverse = wp.zeros(n, dtype=mat33, device=device)
        self.x, self.r, self.given = (wp.zeros(n, dtype=vec3, device=device) for _ in range(3))
        self.d = [wp.zeros(n, dtype=vec3, device=device) for _ in range(2)]
        self.launch = Launcher(device)


class _Transfer:
    """Between a level and the next coarser one: weights both ways, and the lists of its Galerkin product."""

    def __init__(self, fine: _Level, P: sparse.csr_array, device: str):
        ones = sparse.csr_array((np.ones(len(fine.columns)), fine.columns, fine.offsets), shape=(fine.n, fine.n))
        half = _product(ones, P, of_first=True)  # B = A P: a list of blocks of A for each block of B
        self._middle = half.pattern
        whole = _product(sparse.csr_array(P.T), half.pattern, of_first=False)
        self.coarse = _Level(whole.pattern.indptr, whole.pattern.indices, device)
        self._lists = [half.on(device), whole.on(device)]
        self._B = wp.zeros(half.pattern.nnz, dtype=mat33, device=device)
        self._fine = fine
        self.up, self.down = _on(P, device), _on(sparse.csr_array(P.T), device)
        self.launch = Launcher(device)

    def update(self) -> None:
        self.launch(combine, len(self._B), [*self._lists[0], self._fine.values, self._B])
        self.launch(combine, len(self.coarse.values), [*self._lists[1], self._B, self.coarse.values])


class _Combination:
    """Each block of a product as a weighted sum of the blocks of one factor, the other being numbers."""

    def __init__(self, pattern: sparse.csr_array, offsets: np.ndarray, sources: np.ndarray, weights: np.ndarray):
        self.pattern, self.offsets, self.sources, self.weights = pattern, offsets, sources, weights

    def on(self, device: str) -> list[wp.array]:
        return [
            wp.array(self.offsets, dtype=wp.int32, device=device),
            wp.array(self.sources, dtype=wp.int32, device=device),
            wp.array(self.weights, dtype=real, device=device),
        ]


def _product(first: sparse.csr_array, second: sparse.csr_array, of_first: bool) -> _Combination:
    """The lists of first @ second: of the blocks of the first, or of the second."""
    rows = np.repeat(np.arange(first.shape[0]), np.diff(first.indptr))
    counts = np.diff(second.indptr)[first.indices]
    left = np.repeat(np.arange(first.nnz), counts)
    within = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    right = second.indptr[first.indices].astype(np.int64)[left] + within
    keys = rows[left] * np.int64(second.shape[1]) + second.indices[right]
    order = np.argsort(keys, kind="stable")
    keys, left, right = keys[order], left[order], right[order]
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    begins = np.flatnonzero(new)
    kept = keys[begins]
    indptr = np.searchsorted(kept, np.arange(first.shape[0] + 1) * np.int64(second.shape[1]))
    columns = (kept % second.shape[1]).astype(np.int32)
    shape = (first.shape[0], second.shape[1])
    pattern = sparse.csr_array((np.ones(len(kept)), columns, indptr.astype(np.int32)), shape=shape)
    offsets = np.append(begins, len(keys))
    sources, weights = (left, second.data[right]) if of_first else (right, first.data[left])
    return _Combination(pattern, offsets, sources, weights)


def _on(P: sparse.csr_array, device: str) -> list[wp.array]:
    return [
        wp.array(P.indptr, dtype=wp.int32, device=device),
        wp.array(P.indices, dtype=wp.int32, device=device),
        wp.array(P.data, dtype=real, device=device),
    ]


class _Direct:
    """The inverse of the coarsest matrix, dense; made on the host, which it is small enough for."""

    def __init__(self, level: _Level, device: str):
        self.level = level
        self.inverse = wp.zeros((3 * level.n, 3 * level.n), dtype=real, device=device)

    def update(self) -> bool:
        level, n = self.level, self.level.n
        full = np.zeros((n, n, 3, 3))
        full[level.rows, level.columns] = level.values.numpy()
        dense = full.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)
        mean = np.trace(full[np.arange(n), np.arange(n)], axis1=1, axis2=2) / 3.0
        dense[np.diag_indices(3 * n)] += np.repeat(np.where(mean > 1e-30, REGULARISATION * mean, 1.0), 3)
        try:
            root = np.linalg.inv(np.linalg.cholesky(dense))
        except np.linalg.LinAlgError:
            return False
        if not np.isfinite(root).all():
            return False
        self.inverse.assign((root.T @ root).astype(numpy_real))
        return True

    def apply(self, given: wp.array, x_out: wp.array) -> None:
        self.level.launch(multiply_dense, self.level.n, [self.inverse, given, x_out])


def _chebyshev(terms: int) -> list[tuple[float, float]]:
    """Of each step d = keep d + add (D^-1 r): the two factors."""
    low, high = BOUND / SMOOTHED, BOUND
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    rho = half / middle
    found = [(0.0, 1.0 / middle)]
    for _ in range(terms - 1):
        next_rho = 1.0 / (2.0 * middle / half - rho)
        found.append((next_rho * rho, 2.0 * next_rho / half))
        rho = next_rho
    return found


@wp.kernel
def filter_blocks(
    # model
    rows: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), S: wp.array(dtype=mat33),
    # out
    values_out: wp.array(dtype=mat33),
):
    k = wp.tid()
    i, j = rows[k], columns[k]
    block = S[i] * values[k] * S[j]
    if i == j:
        block += HELD * wp.trace(values[k]) / real(3.0) * (identity() - S[i])
    values_out[k] = block


@wp.kernel
def filter_vectors(S: wp.array(dtype=mat33), x_out: wp.array(dtype=vec3)):
    i = wp.tid()
    x_out[i] = S[i] * x_out[i]


@wp.kernel
def combine(
    # model
    offsets: wp.array(dtype=wp.int32), sources: wp.array(dtype=wp.int32), weights: wp.array(dtype=real),
    # in
    blocks: wp.array(dtype=mat33),
    # out
    blocks_out: wp.array(dtype=mat33),
):
    k = wp.tid()
    total = mat33()
    for e in range(offsets[k], offsets[k + 1]):
        total += weights[e] * blocks[sources[e]]
    blocks_out[k] = total


@wp.kernel
def invert_diagonals(
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33),
    # out
    inverse_out: wp.array(dtype=mat33),
):
    i = wp.tid()
    block = values[diagonal[i]]
    mean = wp.trace(block) / real(3.0)
    if mean > TINY_BLOCK:
        inverse_out[i] = wp.inverse(block + REGULARISED * mean * identity())
    else:
        inverse_out[i] = mat33()  # nothing is free here


@wp.kernel
def begin(
    # in
    inverse: wp.array(dtype=mat33), given: wp.array(dtype=vec3), add: real,
    # out
    r_out: wp.array(dtype=vec3), d_out: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    d = add * (inverse[i] * given[i])
    r_out[i] = given[i]
    d_out[i] = d
    x_out[i] = d


@wp.kernel
def smooth(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), inverse: wp.array(dtype=mat33), d: wp.array(dtype=vec3), keep: real, add: real,
    # in and out
    r_out: wp.array(dtype=vec3),
    # out
    d_out: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    r = r_out[i] - row_product(offsets, columns, values, d, i)
    r_out[i] = r
    step = keep * d[i] + add * (inverse[i] * r)
    d_out[i] = step
    x_out[i] = x_out[i] + step


@wp.kernel
def subtract_product(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), d: wp.array(dtype=vec3),
    # in and out
    r_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    r_out[i] = r_out[i] - row_product(offsets, columns, values, d, i)


@wp.func
def weighted(
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), weights: wp.array(dtype=real),
    x: wp.array(dtype=vec3), i: int,
) -> vec3:
    total = vec3()
    for e in range(offsets[i], offsets[i + 1]):
        total += weights[e] * x[columns[e]]
    return total


@wp.kernel
def restrict(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), weights: wp.array(dtype=real),
    # in
    r: wp.array(dtype=vec3),
    # out
    given_out: wp.array(dtype=vec3),
):
    a = wp.tid()
    given_out[a] = weighted(offsets, columns, weights, r, a)


@wp.kernel
def correct(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), weights: wp.array(dtype=real),
    # in
    coarse: wp.array(dtype=vec3),
    # out
    d_out: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    d = weighted(offsets, columns, weights, coarse, i)
    d_out[i] = d
    x_out[i] = x_out[i] + d


@wp.kernel
def multiply_dense(inverse: wp.array2d(dtype=real), given: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3)):
    i = wp.tid()
    total = vec3()
    for j in range(x_out.shape[0]):
        g = given[j]
        for c in range(3):
            row = vec3(inverse[3 * i + c, 3 * j], inverse[3 * i + c, 3 * j + 1], inverse[3 * i + c, 3 * j + 2])
            total[c] = total[c] + wp.dot(row, g)
    x_out[i] = total
