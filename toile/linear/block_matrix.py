"""A symmetric sparse matrix of 3x3 blocks on a pattern that does not change ([BW98] sec. 2.3).

Both triangles of the matrix are stored in compressed rows, so that a product is one independent sum per row.

Contacts between cloths couple different particles in every step. Their diagonal blocks are in the pattern and are
stored there, where preconditioners see them; the other blocks are kept apart, as `Couplings`, and added to products.

In single precision, products need the sum of each row separately, `row_sum`: the mass, and the drag of air and solids.
All other blocks act between particles and cancel in that sum, but they are up to a million times as large, and rounding
would leave little of the mass on the diagonal. So rows are multiplied as

    (A x)_i = row_sum_i x_i + sum over j of A_ij (x_j - x_i)

and a translation of all particles is resisted by their mass alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import warp as wp

from toile.device.growable import Growable
from toile.device.lanes import has_lanes, lanes_for, real_components, real_sum_of_lanes, rows_of
from toile.device.launcher import Launcher
from toile.linear.multigrid.uv_hierarchy import Sites
from toile.math.types import mat33, precision, real, vec3, vec4


@wp.struct
class CouplingGroups(Growable):
    """Groups of four particles; the block between particles a and b of a group is w_a w_b B."""

    count: wp.array(dtype=wp.int32)  # groups in use, one number; the other arrays may be longer
    particles: wp.array(dtype=wp.vec4i)
    weights: wp.array(dtype=vec4)
    blocks: wp.array(dtype=mat33)


class Couplings:
    """Blocks outside the pattern of a matrix, on the device.

    A block with a = b is on the diagonal of the matrix as well, and products include it only once.
    """

    def __init__(self, device: str):
        self.device = device
        self.count = wp.zeros(1, dtype=wp.int32, device=device)
        self.groups = CouplingGroups()
        self.reserve(0)

    @property
    def capacity(self) -> int:
        return len(self.blocks)

    def reserve(self, capacity: int) -> None:
        """Replaces the arrays by empty ones for a number of groups; their contents are lost."""
        self.particles = wp.zeros(capacity, dtype=wp.vec4i, device=self.device)
        self.weights = wp.zeros(capacity, dtype=vec4, device=self.device)
        self.blocks = wp.zeros(capacity, dtype=mat33, device=self.device)
        self.groups.retire()
        self.groups = CouplingGroups()
        self.groups.count, self.groups.particles = self.count, self.particles
        self.groups.weights, self.groups.blocks = self.weights, self.blocks
        self._launch = Launcher(self.device)  # the old one would keep the old arrays alive

    def add_product(self, x: wp.array, factor: float, y_out: wp.array) -> None:
        """y += factor C x, with the blocks C that are not in the matrix."""
        self._launch(add_coupled, self.capacity, [self.groups, x, factor, y_out])


@dataclass
class BlockMatrix:
    """A block's index in `values` is its slot; `slots` finds them."""

    offsets: np.ndarray  # (rows + 1,) int32: slots of row i are offsets[i] .. offsets[i + 1]
    columns: np.ndarray  # (blocks,) int32, increasing within a row
    device: str
    points: np.ndarray | None = None  # [m]  (rows, 3) approximate positions, for the elimination order of a factor
    sites: Callable[[], Sites] | None = None  # positions in the plane of the cloth, for a multigrid hierarchy
    couplings: list[Couplings] = field(default_factory=list)  # blocks outside the pattern

    def __post_init__(self) -> None:
        n = len(self.offsets) - 1
        self.rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(self.offsets))
        self._keys = self.rows.astype(np.int64) * max(n, 1) + self.columns
        self.values = wp.zeros(len(self.columns), dtype=mat33, device=self.device)
        # Empty in double precision, where products do not need it.
        self.row_sum = wp.zeros(n if precision == "single" else 0, dtype=mat33, device=self.device)
        self.diagonal = wp.array(self.slots(np.arange(n), np.arange(n)), dtype=wp.int32, device=self.device)
        self.device_offsets = wp.array(self.offsets, dtype=wp.int32, device=self.device)
        self.device_columns = wp.array(self.columns, dtype=wp.int32, device=self.device)
        self.lanes = RowLanes()
        self.lanes.count = lanes_for(n, self.device)
        self.lanes.rows, self.lanes.row_sums = rows_of(self.values, vec3), rows_of(self.row_sum, vec3)

    @staticmethod
    def from_stencils(
        n: int,
        stencils: list[np.ndarray],
        device: str,
        points: np.ndarray | None = None,
        sites: Callable[[], Sites] | None = None,
        couplings: Sequence[Couplings] = (),
    ) -> "BlockMatrix":
        """Returns a matrix on the pattern in which all particles of a stencil couple."""
        keys = [np.arange(n, dtype=np.int64) * (n + 1)]  # the diagonal is always in the pattern: mass
        for stencil in stencils:
            as_int64 = stencil.astype(np.int64)
            keys.append(np.unique((as_int64[:, :, None] * n + as_int64[:, None, :]).ravel()))
        every = np.unique(np.concatenate(keys))
        offsets = np.searchsorted(every, np.arange(n + 1, dtype=np.int64) * n).astype(np.int32)
        columns = (every % max(n, 1)).astype(np.int32)
        return BlockMatrix(offsets, columns, device, points, sites, list(couplings))

    @property
    def row_count(self) -> int:
        return len(self.offsets) - 1

    def couples(self, particles: np.ndarray) -> bool:
        """Returns whether every pair of these particles has a slot."""
        keys = np.repeat(particles, len(particles)) * np.int64(self.row_count) + np.tile(particles, len(particles))
        return bool(np.isin(keys, self._keys).all())

    def slots(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Returns the slot of each (row, column), all of which must be in the pattern."""
        keys = np.asarray(rows, np.int64) * max(self.row_count, 1) + columns
        return np.searchsorted(self._keys, keys).astype(np.int32)

    @property
    def arrays(self) -> list[wp.array]:
        """The arguments of `row_product`."""
        return [self.device_offsets, self.device_columns, self.values, self.row_sum]

    def multiply(self, x: wp.array, y_out: wp.array) -> None:
        """y = A x."""
        wp.launch(
            block_multiply,
            dim=self.row_count,
            inputs=[*self.arrays, x, y_out],
            device=self.device,
        )
        self.add_coupled(x, 1.0, y_out)

    def add_coupled(self, x: wp.array, factor: float, y_out: wp.array) -> None:
        """y += factor C x, with the blocks C outside the pattern."""
        for couplings in self.couplings:
            couplings.add_product(x, factor, y_out)

    def dense(self) -> np.ndarray:
        """Returns the whole matrix, for tests and small systems."""
        n = self.row_count
        full = np.zeros((n, n, 3, 3))
        full[self.rows, self.columns] = self.values.numpy()
        for c in self.couplings:
            used = slice(0, int(c.count.numpy()[0]))
            groups = (array.numpy()[used] for array in (c.particles, c.weights, c.blocks))
            for particles, w, B in zip(*groups, strict=True):
                for a, b in ((a, b) for a in range(4) for b in range(4) if a != b):
                    full[particles[a], particles[b]] += w[a] * w[b] * B
        return full.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)


@wp.func
def row_product(
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), values: wp.array(dtype=mat33),
    row_sum: wp.array(dtype=mat33), x: wp.array(dtype=vec3), i: int,
) -> vec3:  # fmt: skip
    """Returns row i of A times x."""
    total = vec3()
    if wp.static(precision == "single"):
        total = row_sum[i] * x[i]
        for slot in range(offsets[i], offsets[i + 1]):
            if columns[slot] != i:
                total += values[slot] * (x[columns[slot]] - x[i])
    else:
        for slot in range(offsets[i], offsets[i + 1]):
            total += values[slot] * x[columns[slot]]
    return total


@wp.struct
class RowLanes:
    """Lanes for each row of a matrix, and the memory of its blocks and row sums as rows, three for each block."""

    count: wp.int32
    rows: wp.array(dtype=vec3)
    row_sums: wp.array(dtype=vec3)


@wp.func
def row_product_by_lanes(
    by_lanes: RowLanes, offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    values: wp.array(dtype=mat33), row_sum: wp.array(dtype=mat33), x: wp.array(dtype=vec3), i: int, lane: int,
) -> vec3:  # fmt: skip
    """Returns row i of A times x, to all lanes of the row; lane 4 k + c has component c of its blocks. On a GPU several
    lanes take half of the time of one."""
    if not has_lanes():
        return row_product(offsets, columns, values, row_sum, x, i)
    total, lanes = real(0.0), by_lanes.count
    c = lane & 3
    slot, end = offsets[i] + (lane >> 2), offsets[i + 1] + 0
    if c < 3:
        if wp.static(precision == "single"):
            own = real(1.0) * x[i]
            if lane == c:
                total = wp.dot(by_lanes.row_sums[3 * i + c], own)
            while slot < end:
                total += wp.dot(by_lanes.rows[3 * slot + c], x[columns[slot]] - own)
                slot += lanes >> 2
        else:
            while slot < end:
                total += wp.dot(by_lanes.rows[3 * slot + c], x[columns[slot]])
                slot += lanes >> 2
    return real_components(real_sum_of_lanes(total, 4, lanes))


@wp.func
def add_external_block(
    diagonal: wp.array(dtype=wp.int32), i: int, block: mat33, A: wp.array(dtype=mat33), row_sum: wp.array(dtype=mat33)
):
    """Adds an external block to the diagonal of A: one that couples particle i to no other particle."""
    A[diagonal[i]] = A[diagonal[i]] + block
    if wp.static(precision == "single"):
        row_sum[i] = row_sum[i] + block


@wp.kernel
def block_multiply(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), row_sum: wp.array(dtype=mat33), x: wp.array(dtype=vec3),
    # out
    y_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    y_out[i] = row_product(offsets, columns, values, row_sum, x, i)


@wp.kernel
def add_coupled(
    # in
    groups: CouplingGroups, x: wp.array(dtype=vec3), factor: real,
    # in and out
    y_out: wp.array(dtype=vec3),
):  # fmt: skip
    k = wp.tid()
    if k >= groups.count[0]:
        return
    at, w, block = groups.particles[k], groups.weights[k], groups.blocks[k]
    total = w[0] * x[at[0]] + w[1] * x[at[1]] + w[2] * x[at[2]] + w[3] * x[at[3]]
    for a in range(4):
        if wp.static(precision == "single"):  # row_product leaves out the diagonal
            wp.atomic_add(y_out, at[a], factor * w[a] * (block * total))
        else:
            wp.atomic_add(y_out, at[a], factor * w[a] * (block * (total - w[a] * x[at[a]])))
