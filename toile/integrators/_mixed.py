"""Pieces of the mixed schemes: forces split into an elastic part and damping, and two kinds of velocity.

    f(x, v) = g(x) - D v,    D = -df/dv at x and the velocity that the step begins with

    u    half step,    M u = M v0 + h/2 (g0 - D0 u)                                      (implicit in the damping)
    v1   whole step,   M v1 = M v0 + h/2 (g0 - D0 v0) + h/2 (g1 - D1 v1)                 (trapezoidal rule)

Source      [BMF03] sec. 3; the solve is in toile/integrators/_damping_solve.py
Symbols     g0, D0  at the start     g1, D1  at the end
Deviations  A force that is not linear in v, such as fast air, is linearized: its error is of third order in a step.
            Each solve begins with the whole elastic part, so that only damping is left to it.
"""

import warp as wp

from toile.integrators._damping_solve import DampingSolve
from toile.integrators._stages import SOON, StagedStepper
from toile.integrators.base import IntegratorContext
from toile.linear.modified_pcg import Solution
from toile.math.types import vec3
from toile.model.state import State


class MixedStepper(StagedStepper):
    """Computes steps of a mixed scheme; subclasses write `advance`."""

    def __init__(self, context: IntegratorContext):
        super().__init__(context)
        settings, friction = context.settings, context.contacts.sliding_friction
        solver = settings.tolerance, settings.max_iterations
        self.damping = DampingSolve(context.system, context.constraints, friction, *solver)
        n, device = context.system.model.particle_count, context.system.device
        self.f0, self.g0, self.Dv0, self.g, self.Dv, self.u = (wp.zeros(n, dtype=vec3, device=device) for _ in range(6))

    def begin(self, state: State, h: float) -> None:
        self.forces(state.x, state.v, state.t + SOON, self.f0)
        self.system.damping(state.x, state.v, state.v, self.Dv0)
        self.add(self.f0, self.Dv0, 1.0, self.g0)

    def implicit_half(self, state: State, h: float) -> Solution:
        """Computes u, implicit in the damping."""
        self.system.move(state.t + SOON)
        self.system.activate(state.x, state.v)
        self.position_velocity(state, self.g0, 0.5 * h, h, self.u)
        with self.context.timers.stage("CG"):
            return self.damping.solve(state.x, state.v, 0.5 * h, 0.5 * h, self.none, self.u)

    def trapezoid(self, state: State, state_out: State, h: float) -> Solution:
        """Computes v1; positions are already those of the end."""
        x, v = state_out.x, state_out.v
        self.forces(x, state.v, state.t + h, self.g)
        self.system.damping(x, state.v, state.v, self.Dv)
        self.add(self.g, self.Dv, 1.0, self.g)
        self.add(self.g, self.g0, 1.0, self.g)  # g0 + g1
        self.end_velocity(state, state.v, self.g, 0.5 * h, h, h, v)
        with self.context.timers.stage("CG"):
            solution = self.damping.solve(x, state.v, 0.5 * h, h, self.Dv0, v)
        if self.holds:
            self.system.damping(x, state.v, v, self.Dv)
            self.add(self.g, self.Dv0, -1.0, self.g)
            self.add(self.g, self.Dv, -1.0, self.g)
            self.add(self.none, self.g, 0.5 * h, self.impulse)
        return solution

    @property
    def holds(self) -> bool:
        """Whether any particle may be held: only then is the impulse of all forces needed."""
        return self.context.contacts.holds_particles or len(self.context.scene_constraints.particles) > 0
