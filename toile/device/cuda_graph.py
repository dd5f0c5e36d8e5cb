"""CUDA graphs: launches that are captured once and then replayed as a whole.

A GPU takes a few microseconds for a small kernel, and Python ten times as long to launch it. Launches that are repeated
with the same arrays are therefore captured in a graph.
"""

from collections.abc import Callable

import warp as wp


class CudaGraph:
    """Launches that are captured at the second call and replayed from then on; on the CPU they are always made.

    The first call makes the launches, because it loads their kernels, which a capture cannot. A call names the arrays
    that may be replaced by others: when one is, the launches are captured anew.
    """

    def __init__(self, device: str, launches: Callable[[], object]):
        self._device = wp.get_device(device)
        self._launches = launches
        self._graph: wp.Graph | None = None
        self._identities: tuple[int, ...] = ()  # of the arrays it was captured with
        self._kept: tuple[wp.array, ...] = ()  # while they live, no other object can have their identity
        self._loaded = False

    def __call__(self, *arrays: wp.array) -> None:
        if self._device.is_cpu or not self._loaded:
            self._loaded = True
            self._launches()
            return
        identities = tuple(map(id, arrays))
        if self._graph is None or identities != self._identities:
            with wp.ScopedCapture(device=self._device) as capture:
                self._launches()
            self._graph, self._identities, self._kept = capture.graph, identities, arrays
        wp.capture_launch(self._graph)
