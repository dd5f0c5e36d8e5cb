"""The mixed scheme to use: positions move by an implicit half step, velocities by the trapezoidal rule.

    u = v0 + h/2 a(x0, u)                      implicit; limits change it in place
    x1 = x0 + h u
    v_half = v0 + h/2 a(x0, v0)                explicit
    v1 = v_half + h/2 a(x1, v1)                implicit

Source      [BMF03] sec. 3, the third algorithm
Symbols     h  step [s]     a  acceleration
Deviations  none
"""

from typing import ClassVar

import numpy as np

from toile.integrators._mixed import MixedStepper
from toile.integrators._stages import StagedIntegrator
from toile.integrators.base import IntegratorContext, Stepper
from toile.linear.modified_pcg import Solution
from toile.model.state import State


class MixedRobust(StagedIntegrator):
    """Second order and monotone under any damping, at steps that vary; two damping solves."""

    applies_limits: ClassVar[bool] = True

    def start(self, context: IntegratorContext) -> Stepper:
        return RobustStepper(context)


class RobustStepper(MixedStepper):
    def advance(self, state: State, state_out: State, h: float) -> Solution:
        first = self.implicit_half(state, h)
        self.context.limit(state.x, self.u, h)
        self.move(state, self.u, h, state_out.x)
        second = self.trapezoid(state, state_out, h)
        self.context.limit(state_out.x, state_out.v, h)
        converged = first.converged and second.converged
        residual = float(np.maximum(first.residual, second.residual))  # keeps NaN
        return Solution(first.iterations + second.iterations, residual, converged)
