"""The blocks of contacts outside the pattern of a matrix, on the levels of a multigrid cycle.

    C_l = Q^T S C S Q,    Q = P_0 P_1 ... P_(l-1)

C is the sum over groups of four particles of the blocks w_a w_b B (toile/linear/block_matrix.py). Two layers in contact
resist only relative motion; with C in D alone, a cycle would treat them as fixed in space. The groups change in every
step, so that no matrix is assembled from them: products go through the particles.

A particle is in several groups, six where layers lie on each other. On a CPU a product therefore has three parts: S Q d
for each of these particles, C for the groups, Q^T S for the particles. On a GPU three launches take longer than the
rows of Q, so that each group has its own.

Source      [BW98] has no such products
Symbols     w  weights of a group's particles     B  its block     K  contribution of C to D
Deviations  none
"""

import numpy as np
import scipy.sparse as sparse
import warp as wp

from toile.device.lanes import lane_count, thread_count, vector_sum_of_lanes
from toile.device.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, CouplingGroups
from toile.linear.multigrid.coupled_products_cpu import ProductsByParticle
from toile.linear.multigrid.galerkin import Weights
from toile.linear.multigrid.galerkin_blocks import is_held
from toile.math.types import mat33, real, vec3

# Lanes for each group on a GPU, four for each of its particles. One thread would go through the nodes of four particles
# one after the other, twice: 13 us where 4 are enough, and a cycle does it on every level, before and after each step
# of smoothing.
LANES = wp.constant(16)


class CoupledLevels:
    """The couplings of A on every level, the finest first."""

    def __init__(self, A: BlockMatrix, S: wp.array, weights: list[sparse.csr_array]):
        self._A, self._S = A, S
        Q = sparse.csr_array(sparse.eye_array(A.row_count, dtype=np.float32))
        through = [Q]
        for P in weights:
            through.append(sparse.csr_array(through[-1] @ P))
        self._Q = [Weights(Q, A.device) for Q in through]
        self.K = [wp.zeros(Q.shape[1], dtype=mat33, device=A.device) for Q in through]
        self._launch = [Launcher(A.device) for _ in through]
        self._by_particle = None if wp.get_device(A.device).is_cuda else ProductsByParticle(A)

    def update(self) -> None:
        """Computes K of every level. On the finest it is the contribution of contacts to the diagonal of A; on the
        others it is a bound for the smoother: C <= 4 K, as for elements with four points."""
        for level, K in enumerate(self.K):
            K.zero_()
            for couplings in self._A.couplings:
                if level == 0:
                    self._launch[0](add_squares, couplings.capacity, [couplings.groups, K])
                else:
                    self._launch[level](add_bounds, couplings.capacity, [couplings.groups, *self._through(level), K])

        if self._by_particle is not None:
            self._by_particle.update()

    def add_to(self, dense_out: wp.array) -> None:
        """Adds C to the dense matrix of the coarsest level."""
        if self._by_particle is not None:
            self._by_particle.add_to(self._through(-1), dense_out)
            return
        for couplings in self._A.couplings:
            inputs = [couplings.groups, *self._through(-1), dense_out]
            self._launch[-1](add_dense, 4 * couplings.capacity, inputs)

    def subtract_product(self, level: int, d: wp.array, r_out: wp.array) -> None:
        """r -= C_l d."""
        if self._by_particle is not None:
            self._by_particle.subtract(self._through(level), d, r_out)
            return
        for couplings in self._A.couplings:
            inputs = [couplings.groups, *self._through(level), d, r_out]
            self._launch[level](subtract_coupled, thread_count(couplings.capacity, int(LANES)), inputs)

    def _through(self, level: int) -> list[wp.array]:
        return [self._S, *self._Q[level].arrays]


