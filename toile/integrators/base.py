"""What every integrator does: from the state at t to a candidate at t + h."""

from dataclasses import dataclass, field
from typing import Any

import warp as wp

from toile.constraints.held import Held
from toile.linear.modified_pcg import Solution
from toile.model.state import State
from toile.plugins import Plugin
from toile.system import System
from toile.timers import Timers


@dataclass
class Workplace:
    """What an integrator works with; made once per run."""

    system: System
    held: Held
    contacts: Any  # constraints.solid_contact.SolidContacts, or None
    make_solver: Any  # (b, dv) -> linear.solver.Solver
    timers: Timers
    limits: list = field(default_factory=list)  # of filters.base.VelocityLimit

    def limit(self, x: wp.array, v: wp.array, h: float) -> None:
        """Changes v in place so that x + h v is where the scene's filters allow it to be."""
        with self.timers.stage("filters"):
            for limit in self.limits:
                limit.limit(x, v, h)


class Integrator(Plugin):
    """Settings of an integrator; `start` makes the working one."""

    def start(self, work: Workplace) -> "Stepper":
        raise NotImplementedError


class Stepper:
    """An integrator at work. `step` reads `state` and writes `state_out`, so a rejected step costs nothing."""

    limits = False  # whether it calls Workplace.limit itself
    constraint_forces: wp.array  # [N]  of the last step; zero in free directions

    def step(self, state: State, state_out: State, h: float) -> Solution:
        raise NotImplementedError

    def improve(self, state: State, state_out: State, h: float) -> Solution | None:
        """Another try at a candidate that was found wanting, from where it is; None if there is no better one."""
        return None

    def accept(self, state: State, state_out: State, h: float) -> None:
        """The step from `state` to `state_out` over h stands; what the next one needs to remember is kept now."""

    def restart(self) -> None:
        """Something jumped (constraints began or ended): forget what lies before."""
