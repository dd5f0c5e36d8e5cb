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

from toile.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, row_product
from toile.math.types import mat33, precision, real, vec3

# Places of the dot products among the device scalars, and of what controls the iteration: the value of r.r at which it
# ends, whether it goes on (1 or 0), how many iterations went on, and r.r before the filter.
R_S, R_S_OLD, C_Q, R_R, LIMIT, GOING, COUNT, WHOLE, SCALARS = (wp.constant(place) for place in range(9))

# A residual this much smaller than what the constraints carry is rounding: no iteration can reduce it.
ROUNDING = wp.constant(wp.float64(1e-14 if precision == "double" else 1e-6))


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

        self.A, self.dv, self.c, self.coupled = A, dv, c, coupled
        self.r, self.s, self.scalars = r, s, scalars
        self._n, self._launch = n, Launcher(device)
        self._start = [*matrix, b, S, dv, r, scalars]
        self._direction = (
            (dot_residual, [r, s, scalars]),
            (update_direction, [S, s, c, scalars]),
        )
        self._step = (
            (multiply_direction, [*matrix, S, c, q, scalars]),
            (advance, [c, q, dv, r, scalars]),
        )
        # On a GPU every look at the residual waits for the device; on the CPU it is free. What is launched after the
        # limit is reached changes nothing.
        self._check_every = 1 if wp.get_device(device).is_cpu else 10

    def solve(self, preconditioner: Any, tolerance: float, max_iterations: int) -> Solution:
        """Improves dv, whose constrained components hold z on entry and still do on return."""
        if not self._n:
            return Solution(0, 0.0, True)  # a scene without cloth
        self.scalars.zero_()
        launch, n = self._launch, self._n
        self._multiply_coupled(self.dv)
        launch(start, n, self._start)
        launch(set_limit, 1, [tolerance * tolerance, self.scalars])
        r_r = at_start = float(self.scalars.numpy()[R_R])
        limit = float(self.scalars.numpy()[LIMIT])
        if at_start <= limit < np.inf:
            return Solution(0, 0.0, True)  # nothing to do, but for rounding
        launched = 0
        while r_r > limit and launched < max_iterations:
            launch(next_iteration, 1, [self.scalars])
            preconditioner.apply(self.r, self.s)
            for kernel, inputs in self._direction:
                launch(kernel, n, inputs)
            self._multiply_coupled(self.c)
            for kernel, inputs in self._step:
                launch(kernel, n, inputs)
            launched += 1
            if launched % self._check_every == 0 or launched == max_iterations:
                r_r = float(self.scalars.numpy()[R_R])
        iterations = int(self.scalars.numpy()[COUNT])
        residual = float(np.sqrt(r_r / at_start)) if at_start > 0.0 else at_start  # 0, or NaN
        return Solution(iterations, residual, bool(r_r <= limit < np.inf))  # False for NaN as well

    def _multiply_coupled(self, x: wp.array) -> None:
        if self.A.couplings:
            self.coupled.zero_()
            self.A.add_coupled(x, 1.0, self.coupled)


@wp.kernel
def start(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), coupled: wp.array(dtype=vec3), b: wp.array(dtype=vec3), S: wp.array(dtype=mat33),
    dv: wp.array(dtype=vec3),
    # out
    r_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    whole = b[i] - row_product(offsets, columns, values, dv, i) - coupled[i]
    # Twice: what the filter leaves of a large force in a held direction by rounding, it takes out the second time. CG
    # cannot reduce it, and would take it for a residual that it must.
    r = S[i] * (S[i] * whole)
    r_out[i] = r
    wp.atomic_add(scalars_out, R_R, wp.float64(wp.dot(r, r)))
    wp.atomic_add(scalars_out, WHOLE, wp.float64(wp.dot(whole, whole)))


@wp.kernel
def set_limit(tolerance2: wp.float64, scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[LIMIT] = wp.max(tolerance2 * scalars_out[R_R], ROUNDING * ROUNDING * scalars_out[WHOLE])


@wp.kernel
def next_iteration(scalars_out: wp.array(dtype=wp.float64)):
    scalars_out[GOING] = wp.where(scalars_out[R_R] > scalars_out[LIMIT], wp.float64(1.0), wp.float64(0.0))
    scalars_out[COUNT] = scalars_out[COUNT] + scalars_out[GOING]
    scalars_out[R_S_OLD] = scalars_out[R_S]
    scalars_out[R_S] = wp.float64(0.0)
    scalars_out[C_Q] = wp.float64(0.0)
    scalars_out[R_R] = wp.float64(0.0)


@wp.kernel
def dot_residual(
    # in
    r: wp.array(dtype=vec3), s: wp.array(dtype=vec3),
    # out
    scalars_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    wp.atomic_add(scalars_out, R_S, wp.float64(wp.dot(r[i], s[i])))


@wp.kernel
def update_direction(
    # in
    S: wp.array(dtype=mat33), s: wp.array(dtype=vec3),
    # in and out
    c_out: wp.array(dtype=vec3), scalars: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    c = s[i]
    if scalars[R_S_OLD] > wp.float64(0.0):  # the first direction has no predecessor, whatever c_out holds
        c += real(scalars[R_S] / scalars[R_S_OLD]) * c_out[i]
    c_out[i] = S[i] * c


@wp.kernel
def multiply_direction(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), coupled: wp.array(dtype=vec3), S: wp.array(dtype=mat33), c: wp.array(dtype=vec3),
    # out
    q_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    q = S[i] * (row_product(offsets, columns, values, c, i) + coupled[i])
    q_out[i] = q
    wp.atomic_add(scalars_out, C_Q, wp.float64(wp.dot(c[i], q)))


@wp.kernel
def advance(
    # in
    c: wp.array(dtype=vec3), q: wp.array(dtype=vec3),
    # in and out
    dv_out: wp.array(dtype=vec3), r_out: wp.array(dtype=vec3), scalars_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    alpha = real(0.0)
    if scalars_out[GOING] > wp.float64(0.0) and scalars_out[C_Q] > wp.float64(0.0):
        alpha = real(scalars_out[R_S] / scalars_out[C_Q])
    dv_out[i] = dv_out[i] + alpha * c[i]
    r = r_out[i] - alpha * q[i]
    r_out[i] = r
    wp.atomic_add(scalars_out, R_R, wp.float64(wp.dot(r, r)))
