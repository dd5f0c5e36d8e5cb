"""One step: detect contacts, integrate, correct, and accept the result or try half the size.

The diagram of a step, and every limit of its loops, are in toile/step_limits.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toile.linear.modified_pcg import Solution
from toile.simulation.certificate import FrameTally
from toile.simulation.strain import Changes
from toile.step_limits import (
    FEW_GROWN,
    HOPELESS_STRETCH,
    MAX_CORRECTED_STRETCH,
    MAX_EXCESS_HALVINGS,
    MAX_STRETCH_CHANGE,
)

if TYPE_CHECKING:
    from toile.plugins import Plugin
    from toile.simulation.build import Parts

# Rounding allowed in the sum of a frame's steps
FRAME_ROUNDING = 1e-10


class StepRejected(Exception):
    """No step size was small enough; `trouble` says what went wrong with the last one, of h."""

    def __init__(self, trouble: str, h: float):
        self.trouble, self.h = trouble, h
        super().__init__(trouble)


class StepLoop:
    """Advances the state of a simulation, step by step."""

    def __init__(self, parts: Parts):
        self.parts, self.scene, self.control = parts, parts.scene, parts.control
        self.strain = parts.strain
        max_excess = parts.scene.time.max_excess
        self._max_excess = np.inf if max_excess is None else max_excess
        self._windows = [time for item in (*self.scene.constraints, *self.scene.forces) for time in _window(item)]
        self.state = parts.state
        self.candidate = self.state.empty_like()

    def advance(self, frame_end: float, tally: FrameTally) -> None:
        """Takes one step towards the end of a frame."""
        self.step(self.control.fit(self._next_event(frame_end) - self.state.t), tally, frame_end)

    def step(self, h: float, tally: FrameTally, frame_end: float) -> None:
        """Takes one step of at most h; a rejected candidate is repeated with half the step."""
        while True:
            t = self._time_after(h, frame_end)
            self._begin(h, t)
            solution = self.parts.integrator.step(self.state, self.candidate, h)
            trouble = self.reject(solution) or self._correct(h)
            if trouble is None:
                break
            tally.rejected += 1
            if not self.control.failed():
                raise StepRejected(trouble, h)
            h = min(0.5 * h, self.control.size)
        self.parts.integrator.accept(self.state, self.candidate, h)
        self.parts.contacts.accept()
        self.control.succeeded(h)
        tally.add_step(h, solution, self.parts.contacts.count_truncated())
        self.state, self.candidate = self.candidate, self.state
        self.state.t = t

    def move_to(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Replaces the state, as if it had always been this one."""
        for state in (self.state, self.candidate):
            state.x.assign(x)
            state.v.assign(v)
            state.t = t
        self.strain.move(t)

    def _begin(self, h: float, t: float) -> None:
        """Moves constraints, forces and solids to t, and detects contacts."""
        parts = self.parts
        if parts.constraints.move(self.state.t, t, self.state.x):
            parts.integrator.restart()
        parts.system.move(t)
        parts.solids.move(self.state.t, t)
        parts.contacts.detect(self.state, h)
        parts.corrections.begin_step()

    def _correct(self, h: float) -> str | None:
        """Applies the filters of the scene. Returns why the candidate must be rejected, or None."""
        self.parts.corrections.clear()
        trouble = self.parts.contacts.correct(self.state, self.candidate, h)
        if trouble is not None:
            return trouble
        if not self.parts.filters:
            return None
        changes = self.changes()
        return self._too_much_stretch(changes, changes.lengthening, MAX_CORRECTED_STRETCH)

    def reject(self, solution: Solution) -> str | None:
        """Why the candidate of the integrator must be rejected, or None."""
        if not solution.converged:
            if np.isnan(solution.residual):
                return "the linear system could not be solved: a force or a matrix entry is not a finite number."
            found = f"residual {solution.residual:.2g} after {solution.iterations} iterations"
            return f"the linear solver stopped at {found} (solver.max_iterations, solver.tolerance)."
        if any(correction.limits_strain for correction in self.parts.filters):
            return None  # strain is judged after the filters
        changes = self.changes()
        if self.strain.leaves_few and self.parts.contacts.found:
            allowed = HOPELESS_STRETCH if changes.grown <= FEW_GROWN else MAX_STRETCH_CHANGE
            return self._too_much_stretch(changes, changes.lengthening, allowed)
        return self._too_much_stretch(changes, changes.stretch, MAX_STRETCH_CHANGE)

    def _too_much_stretch(self, changes: Changes, change: float, allowed: float) -> str | None:
        """Why stretch changed too much, or None."""
        if not np.isfinite(changes.stretch):
            change = np.inf
        if change <= allowed and (changes.excess <= self._max_excess or self.control.level >= MAX_EXCESS_HALVINGS):
            return None
        x_before, x = self.state.x.numpy(), self.candidate.x.numpy()
        bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if len(bad):
            return f"vertex {bad[0]} has no finite position."
        distance = np.linalg.norm(x - x_before, axis=1)
        worst = int(np.argmax(distance))
        return f"a triangle's stretch changed by {change:.2g}; vertex {worst} moved {distance[worst]:.2g} m in one step"

    def changes(self) -> Changes:
        """Measures the changes of stretch from the state to the candidate."""
        return self.strain.changes(self.state.x, self.candidate.x)

    def _next_event(self, frame_end: float) -> float:
        """Returns the end of the frame, or of a window of time before it: steps cross neither."""
        later = (time for time in self._windows if time > self.state.t + FRAME_ROUNDING * frame_end)
        return min([frame_end, *later])

    def _time_after(self, h: float, frame_end: float) -> float:
        """Returns the end of a step: frames end exactly at multiples of 1/fps, windows of time at their limits."""
        time, event = self.state.t + h, self._next_event(frame_end)
        return event if abs(event - time) < FRAME_ROUNDING * event else time


def _window(item: Plugin) -> list[float]:
    """Start and end of a plug-in that acts for a time only."""
    return [time for name in ("start", "end") if (time := getattr(item, name, None)) is not None]
