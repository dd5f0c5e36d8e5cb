"""Step control ([BW98] sec. 7): halving, growth after two successes, back-off to one try in 40, equal steps in a frame.

Failures are scripted, so counts are exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from toile.errors import StepFailed
from toile.linear.modified_pcg import Solution
from toile.model.state import State
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation
from toile.simulation.step_control import LAST_PATIENCE, StepControl


def steps_of(control: StepControl, works: Callable[[float], bool], count: int) -> list[tuple[float, bool]]:
    """(size, success) of a number of tries, without frames."""
    tries = []
    for _ in range(count):
        size = control.size
        good = works(size)
        tries.append((size, good))
        if good:
            control.succeeded(size)
        else:
            assert control.failed()
    return tries


def frames_of(
    control: StepControl, works: Callable[[float], bool], frame: float, count: int
) -> list[tuple[float, bool]]:
    """The same within frames, as in Simulation: every step fits the rest of its frame."""
    tries = []
    for number in range(count):
        t, end = number * frame, (number + 1) * frame
        while end - t > 1e-9 * frame:
            h = control.fit(end - t)
            while not works(h):
                tries.append((h, False))
                assert control.failed()
                h = min(0.5 * h, control.size)
            tries.append((h, True))
            control.succeeded(h)
            t += h
    return tries


def test_a_run_without_failures_takes_the_largest_step() -> None:
    assert steps_of(StepControl(0.02, 1e-5), lambda h: True, 5) == [(0.02, True)] * 5


def test_failures_halve_the_step_until_it_succeeds() -> None:
    tries = steps_of(StepControl(0.02, 1e-5), lambda h: h < 0.003, 4)
    assert tries == [(0.02, False), (0.01, False), (0.005, False), (0.0025, True)]


def test_growth_is_tried_after_two_successes() -> None:
    """One failure, then none: two small steps, and then the largest again."""
    failures = iter([False])
    tries = steps_of(StepControl(0.02, 1e-5), lambda h: next(failures, True), 5)
    assert tries == [(0.02, False), (0.01, True), (0.01, True), (0.02, True), (0.02, True)]


def test_growth_goes_level_by_level() -> None:
    """Three halvings are reversed one at a time; each larger step counts as the first of its two successes."""
    failures = iter([False] * 3)
    sizes = [size for size, good in steps_of(StepControl(0.08, 1e-5), lambda h: next(failures, True), 9) if good]
    assert sizes == [0.01, 0.01, 0.02, 0.02, 0.04, 0.04]


def test_patience_doubles_up_to_forty() -> None:
    """Steps above the middle of the range always fail: successes between two tries are 2, 4, 8, 16, 32, 40, 40, 40."""
    tries = steps_of(StepControl(0.02, 1e-5), lambda h: h <= 0.01, 400)
    waits, run = [], 0
    for _, good in tries[1:]:
        if good:
            run += 1
        else:
            waits.append(run)
            run = 0
    assert waits[:8] == [2, 4, 8, 16, 32, 40, 40, 40]
    assert set(waits[5:]) == {LAST_PATIENCE}


def test_success_at_the_larger_step_resets_the_patience() -> None:
    """After a long back-off, one successful try resets the patience to two."""
    control = StepControl(0.02, 1e-5)
    steps_of(control, lambda h: h <= 0.01, 1 + 2 + 1 + 4 + 1)
    assert control.patience == 8
    tries = steps_of(control, lambda h: True, 10)
    assert [size for size, _ in tries] == [0.01] * 8 + [0.02] * 2
    assert control.patience == 2


def test_a_step_below_the_minimum_fails() -> None:
    control = StepControl(0.02, 0.004)
    assert control.failed() and control.failed()  # 10 and 5 ms
    assert not control.failed()


@pytest.mark.parametrize("max_step", [0.02, 1.0 / 60.0, 1.0 / 30.0, 0.013, 0.1])
@pytest.mark.parametrize("level", [0, 1, 3])
def test_steps_divide_a_frame_evenly(max_step: float, level: int) -> None:
    """The fewest equal steps that the size allows; a size that divides the frame is kept, without a tiny last step."""
    frame = 1.0 / 30.0
    control = StepControl(max_step, 1e-6)
    control.level = level
    tries = []
    t = 0.0
    while frame - t > 1e-12:
        h = control.fit(frame - t)
        tries.append(h)
        t += h
    expected = max(1, math.ceil(frame / control.size - 1e-6))
    assert len(tries) == expected
    np.testing.assert_allclose(tries, frame / expected, rtol=1e-9)
    assert max(tries) <= control.size * (1.0 + 1e-8)


# Largest step and frame: a step that divides the frame, and ones that do not.
RHYTHMS = [(1.0 / 30.0, 1.0 / 30.0), (1.0 / 60.0, 1.0 / 30.0), (0.02, 1.0 / 30.0), (0.02, 0.05), (0.013, 1.0 / 24.0)]


@pytest.mark.parametrize(("max_step", "frame"), RHYTHMS)
@pytest.mark.parametrize("share", [0.9, 0.6, 0.3, 0.13])
def test_at_most_one_step_in_forty_is_rejected(max_step: float, frame: float, share: float) -> None:
    """The step of the user is always too large; after settling, at most every 41st try fails.

    Steps above `share` of the largest fail. Settling takes a hundred tries (2 + 4 + 8 + 16 + 32 and the failures).
    """
    tries = frames_of(StepControl(max_step, 1e-6), lambda h: h <= share * max_step, frame, 300)
    settled = [good for _, good in tries[150:]]
    assert len(settled) > 300
    assert settled.count(False) <= len(settled) / 40 + 1


SHEET: dict[str, Any] = {
    "time": {"frames": 4, "fps": 30.0, "max_step": 1.0 / 60.0},
    "cloth": [{"shape": {"type": "grid", "size": [0.3, 0.3], "resolution": [4, 4]}}],
    "constraints": [{"type": "pin", "where": {"corners": ["upper_left"]}}],
}


def sheet(**changes: Any) -> Scene:
    return Scene.model_validate({**SHEET, **changes})


class Scripted(Simulation):
    """A run in which all steps longer than `limit` are rejected."""

    limit = math.inf

    def __init__(self, scene: Scene, device: str):
        super().__init__(scene, device)
        step = self.integrator.step

        def noted(state: State, state_out: State, h: float) -> Solution:
            self.tried = h
            return step(state, state_out, h)

        self.integrator.step = noted  # type: ignore[method-assign]
        reject = self.loop.reject

        def scripted(solution: Solution) -> str | None:
            return reject(solution) if self.tried <= self.limit else "scripted: too long"

        self.loop.reject = scripted  # type: ignore[method-assign]


def test_rejected_steps_are_counted_and_change_nothing(device: str) -> None:
    """A run whose long steps are rejected is the run with short steps, and the certificate counts them."""
    run = Scripted(sheet(), device)
    run.limit = 1.0 / 100.0
    rejected = list(run.run())
    short = Simulation(sheet(time={"frames": 4, "fps": 30.0, "max_step": 1.0 / 120.0}), device)
    expected = list(short.run())
    entries = [frame.certificate for frame in rejected[1:]]
    # Tries at 1/60 s: at the start, then after 2, 4 and 8 accepted steps at 1/120 s; four of those are a frame.
    assert [entry["rejected"] for entry in entries if entry] == [2, 1, 0, 1]
    assert [entry["steps"] for entry in entries if entry] == [4, 4, 4, 4]
    assert [entry["h_max"] for entry in entries if entry] == pytest.approx([1.0 / 120.0] * 4)
    for one, other in zip(rejected, expected, strict=True):
        assert one.time == other.time
        np.testing.assert_allclose(one.positions, other.positions, rtol=0, atol=1e-9)


def test_frames_fall_on_multiples_of_the_frame_time(device: str) -> None:
    run = Simulation(sheet(time={"frames": 20, "fps": 24.0, "max_step": 0.013}), device)
    assert [frame.time for frame in run.run()] == [number / 24.0 for number in range(21)]


@pytest.mark.parametrize("max_iterations", [0, 1])
def test_a_step_that_fails_stops_the_run(max_iterations: int, device: str) -> None:
    """The message has the place, the reason and the relevant settings; the error has the state before the step."""
    solver = {"preconditioner": "block_jacobi", "max_iterations": max_iterations, "tolerance": 1e-9}
    run = Simulation(sheet(solver=solver), device)
    start = next(iter(run.run()))
    with pytest.raises(StepFailed) as failed:
        list(run.run())
    message = str(failed.value)
    assert re.match(r"StepFailed at t = 0 s \(frame 1\): the linear solver stopped at residual .* iterations", message)
    assert f"after {max_iterations} iterations" in message and "solver.max_iterations" in message
    assert failed.value.exit_code == 3 and failed.value.frame == 1 and failed.value.time == 0.0
    assert np.array_equal(failed.value.positions, start.positions)
    assert np.array_equal(failed.value.velocities, start.velocities)


def test_a_failure_has_the_last_accepted_state(device: str) -> None:
    """Failures from frame 3 on: the error has the cloth of frame 2, and the frames before it are complete."""
    run = Scripted(sheet(), device)
    frames = run.run()
    good = [next(frames) for _ in range(3)]
    run.limit = 0.0
    with pytest.raises(StepFailed, match=r"frame 3\)") as failed:
        next(frames)
    assert failed.value.time == pytest.approx(2.0 / 30.0)
    assert np.array_equal(failed.value.positions, good[2].positions)
    assert len(run.report()["frames"]) == 2 and run.report()["summary"]["ok"] is False


def test_a_drastic_change_of_stretch_rejects_a_step(device: str) -> None:
    """[BW98] sec. 7: a cloth that one large step would stretch drastically takes smaller steps.

    The change is so drastic that the linearizations that are added to the step do not help either.
    """
    energies = [{"type": "stretch", "limit_stiffness": 0.0}, "shear", "bend_mode"]
    cloth = [{**SHEET["cloth"][0], "energies": energies}]
    run = Simulation(sheet(time={"frames": 1, "fps": 10.0, "max_step": 0.1}, cloth=cloth), device)
    x = run.state.x.numpy()
    run.state.v.assign(120.0 * x + 240.0 * np.roll(x, 1, axis=1))
    entry = list(run.run())[-1].certificate
    assert entry is not None and entry["rejected"] >= 1 and entry["h_min"] < 0.1
