"""Conjugate gradients that hold constraints exactly, whatever the number of iterations.

Solves A dv = b in the free directions while (I - S) dv = z in the others, for every particle.

Source      [BW98] sec. 5.3, the procedure modified-pcg; constraint forces sec. 5.4
Symbols     S  free directions of each particle (eq. (13))     z  prescribed values     P  preconditioner
            r  residual, filtered     c  search direction     q  S A c     s  P^-1 r
Deviations  The paper's P_ii = 1/A_ii with steps by P^-1 would multiply by A_ii: P here approximates A. Iteration stops
            when |r| has fallen by the tolerance, the same measure for every preconditioner; the paper's r^T P^-1 r
            would cost one more application of P when the first direction already solves the system. e = A dv - b is
            an impulse: the force is e/h.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from toile.launcher import SHARE, Launcher
from toile.linear.block_matrix import BlockMatrix, row_product
from toile.math.types import mat33, precision, real, vec3

# Places of the dot products among the device scalars, and of what controls the iteration: the value of r.r at which it
# ends, how many iterations were made, r.r at the start, and r.r before the filter.
R_S, R_S_OLD, C_Q, R_R, LIMIT, COUNT, AT_START, WHOLE, SCALARS = (wp.constant(place) for place in range(9))

# A residual this much smaller than what the constraints carry is rounding: no iteration can reduce it.
ROUNDING = wp.constant(wp.float64(1e-14 if precision == "double" else 1e-6))

# A dot product is the sum of parts, each of a range of rows: threads never add to the same number, and the result does
# not depend on how many there are. There are at most so many parts.
MOST_PARTS = 256


@dataclass
class Solution:
    """How a solve went."""

    iterations: int
    residual: float  # |r| relative to its start
    converged: bool


class ModifiedPCG:
    """The solver for one matrix, with its vectors made once."""

    def __init__(self, A: BlockMatrix, b: wp.array, S: wp.array, dv: wp.array):
        device, n = A.device, A.row_count
        r, c, q, s = (wp.zeros(n, dtype=vec3, device=device) for _ in range(4))
        scalars = wp.zeros(SCALARS, dtype=wp.float64, device=device)
        coupled = wp.zeros(n, dtype=vec3, device=device)  # the part of a product that is outside the pattern of A
        matrix = [A.device_offsets, A.device_columns, A.values, coupled]
        # Rows of a part: a power of two times SHARE.
        self._rows = SHARE << max(0, int(np.ceil(np.log2(max(n, 1) / (SHARE * MOST_PARTS)))))
        part_count = -(-n // self._rows)
        parts, more_parts = (wp.zeros(part_count, dtype=wp.float64, device=device) for _ in range(2))
        sums = [self._rows, parts]

        self.A, self.dv, self.r, self.scalars = A, dv, r, scalars
        self._c, self._s, self._coupled = c, s, coupled
        self._n, self._launch = n, Launcher(device)
        self._start = [*matrix, b, S, dv, r, *sums, more_parts]
        self._sums = [parts, scalars]
        self._limit = [parts, more_parts, scalars]
        self._dot_residual = [r, s, *sums]
        self._update_direction = [S, s, scalars, c]
        self._multiply_direction = [*matrix, S, c, q, *sums]
        self._advance = [c, q, scalars, dv, r, *sums]
        self._loop = _DeviceLoop(device) if wp.get_device(device).is_cuda else None

    def solve(self, preconditioner: Any, tolerance: float, max_iterations: int, again: bool = False) -> Solution:
        """Improves dv, whose constrained components hold z on entry and still do on return.

        `again` is for a system that was changed a little after it had been solved: it is solved to the residual that
        was small enough then, and not to the tolerance times the little that is left.
        """
        if not self._n:
            return Solution(0, 0.0, True)  # a scene without cloth
        launch = self._launch
        self._multiply_coupled(self.dv)
        launch.split(start, self._n, self._start, self._rows)
        launch(set_limit, 1, [tolerance * tolerance, again, *self._limit])
        scalars = self.scalars.numpy()
        if scalars[R_R] <= scalars[LIMIT] < np.inf:
            return Solution(0, 0.0, True)  # nothing to do, but for rounding
        if self._loop is None:
            while scalars[R_R] > scalars[LIMIT] and scalars[COUNT] < max_iterations:
                self._iterate(preconditioner)
        else:
            scalars = self._loop.run(self, preconditioner, max_iterations)
        at_start, r_r = float(scalars[AT_START]), float(scalars[R_R])
        residual = float(np.sqrt(r_r / at_start)) if at_start > 0.0 else at_start  # 0, or NaN
        # Not converged for NaN as well
        return Solution(int(scalars[COUNT]), residual, bool(r_r <= scalars[LIMIT] < np.inf))

    def _iterate(self, preconditioner: Any) -> None:
        """One iteration."""
        launch, n, rows = self._launch, self._n, self._rows
        preconditioner.apply(self.r, self._s)
        launch.split(dot_residual, n, self._dot_residual, rows)
        launch(sum_r_s, 1, self._sums)
        launch.split(update_direction, n, self._update_direction, rows)
        self._multiply_coupled(self._c)
        launch.split(multiply_direction, n, self._multiply_direction, rows)
        launch(sum_c_q, 1, self._sums)
        launch.split(advance, n, self._advance, rows)
        launch(sum_r_r, 1, self._sums)

    def _multiply_coupled(self, x: wp.array) -> None:
        if self.A.couplings:
            self._coupled.zero_()
            self.A.add_coupled(x, 1.0, self._coupled)


class _DeviceLoop:
    """Iterations on a GPU that decides by itself when to end: one graph, launched once a solve.

    The arrays in it are those of the solve that it was recorded in. Contacts have new ones from time to time; then it
    is recorded anew.
    """

    def __init__(self, device: str):
        self.device = device
        self._going = wp.zeros(1, dtype=wp.int32, device=device)
        self._graph: Any = None
        self._recorded_for: tuple = ()
        self._kept: list[Any] = []
        self._loaded = False

    def run(self, pcg: ModifiedPCG, preconditioner: Any, max_iterations: int) -> np.ndarray:
        """Iterates until the limit is reached; the scalars afterwards."""

        def decide() -> None:
            wp.launch(go_on, dim=1, inputs=[float(max_iterations), pcg.scalars, self._going], device=self.device)

        def iterate() -> None:
            pcg._iterate(preconditioner)
            decide()

        decide()
        if not self._loaded:
            # Kernels are loaded by their first launch, which no graph may do.
            self._loaded = True
            wp.capture_while(self._going, iterate)
            return pcg.scalars.numpy()
        arrays = [array for couplings in pcg.A.couplings for array in couplings.arrays]
        wanted = (preconditioner, max_iterations, *map(id, arrays))
        if wanted != self._recorded_for:
            with wp.ScopedCapture(device=self.device) as capture:
                wp.capture_while(self._going, iterate)
            self._graph, self._recorded_for, self._kept = capture.graph, wanted, arrays
        wp.capture_launch(self._graph)
        return pcg.scalars.numpy()


@wp.kernel
def start(
    first: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), coupled: wp.array(dtype=vec3), b: wp.array(dtype=vec3), S: wp.array(dtype=mat33),
    dv: wp.array(dtype=vec3),
    # out
    r_out: wp.array(dtype=vec3), rows: wp.int32, r_r_out: wp.array(dtype=wp.float64),
    whole_out: wp.array(dtype=wp.float64),
):
    i = first + wp.tid()
    whole = b[i] - row_product(offsets, columns, values, dv, i) - coupled[i]
    # Twice: what the filter leaves of a large force in a held direction by rounding, it takes out the second time. CG
    # cannot reduce it, and would take it for a residual that it must.
    r = S[i] * (S[i] * whole)
    r_out[i] = r
    wp.atomic_add(r_r_out, i // rows, wp.float64(wp.dot(r, r)))
    wp.atomic_add(whole_out, i // rows, wp.float64(wp.dot(whole, whole)))


@wp.func
def take_sum(parts: wp.array(dtype=wp.float64)) -> wp.float64:
    """Leaves zeros for the next sum."""
    total = wp.float64(0.0)
    for p in range(parts.shape[0]):
        total += parts[p]
        parts[p] = wp.float64(0.0)
    return total


@wp.kernel
def set_limit(
    # in
    tolerance2: wp.float64, again: wp.bool, r_r: wp.array(dtype=wp.float64), whole: wp.array(dtype=wp.float64),
    # out
    scalars_out: wp.array(dtype=wp.float64),
):
    scalars_out[R_R] = take_sum(r_r)
    scalars_out[WHOLE] = take_sum(whole)
    if not again:
        scalars_out[LIMIT] = tolerance2 * scalars_out[R_R]
    scalars_out[LIMIT] = wp.max(scalars_out[LIMIT], ROUNDING * ROUNDING * scalars_out[WHOLE])
    scalars_out[AT_START] = scalars_out[R_R]
    scalars_out[R_S] = wp.float64(0.0)
    scalars_out[COUNT] = wp.float64(0.0)


@wp.kernel
def dot_residual(
    first: wp.int32,
    # in
    r: wp.array(dtype=vec3), s: wp.array(dtype=vec3),
    # out
    rows: wp.int32, r_s_out: wp.array(dtype=wp.float64),
):
    i = first + wp.tid()
    wp.atomic_add(r_s_out, i // rows, wp.float64(wp.dot(r[i], s[i])))


@wp.kernel
def sum_r_s(parts: wp.array(dtype=wp.float64), scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[R_S_OLD] = scalars_out[R_S]
    scalars_out[R_S] = take_sum(parts)


@wp.kernel
def update_direction(
    first: wp.int32,
    # in
    S: wp.array(dtype=mat33), s: wp.array(dtype=vec3), scalars: wp.array(dtype=wp.float64),
    # in and out
    c_out: wp.array(dtype=vec3),
):
    i = first + wp.tid()
    c = s[i]
    if scalars[R_S_OLD] > wp.float64(0.0):  # the first direction has no predecessor, whatever c_out holds
        c += real(scalars[R_S] / scalars[R_S_OLD]) * c_out[i]
    c_out[i] = S[i] * c


@wp.kernel
def multiply_direction(
    first: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), coupled: wp.array(dtype=vec3), S: wp.array(dtype=mat33), c: wp.array(dtype=vec3),
    # out
    q_out: wp.array(dtype=vec3), rows: wp.int32, c_q_out: wp.array(dtype=wp.float64),
):
    i = first + wp.tid()
    q = S[i] * (row_product(offsets, columns, values, c, i) + coupled[i])
    q_out[i] = q
    wp.atomic_add(c_q_out, i // rows, wp.float64(wp.dot(c[i], q)))


@wp.kernel
def sum_c_q(parts: wp.array(dtype=wp.float64), scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[C_Q] = take_sum(parts)


@wp.kernel
def advance(
    first: wp.int32,
    # in
    c: wp.array(dtype=vec3), q: wp.array(dtype=vec3), scalars: wp.array(dtype=wp.float64),
    # in and out
    dv_out: wp.array(dtype=vec3), r_out: wp.array(dtype=vec3),
    # out
    rows: wp.int32, r_r_out: wp.array(dtype=wp.float64),
):
    i = first + wp.tid()
    alpha = real(0.0)
    if scalars[C_Q] > wp.float64(0.0):
        alpha = real(scalars[R_S] / scalars[C_Q])
    dv_out[i] = dv_out[i] + alpha * c[i]
    r = r_out[i] - alpha * q[i]
    r_out[i] = r
    wp.atomic_add(r_r_out, i // rows, wp.float64(wp.dot(r, r)))


@wp.kernel
def sum_r_r(parts: wp.array(dtype=wp.float64), scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[R_R] = take_sum(parts)
    scalars_out[COUNT] = scalars_out[COUNT] + wp.float64(1.0)


@wp.kernel
def go_on(
    # in
    max_iterations: wp.float64, scalars: wp.array(dtype=wp.float64),
    # out
    going_out: wp.array(dtype=wp.int32),
):
    more = scalars[R_R] > scalars[LIMIT] and scalars[COUNT] < max_iterations
    going_out[0] = wp.where(more, 1, 0)
