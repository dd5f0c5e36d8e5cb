"""Time window of a force or a constraint: the steps between its start and its end.

Steps do not cross the ends of a window, so it holds in all of a step or in none of it.
"""

from __future__ import annotations

from toile.model.motion import SAME_TIME


def require_window(start: float, end: float | None) -> None:
    """Raises ValueError unless the end comes after the start; None means that it never ends."""
    if end is not None and end <= start:
        raise ValueError(f"end {end} s is not after start {start} s.")


def holds_in_step_to(time: float, start: float, end: float | None) -> bool:
    """Returns whether a window includes the step that ends at a time.

    The step that ends at `start` lies before the window, the step that ends at `end` is its last.
    """
    begun = start <= 0.0 or time > start + SAME_TIME
    over = end is not None and time > end + SAME_TIME
    return begun and not over
