"""A symmetric sparse matrix of 3x3 blocks on a pattern that does not change ([BW98] sec. 2.3).

Rows are stored compressed, both triangles of the matrix, so that a product is one independent sum per row.

Contacts between cloths couple other particles in every step. Their blocks on the diagonal are in the pattern and are
stored there, where preconditioners see them; what is off it is kept apart, as `Couplings`, and takes part in products.

In single precision products need the sum of each row by itself, `ground`: mass, and what air and solids hold a particle
back with. Everything else acts between particles and cancels in that sum, but is up to a million times as large, and
would leave of the mass on the diagonal what rounding makes of it. So rows are multiplied as

    (A x)_i = ground_i x_i + sum over j of A_ij (x_j - x_i)

and what moves as one is moved by its mass alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.linear.multigrid.uv_hierarchy import Sites
from toile.math.types import mat33, precision, real, vec3, vec4


class Couplings:
    """Groups of four particles; the block between a and b of a group is w_a w_b B. Where a = b it is on the diagonal of
    the matrix as well, and products take it from one of the two."""

    def __init__(self, device: str):
        self.device = device
        self.count = wp.zeros(1, dtype=wp.int32, device=device)  # groups in use; the arrays may be longer
        self.reserve(0)

    @property
    def capacity(self) -> int:
        return len(self.blocks)

    @property
    def arrays(self) -> list[wp.array]:
        return [self.count, self.particles, self.weights, self.blocks]

    def reserve(self, capacity: int) -> None:
        """Arrays for so many groups; what they held is lost."""
        self.particles = wp.zeros(capacity, dtype=wp.vec4i, device=self.device)
        self.weights = wp.zeros(capacity, dtype=vec4, device=self.device)
        self.blocks = wp.zeros(capacity, dtype=mat33, device=self.device)
        self._launch = Launcher(self.device)  # a new one: the old remembers the old arrays

    def add_product(self, x: wp.array, factor: float, y_out: wp.array) -> None:
        """y += factor (the blocks that only are here) x."""
        self._launch(add_coupled, self.capacity, [*self.arrays, x, factor, y_out])


@dataclass
class BlockMatrix:
    """A block's place in `values` is its slot; `slots` finds them."""

    offsets: np.ndarray  # (rows + 1,) int32: slots of row i are offsets[i] .. offsets[i + 1]
    columns: np.ndarray  # (blocks,) int32, increasing within a row
    device: str
    points: np.ndarray | None = None  # [m]  (rows, 3) where the particles are, roughly: a factor's order comes from it
    sites: Callable[[], Sites] | None = None  # where they are in the plane of the cloth: a hierarchy comes from it
    couplings: list[Couplings] = field(default_factory=list)  # what does not fit the pattern

    def __post_init__(self) -> None:
        n = len(self.offsets) - 1
        self.rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(self.offsets))
        self._keys = self.rows.astype(np.int64) * max(n, 1) + self.columns
        self.values = wp.zeros(len(self.columns), dtype=mat33, device=self.device)
        # Sums of the rows; empty in double precision, where products do not need them.
        self.row_sum = wp.zeros(n if precision == "single" else 0, dtype=mat33, device=self.device)
        self.diagonal = wp.array(self.slots(np.arange(n), np.arange(n)), dtype=wp.int32, device=self.device)
        self.device_offsets = wp.array(self.offsets, dtype=wp.int32, device=self.device)
        self.device_columns = wp.array(self.columns, dtype=wp.int32, device=self.device)

    @staticmethod
    def from_stencils(
        n: int, stencils: list[np.ndarray], device: str, points: np.ndarray | None = None
    ) -> "BlockMatrix":
        """The pattern in which all particles of a stencil couple."""
        keys = [np.arange(n, dtype=np.int64) * (n + 1)]  # the diagonal is always there: mass
        for stencil in stencils:
            as_int64 = stencil.astype(np.int64)
            keys.append(np.unique((as_int64[:, :, None] * n + as_int64[:, None, :]).ravel()))
        every = np.unique(np.concatenate(keys))
        offsets = np.searchsorted(every, np.arange(n + 1, dtype=np.int64) * n).astype(np.int32)
        return BlockMatrix(offsets, (every % max(n, 1)).astype(np.int32), device, points)

    @property
    def row_count(self) -> int:
        return len(self.offsets) - 1

    def couples(self, particles: np.ndarray) -> bool:
        """Whether every two of these have a slot."""
        keys = np.repeat(particles, len(particles)) * np.int64(self.row_count) + np.tile(particles, len(particles))
        return bool(np.isin(keys, self._keys).all())

    def slots(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Slot of each (row, column); they must be in the pattern."""
        keys = np.asarray(rows, np.int64) * max(self.row_count, 1) + columns
        return np.searchsorted(self._keys, keys).astype(np.int32)

    @property
    def arrays(self) -> list[wp.array]:
        """For `row_product`."""
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
        """y += factor (what is outside the pattern) x."""
        for couplings in self.couplings:
            couplings.add_product(x, factor, y_out)

    def dense(self) -> np.ndarray:
        """The whole matrix, for tests and small things."""
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
) -> vec3:
    """Row i of A times x."""
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


@wp.func
def add_external_block(
    diagonal: wp.array(dtype=wp.int32), i: int, block: mat33, A: wp.array(dtype=mat33), row_sum: wp.array(dtype=mat33)
):
    """Adds to the diagonal of A what ties a particle to nothing that moves with it."""
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
):
    i = wp.tid()
    y_out[i] = row_product(offsets, columns, values, row_sum, x, i)


@wp.kernel
def add_coupled(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    blocks: wp.array(dtype=mat33), x: wp.array(dtype=vec3), factor: real,
    # in and out
    y_out: wp.array(dtype=vec3),
):
    k = wp.tid()
    if k >= count[0]:
        return
    at, w = particles[k], weights[k]
    total = w[0] * x[at[0]] + w[1] * x[at[1]] + w[2] * x[at[2]] + w[3] * x[at[3]]
    for a in range(4):
        if wp.static(precision == "single"):  # row_product leaves the diagonal out
            wp.atomic_add(y_out, at[a], factor * w[a] * (blocks[k] * total))
        else:
            wp.atomic_add(y_out, at[a], factor * w[a] * (blocks[k] * (total - w[a] * x[at[a]])))
