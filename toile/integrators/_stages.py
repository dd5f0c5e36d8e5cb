"""A step in stages: what explicit and mixed schemes have in common.

    u     carries positions,   x1 = x0 + h u;    where constraints hold, u leads to x_held
    v1    at the end of the step;    where constraints hold, v1 = v_held

A scheme says how both come from forces. Here is what it builds them from, and what happens to all of them alike: held
directions are followed exactly, friction of what slides on a solid is implicit for each particle by itself, and the
force of a constraint is what it took out of the free motion:

    force = (I - S) (M (v1 - v0) - impulse) / h,    impulse  of all forces in the step

Contacts are judged by that force; where they do not fit, the step is taken again with the corrected ones.

Source      [Pro95] sec. 2.4 (the movement of a held point is what it is known to be), [BMF03] sec. 3
Symbols     S, x_held, v_held  constraints: x = S x + x_held     C  directions that contacts hold, S_user - S
            f  force [N]     tau  time that it acts for in a stage [s]     y  position alteration [m]
Deviations  none
"""

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.errors import InputError
from toile.integrators._damping_solve import divided
from toile.integrators._stability import largest_step
from toile.integrators.base import Integrator, IntegratorContext, Stepper
from toile.integrators.newton import alter, held_velocity
from toile.linear.modified_pcg import Solution
from toile.math.types import identity, mat33, real, vec3
from toile.model.motion import SAME_TIME
from toile.model.state import State
from toile.plugins import quantity

# Forces at the start of a step are those a moment later: what begins at that time acts.
SOON = 2.0 * SAME_TIME


class StagedIntegrator(Integrator):
    """Settings of a scheme that is stable up to a largest step."""

    stable_at_any_step = False

    insist: bool = quantity(False, doc="take steps above the largest stable one nevertheless")

    def judge(self, max_step: float, limit: float) -> list[str]:
        if max_step <= limit:
            return []
        message = f"{self.type_name()} is stable up to steps of {limit:.4g} s with this cloth; time.max_step is {max_step:.4g}."
        if self.insist:
            return [f"{message} integrator.insist: it runs nevertheless."]
        # Rounded down: what the message says must be accepted.
        digit = 10.0 ** (np.floor(np.log10(limit)) - 2.0)
        remedy = f"Set time.max_step to {np.floor(limit / digit) * digit:.3g} or less, or use an implicit integrator"
        raise InputError(f"{message} {remedy}; integrator.insist: true runs it nevertheless.")


