"""What the mixed schemes have in common: forces split in an elastic part and damping, and the two kinds of velocity.

    f(x, v) = g(x) - D v,    D = -df/dv at x and the velocity that the step begins with

    u    half a step,  M u = M v0 + h/2 (g0 - D0 u)                                      (implicit in the damping)
    v1   a whole one,  M v1 = M v0 + h/2 (g0 - D0 v0) + h/2 (g1 - D1 v1)                 (trapezoidal rule)

Source      [BMF03] sec. 3; the solve is in toile/integrators/_damping_solve.py
Symbols     g0, D0  at the start     g1, D1  at the end
Deviations  A force that is not linear in v, as that of fast air, is linearized: its error is of third order in a step.
            Each solve begins with all of the elastic part, so that what is left to it is damping alone.
"""

import warp as wp

from toile.integrators._damping_solve import DampingSolve
from toile.integrators._stages import SOON, StagedStepper
from toile.integrators.base import IntegratorContext
from toile.linear.modified_pcg import Solution
from toile.math.types import vec3
from toile.model.state import State


class MixedStepper(StagedStepper):
    """A mixed scheme at work; `advance` is its own."""

    limits = True

    def __init__(self, context: IntegratorContext):
        super().__init__(context)
        self.damping = DampingSolve(context.system, context.constraints, context.solver.tolerance, context.solver.max_iterations)
        n, device = context.system.model.particle_count, context.system.device
        self.f0, self.g0, self.Dv0, self.g, self.Dv, self.u = (
            wp.zeros(n, dtype=vec3, device=device) for _ in range(6)
        )

    def begin(self, state: State, h: float) -> None:
        self.forces(state.x, state.v, state.t + SOON, self.f0)
        self.system.damping(state.x, state.v, state.v, self.Dv0)
        self.add(self.f0, self.Dv0, 1.0, self.g0)

    def implicit_half(self, state: State, h: float) -> Solution:
        """u: implicit in the damping."""
        self.system.move(state.t + SOON)
        self.system.decide(state.x, state.v)
        self.position_velocity(state, self.g0, 0.5 * h, h, self.u)
        with self.context.timers.stage("CG"):
            return self.damping.solve(state.x, state.v, 0.5 * h, 0.5 * h, self.none, self.u)

    def trapezoid(self, state: State, state_out: State, h: float) -> Solution:
        """v1, for positions that are already those of the end."""
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
        """Whether anything is held: only then is the impulse of all forces asked for."""
        return self.context.contacts is not None or len(self.constraints.particles) > 0
