"""How often the page is drawn. A browser without a GPU draws on the cores that the simulation needs: where that falls
behind real time, fewer of its frames are sent; where it keeps up, more are tried.

    rate <- 0.8 rate  while behind,    rate + 1  while in time,    twice a second, within limits
"""

from __future__ import annotations

# [1/s]
MOST, FEWEST = 30.0, 10.0

BEHIND, IN_TIME = 0.95, 0.98  # speed, as part of real time
FEWER, MORE = 0.8, 1.0
EVERY = 0.5  # [s]


class DrawRate:
    """`rate` is how often to draw now [1/s]."""

    def __init__(self) -> None:
        self.rate = MOST
        self._judged = 0.0

    def judge(self, speed: float, now: float) -> None:
        """Call it with every frame of a simulation that runs; `now` is in seconds."""
        if now - self._judged < EVERY:
            return
        self._judged = now
        if speed < BEHIND:
            self.rate = max(FEWEST, FEWER * self.rate)
        elif speed > IN_TIME:
            self.rate = min(MOST, self.rate + MORE)
