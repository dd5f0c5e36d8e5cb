"""Backward Euler, linearized once: the integrator of the paper.

    v1 = v0 + h f(x1, v1)/m,    x1 = x0 + h v1

Source      [BW98] secs. 3, 5; the solve is in toile/integrators/newton.py
Symbols     h  step [s]
Deviations  More than one Newton iteration on request. First order: it damps what it should not, see docs/papers.md.
"""

import warp as wp

from toile.integrators.base import Integrator, IntegratorContext, Stepper
from toile.integrators.newton import NewtonStep, from_start
from toile.linear.modified_pcg import Solution
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.plugins import quantity


class ImplicitEuler(Integrator):
    """Stable at any step; first order."""

    newton_iterations: int = quantity(1, doc="linearizations per step; 1 is the paper's", ge=1, le=50)

    def start(self, context: IntegratorContext) -> Stepper:
        return ImplicitEulerStepper(NewtonStep(context, from_start, self.newton_iterations))


class ImplicitEulerStepper(Stepper):
    def __init__(self, newton: NewtonStep):
        self.newton = newton
        self.constraint_forces = newton.force

    def step(self, state: State, state_out: State, h: float) -> Solution:
        wp.copy(self.newton.x_ref, state.x)
        wp.copy(self.newton.v_ref, state.v)
        return self.newton.solve(state, state_out, h)

    def state_dict(self) -> StateDict:
        return self.newton.solver.state_dict()

    def load_state_dict(self, state_dict: StateDict) -> None:
        self.newton.solver.load_state_dict(state_dict)
