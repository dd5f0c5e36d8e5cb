"""Growable structs: their arrays are replaced by longer ones, and launches with the old arrays are errors.

A packed launch (launcher.py) is found by the identity of its structs, and a CUDA graph (cuda_graph.py) holds the
addresses of their arrays. When arrays become too short, their owner therefore makes a new struct and retires the old
one. The generation of a struct counts the times that its arrays were replaced or retired: launches and graphs note it
when they are made, and compare it when they are reused.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import warp as wp


class Growable:
    """Base of a `@wp.struct` whose arrays may be replaced."""

    generation = 0  # without a type, because Warp makes a field of every name that has one

    def __setattr__(self, name: str, value: object) -> None:
        own = self.__dict__
        if own.get("_in_setter"):  # the setter of Warp, below, stores the value on the host by this method again
            object.__setattr__(self, name, value)
            return
        own["_in_setter"] = True
        try:
            super().__setattr__(name, value)
        finally:
            own["_in_setter"] = False
        if isinstance(value, wp.array):
            self.retire()

    def retire(self) -> None:
        """Makes errors of all launches and graphs that were made with this struct."""
        self.__dict__["generation"] = self.generation + 1


Generations = tuple[tuple[Growable, int], ...]  # structs, and the generation of each when a launch was made

Noted = dict[int, tuple[Growable, int]]  # the same by identity, so that each struct is there once

_noted: Noted | None = None


def generations_of(inputs: Sequence[object]) -> Generations:
    """Returns the growable structs among the arguments of a launch, with their generations."""
    return tuple((one, one.generation) for one in inputs if isinstance(one, Growable))


def check(generations: Generations, what: str) -> None:
    """Raises an error if the arrays of a struct were replaced since; `what` was made then, for the message."""
    for one, generation in generations:
        if one.generation != generation:
            name = getattr(type(one), "cls", type(one)).__name__  # Warp derives a class from that of the struct
            raise RuntimeError(f"the arrays of {name} were replaced after this {what}.")
    if _noted is not None:
        _noted.update((id(one), (one, generation)) for one, generation in generations)


@contextmanager
def noting() -> Iterator[Noted]:
    """Collects the growable structs of all launches that are made inside."""
    global _noted
    found: Noted = {}
    _noted = found
    try:
        yield found
    finally:
        _noted = None
