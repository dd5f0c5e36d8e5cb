"""The contract of an integrator: from the state at t to a candidate at t + h.

To add one, write a file with a subclass of `Integrator` named after it (`my_scheme.py`, `MyScheme`): its fields are the
keys of a scene, and `start` returns the `Stepper` that computes steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import warp as wp

from toile.constraints.scene_constraints import SceneConstraints
from toile.device.timers import Timers
from toile.filters.base import VelocityLimit
from toile.linear.automatic import automatic
from toile.linear.modified_pcg import ModifiedPCG, Solution
from toile.linear.solver import LinearSolver
from toile.model.constraint_state import ConstraintState
from toile.model.corrections import Corrections
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.plugins import Plugin
from toile.system.contacts import Contacts
from toile.system.system import System

if TYPE_CHECKING:
    from toile.scene.schema import Solver


@dataclass(frozen=True)
class IntegratorContext:
    """Everything that an integrator uses, made once per run."""

    system: System
    scene_constraints: SceneConstraints
    corrections: Corrections
    contacts: Contacts
    limits: Sequence[VelocityLimit]
    settings: "Solver"  # the scene's tolerance, max_iterations and preconditioner
    timers: Timers
    # Whether a candidate is stretched so much, or has gained so much energy, that one more linearization helps: from a
    # state to positions and velocities, with the force of constraints, and the number of those added already.
    needs_linearization: Callable[[State, wp.array, wp.array, wp.array, int], bool]

    @property
    def constraints(self) -> ConstraintState:
        """The constraints of the present step, contacts with solids included."""
        return self.scene_constraints.state

    def make_solver(self, b: wp.array, dv: wp.array) -> LinearSolver:
        """Builds the linear solver of the scene for A dv = b."""
        A, S, settings = self.system.A, self.constraints.S, self.settings
        preconditioner = settings.preconditioner or automatic(self.system.model.particle_count, self.system.device)
        built = preconditioner.build(A, S)
        return LinearSolver(ModifiedPCG(A, b, S, dv), built, settings.tolerance, settings.max_iterations)

    def limit(self, x: wp.array, v: wp.array, h: float) -> None:
        """Changes v in place so that x + h v satisfies the velocity limits of the scene."""
        with self.timers.stage("filters"):
            for limit in self.limits:
                limit.limit(x, v, h)


class Integrator(Plugin):
    """Settings of an integrator; `start` makes the stepper."""

    stable_at_any_step: ClassVar[bool] = True  # if not, Stepper.largest_step gives the limit
    applies_limits: ClassVar[bool] = False  # whether its stepper calls IntegratorContext.limit itself

    def start(self, context: IntegratorContext) -> "Stepper":
        raise NotImplementedError

    def judge(self, max_step: float, limit: float) -> list[str]:
        """Returns warnings about the largest step of a run, compared with the largest stable one; raises an InputError
        if
        the run must not start."""
        return []


class Stepper:
    """Computes steps. `step` reads `state` and writes `state_out`, so that a rejected step costs nothing."""

    constraint_forces: wp.array  # [N]  of the last step; zero in free directions

    def step(self, state: State, state_out: State, h: float) -> Solution:
        """Computes the candidate at t + h. Contacts have been detected; the stepper linearizes, checks and projects
        them through `IntegratorContext.contacts`."""
        raise NotImplementedError

    def largest_step(self, state: State, S: wp.array) -> float:
        """The largest stable step [s] of a run that begins with this state and these free directions."""
        return float("inf")

    def accept(self, state: State, state_out: State, h: float) -> None:
        """The step from `state` to `state_out` over h stands; multi-step schemes keep what the next one needs."""

    def restart(self) -> None:
        """Constraints began or ended: multi-step schemes drop their history."""

    def state_dict(self) -> StateDict:
        """Returns everything that the next step needs of earlier ones (toile/model/state_dict.py)."""
        return {}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restores what `state_dict` holds."""
