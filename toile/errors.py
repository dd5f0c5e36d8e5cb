"""Errors for the person who has to act: what is wrong, where, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


# The remedy for a failed step unless a better one is known.
SMALLER_STEP = "Try a smaller time.max_step."


class ToileError(Exception):
    """Base of all errors that Toile raises on purpose; the message is for the user."""

    exit_code = 1


class InputError(ToileError):
    """An input that cannot be used. Raised before anything runs or is written."""

    exit_code = 2


class SceneError(InputError):
    """All problems of one scene, one line each: `file:line  key = value: what is wrong and what to do`."""

    def __init__(self, problems: list[str]):
        self.problems = problems
        super().__init__("\n".join(problems))


class StepFailed(ToileError):
    """No step of any allowed size succeeded. Carries the last valid state, so that it can be saved."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        frame: int,
        time: float,
        positions: np.ndarray,
        velocities: np.ndarray,
        remedy: str = SMALLER_STEP,
    ):
        self.remedy = remedy  # what to do about it
        self.frame, self.time = frame, time  # frame in progress; time of the last valid state [s]
        self.positions, self.velocities = positions, velocities
        super().__init__(message)
