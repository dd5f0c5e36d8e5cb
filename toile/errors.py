"""Errors for the person who has to act: what is wrong, where, and what to do."""

from __future__ import annotations


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
    """A step could not be taken at any allowed size; the last good state was saved."""

    exit_code = 3
