"""What every integrator does: from the state at t to a candidate at t + h."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import warp as wp

from toile.constraints.state import ConstraintState
from toile.device.timers import Timers
from toile.linear.modified_pcg import Solution
from toile.model.corrections import Corrections
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.plugins import Plugin
from toile.system.system import System


@dataclass
class IntegratorContext:
    """What an integrator works with; made once per run."""

    system: System
    constraints: ConstraintState
    corrections: Corrections
    contacts: Any  # constraints.solid_contact.SolidContacts, or None
    make_solver: Any  # (b, dv) -> linear.solver.Solver
    solver: Any  # the scene's settings of it: tolerance, max_iterations
    timers: Timers
    limits: list = field(default_factory=list)  # of filters.base.VelocityLimit

    def limit(self, x: wp.array, v: wp.array, h: float) -> None:
        """Changes v in place so that x + h v is where the scene's filters allow it to be."""
        with self.timers.stage("filters"):
            for limit in self.limits:
                limit.limit(x, v, h)


class Integrator(Plugin):
    """Settings of an integrator; `start` makes the working one."""

    stable_at_any_step: ClassVar[bool] = True  # if not, Stepper.largest_step says up to which

    def start(self, context: IntegratorContext) -> "Stepper":
        raise NotImplementedError

    def judge(self, max_step: float, limit: float) -> list[str]:
        """Warnings about the largest step of a run against the largest stable one; an error, if it must not be."""
        return []


class Stepper:
    """An integrator at work. `step` reads `state` and writes `state_out`, so a rejected step costs nothing."""

    limits = False  # whether it calls IntegratorContext.limit itself
    constraint_forces: wp.array  # [N]  of the last step; zero in free directions

    def step(self, state: State, state_out: State, h: float) -> Solution:
        raise NotImplementedError

    def improve(self, state: State, state_out: State, h: float) -> Solution | None:
        """Another try at a candidate that was found wanting, from where it is; None if there is no better one."""
        return None

    def largest_step(self, state: State, S: wp.array) -> float:
        """Above which it is not stable [s], for a run that begins with this state and these free directions."""
        return float("inf")

    def accept(self, state: State, state_out: State, h: float) -> None:
        """The step from `state` to `state_out` over h stands; what the next one needs to remember is kept now."""

    def restart(self) -> None:
        """Something jumped (constraints began or ended): forget what lies before."""

    def state_dict(self) -> StateDict:
        """What the next step needs of those before it (toile/model/state_dict.py)."""
        return {}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Goes on from there."""
