"""CUDA graphs: launches that are captured once and then replayed as a whole.

A GPU takes a few microseconds for a small kernel, and Python ten times as long to launch it. Launches that are repeated
with the same arrays are therefore captured in a graph.
"""

from collections.abc import Callable

import warp as wp

from toile.device.growable import Generations, check, noting


class CudaGraph:
    """Launches that are captured at the second call and replayed from then on; on the CPU they are always made.

    The first call makes the launches, because it loads their kernels, which a capture cannot. A call names the arrays
    and structs that may be replaced by others: when one is, the launches are captured anew. If the arrays of a growable
    struct that is not named are replaced, the call is an error.
    """

    def __init__(self, device: str, launches: Callable[[], object]):
        self._device = wp.get_device(device)
        self._launches = launches
        self._graph: wp.Graph | None = None
        self._identities: tuple[tuple[int, int], ...] = ()  # of what was named at the capture, with generations
        self._kept: tuple[object, ...] = ()  # while they live, no other object can have their identity
        self._generations: Generations = ()  # of the structs in the captured launches
        self._loaded = False

    def __call__(self, *named: object) -> None:
        if self._device.is_cpu or not self._loaded:
            self._loaded = True
            self._launches()
            return
        identities = tuple((id(one), getattr(one, "generation", 0)) for one in named)
        if self._graph is None or identities != self._identities:
            with noting() as noted, wp.ScopedCapture(device=self._device) as capture:
                self._launches()
            self._graph, self._identities, self._kept = capture.graph, identities, named
            self._generations = tuple(noted.values())
        check(self._generations, "graph was captured")
        wp.capture_launch(self._graph)
