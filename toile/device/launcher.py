"""Launches kernels whose arguments are packed once and then reused.

A step launches some thirty small kernels with the same arrays every time. Packing their arguments takes Warp longer
than running them: a tenth of a millisecond each, in the middle of a step, against a hundredth for a recorded launch.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import warp as wp

from toile.device import threads

# Entries kept before starting anew. A step needs two per kernel, because states swap; steps of new sizes add more.
LARGEST = 64

# Ranges that are shared begin at multiples of this, so that sums of so many indices belong to one thread.
SHARE = 1024
# So many shares for each thread, or the launch is not shared: handing over costs as much as thousands of rows of a
# product. With one, two threads took 33 ms for a frame of 2,601 vertices where one takes 24.
FEWEST_SHARES = 4


class Launcher:
    """Remembers launches by kernel and arguments. Arrays and structures count by identity, numbers by value."""

    def __init__(self, device: str):
        self.device = device
        self._shares = wp.get_device(device).is_cpu
        self._packed: dict[tuple, _PackedLaunches] = {}

    def __call__(self, kernel: wp.Kernel, dim: int, inputs: list[Any]) -> None:
        if dim:
            self._launch_one(kernel, dim, inputs)

    def split(
        self, kernel: wp.Kernel, dim: int, inputs: list[Any], multiple: int = SHARE, fewest: int | None = None
    ) -> None:
        """A launch that threads may share. The first argument of its kernel, not among `inputs`, is where the range
        begins; different indices must not write to the same place, unless they lie between multiples of `multiple`.
        A thread gets at least `fewest` multiples: FEWEST_SHARES when not given, one where an index is a lot of work.
        """
        self.by_color(kernel, (dim,), inputs, multiple, FEWEST_SHARES if fewest is None else fewest)

    def by_color(
        self, kernel: wp.Kernel, ends: tuple[int, ...], inputs: list[Any], multiple: int = SHARE, fewest: int = 1
    ) -> None:
        """Several such launches, one after the other, of ranges that end at `ends`; one launch where none is shared.
        Multiples count from where each begins."""
        if not ends[-1]:
            return
        pieces = _pieces(ends, threads.count() if self._shares else 1, multiple, fewest)
        if pieces is None:
            self._launch_one(kernel, ends[-1], [0, *inputs])
            return
        found = self._packed.get(key := (*_key(kernel, inputs), pieces))
        if found is None:
            commands = [
                [self._command(kernel, high - low, [low, *inputs]) for low, high in ranges] for ranges in pieces
            ]
            found = self._pack(key, inputs, commands)
        for together in found.commands:
            threads.together([command.launch for command in together])

    def _launch_one(self, kernel: wp.Kernel, dim: int, inputs: list[Any]) -> None:
        found = self._packed.get(key := _key(kernel, inputs))
        if found is None:
            found = self._pack(key, inputs, [[self._command(kernel, dim, inputs)]])
        command = found.commands[0][0]
        if found.dim != dim:  # of a list that is another in every step, the length
            command.set_dim(dim)
            found.dim = dim
        command.launch()

    def _command(self, kernel: wp.Kernel, dim: int, inputs: list[Any]) -> wp.Launch:
        return wp.launch(kernel, dim=dim, inputs=inputs, device=self.device, record_cmd=True)

    def _pack(self, key: tuple, inputs: list[Any], commands: list[list[wp.Launch]]) -> "_PackedLaunches":
        if len(self._packed) >= LARGEST:
            self._packed.clear()
        self._packed[key] = found = _PackedLaunches(commands, inputs)
        return found


@dataclass
class _PackedLaunches:
    """Launches that are made together, one list after the other."""

    commands: list[list[wp.Launch]]
    inputs: list[Any]  # kept: as long as they live, no other object can have their identity
    dim: int = -1  # of a single launch, as it was made last


def _key(kernel: wp.Kernel, inputs: list[Any]) -> tuple:
    return (kernel, *(value if type(value) is float else id(value) for value in inputs))


@lru_cache(maxsize=1024)
def _pieces(
    ends: tuple[int, ...], count: int, multiple: int, fewest: int
) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """Of each range up to an end those that `count` threads share; None if none is shared."""
    found = tuple(
        tuple((begin + low, begin + high) for low, high in shares(end - begin, count, multiple, fewest))
        for begin, end in pairwise((0, *ends))
    )
    return None if all(len(ranges) == 1 for ranges in found) else found


def shares(dim: int, count: int, multiple: int, fewest: int = 1) -> list[tuple[int, int]]:
    """[0, dim) in at most `count` ranges of about the same length that begin at multiples of a number and have `fewest`
    of them or more."""
    count = max(1, min(count, dim // (fewest * multiple)))
    blocks = -(-dim // multiple)
    cuts = [min(dim, multiple * (blocks * k // count)) for k in range(count + 1)]
    return list(pairwise(cuts))
