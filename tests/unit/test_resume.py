"""Runs that are stopped and resumed, extended or repeated leave the same files as a run without a break."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from resumed_runs import FRAMES, interruptible, results, scene_folder, simulate, stopped, uninterrupted_run  # noqa: F401  fixtures
from typer.testing import CliRunner

import toile.runs.checkpoint
from toile import plugins
from toile.cli import app
from toile.errors import InputError, StepFailed
from toile.model.frame import Frame
from toile.runs.run import Interrupted, run
from toile.scene.load import load
from toile.simulation.certificate import FrameTally
from toile.simulation.step import StepLoop, StepRejected


def test_a_resumed_run_writes_the_same_files(whole: dict[str, bytes | str]) -> None:
    assert sorted(whole) == [
        "cache.pc2", "drop.npz", "drop.usdc", "report.json", "rest.obj", "solids.obj", "solids.pc2"
    ]  # fmt: skip
    first = stopped("out", after=2)
    assert first.report["summary"]["frames"] == 2
    assert np.load("out/drop.npz")["positions"].shape[0] == 3, "it left a complete result"
    second = stopped("out", after=4, resume=True)
    assert second.resumed == 2
    assert second.report["stopped"] == "interrupted"
    seen: list[int] = []
    last = simulate("out", resume=True, progress=lambda frame: seen.append(frame.number))
    assert last.resumed == 4
    assert seen == list(range(FRAMES + 1)), "outputs and progress see every frame again"
    assert results("out") == whole


@pytest.mark.slow
def test_every_output_is_the_same_after_resuming() -> None:
    """To the last byte, including films and pictures."""
    outputs = f"outputs=[{', '.join(plugins.names('outputs'))}]"
    simulate("whole", outputs, frames=3)

    def stop(frame: Frame) -> None:
        if frame.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        simulate("out", outputs, frames=3, progress=stop)
    assert simulate("out", outputs, frames=3, resume=True).resumed == 2
    whole, resumed = results("whole"), results("out")
    assert list(whole) == list(resumed)
    assert [name for name in whole if whole[name] != resumed[name]] == []


def test_checkpoints_take_a_limited_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that advances by 0.1 s for frames and by 0.03 s for checkpoints."""
    now, saved = 0.0, []

    class Still:
        def identity(self) -> dict[str, Any]:
            return {"scene": {}, "files": {}}

        def state_dict(self) -> dict[str, np.ndarray]:
            return {"frame": np.array(number)}

    def save(path: Path, **state_dict: Any) -> None:
        nonlocal now
        now += 0.03
        saved.append(int(state_dict["frame"]))
        path.touch()

    monkeypatch.setattr(toile.runs.checkpoint.time, "perf_counter", lambda: now)
    monkeypatch.setattr(np, "savez", save)
    checkpoints = toile.runs.checkpoint.Checkpoints(tmp_path, Still())  # type: ignore[arg-type]
    checkpoints.begin()
    for number in range(1000):
        now += 0.1
        checkpoints.add(Frame(number, 0.1 * number, np.zeros((1, 3)), np.zeros((1, 3))))
    assert saved[:3] == [0, 30, 60]
    assert 0.03 * len(saved) <= 0.011 * now
    checkpoints.close()
    assert saved[-1] == 999, "whatever ends it, its last frame is there to go on from"


def test_resume_without_a_checkpoint_starts_a_run(whole: dict[str, bytes | str]) -> None:
    result = simulate("out", resume=True)
    assert result.resumed is None
    assert results("out") == whole


