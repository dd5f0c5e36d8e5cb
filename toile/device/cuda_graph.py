"""Launches that a GPU repeats by itself.

A GPU takes a few microseconds for a small kernel, and Python ten times as long to launch it. What is launched again and
again with the same arrays is recorded once as a graph and then launched as a whole.
"""

from collections.abc import Callable
from typing import Any

import warp as wp


class CudaGraph:
    """Launches that are recorded when they are called for the second time; on the CPU they are just made.

    The first time loads their kernels, which a graph cannot. The call names the arrays that may be replaced by others:
    when one is, the launches are recorded anew.
    """

    def __init__(self, device: str, launches: Callable[[], Any]):
        self._device = wp.get_device(device)
        self._launches = launches
        self._graph: Any = None
        self._of: tuple = ()
        self._kept: tuple = ()  # as long as they live, no other object can have their identity
        self._loaded = False

    def __call__(self, *arrays: wp.array) -> None:
        if self._device.is_cpu or not self._loaded:
            self._loaded = True
            self._launches()
            return
        of = tuple(map(id, arrays))
        if self._graph is None or of != self._of:
            with wp.ScopedCapture(device=self._device) as capture:
                self._launches()
            self._graph, self._of, self._kept = capture.graph, of, arrays
        wp.capture_launch(self._graph)
