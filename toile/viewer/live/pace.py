"""Keeps what is computed at real time, and tells how much slower it is where it cannot be."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

# How much of the past the speed is measured over [s]
REMEMBERED = 1.0

# Once behind, real time is not caught up with: a pause to compile kernels must not be followed by a rush [s]
LARGEST_LAG = 0.1


class Pace:
    """A clock that is told of every frame. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self._clock = clock
        self._past: deque[tuple[float, float]] = deque()  # real and simulated time after frames
        self.start()

    def start(self) -> None:
        """Frames follow each other from now on."""
        self._due = self._clock()
        self._past.clear()
        self._past.append((self._due, 0.0))

    def advanced(self, simulated: float) -> float:
        """A frame of so much simulated time is done. When the next one should begin, in the time of the clock."""
        now = self._clock()
        self._due = max(self._due + simulated, now - LARGEST_LAG)
        self._past.append((max(now, self._due), self._past[-1][1] + simulated))
        while len(self._past) > 2 and self._past[1][0] < now - REMEMBERED:
            self._past.popleft()
        return self._due

    @property
    def speed(self) -> float:
        """Simulated by real time over the last second; 1 when real time is kept."""
        (begin, before), (end, after) = self._past[0], self._past[-1]
        return min(1.0, (after - before) / (end - begin)) if end > begin else 1.0
