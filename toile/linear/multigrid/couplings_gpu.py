"""Products with what contacts add to a matrix, by sixteen threads for each contact, for a GPU.

One thread would go through the nodes of four particles one after the other, twice: 13 us where 4 are enough, and a
multigrid cycle does it on every level, before and after each step of smoothing. Threads 4 a to 4 a + 3 have particle a.

Source      none
Symbols     as in toile/linear/multigrid/coupled_levels.py
Deviations  none
"""

import warp as wp

from toile.device.lanes import sum_of_lanes
from toile.linear.block_matrix import CouplingGroups
from toile.math.types import mat33, real, vec3

LANES = wp.constant(16)  # for each contact
SHARE = wp.constant(4)  # for each of its particles


@wp.kernel
def subtract_coupled(
    # in
    groups: CouplingGroups, S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    # in
    d: wp.array(dtype=wp.vec3f),
    # in and out
    r_out: wp.array(dtype=wp.vec3f),
):
    k, lane = wp.tid() // LANES, wp.tid() % LANES
    if 32 * (wp.tid() // 32) >= LANES * groups.count[0]:
        return  # all that hand numbers to each other leave together
    own = wp.min(k, groups.count[0] - 1)
    a = lane // SHARE
    i, w, block = groups.particles[own][a], groups.weights[own][a], real(1.0) * groups.blocks[own]
    free = real(1.0) * S[i]
    begin, end = offsets[i] + lane % SHARE, offsets[i + 1] + 0
    moved = wp.vec3f()
    e = begin
    while e < end:
        moved += Q[e] * d[columns[e]]
        e += SHARE
    part = wp.vec3f(w * (free * vec3(moved)))
    apart = wp.vec3f(sum_of_lanes(part[0], 1, LANES), sum_of_lanes(part[1], 1, LANES), sum_of_lanes(part[2], 1, LANES))
    if k == own:
        given = wp.vec3f(w * (free * (block * vec3(apart))))
        e = begin
        while e < end:
            wp.atomic_sub(r_out, columns[e], Q[e] * given)
            e += SHARE
