"""Launches kernels whose arguments are packed once and then reused, and splits large launches among threads.

A step launches some thirty small kernels with the same arrays every time. Packing their arguments takes Warp longer
than running them: a tenth of a millisecond each, in the middle of a step, against a hundredth for a packed launch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import warp as wp

from toile.device import threads
from toile.device.growable import Generations, check, generations_of

# Packed launches that are kept; one more discards them all. A step needs two per kernel, because states swap, and steps
# of new sizes add more.
LARGEST = 64

# Ranges of a split launch begin at multiples of this, so that a sum over SHARE indices belongs to one thread.
SHARE = 1024
# Each thread gets at least this number of shares, or the launch is not split: handing work to a thread costs as much as
# thousands of rows of a product. With one share, two threads took 33 ms for a frame of 2,601 vertices and one took 24.
FEWEST_SHARES = 4

Key = tuple[object, ...]  # kernel, arguments and, of a split launch, its ranges
Ranges = tuple[tuple[int, int], ...]  # begin and end of each


class Launcher:
    """Keeps packed launches by kernel and arguments: arrays and structs count by identity, floats by value."""

    def __init__(self, device: str):
        self.device = device
        self._shares = wp.get_device(device).is_cpu
        self._packed: dict[Key, _PackedLaunches] = {}

    def __call__(self, kernel: wp.Kernel, dim: int, inputs: Sequence[object]) -> None:
        if dim:
            self._launch_one(kernel, dim, inputs)

    def split(
        self, kernel: wp.Kernel, dim: int, inputs: Sequence[object], multiple: int = SHARE, fewest: int | None = None
    ) -> None:
        """Launches a kernel in ranges that threads share.

        The first argument of the kernel, which is not among `inputs`, is the index at which its range begins. Different
        indices must not write to the same address, unless they lie between the same multiples of `multiple`. A thread
        gets at least `fewest` multiples: FEWEST_SHARES by default, one where a single index is much work.
        """
        self.by_color(kernel, (dim,), inputs, multiple, FEWEST_SHARES if fewest is None else fewest)

    def by_color(
        self, kernel: wp.Kernel, ends: tuple[int, ...], inputs: Sequence[object], multiple: int = SHARE, fewest: int = 1
    ) -> None:
        """Launches a kernel for one color after the other, each split among threads; the colors end at `ends`.

        Multiples count from the beginning of each color. Where no color is split, all of them are one launch.
        """
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
        if found.generations:
            check(found.generations, "launch was packed")
        for together in found.commands:
            threads.together([command.launch for command in together])

    def _launch_one(self, kernel: wp.Kernel, dim: int, inputs: Sequence[object]) -> None:
        found = self._packed.get(key := _key(kernel, inputs))
        if found is None:
            found = self._pack(key, inputs, [[self._command(kernel, dim, inputs)]])
        command = found.commands[0][0]
        if found.dim != dim:  # the length of a list may change in every step
            command.set_dim(dim)
            found.dim = dim
        if found.generations:
            check(found.generations, "launch was packed")
        command.launch()

    def _command(self, kernel: wp.Kernel, dim: int, inputs: Sequence[object]) -> wp.Launch:
        return wp.launch(kernel, dim=dim, inputs=inputs, device=self.device, record_cmd=True)

    def _pack(self, key: Key, inputs: Sequence[object], commands: list[list[wp.Launch]]) -> "_PackedLaunches":
        if len(self._packed) >= LARGEST:
            self._packed.clear()
        self._packed[key] = found = _PackedLaunches(commands, inputs, generations_of(inputs))
        return found


@dataclass
class _PackedLaunches:
    """Packed launches: those of an inner list run at the same time, the inner lists one after the other."""

    commands: list[list[wp.Launch]]
    inputs: Sequence[object]  # kept: while they live, no other object can have their identity
    generations: Generations  # of the growable structs among the inputs
    dim: int = -1  # of the last single launch


def _key(kernel: wp.Kernel, inputs: Sequence[object]) -> Key:
    return (kernel, *(value if type(value) is float else id(value) for value in inputs))


@lru_cache(maxsize=1024)
def _pieces(ends: tuple[int, ...], count: int, multiple: int, fewest: int) -> tuple[Ranges, ...] | None:
    """Returns for each color the ranges that `count` threads share; None if no color is split."""
    found = tuple(
        tuple((begin + low, begin + high) for low, high in shares(end - begin, count, multiple, fewest))
        for begin, end in pairwise((0, *ends))
    )
    return None if all(len(ranges) == 1 for ranges in found) else found


def shares(dim: int, count: int, multiple: int, fewest: int = 1) -> list[tuple[int, int]]:
    """Divides [0, dim) into at most `count` ranges of about the same length, which begin at multiples of `multiple`
    and are at least `fewest` multiples long."""
    count = max(1, min(count, dim // (fewest * multiple)))
    blocks = -(-dim // multiple)
    cuts = [min(dim, multiple * (blocks * k // count)) for k in range(count + 1)]
    return list(pairwise(cuts))
