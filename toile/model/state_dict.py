"""What lasts from one step to the next, by name, so that a run can go on elsewhere to the last bit.

Whatever remembers anything between steps has two methods; what does not, has nothing to write:

    memory() -> Memory      arrays and numbers
    recall(memory)          back to where that was taken, on an object that was just made from the same scene

What is missing from a memory was not there. Names of parts stand before the names of what is theirs, with a dot.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

StateDict = Mapping[str, np.ndarray | float]


def joined(parts: Mapping[str, StateDict]) -> StateDict:
    """One memory of those of several parts."""
    return {f"{part}.{name}": value for part, state_dict in parts.items() for name, value in state_dict.items()}


def part_of(state_dict: StateDict, part: str) -> StateDict:
    """The memory of one of them."""
    return {name.removeprefix(f"{part}."): value for name, value in state_dict.items() if name.startswith(f"{part}.")}
