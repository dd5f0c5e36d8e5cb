"""Products with the blocks of contacts on a CPU, through the particles in contact (coupled_levels.py).

    y = S Q d,    z = C y,    r -= Q^T S z        Q is the identity on the finest level
    Q^T S C S Q = sum over groups of g g^T B      g = sum of w_a Q_a, where all particles of a group are free

Source      none
Symbols     S  free directions     C  blocks of all groups     Q  from the particles to the nodes of a level, rows Q_a
            w, B  weights and block of a group
Deviations  none
"""

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, CouplingGroups
from toile.linear.multigrid.galerkin_blocks import is_held
from toile.math.types import mat33, real, vec3

# Stands for zero where zero means that a node is not listed.
SMALLEST = wp.constant(wp.float32(1e-30))


@wp.struct
class RoundedGroup:
    """A group of four particles in single precision, in one piece of memory."""

    particles: wp.vec4i
    weights: wp.vec4f
    block: wp.mat33f


class ProductsByParticle:
    """Subtracts products with all couplings of a matrix."""

    def __init__(self, A: BlockMatrix):
        self._A, self._device = A, A.device
        self._y, self._z = (wp.zeros(A.row_count, dtype=wp.vec3f, device=A.device) for _ in range(2))
        self._used = np.zeros(A.row_count, bool)
        self._launch = Launcher(A.device)
        self._nodes, self._g = (wp.zeros(0, dtype=kind, device=A.device) for kind in (wp.int32, wp.float32))
        self._reserve(0)

    def update(self) -> None:
        """Takes over the present groups."""
        counts = [int(couplings.count.numpy()[0]) for couplings in self._A.couplings]
        if sum(counts) > self._capacity:
            self._reserve(2 * sum(counts))
        self._used[:] = False
        self._count = 0
        for couplings, count in zip(self._A.couplings, counts, strict=True):
            self._launch(round_groups, count, [couplings.groups, self._count, self._groups])
            self._used[couplings.particles.numpy()[:count]] = True
            self._count += count
        found = np.flatnonzero(self._used)
        self._particle_count = len(found)
        self._particles.numpy()[: len(found)] = found

    def subtract(self, through: list[wp.array], d: wp.array, r_out: wp.array) -> None:
        """r -= Q^T S C S Q d, with S and the rows of Q."""
        launch, listed = self._launch, self._particles
        launch.split(interpolate, self._particle_count, [listed, *through, d, self._y])
        launch(couple, self._count, [self._groups, self._y, self._z])
        launch(subtract_interpolated, self._particle_count, [listed, *through, self._z, r_out])

    def add_to(self, through: list[wp.array], dense_out: wp.array) -> None:
        """Adds Q^T S C S Q, with S and the rows of Q, to a dense matrix."""
        n = dense_out.shape[0]
        if len(self._nodes) != n:
            self._nodes = wp.zeros(n, dtype=wp.int32, device=self._device)
            self._g = wp.zeros(n, dtype=wp.float32, device=self._device)
        self._launch(add_dense, self._count, [self._groups, *through, self._nodes, self._g, dense_out])

    def _reserve(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups = wp.zeros(capacity, dtype=RoundedGroup, device=self._device)
        self._particles = wp.zeros(min(4 * capacity, self._A.row_count), dtype=wp.int32, device=self._device)
        self._count = self._particle_count = 0
        self._launch = Launcher(self._device)  # the old one keeps launches with the old arrays


@wp.kernel
def round_groups(
    # in
    groups: CouplingGroups, begin: wp.int32,
    # out
    groups_out: wp.array(dtype=RoundedGroup),
):  # fmt: skip
    k = wp.tid()
    group = RoundedGroup()
    group.particles = groups.particles[k]
    group.weights = wp.vec4f(groups.weights[k])
    group.block = wp.mat33f(groups.blocks[k])
    groups_out[begin + k] = group


@wp.kernel
def interpolate(
    # in
    first: wp.int32, particles: wp.array(dtype=wp.int32), S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    # in
    d: wp.array(dtype=wp.vec3f),
    # out
    y_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """y = S Q d for the particles in contact."""
    i = particles[first + wp.tid()]
    y = wp.vec3f()
    for e in range(offsets[i], offsets[i + 1]):
        y += Q[e] * d[columns[e]]
    if is_held(S[i]):
        y = wp.vec3f(S[i] * vec3(y))
    y_out[i] = y


@wp.kernel
def couple(
    # in
    groups: wp.array(dtype=RoundedGroup), y: wp.array(dtype=wp.vec3f),
    # in and out
    z_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """z += C y for one group."""
    k = wp.tid()
    at, w = groups[k].particles, groups[k].weights
    apart = w[0] * y[at[0]] + w[1] * y[at[1]] + w[2] * y[at[2]] + w[3] * y[at[3]]
    pull = groups[k].block * apart
    for a in range(4):
        z_out[at[a]] = z_out[at[a]] + w[a] * pull


@wp.kernel
def subtract_interpolated(
    # in
    particles: wp.array(dtype=wp.int32), S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    # in and out
    z_out: wp.array(dtype=wp.vec3f), r_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """r -= Q^T S z for the particles in contact; z becomes 0 for the next product."""
    i = particles[wp.tid()]
    z = 1.0 * z_out[i]
    z_out[i] = wp.vec3f()
    if is_held(S[i]):
        z = wp.vec3f(S[i] * vec3(z))
    for e in range(offsets[i], offsets[i + 1]):
        r_out[columns[e]] = r_out[columns[e]] - Q[e] * z


@wp.func
def add_blocks(
    group: RoundedGroup, S: wp.array(dtype=mat33), offsets: wp.array(dtype=wp.int32),
    columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32), dense: wp.array2d(dtype=mat33),
):  # fmt: skip
    """Adds the blocks of a group with held particles, one by one."""
    at, w = group.particles, group.weights
    for a in range(4):
        for b in range(4):
            block = real(w[a] * w[b]) * (S[at[a]] * mat33(group.block) * S[at[b]])
            for e in range(offsets[at[a]], offsets[at[a] + 1]):
                for f in range(offsets[at[b]], offsets[at[b] + 1]):
                    dense[columns[e], columns[f]] = dense[columns[e], columns[f]] + real(Q[e] * Q[f]) * block


@wp.kernel
def add_dense(
    # in
    groups: wp.array(dtype=RoundedGroup), S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    # in and out
    nodes_out: wp.array(dtype=wp.int32), g_out: wp.array(dtype=wp.float32), dense_out: wp.array2d(dtype=mat33),
):  # fmt: skip
    """Adds one group to the dense matrix. `nodes` and `g` are for one group after the other; g is 0 in between."""
    group = groups[wp.tid()]
    at, w = group.particles, group.weights
    if is_held(S[at[0]]) or is_held(S[at[1]]) or is_held(S[at[2]]) or is_held(S[at[3]]):
        add_blocks(group, S, offsets, columns, Q, dense_out)
        return
    count = int(0)
    for a in range(4):
        for e in range(offsets[at[a]], offsets[at[a] + 1]):
            node = columns[e]
            if g_out[node] == 0.0:
                nodes_out[count] = node
                count += 1
            g_out[node] = g_out[node] + w[a] * Q[e]
            if g_out[node] == 0.0:
                g_out[node] = SMALLEST  # it is listed
    block = mat33(group.block)
    for e in range(count):
        g = g_out[nodes_out[e]]
        for f in range(count):
            i, j = nodes_out[e], nodes_out[f]
            dense_out[i, j] = dense_out[i, j] + real(g * g_out[j]) * block
    for e in range(count):
        g_out[nodes_out[e]] = 0.0
