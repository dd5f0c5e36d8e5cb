"""Central Newmark: the half step that carries positions is implicit in the damping, the other explicit.

    v_half = v0 + h/2 a(x0, v_half)            implicit; limits change it in place
    x1 = x0 + h v_half
    v1 = v_half + h/2 a(x1, v_half)            explicit

Source      [BMF03] sec. 3, the second algorithm
Symbols     h  step [s]     a  acceleration
Deviations  The paper's last line has v1 on both sides and calls it explicit: with v_half in the acceleration it is, and
            gives the trapezoidal rule between half steps that the text speaks of. It keeps its order when steps vary,
            and is as stable as the other two, though the paper says no (docs/integrators.md).
"""

from typing import ClassVar

from toile.integrators._mixed import MixedStepper
from toile.integrators._stages import StagedIntegrator
from toile.integrators.base import IntegratorContext, Stepper
from toile.linear.modified_pcg import Solution
from toile.model.state import State


class MixedNewmark(StagedIntegrator):
    """Second order, one damping solve; limits of strain act once."""

    applies_limits: ClassVar[bool] = True

    def start(self, context: IntegratorContext) -> Stepper:
        return NewmarkStepper(context)


class NewmarkStepper(MixedStepper):
    def advance(self, state: State, state_out: State, h: float) -> Solution:
        u = self.u
        solution = self.implicit_half(state, h)
        if self.holds:
            self.system.damping(state.x, state.v, u, self.Dv)
            self.add(self.g0, self.Dv, -1.0, self.g)
        self.context.limit(state.x, u, h)
        self.move(state, u, h, state_out.x)
        self.forces(state_out.x, u, state.t + h, self.f)
        self.end_velocity(state, u, self.f, 0.5 * h, 0.5 * h, h, state_out.v)
        if self.holds:
            self.add(self.g, self.f, 1.0, self.g)
            self.add(self.none, self.g, 0.5 * h, self.impulse)
        return solution
