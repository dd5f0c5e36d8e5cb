"""What lasts from one step to the next, by name, so that a run can go on elsewhere to the last bit.

Whatever remembers anything between steps has two methods; what does not, has nothing to write:

    memory() -> Memory      arrays and numbers
    recall(memory)          back to where that was taken, on an object that was just made from the same scene

What is missing from a memory was not there. Names of parts stand before the names of what is theirs, with a dot.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Memory = Mapping[str, np.ndarray | float]


def joined(parts: Mapping[str, Memory]) -> Memory:
    """One memory of those of several parts."""
    return {f"{part}.{name}": value for part, memory in parts.items() for name, value in memory.items()}


def part_of(memory: Memory, part: str) -> Memory:
    """The memory of one of them."""
    return {name.removeprefix(f"{part}."): value for name, value in memory.items() if name.startswith(f"{part}.")}
