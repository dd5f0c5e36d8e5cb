"""What every filter does: corrects the candidate of a step, after any integrator and in the order of the scene."""

from dataclasses import dataclass
from typing import Any

import warp as wp

from toile.model.state import State
from toile.plugins import Plugin


@dataclass
class FilterWork:
    """What a filter works with; made once per run."""

    masses: wp.array
    held: Any  # constraints.held.Held
    solids: Any  # colliders.solids.Solids


class Filter(Plugin):
    """Settings of a filter; `start` makes the working one."""

    def start(self, work: FilterWork) -> "Correction":
        raise NotImplementedError


class Correction:
    """A filter at work. It may change `state_out`, never `state`: a rejected step leaves no trace."""

    def apply(self, state: State, state_out: State, h: float) -> None:
        raise NotImplementedError
