"""The live simulation without a browser: commands, real time, and the rate of drawing."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from live_runs import handled, sheet, until

from toile.scene.load import load
from toile.simulation.simulation import Simulation
from toile.viewer.live.draw_rate import MAX_RATE, MIN_RATE, DrawRate
from toile.viewer.live.live_simulation import LiveSimulation
from toile.viewer.live.panel import status
from toile.viewer.live.real_time import MAX_LAG, RealTimePacer
from toile.viewer.live.scene_edits import with_value
from toile.viewer.live.snapshot import FAILED, PAUSED, RUNNING


class TestCommands:
    def test_it_runs_pauses_steps_and_begins_anew(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet())
        assert until(live, lambda view: view.frame >= 3).state == RUNNING
        live.pause()
        paused = until(live, lambda view: view.state == PAUSED)
        live.step()
        live.step()
        stepped = until(live, lambda view: view.frame >= paused.frame + 2)
        time.sleep(0.2)
        assert (live.snapshot.frame, live.snapshot.state) == (paused.frame + 2, PAUSED)
        assert stepped.time == pytest.approx(stepped.frame / 30.0)
        live.restart()
        anew = until(live, lambda view: view.build > stepped.build)
        assert (anew.frame, anew.state) == (0, PAUSED)
        assert anew.surface is not None
        np.testing.assert_allclose(anew.positions, anew.surface.rest, atol=1e-6)
        live.play()
        assert until(live, lambda view: view.frame >= 1).state == RUNNING

    def test_frames_are_those_of_a_run(self, start: Callable[..., LiveSimulation], device: str) -> None:
        live = start(sheet(), running=False)
        for _ in range(4):
            live.step()
        seen = until(live, lambda view: view.frame == 4)
        *_, frame = Simulation(sheet(), device).run(4)
        np.testing.assert_allclose(seen.positions, frame.positions, atol=1e-6)  # float32
        assert seen.entry is not None
        assert seen.entry["frame"] == 4

    def test_a_scene_that_cannot_be_opened_changes_nothing(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet(), title="mine")
        before = until(live, lambda view: view.frame >= 1)
        view = handled(live, live.open(lambda: load("hagn"), "hagn"))
        assert "hang" in view.message
        assert (view.title, view.scene, view.build) == ("mine", before.scene, before.build)
        assert until(live, lambda later: later.frame > view.frame).state == RUNNING

    def test_a_first_scene_that_cannot_be_built_is_reported(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet("integrator=explicit_euler"))
        failed = until(live, lambda view: view.state == FAILED)
        assert "max_step" in failed.message
        assert failed.surface is None
        view = handled(live, live.open(lambda: sheet(), "sheet"))
        assert (view.state, view.message, view.title) == (RUNNING, "", "sheet")

    def test_a_step_that_fails_stops_it_until_something_is_changed(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet("solver.max_iterations=0", "solver.preconditioner=diagonal", "time.min_step=0.01"))
        failed = until(live, lambda view: view.state == FAILED)
        assert failed.message.startswith("StepFailed at t = 0 s")
        live.play()
        time.sleep(0.1)
        assert live.snapshot.state == FAILED
        view = handled(live, live.change(lambda scene: with_value(scene, ("solver", "max_iterations"), 2000)))
        assert (view.state, view.message) == (RUNNING, "")
        assert until(live, lambda later: later.frame >= 2).state == RUNNING

    def test_what_no_scene_is_to_blame_for_is_reported_too(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet())
        view = handled(live, live.change(lambda scene: scene.nonsense))
        assert view.message.startswith("AttributeError")
        assert until(live, lambda later: later.frame > view.frame).state == RUNNING

    def test_only_the_latest_frame_is_kept(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet("time.fps=1000", "time.max_step=0.001"))
        until(live, lambda view: view.frame >= 50)
        assert live._simulation is not None
        assert len(live._simulation.certificate.frames) <= 1


class TestRealTime:
    def test_frames_begin_when_they_are_due(self) -> None:
        now = [0.0]
        pace = RealTimePacer(lambda: now[0])
        for frame in range(1, 100):
            now[0] += 0.01
            assert pace.frame_done(0.04) == pytest.approx(0.04 * frame)
            now[0] = 0.04 * frame
        assert pace.speed == pytest.approx(1.0)

    def test_what_takes_too_long_is_reported_and_not_caught_up_with(self) -> None:
        now = [0.0]
        pace = RealTimePacer(lambda: now[0])
        for _ in range(100):
            now[0] += 0.1
            assert pace.frame_done(0.04) >= now[0] - MAX_LAG
        assert pace.speed == pytest.approx(0.4)
        pace.start()  # after a pause, which is not slowness
        assert pace.speed == 1.0

    def test_slow_frames_among_fast_ones_are_real_time_still(self) -> None:
        """30 and 45 ms in turn are 37.5 ms on average."""
        now = [0.0]
        pace = RealTimePacer(lambda: now[0])
        for frame in range(200):
            now[0] += 0.045 if frame % 2 else 0.030
            now[0] = max(now[0], pace.frame_done(0.04))
        assert pace.speed > 0.99

    def test_it_is_not_faster_than_real_time(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet())
        begin = until(live, lambda view: view.frame >= 1)
        clock = time.perf_counter()
        end = until(live, lambda view: view.frame >= begin.frame + 20)
        # One frame may have been due at once, and up to MAX_LAG is caught up with.
        assert end.time - begin.time <= time.perf_counter() - clock + MAX_LAG + 2.0 / 30.0

    def test_words(self, start: Callable[..., LiveSimulation]) -> None:
        live = start(sheet(), running=False)
        live.step()
        view = until(live, lambda view: view.frame == 1)
        messages = status(view)
        assert "slower" not in messages
        assert "ms per frame" in messages


class TestDrawRate:
    def test_it_gives_way_to_the_simulation_and_comes_back(self) -> None:
        """A machine on which the simulation keeps real time up to 18 drawings a second."""
        rate, found = DrawRate(), []
        for second in range(60):
            rate.adapt(min(1.0, 18.0 / rate.rate), float(second))
            found.append(rate.rate)
        assert all(13.0 <= value <= 21.0 for value in found[10:])
        for second in range(60, 100):
            rate.adapt(0.3, float(second))
        assert rate.rate == MIN_RATE
        for second in range(100, 130):
            rate.adapt(1.0, float(second))
        assert rate.rate == MAX_RATE
