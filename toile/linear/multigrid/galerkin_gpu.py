"""Galerkin products (toile/linear/multigrid/galerkin.py) on a GPU, by nine threads for every block: one for each entry.

One thread for a row would traverse some hundred blocks one after the other, and wait for each; a GPU has far more
threads than a mesh has rows. So the terms of every sum are listed once, each with its source block and its weight. Both
products are then the same sum,

    Z_z = sum over the terms of z of weight_t Y_(source_t)

with the terms in the order of the CPU. The filter and the inverse mix the entries of a block; they are computed first,
by one thread for each block.

Source      none
Symbols     as in toile/linear/multigrid/galerkin.py; B = A P, and then P^T B, is Z = X Y
Deviations  none
"""

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.linear.multigrid.galerkin_blocks import ROUNDER, BlockFilter, filtered, inverse_of, on_diagonal
from toile.math.types import mat33, real

if TYPE_CHECKING:
    from toile.linear.multigrid.galerkin import Matrix, Terms, Weights

# Entries of a block.
ENTRIES = wp.constant(9)


def entries(blocks: wp.array) -> wp.array:
    """Returns a view of the entries of an array of blocks; it does not keep that array alive."""
    return wp.array(ptr=blocks.ptr, shape=9 * len(blocks), dtype=real, device=blocks.device)


class GpuProduct:
    """B = A P and P^T B on a GPU, from the weights and the terms of both."""

    def __init__(
        self, A: "Matrix", B: wp.array, coarse: "Matrix", right: "tuple[Weights, Terms]", left: "tuple[Weights, Terms]"
    ):
        device = A.values.device
        rows = np.repeat(np.arange(len(A.offsets) - 1, dtype=np.int32), np.diff(A.offsets.numpy()))
        self._filtered = wp.zeros(len(A.values), dtype=mat33, device=device)
        self._blocks = [wp.array(rows, dtype=wp.int32, device=device), A.columns, A.values]
        P, terms = right
        of_B = _sorted_terms([A.offsets, A.columns, P.offsets], terms, P.weights, False, len(B))
        offsets_B, (P, terms) = terms.rows.offsets, left
        of_coarse = _sorted_terms([P.offsets, P.columns, offsets_B], terms, P.weights, True, len(coarse.values))
        # The views in `_sums` do not keep these alive.
        self._kept = [B, coarse.values]
        self._sums = [
            (9 * len(B), [*of_B, entries(self._filtered), entries(B)]),
            (9 * len(coarse.values), [*of_coarse, entries(B), entries(coarse.values)]),
        ]
        self._launch = Launcher(str(device))

    def update(self, filters: BlockFilter, rounded_out: wp.array, inverse_out: wp.array) -> None:
        inputs = [*self._blocks, filters, self._filtered, rounded_out, inverse_out]
        self._launch(filter_blocks, len(self._filtered), inputs)
        for count, terms in self._sums:
            self._launch(sum_terms, count, terms)


def _sorted_terms(
    patterns: list[wp.array], terms: "Terms", weights: wp.array, weights_are_X: bool, count: int
) -> list[wp.array]:
    """Returns where the terms of each of the `count` blocks begin, and source and weight of every term. `patterns` are
    offsets and columns of X, and offsets of Y."""
    offsets, device, term_count = patterns[0], patterns[0].device, len(terms.targets)
    block, order = (wp.zeros(2 * term_count, dtype=wp.int32, device=device) for _ in range(2))  # the sort needs twice
    source, source_in_order = (wp.zeros(term_count, dtype=wp.int32, device=device) for _ in range(2))
    weight, weight_in_order = (wp.zeros(term_count, dtype=wp.float32, device=device) for _ in range(2))
    inputs = [*patterns, terms.rows.offsets, terms.rows.starts, terms.targets, weights, weights_are_X]
    wp.launch(list_terms, len(offsets) - 1, [*inputs, block, order, source, weight], device=device)
    if term_count:
        wp.utils.radix_sort_pairs(block, order, term_count)  # stable
    wp.launch(reorder, term_count, [order, source, weight, source_in_order, weight_in_order], device=device)
    ends = np.cumsum(np.bincount(block.numpy()[:term_count], minlength=count))
    starts = wp.array(np.concatenate([[0], ends]), dtype=wp.int32, device=device)
    return [starts, source_in_order, weight_in_order]


@wp.kernel
def list_terms(
    # model
    offsets_X: wp.array(dtype=wp.int32), columns_X: wp.array(dtype=wp.int32), offsets_Y: wp.array(dtype=wp.int32),
    offsets_Z: wp.array(dtype=wp.int32), starts: wp.array(dtype=wp.int32), targets: wp.array(dtype=wp.uint16),
    weights: wp.array(dtype=wp.float32), weights_are_X: wp.bool,
    # out
    block_out: wp.array(dtype=wp.int32), order_out: wp.array(dtype=wp.int32), source_out: wp.array(dtype=wp.int32),
    weight_out: wp.array(dtype=wp.float32),
):  # fmt: skip
    """Lists the terms of row i of Z = X Y. One of the factors consists of weights, the other of blocks."""
    i = wp.tid()
    t = starts[i] + 0
    for slot in range(offsets_X[i], offsets_X[i + 1]):
        j = columns_X[slot]
        for e in range(offsets_Y[j], offsets_Y[j + 1]):
            block_out[t] = offsets_Z[i] + int(targets[t])
            order_out[t] = t
            source_out[t] = wp.where(weights_are_X, e, slot)
            weight_out[t] = weights[wp.where(weights_are_X, slot, e)]
            t += 1


@wp.kernel
def reorder(
    # in
    order: wp.array(dtype=wp.int32), source: wp.array(dtype=wp.int32), weight: wp.array(dtype=wp.float32),
    # out
    source_out: wp.array(dtype=wp.int32), weight_out: wp.array(dtype=wp.float32),
):  # fmt: skip
    t = wp.tid()
    source_out[t] = source[order[t]]
    weight_out[t] = weight[order[t]]


@wp.kernel
def filter_blocks(
    # model
    rows: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), filters: BlockFilter,
    # out
    filtered_out: wp.array(dtype=mat33), rounded_out: wp.array(dtype=wp.mat33f), inverse_out: wp.array(dtype=wp.mat33f),
):  # fmt: skip
    slot = wp.tid()
    i, j = rows[slot], columns[slot]
    block = filtered(values[slot], filters.S[i], filters.S[j])
    if j == i:
        own = on_diagonal(values[slot], filters, i)
        block = own.block
        inverse_out[i] = inverse_of(own.D)
    filtered_out[slot] = block
    rounded_out[slot] = wp.mat33f((block + ROUNDER) - ROUNDER)


@wp.kernel
def sum_terms(
    # model
    starts: wp.array(dtype=wp.int32), source: wp.array(dtype=wp.int32), weight: wp.array(dtype=wp.float32),
    # in
    Y: wp.array(dtype=real),
    # out
    Z_out: wp.array(dtype=real),
):  # fmt: skip
    """Sums one entry of block z."""
    z, k = wp.tid() // ENTRIES, wp.tid() % ENTRIES
    total = real(0.0)
    t, end = starts[z] + 0, starts[z + 1] + 0
    while t < end:
        total += real(weight[t]) * Y[ENTRIES * source[t] + k]
        t += 1
    Z_out[wp.tid()] = total
