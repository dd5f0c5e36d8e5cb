"""Leapfrog for positions, trapezoidal rule for velocities: explicit in the elastic forces, implicit in the damping.

    v_half = v0 + h/2 a(x0, v0)                explicit; limits change a copy of it, which carries the positions
    x1 = x0 + h v_half
    v1 = v_half + h/2 a(x1, v1)                implicit

Source      [BMF03] sec. 3, the first algorithm
Symbols     h  step [s]     a  acceleration
Deviations  none
"""

from typing import ClassVar

from toile.integrators._mixed import MixedStepper
from toile.integrators._stages import StagedIntegrator
from toile.integrators.base import IntegratorContext, Stepper
from toile.linear.modified_pcg import Solution
from toile.model.state import State


class MixedLeapfrog(StagedIntegrator):
    """Second order, one damping solve; strong damping makes it oscillate."""

    applies_limits: ClassVar[bool] = True

    def start(self, context: IntegratorContext) -> Stepper:
        return LeapfrogStepper(context)


class LeapfrogStepper(MixedStepper):
    def advance(self, state: State, state_out: State, h: float) -> Solution:
        self.position_velocity(state, self.f0, 0.5 * h, h, self.u)
        self.context.limit(state.x, self.u, h)
        self.move(state, self.u, h, state_out.x)
        solution = self.trapezoid(state, state_out, h)
        self.context.limit(state_out.x, state_out.v, h)
        return solution
