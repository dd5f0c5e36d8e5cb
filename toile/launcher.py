"""Launches kernels whose arguments are packed once and then reused.

A step launches some thirty small kernels with the same arrays every time. Packing their arguments takes Warp longer
than running them: a tenth of a millisecond each, in the middle of a step, against a hundredth for a recorded launch.
"""

from typing import Any

import warp as wp

# Entries kept before starting anew. A step needs two per kernel, because states swap; steps of ever new size add more.
LARGEST = 64


class Launcher:
    """Remembers launches by kernel and arguments. Arrays and structures count by identity, numbers by value."""

    def __init__(self, device: str):
        self.device = device
        # The arguments are kept with their launch: as long as they live, no other object can have their identity.
        self._recorded: dict[tuple, tuple[wp.Launch, list]] = {}

    def __call__(self, kernel: wp.Kernel, dim: int, inputs: list[Any]) -> None:
        if dim == 0:
            return
        key = (kernel, dim, *(value if type(value) is float else id(value) for value in inputs))
        if key not in self._recorded:
            if len(self._recorded) >= LARGEST:
                self._recorded.clear()
            command = wp.launch(kernel, dim=dim, inputs=inputs, device=self.device, record_cmd=True)
            self._recorded[key] = command, inputs
        self._recorded[key][0].launch()
