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

from toile.linear.block_matrix import BlockMatrix, row_product
from toile.math.types import mat33, real, vec3

# Places of the dot products among the device scalars
R_S, R_S_OLD, C_Q, R_R, DOTS = (wp.constant(place) for place in range(5))


# Dot products below this count as 0. Between two looks at the residual the system may be solved many times over, and
# quotients of numbers that underflow are not numbers.
NOTHING = wp.constant(wp.float64(1e-250))


@dataclass
class Solution:
    """How a solve went."""

    iterations: int
    residual: float  # |r| relative to its start
    converged: bool


class ModifiedPCG:
    """The solver for one matrix, with its vectors and its launches made once."""

    def __init__(self, A: BlockMatrix, b: wp.array, S: wp.array, dv: wp.array):
        device, n = A.device, A.row_count
        r, c, q, s = (wp.zeros(n, dtype=vec3, device=device) for _ in range(4))
        dots = wp.zeros(DOTS, dtype=wp.float64, device=device)
        matrix = [A.device_offsets, A.device_columns, A.values]

        def launch(kernel: Any, inputs: list, dim: int = n) -> wp.Launch:
            return wp.launch(kernel, dim=dim, inputs=inputs, device=device, record_cmd=True)

        self.r, self.s, self.dots = r, s, dots
        self._start = launch(start, [*matrix, b, S, dv, r, dots])
        self._iteration_before = launch(next_iteration, [dots], dim=1)
        self._iteration_after = [
            launch(dot_residual, [r, s, dots]),
            launch(update_direction, [S, s, c, dots]),
            launch(multiply_direction, [*matrix, S, c, q, dots]),
            launch(advance, [c, q, dv, r, dots]),
        ]
        # On a GPU every look at the residual waits for the device; on the CPU it is free.
        self._check_every = 1 if wp.get_device(device).is_cpu else 10

    def solve(self, preconditioner: Any, tolerance: float, max_iterations: int) -> Solution:
        """Improves dv, whose constrained components hold z on entry and still do on return."""
        if not len(self.r):
            return Solution(0, 0.0, True)  # a scene without cloth
        self.dots.zero_()
        self._start.launch()
        r_r = at_start = float(self.dots.numpy()[R_R])
        limit = tolerance * tolerance * at_start
        iterations = 0
        while r_r > limit and iterations < max_iterations:
            self._iteration_before.launch()
            preconditioner.apply(self.r, self.s)
            for command in self._iteration_after:
                command.launch()
            iterations += 1
            if iterations % self._check_every == 0 or iterations == max_iterations:
                r_r = float(self.dots.numpy()[R_R])
        residual = float(np.sqrt(r_r / at_start)) if at_start > 0.0 else at_start  # 0, or NaN
        return Solution(iterations, residual, bool(r_r <= limit))  # False for NaN as well


@wp.kernel
def start(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), b: wp.array(dtype=vec3), S: wp.array(dtype=mat33), dv: wp.array(dtype=vec3),
    # out
    r_out: wp.array(dtype=vec3), dots_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    r = S[i] * (b[i] - row_product(offsets, columns, values, dv, i))
    r_out[i] = r
    wp.atomic_add(dots_out, R_R, wp.float64(wp.dot(r, r)))


@wp.kernel
def next_iteration(dots_out: wp.array(dtype=wp.float64)):
    dots_out[R_S_OLD] = dots_out[R_S]
    dots_out[R_S] = wp.float64(0.0)
    dots_out[C_Q] = wp.float64(0.0)
    dots_out[R_R] = wp.float64(0.0)


@wp.kernel
def dot_residual(
    # in
    r: wp.array(dtype=vec3), s: wp.array(dtype=vec3),
    # out
    dots_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    wp.atomic_add(dots_out, R_S, wp.float64(wp.dot(r[i], s[i])))


@wp.kernel
def update_direction(
    # in
    S: wp.array(dtype=mat33), s: wp.array(dtype=vec3),
    # in and out
    c_out: wp.array(dtype=vec3), dots: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    beta = real(0.0)  # the first direction has no predecessor
    if dots[R_S_OLD] > NOTHING:
        beta = real(dots[R_S] / dots[R_S_OLD])
    c_out[i] = S[i] * (s[i] + beta * c_out[i])


@wp.kernel
def multiply_direction(
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), S: wp.array(dtype=mat33), c: wp.array(dtype=vec3),
    # out
    q_out: wp.array(dtype=vec3), dots_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    q = S[i] * row_product(offsets, columns, values, c, i)
    q_out[i] = q
    wp.atomic_add(dots_out, C_Q, wp.float64(wp.dot(c[i], q)))


@wp.kernel
def advance(
    # in
    c: wp.array(dtype=vec3), q: wp.array(dtype=vec3),
    # in and out
    dv_out: wp.array(dtype=vec3), r_out: wp.array(dtype=vec3), dots_out: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    alpha = real(0.0)
    if dots_out[C_Q] > NOTHING:
        alpha = real(dots_out[R_S] / dots_out[C_Q])
    dv_out[i] = dv_out[i] + alpha * c[i]
    r = r_out[i] - alpha * q[i]
    r_out[i] = r
    wp.atomic_add(dots_out, R_R, wp.float64(wp.dot(r, r)))
