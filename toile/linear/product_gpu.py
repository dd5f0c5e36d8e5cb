"""The product of CG by several threads for each row, for a GPU: half of the time that one thread for each takes.

Source      none
Symbols     as in toile/linear/modified_pcg.py
Deviations  none
"""

import warp as wp

from toile.device.lanes import real_components, real_sum_of_lanes
from toile.device.reductions import add_to_sum
from toile.math.types import mat33, precision, real, vec3


def rows_of(blocks: wp.array) -> wp.array:
    """The rows of an array of blocks, in the same place; the array must be kept."""
    return wp.array(ptr=blocks.ptr, shape=3 * len(blocks), dtype=vec3, device=blocks.device)


@wp.func
def row_product(
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), block_rows: wp.array(dtype=vec3),
    row_sums: wp.array(dtype=vec3), x: wp.array(dtype=vec3), i: int, lane: int, lanes: int,
) -> vec3:
    """Row i of A times x, as in toile/linear/block_matrix.py; every block has three `block_rows`."""
    total = real(0.0)
    c = lane & 3
    slot, end = offsets[i] + (lane >> 2), offsets[i + 1] + 0
    if c < 3:
        if wp.static(precision == "single"):
            own = real(1.0) * x[i]
            if lane == c:
                total = wp.dot(row_sums[3 * i + c], own)
            while slot < end:
                total += wp.dot(block_rows[3 * slot + c], x[columns[slot]] - own)
                slot += lanes >> 2
        else:
            while slot < end:
                total += wp.dot(block_rows[3 * slot + c], x[columns[slot]])
                slot += lanes >> 2
    return real_components(real_sum_of_lanes(total, 4, lanes))


@wp.kernel
def multiply_direction(
    n: wp.int32, lanes: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    block_rows: wp.array(dtype=vec3), row_sums: wp.array(dtype=vec3), coupled: wp.array(dtype=vec3),
    S: wp.array(dtype=mat33), c: wp.array(dtype=vec3),
    # out
    q_out: wp.array(dtype=vec3), rows: wp.int32, c_q_out: wp.array(dtype=wp.float64),
):
    i, lane = wp.tid() // lanes, wp.tid() % lanes
    at = wp.min(i, n - 1)
    outside, free, along = real(1.0) * coupled[at], real(1.0) * S[at], real(1.0) * c[at]
    q = free * (row_product(offsets, columns, block_rows, row_sums, c, at, lane, lanes) + outside)
    part = wp.float64(0.0)
    if lane == 0 and i < n:
        q_out[i] = q
        part = wp.float64(wp.dot(along, q))
    add_to_sum(c_q_out, at // rows, part)
