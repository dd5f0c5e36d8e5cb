"""Forces at the start of the step, then velocities, then positions by the new velocities; only for small steps.

    a = f(t)/m,    v1 = v0 + h a,    x1 = x0 + h v1

Source      [Pro95] secs. 2.3, 2.4, eq. (2)
Symbols     h  step [s]
Deviations  A step above the largest stable one, 2/omega_max and less with damping, is refused: the paper's T0 (eq. (3))
            is 3 to 5 times too long. Friction on solids is not in the paper.
"""

from toile.integrators._stages import SOON, StagedIntegrator, StagedStepper
from toile.integrators.base import IntegratorContext, Stepper
from toile.linear.modified_pcg import Solution
from toile.model.state import State


class ExplicitEuler(StagedIntegrator):
    """One evaluation of the forces per step, and no solve; first order."""

    def start(self, context: IntegratorContext) -> Stepper:
        return ExplicitEulerStepper(context)


class ExplicitEulerStepper(StagedStepper):
    damping_limits = True

    def begin(self, state: State, h: float) -> None:
        self.forces(state.x, state.v, state.t + SOON, self.f)
        self.system.move(state.t + h)
        self.add(self.none, self.f, h, self.impulse)

    def advance(self, state: State, state_out: State, h: float) -> Solution:
        # The two velocities differ only in held directions: the first leads to x_held, the second is v_held.
        self.position_velocity(state, self.f, h, h, state_out.v)
        self.move(state, state_out.v, h, state_out.x)
        self.end_velocity(state, state.v, self.f, h, h, h, state_out.v)
        return Solution(0, 0.0, True)