def test_a_complete_run_is_not_changed() -> None:
    before = simulate("out")
    times = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")}
    after = simulate("out", resume=True)
    assert after.written == []
    assert after.resumed == FRAMES
    assert after.report == before.report
    assert {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")} == times


def test_removed_results_are_written_again(whole: dict[str, bytes | str]) -> None:
    simulate("out")
    Path("out/report.json").unlink()
    assert simulate("out", resume=True).written
    assert results("out") == whole


def test_a_finished_run_is_extended(whole: dict[str, bytes | str]) -> None:
    simulate("out", frames=3)
    result = simulate("out", frames=FRAMES, resume=True)
    assert result.resumed == 3
    assert results("out") == whole
    with pytest.raises(InputError, match="already reached frame 6, and 4 are requested"):
        simulate("out", frames=4, resume=True)
    assert results("out") == whole


def test_a_large_run_keeps_nothing_for_more_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toile.runs.checkpoint, "MAX_KEPT", 1000)
    simulate("out", frames=2)
    assert sorted(path.name for path in Path("out/.resume").iterdir()) == ["complete.json", "run.json"]
    assert simulate("out", frames=2, resume=True).written == []
    with pytest.raises(InputError, match="too large to keep for more frames"):
        simulate("out", frames=3, resume=True)


def test_outputs_and_length_may_change() -> None:
    stopped("out", after=2)
    result = simulate("out", "outputs=[obj]", "time.frames=3", resume=True)
    assert result.resumed == 2
    assert len(list(Path("out/obj").iterdir())) == 4


def test_outputs_are_added_to_a_complete_run() -> None:
    simulate("out")
    assert simulate("out", "outputs=[npz, usd, obj]", resume=True).written
    assert len(list(Path("out/obj").iterdir())) == FRAMES + 1


@pytest.mark.parametrize("damage", ["checkpoint.npz", "frames", "run.json"])
def test_a_damaged_checkpoint_restarts_the_run(damage: str, whole: dict[str, bytes | str]) -> None:
    stopped("out", after=3)
    path = Path("out/.resume", damage)
    path.write_bytes(path.read_bytes()[:500])
    assert simulate("out", resume=True).resumed is None
    assert results("out") == whole


def test_frames_beyond_the_checkpoint_are_discarded(whole: dict[str, bytes | str]) -> None:
    """An incomplete frame is, too."""
    stopped("out", after=3)
    with Path("out/.resume/frames").open("ab") as file:
        file.write(b'{"number": 4, "time": 0.13')
    assert simulate("out", resume=True).resumed == 3
    assert results("out") == whole


def test_a_failed_run_fails_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = StepLoop.advance

    def failing(loop: StepLoop, end: float, tally: FrameTally) -> None:
        if loop.state.t > 2.99 / loop.scene.time.fps:
            raise StepRejected("it broke.", 0.01)
        advance(loop, end, tally)

    monkeypatch.setattr(StepLoop, "advance", failing)
    for resume in (False, True):
        with pytest.raises(StepFailed, match="frame 4") as failure:
            simulate("out", resume=resume)
        assert failure.value.frame == 4
    monkeypatch.undo()


def test_resume_needs_a_folder() -> None:
    with pytest.raises(InputError, match="resume needs the folder"):
        run(load("drop.yaml"), resume=True)


def test_the_command(whole: dict[str, bytes | str], monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["run", "drop.yaml", "--out", "out"]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/toile", *arguments])
    with monkeypatch.context() as stopping:
        add = toile.runs.checkpoint.Checkpoints.add

        def stop(checkpoints: Any, frame: Frame) -> None:
            add(checkpoints, frame)
            if frame.number == 2:
                raise KeyboardInterrupt

        stopping.setattr(toile.runs.checkpoint.Checkpoints, "add", stop)
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130
    assert "Resume with: toile run drop.yaml --out out --resume" in result.stderr
    again = CliRunner().invoke(app, [*arguments, "--resume"])
    assert again.exit_code == 0, again.output
    assert "out: resumed from frame 2." in again.stdout
    assert results("out") == whole
    complete = CliRunner().invoke(app, [*arguments, "--resume", "--json"])
    assert complete.exit_code == 0
    document = json.loads(complete.stdout)
    assert (document["resumed"], document["written"]) == (FRAMES, [])
    assert "already complete" in CliRunner().invoke(app, [*arguments, "--resume"]).stdout
    other = CliRunner().invoke(app, [*arguments, "--resume", "--set", "seed=2"])
    assert other.exit_code == 2
    assert "seed: 0 in that run, 2 in this one" in other.stderr
