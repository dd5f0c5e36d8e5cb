"""Pacing of a simulation to real time, and its measured speed where it is slower."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

# Interval over which the speed is measured [s]
SPEED_INTERVAL = 1.0

# A larger delay is not caught up: frames must not rush after a pause in which kernels are compiled [s]
MAX_LAG = 0.1


class RealTimePacer:
    """Decides when the next frame begins. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self._clock = clock
        self._past: deque[tuple[float, float]] = deque()  # real and simulated time after frames
        self.start()

    def start(self) -> None:
        """Starts to count from now."""
        self._due = self._clock()
        self._past.clear()
        self._past.append((self._due, 0.0))

    def frame_done(self, simulated: float) -> float:
        """Counts a frame of `simulated` seconds. Returns the time of the clock at which the next one should begin."""
        now = self._clock()
        self._due = max(self._due + simulated, now - MAX_LAG)
        self._past.append((max(now, self._due), self._past[-1][1] + simulated))
        while len(self._past) > 2 and self._past[1][0] < now - SPEED_INTERVAL:
            self._past.popleft()
        return self._due

    @property
    def speed(self) -> float:
        """Simulated time / real time over the last second; 1 at real time."""
        (begin, before), (end, after) = self._past[0], self._past[-1]
        return min(1.0, (after - before) / (end - begin)) if end > begin else 1.0
