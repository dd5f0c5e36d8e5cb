"""What every filter does: corrects the candidate of a step, after any integrator and in the order of the scene."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from toile.contact.collision_mesh import Planes
from toile.device.launcher import Launcher
from toile.math.types import real, vec3
from toile.model.corrections import Corrections
from toile.model.model import Model
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.plugins import Plugin


@dataclass
class FilterContext:
    """What a filter works with; made once per run."""

    model: Model
    masses: wp.array
    constraints: Any  # constraints.state.ConstraintState
    corrections: Corrections
    solids: Any  # colliders.solids.Solids
    planes: Callable[[], Planes | None]  # those that contacts with solids keep particles at, in the present step
    max_step: float  # [s]  the longest that there will be


class Filter(Plugin):
    """Settings of a filter; `start` makes the working one."""

    def start(self, context: FilterContext) -> "Correction":
        raise NotImplementedError


class Correction:
    """A filter at work. It may change `state_out`, never `state`: a rejected step leaves no trace."""

    stage = "filters"  # whose time it is in the certificate
    limits_velocity = False  # whether it is a VelocityLimit
    limits_strain = False  # whether it shortens what the step before it stretched: steps are judged after it
    contact_forces: tuple = ()  # assembly.ContactForce: what it adds to the linear system
    # [N] on each particle: what constraints exert in the present step because its impulses pull at what they hold
    reaction: wp.array | None = None

    def apply(self, state: State, state_out: State, h: float) -> str | None:
        """Why the candidate cannot be corrected and the step must be shorter; None if all is well."""
        raise NotImplementedError

    def hold(self) -> bool:
        """Makes what it has just done part of the linear system, if it can: the step is then solved again."""
        return False

    def accept(self) -> None:
        """The step stands."""

    def state_dict(self) -> StateDict:
        """What the next step needs of those before it (toile/model/state_dict.py)."""
        return {}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Goes on from there."""

    def contact_count(self) -> int:
        """Contacts between cloths in the last step."""
        return 0

    def vertices_in_contact(self) -> np.ndarray:
        """Particles in contact with cloth in the last step."""
        return np.zeros(0, np.int64)

    def remedy(self, trouble: str, pinned: np.ndarray) -> str | None:
        """What helps against what `apply` has told last, where no step size does."""
        return None


class VelocityLimit(Correction):
    """A filter that changes velocities, so that positions go where they may ([BMF03] sec. 3).

    Integrators that move positions by a velocity of their own call `limit` themselves. After all others it acts on the
    mean velocity of the step, and the velocity at its end takes the same change.
    """

    limits_velocity = True
    reaction: wp.array

    def __init__(self, context: FilterContext):
        self.context = context
        n, device = len(context.masses), context.masses.device
        self._wanted, self._limited, self.reaction = (wp.zeros(n, dtype=vec3, device=device) for _ in range(3))
        self._launch = Launcher(str(device))

    def limit(self, x: wp.array, v: wp.array, h: float) -> None:
        """Changes v in place so that x + h v is where it may be. What constraints hold stays as it is; `reaction` is what
        that takes. Integrators may call it for two velocities: the last one is that at the end of the step.
        """
        raise NotImplementedError

    def apply(self, state: State, state_out: State, h: float) -> str | None:
        n = len(state.x)
        self._launch(mean_velocity, n, [state.x, state_out.x, h, self._wanted, self._limited])
        self.limit(state.x, self._limited, h)
        corrections = self.context.corrections
        changed = [state_out.x, state_out.v, corrections.dx, corrections.dv]
        self._launch(follow, n, [self._wanted, self._limited, h, *changed])
        return None


@wp.kernel
def mean_velocity(
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), h: real,
    # out
    wanted_out: wp.array(dtype=vec3), limited_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    v = (x_end[i] - x[i]) / h
    wanted_out[i] = v
    limited_out[i] = v


@wp.kernel
def follow(
    # in
    wanted: wp.array(dtype=vec3), limited: wp.array(dtype=vec3), h: real,
    # in and out
    x_out: wp.array(dtype=vec3), v_out: wp.array(dtype=vec3),
    dx_out: wp.array(dtype=vec3), dv_out: wp.array(dtype=vec3),
):
    """What was not limited keeps its bits; integrators that remember are told what was."""
    i = wp.tid()
    change = limited[i] - wanted[i]
    x_out[i] = x_out[i] + h * change
    v_out[i] = v_out[i] + change
    dx_out[i] = dx_out[i] + h * change
    dv_out[i] = dv_out[i] + change
