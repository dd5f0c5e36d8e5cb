"""Launches kernels whose arguments are packed once and then reused.

A step launches some thirty small kernels with the same arrays every time. Packing their arguments takes Warp longer
than running them: a tenth of a millisecond each, in the middle of a step, against a hundredth for a recorded launch.
"""

from typing import Any

import warp as wp

from toile import threads

# Entries kept before starting anew. A step needs two per kernel, because states swap; steps of ever new size add more.
LARGEST = 64

# A range that is shared has at least so many indices for each thread: handing over costs as much as a few hundred rows
# of a product. Ranges begin at multiples of SHARE, so that sums of that many belong to one thread.
SHARE = 1024


class Launcher:
    """Remembers launches by kernel and arguments. Arrays and structures count by identity, numbers by value."""

    def __init__(self, device: str):
        self.device = device
        self._shares = wp.get_device(device).is_cpu
        # The arguments are kept with their launch: as long as they live, no other object can have their identity.
        self._recorded: dict[tuple, tuple[list[wp.Launch], list]] = {}

    def __call__(self, kernel: wp.Kernel, dim: int, inputs: list[Any]) -> None:
        if dim == 0:
            return
        key = (kernel, dim, *(value if type(value) is float else id(value) for value in inputs))
        if key not in self._recorded:
            self._record(key, inputs, [self._command(kernel, dim, inputs)])
        self._recorded[key][0][0].launch()

    def split(self, kernel: wp.Kernel, dim: int, inputs: list[Any], multiple: int = SHARE) -> None:
        """A launch that threads may share. The first argument of its kernel, not among `inputs`, is where the range
        begins; different indices must not write to the same place, unless they lie between multiples of `multiple`.
        """
        if dim == 0:
            return
        ranges = min(threads.count(), dim // multiple) if self._shares else 1
        key = (kernel, dim, max(ranges, 1), *(value if type(value) is float else id(value) for value in inputs))
        if key not in self._recorded:
            commands = [
                self._command(kernel, end - begin, [begin, *inputs]) for begin, end in shares(dim, ranges, multiple)
            ]
            self._record(key, inputs, commands)
        commands = self._recorded[key][0]
        if len(commands) == 1:
            commands[0].launch()
        else:
            threads.together([command.launch for command in commands])

    def _command(self, kernel: wp.Kernel, dim: int, inputs: list[Any]) -> wp.Launch:
        return wp.launch(kernel, dim=dim, inputs=inputs, device=self.device, record_cmd=True)

    def _record(self, key: tuple, inputs: list[Any], commands: list[wp.Launch]) -> None:
        if len(self._recorded) >= LARGEST:
            self._recorded.clear()
        self._recorded[key] = commands, inputs


def shares(dim: int, count: int, multiple: int) -> list[tuple[int, int]]:
    """[0, dim) in at most `count` ranges of about the same length that begin at multiples of a number."""
    blocks = -(-dim // multiple)
    cuts = [min(dim, multiple * (blocks * k // max(count, 1))) for k in range(max(count, 1) + 1)]
    return [(begin, end) for begin, end in zip(cuts, cuts[1:], strict=False) if end > begin]
