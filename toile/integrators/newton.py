"""One implicit step by Newton's method, shared by backward Euler and BDF2.

Both schemes solve for the velocity u that satisfies

    M (u - v_ref) = h f(x, u),    x = x_ref + h u

with their own h, x_ref and v_ref. Linearizing the force gives, for a guess u and its x,

    A du = M (v_ref - u) + h f,    A = M - h df/dv - h^2 df/dx

Two first guesses are offered. `from_start` takes x = x_n: for backward Euler the system is then [BW98]'s equation (18)
in the unknown v_n + dv. `from_velocity` takes u = v_n: a rotation, which changes the directions of the threads, is then
followed instead of being cut short, and one linearization is nearly as accurate as many (docs/integrators.md).

Source      [BW98] eqs. (16)-(18), secs. 5.3, 5.4
Symbols     u  velocity at the end of the step [m/s]     h  the scheme's step [s]     f  force [N]
            S, x_held, v_held  constraints: x = S x + x_held     y  position alteration [m]
            C  directions that contacts hold, S_user - S
Deviations  Position alteration of a contact with a solid is part of u = v_held + y/h: y moves the particle and enters
            damping, but not M (u - v_ref); contact force and velocity are adjusted for it after the solve. Position
            alteration of cloth on cloth is part of x_ref. Contacts may change after a
            solve; then the same system is solved again.
"""

from dataclasses import replace

import warp as wp

from toile.device.launcher import Launcher
from toile.integrators.base import IntegratorContext
from toile.linear.block_matrix import row_product
from toile.linear.modified_pcg import Solution
from toile.math.types import identity, mat33, real, vec3
from toile.model.constraint_state import ConstraintState
from toile.model.state import State
from toile.step_limits import LOOSE, MAX_CONTACT_SOLVES, MAX_IMPROVEMENTS
from toile.system.terms import Linearization


class NewtonStep:
    """Finds the end of an implicit step in a given number of linearizations."""

    def __init__(self, context: IntegratorContext, first_guess: wp.Kernel, iterations: int):
        self.context, self.first_guess, self.iterations = context, first_guess, iterations
        n, device = context.system.model.particle_count, context.system.device
        self.x_ref, self.v_ref, self.u, self.du, self.b, self.force, self.y = (
            wp.zeros(n, dtype=vec3, device=device) for _ in range(7)
        )
        self.solver = context.make_solver(self.b, self.du)
        self._launch = Launcher(device)

    def solve(self, state: State, state_out: State, h: float) -> Solution:
        """Solves for the end of the step from x_ref, v_ref and the scheme's h.

        After `iterations` linearizations the contacts are checked, and the strain. While threads exceed their
        extension, the step is linearized once more where the last solve led.
        """
        constraints, x, u, contacts = self.context.constraints, state_out.x, self.u, self.context.contacts
        if self.context.system.alters_positions:
            self.context.system.alter(self.y)
            self._launch(alter, len(u), [constraints.S, self.x_ref, self.y])  # eq. (17), cloth on cloth
        guess = [constraints.S, constraints.x_held, self.x_ref, state.x, state.v, h, u, self.du, x]
        self._launch(self.first_guess, len(u), guess)
        at = Linearization(x, x_tension=state.x, v=state.v, v_at=u, h=h)
        total, again, linearizations, strained = Solution(0, 0.0, True), 0.0, 0, True
        while linearizations < self.iterations or strained:
            linearizations += 1
            self._linearize(at)
            # Before the last linearization forces are not yet those that contacts can be judged by.
            judged = linearizations >= self.iterations
            solution = self._solve(state, state_out, h, again, self._solves_of(linearizations), judged)
            total = total.then(solution)
            if not solution.converged:
                return total
            at = Linearization(x, x_tension=x, v=u, v_at=u, h=h)
            if judged:
                added = linearizations - self.iterations
                strained = self.context.needs_linearization(state, x, u, self.force, added)
                strained = strained or (contacts.too_close and added < MAX_IMPROVEMENTS)
                # Contacts are judged more coarsely than a thousandth of so small a change.
                again = 1.0
                if strained and contacts.holds_particles:
                    contacts.restore(h)
                    self._hold_again(h)
        self._launch(finish, len(u), [constraints, u, x, state_out.v])
        contacts.project(state_out)
        return total

    def _solves_of(self, linearization: int) -> int:
        """Most solves of a linearization. The first that forces are judged by settles the contacts; those before and
        after it have one."""
        return MAX_CONTACT_SOLVES if linearization == self.iterations and self.context.contacts.any else 1

    def _linearize(self, at: Linearization) -> None:
        """Assembles A and b, contacts included."""
        system, h = self.context.system, at.h
        with self.context.timers.stage("EVAL"):
            _, f = system.linearize(at)  # [BW98] eq. (16)
            self._launch(right_side, len(self.u), [system.masses, self.v_ref, self.u, f, h, self.b])  # eq. (18)
            self.context.contacts.linearize(self.x_ref, h, self.u, self.b)

    def _solve(self, state: State, state_out: State, h: float, again: float, max_solves: int, judged: bool) -> Solution:
        """Improves u and x by the solution of the linear system, and finds the force of the constraints. Contacts that
        do not fit the result are corrected, and the system is solved again."""
        system, constraints, contacts = self.context.system, self.context.constraints, self.context.contacts
        n, launch, A, x, u, du = len(self.u), self._launch, system.A, state_out.x, self.u, self.du
        total, last, found = Solution(0, 0.0, True), False, contacts.found
        while not last:
            last = total.solves + 1 >= max_solves
            with self.context.timers.stage("CG"):
                # secs. 5.2, 5.3
                solution = self.solver.solve(again, 1.0 if last or not found else LOOSE)
            if found and not last and solution.converged:
                solution = replace(solution, residual=0.0)  # that of the last solve counts
            total, again = total.then(solution), 1.0
            if not solution.converged:
                return total
            launch.split(subtract_product, n, [*A.arrays, du, self.b])
            A.add_coupled(du, -1.0, self.b)
            launch(update, n, [self.x_ref, h, u, du, x])
            launch(constraint_force, n, [constraints, system.masses, self.x_ref, self.b, h, self.force])  # sec. 5.4
            if not judged:
                return total
            contacts.check(state, x, u, self.force, self.x_ref, h, self.b, last)
            if not found and not contacts.found:
                return total  # nothing is near anything
            if not last and contacts.holds_particles:
                self._hold_again(h)
        return total

    def _hold_again(self, h: float) -> None:
        """Starts the next solve with held directions where the changed contacts hold them."""
        constraints = self.context.constraints
        inputs = [constraints.S, constraints.x_held, self.x_ref, self.u, h, self.du]
        self._launch(hold_again, len(self.u), inputs)


