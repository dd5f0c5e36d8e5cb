"""One implicit step by Newton's method; what backward Euler and BDF2 have in common.

Both schemes ask for the velocity u that satisfies

    M (u - v_ref) = h f(x, u),    x = x_ref + h u

with their own h, x_ref and v_ref. Linearising the force gives, for a guess u and its x,

    A du = M (v_ref - u) + h f,    A = M - h df/dv - h^2 df/dx

The first guess is the start of the step: x = x_n, so u = (x_n - x_ref)/h, and forces that depend on velocity are
linearised at v_n. For backward Euler that is [BW98]'s equation (18) in the unknown v_n + dv: A v_n has been moved to the
right-hand side by starting CG from du = v_n - u.

Source      [BW98] eqs. (16)-(18), secs. 5.3, 5.4
Symbols     u  velocity at the end of the step [m/s]     h  the scheme's step [s]     f  force [N]
            S, x_held, v_held  constraints: x = S x + x_held
Deviations  Position alteration y is part of x_ref (x_ref = x_n + y), so that no product with df/dx is needed.
"""

import warp as wp

from toile.integrators.base import Workplace
from toile.linear.modified_pcg import Solution
from toile.math.types import identity, mat33, real, vec3
from toile.model.state import State


class NewtonStep:
    """Finds the end of an implicit step in a given number of iterations."""

    def __init__(self, work: Workplace, iterations: int):
        self.work, self.iterations = work, iterations
        system = work.system
        n, device = system.model.particle_count, system.device
        self.x_ref, self.v_ref, self.u, self.du, self.b, self.impulse = (wp.zeros(n, dtype=vec3, device=device) for _ in range(6))
        self.force = wp.zeros(n, dtype=vec3, device=device)
        self.solver = work.make_solver(self.b, self.du)

    def solve(self, state: State, state_out: State, h: float) -> Solution:
        """From x_ref, v_ref and the scheme's h to the state at the end of the step."""
        system, held, timers = self.work.system, self.work.held, self.work.timers
        n, device = len(self.u), system.device
        x = state_out.x
        total = Solution(0, 0.0, True)
        for iteration in range(self.iterations):
            first = iteration == 0
            with timers.stage("EVAL"):
                if first:
                    inputs = [held.S, held.x_held, self.x_ref, state.x, state.v, h, self.u, self.du]
                    wp.launch(guess_start_of_step, n, inputs, device=device)
                    A, f = system.linearize(state.x, state.v, self.u, h)
                else:
                    wp.launch(zero_update, n, [self.du], device=device)
                    A, f = system.linearize(x, self.u, self.u, h)
                wp.launch(right_side, n, [system.masses, self.v_ref, self.u, f, h, self.b], device=device)
            with timers.stage("CG"):
                solution = self.solver.solve(same_step=not first)
            total = Solution(total.iterations + solution.iterations, max(total.residual, solution.residual), solution.converged)
            if not solution.converged:
                return total
            last = iteration == self.iterations - 1
            if last:
                A.multiply(self.du, self.impulse)
                wp.launch(constraint_force, n, [held.S, self.impulse, self.b, h, self.force], device=device)
            wp.launch(update, n, [self.x_ref, self.du, h, self.u, x], device=device)
        wp.launch(finish, n, [held.S, held.x_held, held.v_held, self.u, x, state_out.v], device=device)
        return total


@wp.kernel
def guess_start_of_step(
    # in
    S: wp.array(dtype=mat33), x_held: wp.array(dtype=vec3), x_ref: wp.array(dtype=vec3),
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real,
    # out
    u_out: wp.array(dtype=vec3), du_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    u = (x[i] - x_ref[i]) / h
    u_out[i] = u
    # Free directions start from the present velocity; held ones get what brings them to x_held, exactly.
    held = x_held[i] - (identity() - S[i]) * x_ref[i]
    du_out[i] = S[i] * (v[i] - u) + held / h - (identity() - S[i]) * u


@wp.kernel
def zero_update(du_out: wp.array(dtype=vec3)):
    du_out[wp.tid()] = vec3()


@wp.kernel
def right_side(
    # in
    masses: wp.array(dtype=real), v_ref: wp.array(dtype=vec3), u: wp.array(dtype=vec3), f: wp.array(dtype=vec3), h: real,
    # out
    b_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    b_out[i] = masses[i] * (v_ref[i] - u[i]) + h * f[i]


@wp.kernel
def update(
    # in
    x_ref: wp.array(dtype=vec3), du: wp.array(dtype=vec3), h: real,
    # out
    u_out: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    u = u_out[i] + du[i]
    u_out[i] = u
    x_out[i] = x_ref[i] + h * u


@wp.kernel
def constraint_force(
    # in
    S: wp.array(dtype=mat33), impulse: wp.array(dtype=vec3), b: wp.array(dtype=vec3), h: real,
    # out
    force_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    # e = A du - b is what the constraint added to the momentum in this step ([BW98] sec. 5.4): a force times h.
    force_out[i] = (identity() - S[i]) * (impulse[i] - b[i]) / h


@wp.kernel
def finish(
    # in
    S: wp.array(dtype=mat33), x_held: wp.array(dtype=vec3), v_held: wp.array(dtype=vec3), u: wp.array(dtype=vec3),
    # in and out
    x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    # x_ref + h u is within rounding of the held position; this makes it exact.
    x_out[i] = S[i] * x_out[i] + x_held[i]
    v_out[i] = S[i] * u[i] + v_held[i]
