"""Estimates the remaining time of a run from the times of its last frames.

    r_k = sum_j b^(k-j) d_j / sum_j b^(k-j),    left = r_k (n - k) - (now - t_k)

The pace r_k is a weighted mean of the frames so far, in which a frame counts half as much as the one HALF frames after
it. The first frame is dropped as soon as there is a second: it loads the kernels, and may take a hundred times as long.

Symbols     d_j  time of frame j [s]     b  2^(-1/HALF)     n  number of frames     t_k  time at which frame k ended [s]
"""

from __future__ import annotations

HALF = 8.0


class TimeLeft:
    """Estimates the time left; `reach` is called after every frame, `seconds` at any time."""

    def __init__(self, total: int, now: float, done: int = 0):
        self.total, self.done, self.at = total, done, now
        self.intervals = 0
        self.weighted_sum = self.weights = 0.0

    def reach(self, done: int, now: float) -> None:
        """Updates the pace after this number of frames has been computed."""
        count = done - self.done
        if count <= 0:
            return
        decay = 0.5 ** (count / HALF)
        kept = 0.0 if self.intervals <= 1 else decay  # the second interval replaces the first
        self.weighted_sum = kept * self.weighted_sum + (1.0 - decay) * (now - self.at) / count
        self.weights = kept * self.weights + (1.0 - decay)
        self.intervals += 1
        self.done, self.at = done, now

    def seconds(self, now: float) -> float | None:
        """Returns the time left; None before the first frame.

        While a frame takes longer than expected, the frames after it still count in full.
        """
        if not self.weights:
            return None
        pace, rest = self.weighted_sum / self.weights, self.total - self.done
        return max(pace * rest - (now - self.at), pace * (rest - 1), 0.0)


def format_duration(seconds: float) -> str:
    """Formats a time as 12 s, 3:05 or 1:02:03."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