@wp.func
def held_velocity(S: mat33, x_held: vec3, x_ref: vec3, h: real) -> vec3:
    """Returns the velocity that brings the held directions from x_ref to x_held, exactly."""
    return (x_held - (identity() - S) * x_ref) / h


@wp.kernel
def alter(S: wp.array(dtype=mat33), x_ref_out: wp.array(dtype=vec3), y_out: wp.array(dtype=vec3)):
    i = wp.tid()
    y_out[i] = S[i] * y_out[i]
    x_ref_out[i] = x_ref_out[i] + y_out[i]


@wp.kernel
def from_start(
    # in
    S: wp.array(dtype=mat33), x_held: wp.array(dtype=vec3), x_ref: wp.array(dtype=vec3),
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real,
    # out
    u_out: wp.array(dtype=vec3), du_out: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    u = (x[i] - x_ref[i]) / h
    u_out[i] = u
    # CG starts from the present velocity, as if dv were the unknown.
    du_out[i] = S[i] * v[i] + held_velocity(S[i], x_held[i], x_ref[i], h) - u
    x_out[i] = x[i]


@wp.kernel
def from_velocity(
    # in
    S: wp.array(dtype=mat33), x_held: wp.array(dtype=vec3), x_ref: wp.array(dtype=vec3),
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real,
    # out
    u_out: wp.array(dtype=vec3), du_out: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    u = S[i] * v[i] + held_velocity(S[i], x_held[i], x_ref[i], h)
    u_out[i] = u
    du_out[i] = vec3()
    x_out[i] = x_ref[i] + h * u


@wp.kernel
def right_side(
    # in
    masses: wp.array(dtype=real), v_ref: wp.array(dtype=vec3), u: wp.array(dtype=vec3), f: wp.array(dtype=vec3),
    h: real,
    # out
    b_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    b_out[i] = masses[i] * (v_ref[i] - u[i]) + h * f[i]


@wp.kernel
def update(
    # in
    x_ref: wp.array(dtype=vec3), h: real,
    # in and out
    u_out: wp.array(dtype=vec3), du_out: wp.array(dtype=vec3), x_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    u = u_out[i] + du_out[i]
    u_out[i] = u
    du_out[i] = vec3()  # held directions are at their targets: later iterations change only free ones
    x_out[i] = x_ref[i] + h * u


@wp.kernel
def subtract_product(
    first: wp.int32,
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32),
    # in
    A: wp.array(dtype=mat33), row_sum: wp.array(dtype=mat33), du: wp.array(dtype=vec3),
    # in and out
    b_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = first + wp.tid()
    b_out[i] = b_out[i] - row_product(offsets, columns, A, row_sum, du, i)


@wp.kernel
def constraint_force(
    # in
    constraints: ConstraintState, masses: wp.array(dtype=real), x_ref: wp.array(dtype=vec3),
    residual: wp.array(dtype=vec3), h: real,
    # out
    force_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Finds the force of the constraints from the residual e = A du - b: the momentum that they added in this step
    ([BW98] sec. 5.4), which is a force times h."""
    i = wp.tid()
    force = vec3()
    S = constraints.S[i]
    if wp.trace(S) < real(2.5):  # a direction is held
        force = -((identity() - S) * residual[i]) / h
        C = constraints.S_user[i] - S
        y = C * (constraints.x_held[i] - x_ref[i] - h * constraints.v_held[i])
        force -= masses[i] / (h * h) * y
    force_out[i] = force


@wp.kernel
def hold_again(
    # in
    S: wp.array(dtype=mat33), x_held: wp.array(dtype=vec3), x_ref: wp.array(dtype=vec3), u: wp.array(dtype=vec3),
    h: real,
    # out
    du_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    if wp.trace(S[i]) < real(2.5):  # a direction is held; where none is, du is 0 since the last update
        du_out[i] = held_velocity(S[i], x_held[i], x_ref[i], h) - (identity() - S[i]) * u[i]


@wp.kernel
def finish(
    # in
    constraints: ConstraintState, u: wp.array(dtype=vec3),
    # in and out
    x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    S = constraints.S[i]
    # x_ref + h u is within rounding of the held position; this makes it exact.
    x_out[i] = S * x_out[i] + constraints.x_held[i]
    # Across a plane or line that turns, u is the rate at which it carries the particle where it is. A contact moves
    # with its solid: u has position alteration in it.
    C = constraints.S_user[i] - S
    v_out[i] = u[i] + C * (constraints.v_held[i] - u[i])
    if wp.trace(S) < real(0.5):
        v_out[i] = constraints.v_held[i]  # a pin has the exact velocity of its keyframes