class StagedStepper(Stepper):
    """A scheme at work; `begin` and `advance` are what differs."""

    damping_limits = False  # whether damping lowers the largest stable step

    def __init__(self, context: IntegratorContext):
        self.context, self.system, self.constraints = context, context.system, context.constraints
        n, device = context.system.model.particle_count, context.system.device
        self.f, self.impulse, self.constraint_forces, self.y, self.x_start, self.none = (
            wp.zeros(n, dtype=vec3, device=device) for _ in range(6)
        )
        self._launch = Launcher(device)

    def begin(self, state: State, h: float) -> None:
        """What does not depend on contacts; it is done once however often the step is taken again."""
        raise NotImplementedError

    def advance(self, state: State, state_out: State, h: float) -> Solution:
        """The scheme: x and v at the end, and self.impulse."""
        raise NotImplementedError

    def step(self, state: State, state_out: State, h: float) -> Solution:
        contacts, timers = self.context.contacts, self.context.timers
        self.begin(state, h)
        if self.system.springs:
            self.system.alter(self.y)
        solution = Solution(0, 0.0, True)
        fits = False
        while not fits:
            if contacts is not None:
                contacts.find_drag_velocity(state.x, h)
            again = self.advance(state, state_out, h)
            residual = float(np.maximum(solution.residual, again.residual))  # keeps NaN
            solution = Solution(solution.iterations + again.iterations, residual, again.converged)
            if not solution.converged:
                return solution
            change = [self.system.masses, state.v, state_out.v, self.impulse, h]
            self._launch(constraint_force, len(state.x), [self.constraints.S, *change, self.constraint_forces])
            if contacts is None:
                return solution
            with timers.stage("C/S"):
                fits = contacts.fit(state, state_out.x, state_out.v, self.constraint_forces, h)
                if not fits:
                    contacts.hold(h)
        with timers.stage("C/S"):
            contacts.settle(state_out)
        return solution

    def largest_step(self, state: State, S: wp.array) -> float:
        return largest_step(self.system, state, S, self.damping_limits)

    def forces(self, x: wp.array, v: wp.array, time: float, f_out: wp.array) -> None:
        """Total force at a time."""
        with self.context.timers.stage("EVAL"):
            self.system.move(time)
            self.system.decide(x, v)
            wp.copy(f_out, self.system.forces(x, v))

    def position_velocity(self, state: State, f: wp.array, tau: float, h: float, u_out: wp.array) -> None:
        """What carries positions: v + tau f/m, but that it leads to where constraints hold."""
        self._constrained(state, state.v, f, tau, tau, h, False, u_out)

    def end_velocity(
        self, state: State, v: wp.array, f: wp.array, tau: float, tau_friction: float, h: float, v_out: wp.array
    ) -> None:
        """v + tau f/m, but for what constraints hold."""
        self._constrained(state, v, f, tau, tau_friction, h, True, v_out)

    def _constrained(
        self,
        state: State,
        v: wp.array,
        f: wp.array,
        tau: float,
        tau_friction: float,
        h: float,
        at_end: bool,
        v_out: wp.array,
    ) -> None:
        constraints = self.constraints
        hold = [constraints.S, constraints.S_user, constraints.x_held, constraints.v_held, at_end]
        friction = [constraints.in_contact, constraints.friction, constraints.drag, constraints.v_drag, tau_friction]
        self._launch(
            constrained_velocity, len(v), [self.system.masses, *hold, *friction, state.x, h, v, f, tau, v_out]
        )

    def move(self, state: State, u: wp.array, h: float, x_out: wp.array) -> None:
        """x1 = x0 + h u, and to the last bit where constraints hold it."""
        constraints, x = self.constraints, state.x
        if self.system.springs:  # [BW98] eq. (17), cloth on cloth
            x = self.x_start
            wp.copy(x, state.x)
            self._launch(alter, len(x), [constraints.S, x, self.y])
        self._launch(carry, len(x), [constraints.S, constraints.x_held, x, u, h, x_out])

    def add(self, one: wp.array, other: wp.array, factor: float, sum_out: wp.array) -> None:
        self._launch(weighted_sum, len(one), [one, other, factor, sum_out])


@wp.kernel
def constrained_velocity(
    # model
    masses: wp.array(dtype=real),
    # in
    S: wp.array(dtype=mat33), S_user: wp.array(dtype=mat33), x_held: wp.array(dtype=vec3), v_held: wp.array(dtype=vec3),
    at_end: wp.bool, in_contact: wp.array(dtype=wp.int32), friction: wp.array(dtype=vec3), drag: wp.array(dtype=mat33),
    v_drag: wp.array(dtype=vec3), tau_friction: real, x: wp.array(dtype=vec3), h: real, v: wp.array(dtype=vec3),
    f: wp.array(dtype=vec3), tau: real,
    # out
    v_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    free = v[i] + (tau / masses[i]) * f[i]
    if in_contact[i] != 0:
        # (m + tau_f drag) v = m v_free + tau_f (friction + drag v_drag)
        rub = friction[i] - drag[i] * (free - v_drag[i])
        free += divided(masses, in_contact, drag, tau_friction, i, tau_friction * rub)
    if wp.trace(S[i]) > real(2.5):
        v_out[i] = free
        return
    bound = held_velocity(S[i], x_held[i], x[i], h)
    if at_end:
        # Across a plane or line that turns, this is the rate at which it carries the particle where it is. A contact
        # moves with its solid, and a pin has the exact velocity of its keyframes.
        bound += (S_user[i] - S[i]) * (v_held[i] - bound)
        if wp.trace(S[i]) < real(0.5):
            bound = v_held[i]
    v_out[i] = S[i] * free + bound


@wp.kernel
def carry(
    # in
    S: wp.array(dtype=mat33), x_held: wp.array(dtype=vec3), x: wp.array(dtype=vec3), u: wp.array(dtype=vec3), h: real,
    # out
    x_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    x_out[i] = S[i] * (x[i] + h * u[i]) + x_held[i]


@wp.kernel
def constraint_force(
    # in
    S: wp.array(dtype=mat33), masses: wp.array(dtype=real), v: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
    impulse: wp.array(dtype=vec3), h: real,
    # out
    force_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    force_out[i] = (identity() - S[i]) * (masses[i] * (v_end[i] - v[i]) - impulse[i]) / h


@wp.kernel
def weighted_sum(one: wp.array(dtype=vec3), other: wp.array(dtype=vec3), factor: real, sum_out: wp.array(dtype=vec3)):
    i = wp.tid()
    sum_out[i] = one[i] + factor * other[i]
