"""Kernels of a multigrid cycle: smoothing, residuals, restriction and interpolation.

On a GPU a row of a matrix has several lanes (toile/device/lanes.py). One thread for a row would read its blocks one
after the other, and wait for each: on the coarse grids of a cycle, which are far too small to fill the device, that is
all that takes time. Lane 4 k + c has component c of every (lanes / 4)-th block from the k-th on; c = 3 is idle. The
other numbers of a row are read first, so that they arrive meanwhile.

Source      none
Symbols     as in toile/linear/precondition_multigrid.py
Deviations  none
"""

import warp as wp

from toile.device.lanes import components, has_lanes, lane_count, own_row, sum_of_lanes, vector_sum_of_lanes, writes_row
from toile.math.types import mat33, real, vec3


@wp.struct
class BlockLanes:
    """Lanes for each row of a matrix of blocks, and the memory of its blocks as rows, three for each block."""

    count: wp.int32
    rows: wp.array(dtype=wp.vec3f)


@wp.func
def product(
    by_lanes: BlockLanes, offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    values: wp.array(dtype=wp.mat33f), x: wp.array(dtype=wp.vec3f), i: int, lane: int,
) -> wp.vec3f:  # fmt: skip
    """Returns row i of A times x, to all lanes of the row."""
    if has_lanes():
        part = wp.float32(0.0)
        c = lane & 3
        own, last = offsets[i] + (lane >> 2), offsets[i + 1] + 0
        if c < 3:
            while own < last:
                part += wp.dot(by_lanes.rows[3 * own + c], x[columns[own]])
                own += by_lanes.count >> 2
        return components(sum_of_lanes(part, 4, by_lanes.count))
    total = wp.vec3f()
    slot, end = offsets[i] + 0, offsets[i + 1] + 0
    while slot < end:  # a fifth faster than `for` over a range
        total += values[slot] * x[columns[slot]]
        slot += 1
    return total


@wp.kernel
def begin(
    first: wp.int32,
    # in
    given: wp.array(dtype=vec3), inverse: wp.array(dtype=wp.mat33f), add: wp.float32,
    # out
    r_out: wp.array(dtype=wp.vec3f), d_out: wp.array(dtype=wp.vec3f), x_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Makes the first correction of the finest level."""
    i = first + wp.tid()
    r = wp.vec3f(given[i])
    d = add * (inverse[i] * r)
    r_out[i] = r
    d_out[i] = d
    x_out[i] = d


@wp.kernel
def smooth(
    first: wp.int32,
    # model
    by_lanes: BlockLanes, offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=wp.mat33f), inverse: wp.array(dtype=wp.mat33f), d: wp.array(dtype=wp.vec3f),
    keep: wp.float32, add: wp.float32,
    # in and out
    r_out: wp.array(dtype=wp.vec3f), d_out: wp.array(dtype=wp.vec3f), x_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Makes one step of smoothing: r -= A d, d = keep d + add (D^-1 r), x += d."""
    t, lanes, n = first + wp.tid(), lane_count(by_lanes.count), inverse.shape[0]
    i, lane = t // lanes, t % lanes
    at = own_row(i, n)
    r, kept, x = wp.vec3f(r_out[at]), keep * d[at], wp.vec3f(x_out[at])
    D = wp.float32(1.0) * inverse[at]
    r -= product(by_lanes, offsets, columns, values, d, at, lane)
    if writes_row(i, lane, n):
        step = kept + add * (D * r)
        r_out[i] = r
        d_out[i] = step
        x_out[i] = x + step


@wp.kernel
def smooth_last(
    first: wp.int32,
    # model
    by_lanes: BlockLanes, offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=wp.mat33f), inverse: wp.array(dtype=wp.mat33f), d: wp.array(dtype=wp.vec3f),
    factors: wp.vec2f, r: wp.array(dtype=wp.vec3f), x: wp.array(dtype=wp.vec3f), S: wp.array(dtype=mat33),
    # out
    s_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Smooths as `smooth`, and converts the result to the precision of the solver."""
    t, lanes, n = first + wp.tid(), lane_count(by_lanes.count), inverse.shape[0]
    i, lane = t // lanes, t % lanes
    at = own_row(i, n)
    before, kept, own, free = wp.vec3f(r[at]), factors[0] * d[at], wp.vec3f(x[at]), real(1.0) * S[at]
    D = wp.float32(1.0) * inverse[at]
    left = before - product(by_lanes, offsets, columns, values, d, at, lane)
    if writes_row(i, lane, n):
        step = kept + factors[1] * (D * left)
        s_out[i] = free * vec3(own + step)


@wp.kernel
def subtract_product(
    first: wp.int32,
    # model
    by_lanes: BlockLanes, offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=wp.mat33f), d: wp.array(dtype=wp.vec3f),
    # in and out
    r_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """r -= A d."""
    t, lanes, n = first + wp.tid(), lane_count(by_lanes.count), r_out.shape[0]
    i, lane = t // lanes, t % lanes
    at = own_row(i, n)
    r = wp.vec3f(r_out[at])
    removed = product(by_lanes, offsets, columns, values, d, at, lane)
    if writes_row(i, lane, n):
        r_out[i] = r - removed


@wp.kernel
def restrict(
    first: wp.int32,
    # model
    lanes: wp.int32, offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    weights: wp.array(dtype=wp.float32),
    # in
    fine_r: wp.array(dtype=wp.vec3f), inverse: wp.array(dtype=wp.mat33f), add: wp.float32,
    # out
    r_out: wp.array(dtype=wp.vec3f), d_out: wp.array(dtype=wp.vec3f), x_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Restricts the residual, P^T r, and makes the first correction of the coarser level as `begin` does."""
    t, m, n = first + wp.tid(), lane_count(lanes), inverse.shape[0]
    i, lane = t // m, t % m
    at = own_row(i, n)
    D = wp.float32(1.0) * inverse[at]
    total = wp.vec3f()
    e, end = offsets[at] + lane, offsets[at + 1] + 0
    while e < end:
        total += weights[e] * fine_r[columns[e]]
        e += m
    r = vector_sum_of_lanes(total, m)
    if writes_row(i, lane, n):
        d = add * (D * r)
        r_out[i] = r
        d_out[i] = d
        x_out[i] = d


@wp.kernel
def correct(
    first: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), weights: wp.array(dtype=wp.float32),
    # in
    coarse: wp.array(dtype=wp.vec3f),
    # in and out
    d_out: wp.array(dtype=wp.vec3f), x_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Interpolates the correction of the coarser level, d = P x_coarse, and adds it."""
    i = first + wp.tid()
    d = wp.vec3f()
    e, end = offsets[i] + 0, offsets[i + 1] + 0
    while e < end:
        d += weights[e] * coarse[columns[e]]
        e += 1
    d_out[i] = d
    x_out[i] = x_out[i] + d


@wp.kernel
def filter_vectors(
    first: wp.int32,
    # in
    x: wp.array(dtype=wp.vec3f), S: wp.array(dtype=mat33),
    # out
    s_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = first + wp.tid()
    s_out[i] = S[i] * vec3(x[i])
