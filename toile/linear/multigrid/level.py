"""One level of a multigrid cycle: its matrix and its vectors."""

from collections.abc import Sequence

import warp as wp

from toile.device.lanes import lanes_for, rows_of, thread_count
from toile.device.launcher import Launcher
from toile.linear.multigrid.cycle_kernels import BlockLanes
from toile.linear.multigrid.galerkin import Matrix
from toile.linear.multigrid.galerkin_blocks import BlockFilter
from toile.math.types import mat33


class Level:
    """A matrix of the hierarchy, its rounded copy for cycles, and the vectors of a cycle."""

    def __init__(self, matrix: Matrix, device: str):
        self.matrix, n = matrix, matrix.pattern.shape[0]
        self.n, self.launch = n, Launcher(device)
        self.rounded = wp.zeros(len(matrix.values), dtype=wp.mat33f, device=device)
        self.lanes = BlockLanes()
        self.lanes.count, self.lanes.rows = lanes_for(n, device), rows_of(self.rounded, wp.vec3f)
        self.threads = thread_count(n, self.lanes.count)
        self._in_cycles = [self.lanes, matrix.offsets, matrix.columns, self.rounded]
        self.inverse = wp.zeros(n, dtype=wp.mat33f, device=device)  # of D
        self.filters = self._filters(wp.zeros(0, dtype=mat33, device=device), (0.0, 0.0))
        self.x, self.r = (wp.zeros(n, dtype=wp.vec3f, device=device) for _ in range(2))
        self.d = [wp.zeros(n, dtype=wp.vec3f, device=device) for _ in range(2)]
        self.start = [self.r, self.d[0], self.x]

    def couple(self, K: wp.array, in_value: float, in_D: float) -> None:
        """Includes contacts, of which `in_value` K is in the values of the matrix and `in_D` K belongs in D."""
        self.filters = self._filters(K, (in_value, in_D))

    def _filters(self, K: wp.array, factors: tuple[float, float]) -> BlockFilter:
        filters = BlockFilter()
        filters.S, filters.K = self.matrix.S, K
        filters.in_value, filters.in_D = factors
        return filters

    def by_rows(self, kernel: wp.Kernel, inputs: Sequence[object]) -> None:
        """Launches a kernel that multiplies by the matrix."""
        self.launch.split(kernel, self.threads, [*self._in_cycles, *inputs])
