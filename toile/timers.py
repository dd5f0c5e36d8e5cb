"""Milliseconds per stage, under the names of [BW98] table 1 and some more."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import warp as wp

STAGES = ("EVAL", "CG", "C/C", "C/S", "filters", "audit", "output")


class Timers:
    """Adds up the time spent in each stage."""

    def __init__(self, device: str):
        # Launches on a GPU return before they are done: a stage ends when the device has finished it.
        self._synchronize = None if wp.get_device(device).is_cpu else device
        self.ms = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            if self._synchronize:
                wp.synchronize_device(self._synchronize)
            self.ms[name] += 1e3 * (time.perf_counter() - begin)

    def take(self) -> dict[str, float]:
        """The sums so far; starts again from zero."""
        ms, self.ms = self.ms, dict.fromkeys(STAGES, 0.0)
        return ms
