"""Milliseconds per stage of a step, by the names of [BW98] table 1 and a few more."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import warp as wp

STAGES = ("EVAL", "CG", "C/C", "C/S", "filters", "audit", "output")


class Timers:
    """Adds up the time spent in each stage."""

    def __init__(self, device: str):
        # Launches on a GPU return before they are done, and waiting for them would cost more than small kernels take:
        # events are recorded between them and read afterwards.
        self._cuda = wp.get_device(device) if wp.get_device(device).is_cuda else None
        self._spans: list[tuple[str, wp.Event, wp.Event]] = []
        self._unused: list[wp.Event] = []
        self.ms = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if self._cuda is not None:
            begun = self._mark(self._cuda.stream)
            try:
                yield
            finally:
                self._spans.append((name, begun, self._mark(self._cuda.stream)))
            return
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.ms[name] += 1e3 * (time.perf_counter() - begin)

    def _mark(self, stream: wp.Stream) -> wp.Event:
        event = self._unused.pop() if self._unused else wp.Event(self._cuda, enable_timing=True)
        return stream.record_event(event)

    def take(self) -> dict[str, float]:
        """Returns the sums so far and resets them to zero."""
        for name, begun, ended in self._spans:
            self.ms[name] += wp.get_event_elapsed_time(begun, ended)
            self._unused += [begun, ended]
        self._spans.clear()
        ms, self.ms = self.ms, dict.fromkeys(STAGES, 0.0)
        return ms
