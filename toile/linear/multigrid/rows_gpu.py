"""Rows of a matrix by several threads each, for a GPU.

One thread for a row reads its blocks one after the other, and waits for each: on the coarse grids of a multigrid cycle,
which are far too small to fill the device, that is all that takes time. Here a row has 16 threads, or 4 where there are
many rows (toile/device/lanes.py). Thread 4 k + c has component c of its blocks, from the k-th on, as many apart as
there are fours; c = 3 does nothing. What a row needs besides is read first, so that it arrives meanwhile.

Source      none
Symbols     as in toile/linear/precondition_multigrid.py
Deviations  none
"""

import warp as wp

from toile.device.lanes import components, sum_of_lanes
from toile.math.types import mat33, real, vec3


@wp.func
def row_product(
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), rows: wp.array(dtype=wp.vec3f),
    x: wp.array(dtype=wp.vec3f), i: int, lane: int, lanes: int,
) -> wp.float32:
    """Component `lane` % 4 of row i of A times x. `rows` are those of all blocks."""
    total = wp.float32(0.0)
    c = lane & 3
    slot, end = offsets[i] + (lane >> 2), offsets[i + 1] + 0
    if c < 3:
        while slot < end:
            total += wp.dot(rows[3 * slot + c], x[columns[slot]])
            slot += lanes >> 2
    return sum_of_lanes(total, 4, lanes)


@wp.kernel
def smooth(
    n: wp.int32, lanes: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    rows: wp.array(dtype=wp.vec3f), inverse: wp.array(dtype=wp.mat33f), d: wp.array(dtype=wp.vec3f),
    keep: wp.float32, add: wp.float32,
    # in and out
    r_out: wp.array(dtype=wp.vec3f),
    # out
    d_out: wp.array(dtype=wp.vec3f), x_out: wp.array(dtype=wp.vec3f),
):
    i, lane = wp.tid() // lanes, wp.tid() % lanes
    at = wp.min(i, n - 1)
    r, kept, x = wp.vec3f(r_out[at]), keep * d[at], wp.vec3f(x_out[at])
    D = add * inverse[at]
    r -= components(row_product(offsets, columns, rows, d, at, lane, lanes))
    if lane == 0 and i < n:
        step = kept + D * r
        r_out[i] = r
        d_out[i] = step
        x_out[i] = x + step


@wp.kernel
def smooth_last(
    n: wp.int32, lanes: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    rows: wp.array(dtype=wp.vec3f), inverse: wp.array(dtype=wp.mat33f), d: wp.array(dtype=wp.vec3f),
    keep: wp.float32, add: wp.float32, r: wp.array(dtype=wp.vec3f), x: wp.array(dtype=wp.vec3f),
    S: wp.array(dtype=mat33),
    # out
    s_out: wp.array(dtype=vec3),
):
    i, lane = wp.tid() // lanes, wp.tid() % lanes
    at = wp.min(i, n - 1)
    before, kept, free = wp.vec3f(r[at]), x[at] + keep * d[at], real(1.0) * S[at]
    D = add * inverse[at]
    product = components(row_product(offsets, columns, rows, d, at, lane, lanes))
    if lane == 0 and i < n:
        s_out[i] = free * vec3(kept + D * (before - product))


@wp.kernel
def subtract_product(
    n: wp.int32, lanes: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    rows: wp.array(dtype=wp.vec3f), d: wp.array(dtype=wp.vec3f),
    # in and out
    r_out: wp.array(dtype=wp.vec3f),
):
    i, lane = wp.tid() // lanes, wp.tid() % lanes
    at = wp.min(i, n - 1)
    r = wp.vec3f(r_out[at])
    product = components(row_product(offsets, columns, rows, d, at, lane, lanes))
    if lane == 0 and i < n:
        r_out[i] = r - product


@wp.kernel
def restrict(
    n: wp.int32, lanes: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), weights: wp.array(dtype=wp.float32),
    # in
    fine_r: wp.array(dtype=wp.vec3f), inverse: wp.array(dtype=wp.mat33f), add: wp.float32,
    # out
    r_out: wp.array(dtype=wp.vec3f), d_out: wp.array(dtype=wp.vec3f), x_out: wp.array(dtype=wp.vec3f),
):
    i, lane = wp.tid() // lanes, wp.tid() % lanes
    at = wp.min(i, n - 1)
    D = add * inverse[at]
    total = wp.vec3f()
    e, end = offsets[at] + lane, offsets[at + 1] + 0
    while e < end:
        total += weights[e] * fine_r[columns[e]]
        e += lanes
    r = wp.vec3f(sum_of_lanes(total[0], 1, lanes), sum_of_lanes(total[1], 1, lanes), sum_of_lanes(total[2], 1, lanes))
    if lane == 0 and i < n:
        d = D * r
        r_out[i] = r
        d_out[i] = d
        x_out[i] = d


@wp.kernel
def multiply_dense(
    n: wp.int32, lanes: wp.int32,
    # in
    inverse: wp.array2d(dtype=mat33), given: wp.array(dtype=wp.vec3f),
    # out
    x_out: wp.array(dtype=wp.vec3f),
):
    i, lane = wp.tid() // lanes, wp.tid() % lanes
    at = wp.min(i, n - 1)
    total = vec3()
    for j in range(lane, n, lanes):
        total += inverse[at, j] * vec3(given[j])
    part = wp.vec3f(total)
    x = wp.vec3f(sum_of_lanes(part[0], 1, lanes), sum_of_lanes(part[1], 1, lanes), sum_of_lanes(part[2], 1, lanes))
    if lane == 0 and i < n:
        x_out[i] = x
