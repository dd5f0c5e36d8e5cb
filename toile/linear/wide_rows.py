"""Rows of a matrix by several threads each, for a GPU.

One thread for a row reads its blocks one after the other, and waits for each: on the coarse grids of a multigrid cycle,
which are far too small to fill the device, that is all that takes time. Here a row has 16 threads, or 4 where there are
many rows. Thread 4 k + c has component c of its blocks, from the k-th on, as many apart as there are fours; c = 3 does
nothing. The threads of a row run in step and hand each other what they have.

Source      none
Symbols     as in toile/linear/precondition_multigrid.py
Deviations  none
"""

import warp as wp

from toile.math.types import mat33, vec3

# Rows from which four threads each fill the device.
MANY = 20_000


def lanes_for(rows: int) -> int:
    """Threads for each row of a matrix with so many."""
    return 4 if rows >= MANY else 16


def wide(rows: int, lanes: int) -> int:
    """Threads to launch for so many rows: whole groups of 32, which hand numbers to each other."""
    return 32 * (-(-rows * lanes // 32))


_SUM = """
#if defined(__CUDA_ARCH__)
    for (int apart = 4; apart < lanes; apart *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
#endif
    return value;
"""


@wp.func_native(_SUM)
def sum_of_row(value: wp.float32, lanes: int) -> wp.float32:
    """Over the threads of a row with the same component."""


_SUM_ALL = """
#if defined(__CUDA_ARCH__)
    for (int apart = 1; apart < lanes; apart *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
#endif
    return value;
"""


@wp.func_native(_SUM_ALL)
def sum_of_all(value: wp.float32, lanes: int) -> wp.float32:
    """Over the threads of a row."""


_GATHER = """
#if defined(__CUDA_ARCH__)
    return wp::vec3f(
        __shfl_sync(0xffffffffu, value, 0, 4), __shfl_sync(0xffffffffu, value, 1, 4),
        __shfl_sync(0xffffffffu, value, 2, 4));
#else
    return wp::vec3f(value, value, value);
#endif
"""


@wp.func_native(_GATHER)
def components(value: wp.float32) -> wp.vec3f:
    """Of a row, from the threads that have one each."""


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
    return sum_of_row(total, lanes)


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
    r = r_out[at] - components(row_product(offsets, columns, rows, d, at, lane, lanes))
    if lane == 0 and i < n:
        step = keep * d[i] + add * (inverse[i] * r)
        r_out[i] = r
        d_out[i] = step
        x_out[i] = x_out[i] + step


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
    product = components(row_product(offsets, columns, rows, d, at, lane, lanes))
    if lane == 0 and i < n:
        s_out[i] = S[i] * vec3(x[i] + (keep * d[i] + add * (inverse[i] * (r[i] - product))))


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
    product = components(row_product(offsets, columns, rows, d, at, lane, lanes))
    if lane == 0 and i < n:
        r_out[i] = r_out[i] - product


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
    total = wp.vec3f()
    e, end = offsets[at] + lane, offsets[at + 1] + 0
    while e < end:
        total += weights[e] * fine_r[columns[e]]
        e += lanes
    r = wp.vec3f(sum_of_all(total[0], lanes), sum_of_all(total[1], lanes), sum_of_all(total[2], lanes))
    if lane == 0 and i < n:
        d = add * (inverse[i] * r)
        r_out[i] = r
        d_out[i] = d
        x_out[i] = d
