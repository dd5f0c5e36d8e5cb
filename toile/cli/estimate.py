"""How long the rest of a run takes, from how long its last frames took.

    r_k = sum_j b^(k-j) d_j / sum_j b^(k-j),    left = r_k (n - k) - (now - t_k)

A mean of the frames so far in which one counts half as much as that which came HALF frames later. The first is left out
as soon as there is another: it loads the kernels, and may take a hundred times as long as any that follows.

Symbols     d_j  time of frame j [s]     b  2^(-1/HALF)     n  number of frames     t_k  when frame k was there [s]
"""

from __future__ import annotations

HALF = 8.0


class TimeLeft:
    """Told of every frame; asked at any time."""

    def __init__(self, total: int, now: float, done: int = 0):
        self.total, self.done, self.at = total, done, now
        self.intervals = 0
        self.weighed = self.weights = 0.0

    def reach(self, done: int, now: float) -> None:
        """So many frames are there."""
        count = done - self.done
        if count <= 0:
            return
        fading = 0.5 ** (count / HALF)
        kept = 0.0 if self.intervals <= 1 else fading  # the second replaces the first
        self.weighed = kept * self.weighed + (1.0 - fading) * (now - self.at) / count
        self.weights = kept * self.weights + (1.0 - fading)
        self.intervals += 1
        self.done, self.at = done, now

    def seconds(self, now: float) -> float | None:
        """None while nothing is known. While a frame takes longer than expected, what follows it is still to come."""
        if not self.weights:
            return None
        pace, rest = self.weighed / self.weights, self.total - self.done
        return max(pace * rest - (now - self.at), pace * (rest - 1), 0.0)


def clock(seconds: float) -> str:
    """12 s, 3:05, 1:02:03"""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
