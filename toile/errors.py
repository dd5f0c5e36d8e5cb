"""Errors for the person who has to act: what is wrong, where, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


# What helps when a step fails, in general.
SMALLER_STEP = "Try a smaller time.max_step."


class ToileError(Exception):
    """Base of every error that Toile raises on purpose; the message is meant for the user."""

    exit_code = 1


class InputError(ToileError):
    """Something given to Toile cannot be used. Raised before anything runs or is written."""

    exit_code = 2


class SceneError(InputError):
    """All problems of one scene, one line each, as `file:line  key = value: what is wrong and what to do`."""

    def __init__(self, problems: list[str]):
        self.problems = problems
        super().__init__("\n".join(problems))


class StepFailed(ToileError):
    """A step could not be taken at any allowed size. Carries the last good state, so that it can be saved."""

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
        self.frame, self.time = frame, time  # frame being computed; time of the last good state [s]
        self.positions, self.velocities = positions, velocities
        super().__init__(message)
