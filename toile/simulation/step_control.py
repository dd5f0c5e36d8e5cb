"""Adaptive steps: halved when a step is rejected, grown again after successes, with growing patience.

Source      [BW98] sec. 7
Symbols     level  number of halvings of the largest step     patience  successes needed before growing
Deviations  The paper gives the numbers 2 and 40 only; patience doubles from the one to the other.
"""

from __future__ import annotations

import math

from toile.model.state_dict import StateDict

# Number of successes at a reduced step before a larger one is tried; it doubles each time that fails, up to the second
# number.
FIRST_PATIENCE, LAST_PATIENCE = 2, 40

# A step may exceed the largest one by this fraction to end on a frame without a sliver left over.
ROUNDING = 1e-9


class StepControl:
    """Decides how large the next step is."""

    def __init__(self, max_step: float, min_step: float):
        self.max_step, self.min_step = max_step, min_step
        self.level = 0
        self.patience = FIRST_PATIENCE
        self.successes = 0
        self.growing = False  # the present step tries a larger size

    @property
    def size(self) -> float:
        """The largest step allowed now [s]."""
        return self.max_step / 2**self.level

    def fit(self, remaining: float) -> float:
        """Returns a step that divides the time left until the frame evenly, no larger than `size`."""
        step = remaining / max(1, math.ceil(remaining / self.size * (1.0 - ROUNDING)))
        # Rounding of the time would change the last digits in every step, so they are dropped: packed launches are
        # found by the value of h (toile/device/launcher.py), and consecutive steps have exactly equal lengths.
        return float(f"{step:.12e}")

    def succeeded(self, h: float) -> None:
        """A step of h was taken."""
        if self.growing and h <= 0.5 * self.size:
            return  # the end of a frame cut the try short: it proved nothing
        if self.level == 0:
            self.growing, self.patience = False, FIRST_PATIENCE
            return
        if self.growing:  # the larger step works: from here on be as quick as at first
            self.growing, self.patience, self.successes = False, FIRST_PATIENCE, 0
        self.successes += 1
        if self.successes >= self.patience:
            self.level -= 1
            self.growing, self.successes = True, 0

    def failed(self) -> bool:
        """Halve the step; False when it would fall below the smallest."""
        if self.growing:
            self.patience = min(2 * self.patience, LAST_PATIENCE)
        self.growing, self.successes = False, 0
        self.level += 1
        return self.size >= self.min_step

    def state_dict(self) -> StateDict:
        return {name: getattr(self, name) for name in ("level", "patience", "successes", "growing")}

    def load_state_dict(self, state_dict: StateDict) -> None:
        self.level, self.patience = int(state_dict["level"]), int(state_dict["patience"])
        self.successes, self.growing = int(state_dict["successes"]), bool(state_dict["growing"])
