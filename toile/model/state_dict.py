"""State that persists from step to step, by name, so that a run can resume bit for bit.

Objects with such state have two methods; objects without it need neither:

    state_dict() -> StateDict       arrays and numbers
    load_state_dict(state_dict)     restores that state, on an object that was just made from the same scene

An entry that does not exist is missing from the dictionary. Entries of a part are prefixed with its name and a dot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

StateDict = Mapping[str, np.ndarray | float]


class Stateful(Protocol):
    """An object with state that persists."""

    def state_dict(self) -> StateDict: ...

    def load_state_dict(self, state_dict: StateDict) -> None: ...


def joined(parts: Mapping[str, StateDict]) -> StateDict:
    """Joins the state dictionaries of several parts into one."""
    return {f"{part}.{name}": value for part, state_dict in parts.items() for name, value in state_dict.items()}


def part_of(state_dict: StateDict, part: str) -> StateDict:
    """Returns the state dictionary of one part."""
    return {name.removeprefix(f"{part}."): value for name, value in state_dict.items() if name.startswith(f"{part}.")}
