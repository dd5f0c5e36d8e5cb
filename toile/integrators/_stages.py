"""A step in stages, shared by explicit and mixed schemes.

    u     moves positions,   x1 = x0 + h u;    in held directions u leads to x_held
    v1    velocity at the end of the step;     in held directions v1 = v_held

A scheme computes both from forces. This file holds the pieces that it composes, and what all schemes share: held
directions are followed exactly, friction of particles that slide on solids is implicit particle by particle, and the
force of a constraint is what it removed from the free motion:

    force = (I - S) (M (v1 - v0) - impulse) / h,    impulse  of all forces in the step

Contacts are checked against that force; where they contradict it, the step is repeated with corrected contacts.

Source      [Pro95] sec. 2.4 (prescribed motion of fixed points), [BMF03] sec. 3
Symbols     S, x_held, v_held  constraints: x = S x + x_held     C  directions that contacts hold, S_user - S
            f  force [N]     tau  duration of a stage [s]     y  position alteration [m]
Deviations  none
"""

import numpy as np
import warp as wp

from toile.contact.solid.friction import SlidingFriction
from toile.device.launcher import Launcher
from toile.errors import InputError
from toile.integrators._damping_solve import divided
from toile.integrators._stability import largest_step
from toile.integrators.base import Integrator, IntegratorContext, Stepper
from toile.integrators.newton import alter, held_velocity
from toile.linear.modified_pcg import Solution
from toile.math.types import identity, mat33, real, vec3
from toile.model.constraint_state import ConstraintState
from toile.model.motion import SAME_TIME
from toile.model.state import State
from toile.plugins import quantity
from toile.step_limits import MAX_STAGE_CHECKS

# Forces at the start of a step are evaluated a moment later, so that a force that begins then acts.
SOON = 2.0 * SAME_TIME


class StagedIntegrator(Integrator):
    """Settings of a scheme that is stable up to a largest step."""

    stable_at_any_step = False

    insist: bool = quantity(False, doc="take steps above the largest stable one anyway")

    def judge(self, max_step: float, limit: float) -> list[str]:
        if max_step <= limit:
            return []
        message = (
            f"{self.type_name()} is stable up to steps of {limit:.4g} s with this cloth; "
            f"time.max_step is {max_step:.4g}."
        )
        if self.insist:
            return [f"{message} integrator.insist: it runs nevertheless."]
        # The limit is rounded down, so that the value of the message is accepted.
        digit = 10.0 ** (np.floor(np.log10(limit)) - 2.0)
        remedy = f"Set time.max_step to {np.floor(limit / digit) * digit:.3g} or less, or use an implicit integrator"
        raise InputError(f"{message} {remedy}; integrator.insist: true runs it nevertheless.")


