"""Products with the blocks of contacts through the particles in contact (coupled_levels.py).

    y = S Q d,    z = C y,    r -= Q^T S z        Q = P_0 R, from a level to the particles; R from it to the first grid
    Q^T S C S Q = sum over groups of g g^T B      g = sum of w_a Q_a, where all particles of a group are free

A particle is in several groups, six where layers lie on each other, and has several nodes on each grid: going through
the particles, a product takes a fifth of the operations that it would take group by group, and a GPU a tenth of the
atomic additions, most of which would be to the few nodes of the coarsest grids. For the same reason z goes to the first
grid before it goes to another. On the finest level groups read d and change r at once.

Launches are as long as the lists could be on a GPU, whose counts are not read back, but not longer than LONGEST; each
thread takes every LONGEST-th group then.

Source      none
Symbols     S  free directions     C  blocks of all groups     Q, R  interpolation, whose rows are Q_a
            w, B  weights and block of a group
Deviations  none
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import warp as wp

from toile.device.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, CouplingGroups
from toile.linear.multigrid.galerkin import Weights
from toile.math.types import mat33, real, vec3
from toile.model.constraint_state import is_held

# Most threads of a launch over groups on a GPU; as many fill it.
LONGEST = 1 << 17
# Threads that add groups to the dense matrix on a GPU. Each has numbers of its own for every node.
DENSE_THREADS = 1 << 14
# Stands for zero where zero means that a node is not listed.
SMALLEST = wp.constant(wp.float32(1e-30))


@wp.struct
class RoundedGroup:
    """A group of four particles in single precision, in one piece of memory."""

    particles: wp.vec4i
    weights: wp.vec4f
    block: wp.mat33f
    held: wp.int32  # whether any of the particles is


@dataclass(frozen=True)
class Passage:
    """The interpolation from a level to the particles, and to the first grid."""

    to_particles: Weights
    to_first_grid: Weights


class CoupledProducts:
    """Subtracts products with all couplings of a matrix."""

    def __init__(self, A: BlockMatrix, S: wp.array, weights: list[sparse.csr_array]):
        self._A, self._S, self._device, n = A, S, A.device, A.row_count
        self.on_gpu = wp.get_device(A.device).is_cuda
        self._first = Weights(weights[0], A.device) if weights else None
        Q, R = sparse.csr_array(sparse.eye_array(n, dtype=np.float32)), None
        self.passages: list[Passage | None] = [None]
        for P in weights:
            Q = sparse.csr_array(Q @ P)
            R = sparse.csr_array(sparse.eye_array(P.shape[1], dtype=np.float32) if R is None else R @ P)
            self.passages.append(Passage(Weights(Q, A.device), Weights(R, A.device)))
        self._node_count = Q.shape[1]
        self._y, self._z = (wp.zeros(n, dtype=wp.vec3f, device=A.device) for _ in range(2))
        self._z_first = wp.zeros(weights[0].shape[1] if weights else 0, dtype=wp.vec3f, device=A.device)
        # The particles in contact, of which a GPU has all, and those that are not in contact are not used.
        self._particles = wp.array(np.arange(n, dtype=np.int32), dtype=wp.int32, device=A.device)
        self._used = wp.zeros(n, dtype=wp.int32, device=A.device)
        self._particle_count = n if self.on_gpu else 0
        self._group_count = wp.zeros(1, dtype=wp.int32, device=A.device)
        self._capacity, self._launch = -1, Launcher(A.device)
        self._reserve(0)

    def reserve(self) -> None:
        """Makes room for the present groups; a GPU has room for all that the lists could hold."""
        count = sum(self._lengths())
        if count > self._capacity:
            self._reserve(count if self.on_gpu else 2 * count)

    def _lengths(self) -> list[int]:
        """Numbers of groups in the lists, or of those that they could hold on a GPU."""
        return [each.capacity if self.on_gpu else int(each.count.numpy()[0]) for each in self._A.couplings]

    def update(self) -> None:
        """Takes over the present groups; only launches on a GPU."""
        self._used.zero_()
        self._group_count.zero_()
        for couplings, count in zip(self._A.couplings, self._lengths(), strict=True):
            inputs = [couplings.groups, self._S, self._group_count, self._groups, self._used]
            self._launch(round_groups, count, inputs)
            self._launch(add_count, 1, [couplings.groups, self._group_count])
        if self.on_gpu:
            return
        found = np.flatnonzero(self._used.numpy())
        self._particle_count = len(found)
        self._particles.numpy()[: len(found)] = found
        self._threads = int(self._group_count.numpy()[0])

    def subtract(self, level: int, d: wp.array, r_out: wp.array) -> None:
        """r -= Q^T S C S Q d."""
        launch, groups = self._launch, [self._threads, self._group_count, self._groups]
        if not level:
            launch(subtract_coupled, self._threads, [*groups, self._S, d, r_out])
            return
        passage, listed = self.passages[level], [self._particles, self._used, self._S]
        assert passage is not None and self._first is not None
        launch.split(interpolate, self._particle_count, [*listed, *passage.to_particles.arrays, d, self._y])
        launch(couple, self._threads, [*groups, self._y, self._z])
        out = r_out if level == 1 else self._z_first
        sign = -1.0 if level == 1 else 1.0
        launch(add_interpolated, self._particle_count, [*listed, *self._first.arrays, sign, self._z, out])
        if level > 1:
            inputs = [*passage.to_first_grid.arrays, self._z_first, r_out]
            launch(subtract_interpolated, len(self._z_first), inputs)

    def add_to(self, dense_out: wp.array) -> None:
        """Adds Q^T S C S Q of the coarsest level to a dense matrix."""
        last = self.passages[-1]
        if last is None or not self._node_count:
            return
        threads = self._nodes.shape[1]
        inputs = [threads, self._group_count, self._groups, self._S, *last.to_particles.arrays]
        self._launch(add_dense, threads, [*inputs, self._nodes, self._g, dense_out])

    def _reserve(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups = wp.zeros(capacity, dtype=RoundedGroup, device=self._device)
        self._threads = min(capacity, LONGEST) if self.on_gpu else 0
        shape = (self._node_count, min(capacity, DENSE_THREADS) if self.on_gpu else 1)
        self._nodes = wp.zeros(shape, dtype=wp.int32, device=self._device)
        self._g = wp.zeros(shape, dtype=wp.float32, device=self._device)
        self._launch = Launcher(self._device)  # the old one keeps launches with the old arrays


@wp.kernel
def round_groups(
    # in
    groups: CouplingGroups, S: wp.array(dtype=mat33), begin: wp.array(dtype=wp.int32),
    # out
    groups_out: wp.array(dtype=RoundedGroup), used_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    k = wp.tid()
    if k >= groups.count[0]:
        return
    at = groups.particles[k]
    group = RoundedGroup()
    group.particles = at
    group.weights = wp.vec4f(groups.weights[k])
    group.block = wp.mat33f(groups.blocks[k])
    group.held = 0
    for a in range(4):
        used_out[at[a]] = 1
        if is_held(S[at[a]]):
            group.held = 1
    groups_out[begin[0] + k] = group


@wp.kernel
def add_count(groups: CouplingGroups, count_out: wp.array(dtype=wp.int32)):
    count_out[0] = count_out[0] + groups.count[0]


@wp.func
def free_part(S: wp.array(dtype=mat33), i: int, v: wp.vec3f) -> wp.vec3f:
    """Returns S_i v."""
    if is_held(S[i]):
        return wp.vec3f(S[i] * vec3(v))
    return v


@wp.kernel
def subtract_coupled(
    # in
    stride: wp.int32, count: wp.array(dtype=wp.int32), groups: wp.array(dtype=RoundedGroup), S: wp.array(dtype=mat33),
    d: wp.array(dtype=wp.vec3f),
    # in and out
    r_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """r -= S C S d."""
    k = wp.tid()
    while k < count[0]:
        at, w = groups[k].particles, groups[k].weights
        held = groups[k].held != 0
        apart = wp.vec3f()
        for a in range(4):
            moved = 1.0 * d[at[a]]
            if held:
                moved = free_part(S, at[a], moved)
            apart += w[a] * moved
        pull = groups[k].block * apart
        for a in range(4):
            force = w[a] * pull
            if held:
                force = free_part(S, at[a], force)
            wp.atomic_sub(r_out, at[a], force)
        k += stride


@wp.kernel
def interpolate(
    # in
    first: wp.int32, particles: wp.array(dtype=wp.int32), used: wp.array(dtype=wp.int32), S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    # in
    d: wp.array(dtype=wp.vec3f),
    # out
    y_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """y = S Q d for the particles in contact."""
    i = particles[first + wp.tid()]
    if used[i] == 0:
        return
    y = wp.vec3f()
    for e in range(offsets[i], offsets[i + 1]):
        y += Q[e] * d[columns[e]]
    y_out[i] = free_part(S, i, y)


@wp.kernel
def couple(
    # in
    stride: wp.int32, count: wp.array(dtype=wp.int32), groups: wp.array(dtype=RoundedGroup),
    y: wp.array(dtype=wp.vec3f),
    # in and out
    z_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """z += C y."""
    k = wp.tid()
    while k < count[0]:
        at, w = groups[k].particles, groups[k].weights
        apart = w[0] * y[at[0]] + w[1] * y[at[1]] + w[2] * y[at[2]] + w[3] * y[at[3]]
        pull = groups[k].block * apart
        for a in range(4):
            wp.atomic_add(z_out, at[a], w[a] * pull)
        k += stride


@wp.kernel
def add_interpolated(
    # in
    particles: wp.array(dtype=wp.int32), used: wp.array(dtype=wp.int32), S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), P: wp.array(dtype=wp.float32),
    # in
    sign: wp.float32,
    # in and out
    z_out: wp.array(dtype=wp.vec3f), r_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """r += sign P^T S z for the particles in contact; z becomes 0 for the next product."""
    i = particles[wp.tid()]
    if used[i] == 0:
        return
    z = sign * free_part(S, i, z_out[i])
    z_out[i] = wp.vec3f()
    for e in range(offsets[i], offsets[i + 1]):
        wp.atomic_add(r_out, columns[e], P[e] * z)


@wp.kernel
def subtract_interpolated(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), R: wp.array(dtype=wp.float32),
    # in and out
    z_out: wp.array(dtype=wp.vec3f), r_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """r -= R^T z; z becomes 0 for the next product."""
    i = wp.tid()
    z = 1.0 * z_out[i]
    if wp.length_sq(z) > 0.0:
        z_out[i] = wp.vec3f()
        for e in range(offsets[i], offsets[i + 1]):
            wp.atomic_sub(r_out, columns[e], R[e] * z)


@wp.func
def add_blocks(
    group: RoundedGroup, S: wp.array(dtype=mat33), offsets: wp.array(dtype=wp.int32),
    columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32), dense: wp.array2d(dtype=mat33),
):  # fmt: skip
    """Adds the blocks of a group with held particles, one by one."""
    at, w = group.particles, group.weights
    # Loops over constants would be unrolled to sixteen copies, which take a compiler for GPUs a minute.
    corners = wp.min(group.held, 1) * 4
    for a in range(corners):
        for b in range(corners):
            block = real(w[a] * w[b]) * (S[at[a]] * mat33(group.block) * S[at[b]])
            for e in range(offsets[at[a]], offsets[at[a] + 1]):
                for f in range(offsets[at[b]], offsets[at[b] + 1]):
                    wp.atomic_add(dense, columns[e], columns[f], real(Q[e] * Q[f]) * block)


@wp.kernel
def add_dense(
    # in
    stride: wp.int32, count: wp.array(dtype=wp.int32), groups: wp.array(dtype=RoundedGroup), S: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), Q: wp.array(dtype=wp.float32),
    # in and out
    nodes_out: wp.array2d(dtype=wp.int32), g_out: wp.array2d(dtype=wp.float32), dense_out: wp.array2d(dtype=mat33),
):  # fmt: skip
    """Adds groups to the dense matrix, one after the other. A thread has a column of `nodes` and of `g`; between groups
    g is 0."""
    t = wp.tid()
    k = wp.tid()
    while k < count[0]:
        group = groups[k]
        k += stride
        if group.held != 0:
            add_blocks(group, S, offsets, columns, Q, dense_out)
            continue
        at, w = group.particles, group.weights
        found = int(0)
        for a in range(4):
            for e in range(offsets[at[a]], offsets[at[a] + 1]):
                node = columns[e]
                if g_out[node, t] == 0.0:
                    nodes_out[found, t] = node
                    found += 1
                g_out[node, t] = g_out[node, t] + w[a] * Q[e]
                if g_out[node, t] == 0.0:
                    g_out[node, t] = SMALLEST  # it is listed
        block = mat33(group.block)
        for e in range(found):
            i = nodes_out[e, t]
            for f in range(found):
                j = nodes_out[f, t]
                wp.atomic_add(dense_out, i, j, real(g_out[i, t] * g_out[j, t]) * block)
        for e in range(found):
            g_out[nodes_out[e, t], t] = 0.0
