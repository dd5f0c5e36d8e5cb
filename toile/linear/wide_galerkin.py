"""The sums of toile/linear/galerkin.py by nine threads for each row, for a GPU: one for each number of a block.

One thread for a row would run through some hundred blocks, one after the other; a GPU has far more threads than a mesh
has rows. What mixes the numbers of a block, the filter and the inverse, is done first, by one thread for each block.

Source      none
Symbols     as in toile/linear/galerkin.py
Deviations  none
"""

import numpy as np
import warp as wp

from toile.launcher import Launcher
from toile.linear.galerkin_blocks import ROUNDER, filtered, held_part, inverse_of
from toile.math.types import mat33, real

# Numbers in a block.
ENTRIES = wp.constant(9)


def entries(blocks: wp.array) -> wp.array:
    """The numbers of an array of blocks, in the same place."""
    return wp.array(ptr=blocks.ptr, shape=9 * len(blocks), dtype=real, device=blocks.device)


class WideProduct:
    """B = A P and P^T B on a GPU; `first` and `second` are the lists of both."""

    def __init__(self, matrix: list[wp.array], B: wp.array, coarse: list[wp.array], first: list, second: list):
        offsets, columns, values, S = matrix
        self._slots, self._n, self._coarse_n = len(values), len(offsets) - 1, len(coarse[0]) - 1
        rows = np.repeat(np.arange(self._n, dtype=np.int32), np.diff(offsets.numpy()))
        filtered_values = wp.zeros(self._slots, dtype=mat33, device=values.device)
        self._blocks = [wp.array(rows, dtype=wp.int32, device=values.device), columns, values, S]
        self._filtered = filtered_values
        # Arrays that only show the numbers of others do not keep these.
        self._kept = [B, coarse[2]]
        self._spread = [offsets, columns, entries(filtered_values), *first, entries(B)]
        self._gather = [*second, coarse[0], entries(B), entries(coarse[2])]
        self._launch = Launcher(str(values.device))

    def update(self, contact: wp.array, share: float, rounded_out: wp.array, inverse_out: wp.array) -> None:
        inputs = [*self._blocks, contact, share, self._filtered, rounded_out, inverse_out]
        self._launch(filter_blocks, self._slots, inputs)
        self._launch(spread, 9 * self._n, self._spread)
        self._launch(gather, 9 * self._coarse_n, self._gather)


@wp.kernel
def filter_blocks(
    # model
    rows: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), S: wp.array(dtype=mat33), K: wp.array(dtype=mat33), share: real,
    # out
    filtered_out: wp.array(dtype=mat33), rounded_out: wp.array(dtype=wp.mat33f), inverse_out: wp.array(dtype=wp.mat33f),
):
    slot = wp.tid()
    i, j = rows[slot], columns[slot]
    block = filtered(values[slot], S[i], S[j])
    if j == i:
        block += held_part(values[slot], S[i])
        D = real(1.0) * block
        if K.shape[0] > 0:
            contact = filtered(K[i], S[i], S[i])
            block -= share * contact
            D = block + contact
        inverse_out[i] = inverse_of(D)
    filtered_out[slot] = block
    rounded_out[slot] = wp.mat33f((block + ROUNDER) - ROUNDER)


@wp.kernel
def spread(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    A: wp.array(dtype=real),
    # model
    offsets_P: wp.array(dtype=wp.int32), columns_P: wp.array(dtype=wp.int32), weights: wp.array(dtype=wp.float32),
    offsets_B: wp.array(dtype=wp.int32), starts: wp.array(dtype=wp.int32), places: wp.array(dtype=wp.uint16),
    # out
    B_out: wp.array(dtype=real),
):
    """One number of each block in row i of A P."""
    i, k = wp.tid() // ENTRIES, wp.tid() % ENTRIES
    for at in range(offsets_B[i], offsets_B[i + 1]):
        B_out[ENTRIES * at + k] = real(0.0)
    place = starts[i] + 0
    slot, end = offsets[i] + 0, offsets[i + 1] + 0
    while slot < end:
        j, number = columns[slot], A[ENTRIES * slot + k]
        e, end_P = offsets_P[j] + 0, offsets_P[j + 1] + 0
        while e < end_P:
            at = ENTRIES * (offsets_B[i] + int(places[place])) + k
            B_out[at] = B_out[at] + real(weights[e]) * number
            place += 1
            e += 1
        slot += 1


@wp.kernel
def gather(
    # model
    offsets_P: wp.array(dtype=wp.int32), columns_P: wp.array(dtype=wp.int32), weights: wp.array(dtype=wp.float32),
    offsets_B: wp.array(dtype=wp.int32), starts: wp.array(dtype=wp.int32), places: wp.array(dtype=wp.uint16),
    offsets: wp.array(dtype=wp.int32),
    # in
    B: wp.array(dtype=real),
    # out
    values_out: wp.array(dtype=real),
):
    """One number of each block in row a of P^T B."""
    a, k = wp.tid() // ENTRIES, wp.tid() % ENTRIES
    for slot in range(offsets[a], offsets[a + 1]):
        values_out[ENTRIES * slot + k] = real(0.0)
    place = starts[a] + 0
    e, end_P = offsets_P[a] + 0, offsets_P[a + 1] + 0
    while e < end_P:
        i, weight = columns_P[e], real(weights[e])
        at, end = offsets_B[i] + 0, offsets_B[i + 1] + 0
        while at < end:
            slot = ENTRIES * (offsets[a] + int(places[place])) + k
            values_out[slot] = values_out[slot] + weight * B[ENTRIES * at + k]
            place += 1
            at += 1
        e += 1
