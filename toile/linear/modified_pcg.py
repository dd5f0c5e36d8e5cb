"""Modified conjugate gradients, which hold constraints exactly after any number of iterations.

Solves A dv = b in the free directions and (I - S) dv = z in the held ones, for every particle.

Source      [BW98] sec. 5.3, the procedure modified-pcg; constraint forces sec. 5.4
Symbols     S  free directions of each particle (eq. (13))     z  prescribed values     P  preconditioner
            r  residual, filtered     c  search direction     q  S A c     s  P^-1 r
Deviations  The paper's P_ii = 1/A_ii with steps by P^-1 would multiply by A_ii: P here approximates A. Iteration stops
            when |r| has fallen by the tolerance, the same measure for every preconditioner; the paper's r^T P^-1 r
            would cost one more application of P when the first direction already solves the system. e = A dv - b is
            an impulse: the force is e/h.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp

from toile.device.cuda_graph import CudaGraph
from toile.device.lanes import lane_count, own_row, thread_count, writes_row
from toile.device.launcher import SHARE, Launcher
from toile.device.readback import Readback
from toile.device.reductions import add_to_sum
from toile.linear.base import BuiltPreconditioner
from toile.linear.block_matrix import BlockMatrix, RowLanes, row_product, row_product_by_lanes
from toile.math.types import mat33, precision, real, vec3

# Indices of the device scalars: the dot products, and the numbers that control the iteration. It ends when r.r is at
# most LIMIT, which for the last new system was NEW_LIMIT, or after MAX_COUNT iterations, of which COUNT were made.
# R_R_START is r.r at the start, and UNFILTERED is r.r at the start before the filter.
R_S, R_S_OLD, C_Q, R_R, LIMIT, NEW_LIMIT, COUNT, MAX_COUNT, R_R_START, UNFILTERED, SCALARS = (
    wp.constant(k) for k in range(11)
)

# A residual this much smaller than the constraint forces is rounding: no iteration can reduce it.
ROUNDING = wp.constant(wp.float64(1e-14 if precision == "double" else 1e-6))

# Maximum number of the partial sums of a dot product.
MAX_PARTS = 256


@wp.struct
class PartialSums:
    """Partial sums of dot products, each over a range of rows.

    Threads never add to the same number, and the result does not depend on the number of threads.
    """

    rows: wp.int32  # of each range
    values: wp.array(dtype=wp.float64)
    unfiltered: wp.array(dtype=wp.float64)  # of a second dot product, of the residual before the filter


@dataclass
class Solution:
    """Iterations and residual of a solve."""

    iterations: int
    residual: float  # |r| relative to its start
    converged: bool
    solves: int = 0  # linear systems

    def then(self, later: "Solution") -> "Solution":
        """Returns the record of this solve and of a later one together."""
        return Solution(
            self.iterations + later.iterations,
            float(np.maximum(self.residual, later.residual)),  # NaN stays NaN
            later.converged,
            self.solves + later.solves,
        )


class ModifiedPCG:
    """Modified CG for one matrix; its vectors are allocated once."""

    def __init__(self, A: BlockMatrix, b: wp.array, S: wp.array, dv: wp.array):
        device, n = A.device, A.row_count
        r, c, q, s = (wp.zeros(n, dtype=vec3, device=device) for _ in range(4))
        scalars = wp.zeros(SCALARS, dtype=wp.float64, device=device)
        coupled = wp.zeros(n, dtype=vec3, device=device)  # the product with the blocks outside the pattern of A
        matrix = [*A.arrays, coupled]
        # Rows of a partial sum: a power of two times SHARE.
        self._rows = SHARE << max(0, int(np.ceil(np.log2(max(n, 1) / (SHARE * MAX_PARTS)))))
        sums, part_count = PartialSums(), -(-n // self._rows)
        sums.rows = self._rows
        sums.values, sums.unfiltered = (wp.zeros(part_count, dtype=wp.float64, device=device) for _ in range(2))

        self.A, self.dv, self.r, self.scalars, self._readback = A, dv, r, scalars, Readback(scalars)
        self.c, self._s, self._coupled = c, s, coupled
        self._n, self._launch, self._on_cpu = n, Launcher(device), wp.get_device(device).is_cpu
        self._start = [*matrix, b, S, dv, r, sums]
        self._sums = [sums, scalars]
        self._dot_residual = [r, s, sums]
        self._update_direction = [S, s, scalars, c]
        self._multiply_direction = [A.lanes, *matrix, S, c, q, sums]
        self._threads = thread_count(n, A.lanes.count)
        self._advance = [c, q, scalars, dv, r, sums]
        # On a GPU iterations follow each other until the device itself finds that the limit is reached.
        self._going = wp.zeros(1, dtype=wp.int32, device=device)
        self._loops: dict[BuiltPreconditioner, CudaGraph] = {}

    def solve(
        self, preconditioner: BuiltPreconditioner, tolerance: float, max_iterations: int, again: float = 0.0,
        loosen: float = 1.0,
    ) -> Solution:  # fmt: skip
        """Improves dv, whose constrained components are z on entry and on return.

        `again` is for a system that was changed a little after it had been solved: the limit of the residual is then
        `again` times the limit of that solve, instead of the tolerance times the small residual at the start.
        `loosen` is a multiple of the limit that is enough for this solve.
        """
        if not self._n:
            return Solution(0, 0.0, True)  # a scene without cloth
        launch = self._launch
        self._multiply_coupled(self.dv)
        launch.split(start, self._n, self._start, self._rows)
        launch(set_limit, 1, [tolerance * tolerance, float(max_iterations), again * again,
                               loosen * loosen, *self._sums])  # fmt: skip
        if self._on_cpu:
            scalars = self._readback()  # a view: it changes with the scalars
            while scalars[R_R] > scalars[LIMIT] and scalars[COUNT] < max_iterations:
                self._iterate(preconditioner)
        else:
            self._iterate_on_device(preconditioner)
            scalars = self._readback()
        at_start, r_r = float(scalars[R_R_START]), float(scalars[R_R])
        converged = bool(r_r <= scalars[LIMIT] < np.inf)  # false for NaN too
        if converged and not scalars[COUNT]:
            return Solution(0, 0.0, True)  # the residual was rounding alone
        return Solution(int(scalars[COUNT]), float(np.sqrt(r_r / at_start)) if at_start > 0.0 else at_start, converged)

    def _iterate(self, preconditioner: BuiltPreconditioner) -> None:
        """Makes one iteration."""
        launch, n, rows = self._launch, self._n, self._rows
        preconditioner.apply(self.r, self._s)
        launch.split(dot_residual, n, self._dot_residual, rows)
        launch(sum_r_s, 1, self._sums)
        launch.split(update_direction, n, self._update_direction, rows)
        self._multiply_coupled(self.c)
        launch.split(multiply_direction, self._threads, self._multiply_direction, rows)
        launch(sum_c_q, 1, self._sums)
        launch.split(advance, n, self._advance, rows)
        launch(sum_r_r, 1, self._sums)

    def _iterate_on_device(self, preconditioner: BuiltPreconditioner) -> None:
        """Iterates until `go_on` stops the loop on the device."""
        going = [self.scalars, self._going]

        def iterate() -> None:
            self._iterate(preconditioner)
            self._launch(go_on, 1, going)

        if preconditioner not in self._loops:
            self._loops[preconditioner] = CudaGraph(self.A.device, lambda: wp.capture_while(self._going, iterate))
        self._launch(go_on, 1, going)
        self._loops[preconditioner](*(couplings.groups for couplings in self.A.couplings))

    def _multiply_coupled(self, x: wp.array) -> None:
        if self.A.couplings:
            self._coupled.zero_()
            self.A.add_coupled(x, 1.0, self._coupled)


@wp.kernel
def start(
    first: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), row_sum: wp.array(dtype=mat33), coupled: wp.array(dtype=vec3),
    b: wp.array(dtype=vec3), S: wp.array(dtype=mat33), dv: wp.array(dtype=vec3),
    # out
    r_out: wp.array(dtype=vec3), sums_out: PartialSums,
):  # fmt: skip
    i = first + wp.tid()
    unfiltered = b[i] - row_product(offsets, columns, values, row_sum, dv, i) - coupled[i]
    # The filter is applied twice: of a large force in a held direction the first time leaves a rounding error, which
    # the second removes. CG could not reduce it, and would iterate on it as on a residual.
    r = S[i] * (S[i] * unfiltered)
    r_out[i] = r
    k = i // sums_out.rows
    add_to_sum(sums_out.values, k, wp.float64(wp.dot(r, r)))
    add_to_sum(sums_out.unfiltered, k, wp.float64(wp.dot(unfiltered, unfiltered)))


@wp.func
def take_sum(parts_out: wp.array(dtype=wp.float64)) -> wp.float64:
    """Returns the sum of the partial sums and sets them to zero for the next one."""
    total = wp.float64(0.0)
    for p in range(parts_out.shape[0]):
        total += parts_out[p]
        parts_out[p] = wp.float64(0.0)
    return total


@wp.kernel
def set_limit(
    # in
    tolerance2: wp.float64, max_count: wp.float64, again2: wp.float64,
    loosen2: wp.float64,
    # in and out
    sums_out: PartialSums, scalars_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    scalars_out[R_R] = take_sum(sums_out.values)
    scalars_out[UNFILTERED] = take_sum(sums_out.unfiltered)
    if again2 == wp.float64(0.0):
        scalars_out[NEW_LIMIT] = tolerance2 * scalars_out[R_R]
    limit = loosen2 * scalars_out[NEW_LIMIT] * wp.where(again2 == wp.float64(0.0), wp.float64(1.0), again2)
    scalars_out[LIMIT] = wp.max(limit, ROUNDING * ROUNDING * scalars_out[UNFILTERED])
    scalars_out[R_R_START] = scalars_out[R_R]
    scalars_out[MAX_COUNT] = max_count
    scalars_out[R_S] = wp.float64(0.0)
    scalars_out[COUNT] = wp.float64(0.0)


@wp.kernel
def dot_residual(
    first: wp.int32,
    # in
    r: wp.array(dtype=vec3), s: wp.array(dtype=vec3),
    # in and out
    sums_out: PartialSums,
):  # fmt: skip
    i = first + wp.tid()
    add_to_sum(sums_out.values, i // sums_out.rows, wp.float64(wp.dot(r[i], s[i])))


@wp.kernel
def sum_r_s(sums_out: PartialSums, scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[R_S_OLD] = scalars_out[R_S]
    scalars_out[R_S] = take_sum(sums_out.values)


@wp.kernel
def update_direction(
    first: wp.int32,
    # in
    S: wp.array(dtype=mat33), s: wp.array(dtype=vec3), scalars: wp.array(dtype=wp.float64),
    # in and out
    c_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = first + wp.tid()
    c = s[i]
    if scalars[R_S_OLD] > wp.float64(0.0):  # the first direction has no predecessor, whatever c_out contains
        c += real(scalars[R_S] / scalars[R_S_OLD]) * c_out[i]
    c_out[i] = S[i] * c


@wp.kernel
def multiply_direction(
    first: wp.int32,
    # model
    by_lanes: RowLanes, offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), row_sum: wp.array(dtype=mat33), coupled: wp.array(dtype=vec3),
    S: wp.array(dtype=mat33), c: wp.array(dtype=vec3),
    # out
    q_out: wp.array(dtype=vec3), sums_out: PartialSums,
):  # fmt: skip
    t, lanes, n = first + wp.tid(), lane_count(by_lanes.count), c.shape[0]
    i, lane = t // lanes, t % lanes
    at = own_row(i, n)
    outside, free, along = real(1.0) * coupled[at], real(1.0) * S[at], real(1.0) * c[at]
    q = free * (row_product_by_lanes(by_lanes, offsets, columns, values, row_sum, c, at, lane) + outside)
    part = wp.float64(0.0)
    if writes_row(i, lane, n):
        q_out[i] = q
        part = wp.float64(wp.dot(along, q))
    add_to_sum(sums_out.values, at // sums_out.rows, part)


@wp.kernel
def sum_c_q(sums_out: PartialSums, scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[C_Q] = take_sum(sums_out.values)


@wp.kernel
def advance(
    first: wp.int32,
    # in
    c: wp.array(dtype=vec3), q: wp.array(dtype=vec3), scalars: wp.array(dtype=wp.float64),
    # in and out
    dv_out: wp.array(dtype=vec3), r_out: wp.array(dtype=vec3), sums_out: PartialSums,
):  # fmt: skip
    i = first + wp.tid()
    alpha = real(0.0)
    if scalars[C_Q] > wp.float64(0.0):
        alpha = real(scalars[R_S] / scalars[C_Q])
    dv_out[i] = dv_out[i] + alpha * c[i]
    r = r_out[i] - alpha * q[i]
    r_out[i] = r
    add_to_sum(sums_out.values, i // sums_out.rows, wp.float64(wp.dot(r, r)))


@wp.kernel
def sum_r_r(sums_out: PartialSums, scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[R_R] = take_sum(sums_out.values)
    scalars_out[COUNT] = scalars_out[COUNT] + wp.float64(1.0)


@wp.kernel
def go_on(scalars: wp.array(dtype=wp.float64), going_out: wp.array(dtype=wp.int32)):
    more = scalars[R_R] > scalars[LIMIT] and scalars[COUNT] < scalars[MAX_COUNT]
    going_out[0] = wp.where(more, 1, 0)