class StagedStepper(Stepper):
    """Computes steps of one scheme; subclasses write `begin` and `advance`."""

    damping_limits = False  # whether damping lowers the largest stable step

    def __init__(self, context: IntegratorContext):
        self.context, self.system, self.constraints = context, context.system, context.constraints
        n, device = context.system.model.particle_count, context.system.device
        self.f, self.impulse, self.constraint_forces, self.y, self.x_start, self.none = (
            wp.zeros(n, dtype=vec3, device=device) for _ in range(6)
        )
        self._launch = Launcher(device)

    def begin(self, state: State, h: float) -> None:
        """Computes what does not depend on contacts, once even if the step is repeated."""
        raise NotImplementedError

    def advance(self, state: State, state_out: State, h: float) -> Solution:
        """Computes x and v at the end of the step, and self.impulse."""
        raise NotImplementedError

    def step(self, state: State, state_out: State, h: float) -> Solution:
        contacts = self.context.contacts
        self.begin(state, h)
        if self.system.alters_positions:
            self.system.alter(self.y)
        contacts.linearize(state.x, h)
        solution, consistent, checks = Solution(0, 0.0, True), False, 0
        while not consistent:
            again = self.advance(state, state_out, h)
            residual = float(np.maximum(solution.residual, again.residual))  # keeps NaN
            spent, solves = solution.iterations + again.iterations, solution.solves + again.solves
            solution = Solution(spent, residual, again.converged, solves)
            if not solution.converged:
                return solution
            change = [self.system.masses, state.v, state_out.v, self.impulse, h]
            self._launch(constraint_force, len(state.x), [self.constraints.S, *change, self.constraint_forces])
            checks += 1
            x, v, last = state_out.x, state_out.v, checks >= MAX_STAGE_CHECKS
            consistent = contacts.check(state, x, v, self.constraint_forces, state.x, h, last=last)
        contacts.project(state_out)
        return solution

    def largest_step(self, state: State, S: wp.array) -> float:
        return largest_step(self.system, state, S, self.damping_limits)

    def forces(self, x: wp.array, v: wp.array, time: float, f_out: wp.array) -> None:
        """Evaluates the total force at a time."""
        with self.context.timers.stage("EVAL"):
            self.system.move(time)
            self.system.activate(x, v)
            wp.copy(f_out, self.system.forces(x, v))

    def position_velocity(self, state: State, f: wp.array, tau: float, h: float, u_out: wp.array) -> None:
        """Computes the velocity that moves positions: v + tau f/m, leading to x_held in held directions."""
        self._constrained(state, state.v, f, tau, tau, h, False, u_out)

    def end_velocity(
        self, state: State, v: wp.array, f: wp.array, tau: float, tau_friction: float, h: float, v_out: wp.array
    ) -> None:
        """Computes the velocity at the end of the step: v + tau f/m, and v_held in held directions."""
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
        constraints = [self.constraints, at_end, self.context.contacts.sliding_friction, tau_friction]
        inputs = [self.system.masses, *constraints, state.x, h, v, f, tau, v_out]
        self._launch(constrained_velocity, len(v), inputs)

    def move(self, state: State, u: wp.array, h: float, x_out: wp.array) -> None:
        """Moves positions: x1 = x0 + h u, exact in held directions."""
        constraints, x = self.constraints, state.x
        if self.system.alters_positions:  # [BW98] eq. (17), cloth on cloth
            x = self.x_start
            wp.copy(x, state.x)
            self._launch(alter, len(x), [constraints.S, x, self.y])
        self._launch(carry, len(x), [constraints.S, constraints.x_held, x, u, h, x_out])

    def add(self, one: wp.array, other: wp.array, factor: float, sum_out: wp.array) -> None:
        """sum_out = one + factor * other."""
        self._launch(weighted_sum, len(one), [one, other, factor, sum_out])


@wp.kernel
def constrained_velocity(
    # model
    masses: wp.array(dtype=real),
    # in
    constraints: ConstraintState, at_end: wp.bool, friction: SlidingFriction, tau_friction: real,
    x: wp.array(dtype=vec3), h: real, v: wp.array(dtype=vec3), f: wp.array(dtype=vec3), tau: real,
    # out
    v_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    free = v[i] + (tau / masses[i]) * f[i]
    if friction.in_contact[i] != 0:
        # (m + tau_f drag) v = m v_free + tau_f (force + drag v_drag)
        resistance = friction.force[i] - friction.drag[i] * (free - friction.v_drag[i])
        free += divided(masses, friction, tau_friction, i, tau_friction * resistance)
    S = constraints.S[i]
    if wp.trace(S) > real(2.5):
        v_out[i] = free
        return
    bound = held_velocity(S, constraints.x_held[i], x[i], h)
    if at_end:
        # Across a plane or line that turns, this is the rate at which it carries the particle where it is. A contact
        # moves with its solid, and a pin has the exact velocity of its keyframes.
        bound += (constraints.S_user[i] - S) * (constraints.v_held[i] - bound)
        if wp.trace(S) < real(0.5):
            bound = constraints.v_held[i]
    v_out[i] = S * free + bound


@wp.kernel
def carry(
    # in
    S: wp.array(dtype=mat33), x_held: wp.array(dtype=vec3), x: wp.array(dtype=vec3), u: wp.array(dtype=vec3), h: real,
    # out
    x_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    x_out[i] = S[i] * (x[i] + h * u[i]) + x_held[i]


@wp.kernel
def constraint_force(
    # in
    S: wp.array(dtype=mat33), masses: wp.array(dtype=real), v: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
    impulse: wp.array(dtype=vec3), h: real,
    # out
    force_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    force_out[i] = (identity() - S[i]) * (masses[i] * (v_end[i] - v[i]) - impulse[i]) / h


@wp.kernel
def weighted_sum(one: wp.array(dtype=vec3), other: wp.array(dtype=vec3), factor: real, sum_out: wp.array(dtype=vec3)):
    i = wp.tid()
    sum_out[i] = one[i] + factor * other[i]
