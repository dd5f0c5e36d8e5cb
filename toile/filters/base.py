"""What every filter does: corrects the candidate of a step, after any integrator and in the order of the scene."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import warp as wp

from toile.contact.bodies import Planes
from toile.model.model import Model
from toile.model.state import State
from toile.plugins import Plugin


@dataclass
class FilterWork:
    """What a filter works with; made once per run."""

    model: Model
    masses: wp.array
    held: Any  # constraints.held.Held
    solids: Any  # colliders.solids.Solids
    planes: Callable[[], Planes | None]  # those that contacts with solids keep particles at, in the present step


class Filter(Plugin):
    """Settings of a filter; `start` makes the working one."""

    def start(self, work: FilterWork) -> "Correction":
        raise NotImplementedError


class Correction:
    """A filter at work. It may change `state_out`, never `state`: a rejected step leaves no trace."""

    stage = "filters"  # whose time it is in the certificate
    meetings: tuple = ()  # assembly.Meetings: what it adds to the linear system

    def apply(self, state: State, state_out: State, h: float) -> str | None:
        """Why the candidate cannot be corrected and the step must be shorter; None if all is well."""
        raise NotImplementedError

    def hold(self) -> bool:
        """Makes what it has just done part of the linear system, if it can: the step is then solved again."""
        return False

    def accept(self) -> None:
        """The step stands."""

    def contact_count(self) -> int:
        """Contacts between cloths in the last step."""
        return 0