@wp.kernel
def add_squares(
    # in
    groups: CouplingGroups,
    # in and out
    K_out: wp.array(dtype=mat33),
):
    k = wp.tid()
    if k >= groups.count[0]:
        return
    at, w = groups.particles[k], groups.weights[k]
    for a in range(4):
        wp.atomic_add(K_out, at[a], w[a] * w[a] * groups.blocks[k])


@wp.func
def filtered_left(S: mat33, block: mat33) -> mat33:
    if is_held(S):
        return S * block
    return block


@wp.func
def filtered_right(block: mat33, S: mat33) -> mat33:
    if is_held(S):
        return block * S
    return block


@wp.kernel
def add_bounds(
    # in
    groups: CouplingGroups, S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    # in and out
    K_out: wp.array(dtype=mat33),
):  # fmt: skip
    k = wp.tid()
    if k >= groups.count[0]:
        return
    at, w = groups.particles[k], groups.weights[k]
    # |sum of w_a x_a|^2 <= (sum of |w_a|) (sum of |w_a| |x_a|^2), and likewise for the weights in Q, whose sum is 1.
    total = wp.abs(w[0]) + wp.abs(w[1]) + wp.abs(w[2]) + wp.abs(w[3])
    for a in range(4):
        i = at[a]
        block = real(0.25) * total * wp.abs(w[a]) * filtered_right(filtered_left(S[i], groups.blocks[k]), S[i])
        for e in range(offsets[i], offsets[i + 1]):
            wp.atomic_add(K_out, columns[e], real(Q[e]) * block)


@wp.kernel
def add_dense(
    # in
    groups: CouplingGroups, S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    # in and out
    dense_out: wp.array2d(dtype=mat33),
):  # fmt: skip
    t = wp.tid()
    k, a = t // 4, t % 4
    if k >= groups.count[0]:
        return
    at, w = groups.particles[k], groups.weights[k]
    i = at[a]
    left = w[a] * filtered_left(S[i], groups.blocks[k])
    for b in range(4):
        j = at[b]
        block = w[b] * filtered_right(left, S[j])
        for e in range(offsets[i], offsets[i + 1]):
            for f in range(offsets[j], offsets[j + 1]):
                wp.atomic_add(dense_out, columns[e], columns[f], real(Q[e] * Q[f]) * block)


@wp.func
def interpolated(
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    d: wp.array(dtype=wp.vec3f), i: int, lane: int, lanes: int,
) -> vec3:  # fmt: skip
    """Returns the part of one lane in row i of Q d."""
    total = wp.vec3f()
    e, end = offsets[i] + lane, offsets[i + 1] + 0
    while e < end:
        total += Q[e] * d[columns[e]]
        e += lanes
    return vec3(total)


@wp.func
def subtract_row(
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    force: wp.vec3f, i: int, lane: int, lanes: int, r_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Subtracts the part of one lane in Q^T times a vector that is zero but for row i."""
    e, end = offsets[i] + lane, offsets[i + 1] + 0
    while e < end:
        wp.atomic_sub(r_out, columns[e], Q[e] * force)
        e += lanes


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
):  # fmt: skip
    """Subtracts the product with one group, by four lanes for each of its particles."""
    t, lanes = wp.tid(), lane_count(LANES)
    k = t // lanes
    if 32 * (t // 32) >= lanes * groups.count[0]:
        return  # all lanes of a warp leave together, because they exchange numbers
    own = wp.min(k, groups.count[0] - 1)
    at, w, block = groups.particles[own], groups.weights[own], real(1.0) * groups.blocks[own]
    a, lane = (t % lanes) // 4, t % 4
    i = at[a]
    free = real(1.0) * S[i]
    part = wp.vec3f(w[a] * (free * interpolated(offsets, columns, Q, d, i, lane, 4)))
    force = block * vec3(vector_sum_of_lanes(part, lanes))
    if k == own:
        subtract_row(offsets, columns, Q, wp.vec3f(w[a] * (free * force)), i, lane, 4, r_out)
