"""The rate at which the page is drawn.

A browser without a GPU draws on the cores that the simulation needs. So the rate falls while the simulation is slower
than real time, and grows while it is not:

    rate <- 0.8 rate  while behind,    rate + 1  while in time,    twice a second, within limits
"""

from __future__ import annotations

MAX_RATE, MIN_RATE = 30.0, 10.0  # [1/s]

BEHIND, IN_TIME = 0.95, 0.98  # simulated time / real time
DECREASE = 0.8  # factor
INCREASE = 1.0  # [1/s]
INTERVAL = 0.5  # [s]


class DrawRate:
    """`rate` is the current rate [1/s]."""

    def __init__(self) -> None:
        self.rate = MAX_RATE
        self._adapted = 0.0  # [s]  time of the last change

    def adapt(self, speed: float, now: float) -> None:
        """Call this for every frame of a running simulation; `now` is in seconds."""
        if now - self._adapted < INTERVAL:
            return
        self._adapted = now
        if speed < BEHIND:
            self.rate = max(MIN_RATE, DECREASE * self.rate)
        elif speed > IN_TIME:
            self.rate = min(MAX_RATE, self.rate + INCREASE)
