"""Adaptive steps: halve when a step fails, grow again after successes, and do not keep trying what keeps failing.

Source      [BW98] sec. 7
Symbols     level  how often the largest step is halved now     patience  successes wanted before growing
Deviations  The paper gives no numbers but 2 and 40; patience doubles from the one to the other.
"""

from __future__ import annotations

import math

from toile.model.state_dict import StateDict

# Successes at a reduced step before a larger one is tried; doubled each time that fails, up to the second number.
FIRST_PATIENCE, LAST_PATIENCE = 2, 40

# A step may be this much longer than the largest one to end on a frame without a sliver left over.
ROUNDING = 1e-9


class StepControl:
    """Decides how large the next step is."""

    def __init__(self, max_step: float, min_step: float):
        self.max_step, self.min_step = max_step, min_step
        self.level = 0
        self.patience = FIRST_PATIENCE
        self.successes = 0
        self.growing = False  # the step now under way is a try at a larger size

    @property
    def size(self) -> float:
        """Largest step allowed now [s]."""
        return self.max_step / 2**self.level

    def fit(self, remaining: float) -> float:
        """A step that divides the time left until the frame evenly, no larger than `size`."""
        step = remaining / max(1, math.ceil(remaining / self.size * (1.0 - ROUNDING)))
        # Without the last digits, which rounding of the time makes others in every step: launches are remembered by
        # their numbers (toile/device/launcher.py), and steps that follow each other have exactly the ratio that they
        # should.
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
