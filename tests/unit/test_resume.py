"""Runs that are stopped, killed, extended or refused: what comes out is what would have come out without a break."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import toile.runs.checkpoint
from toile import plugins
from toile.cli import app
from toile.errors import InputError, StepFailed
from toile.model.frame import Frame
from toile.runs.run import Interrupted, RunResult, run
from toile.scene.load import load
from toile.simulation.certificate import FrameTally
from toile.simulation.step import StepLoop, StepRejected

FRAMES = 6
SCENE = """\
version: 1
name: drop
time: {frames: 6, fps: 30}
cloth:
  - {name: sheet, shape: {type: grid, size: [0.4, 0.4], resolution: [8, 8]}, translation: [0, 0, 0.21], fabric: cotton}
  - {name: rag, shape: {type: mesh, file: rag.obj}, translation: [0, 0, 0.23], fabric: cotton}
solids:
  - type: sphere
    radius: 0.2
    motion: {keyframes: [{time: 0}, {time: 0.3, translation: [0.05, 0, 0]}]}
filters: [{type: self_contact, thickness: 0.005}]
outputs: [npz, usd]
"""
RAG = "v -0.1 -0.1 0\nv 0.1 -0.1 0\nv 0.1 0.1 0\nv -0.1 0.1 0\nf 1 2 3\nf 1 3 4\n"


@pytest.fixture(autouse=True)
def scene_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("pxr")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drop.yaml").write_text(SCENE)
    (tmp_path / "rag.obj").write_text(RAG)
    return tmp_path / "drop.yaml"


@pytest.fixture(autouse=True)
def interruptible() -> Any:
    """Also where the tests themselves run in the background, and were started deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def simulate(folder: str, *changes: str, **options: Any) -> RunResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(load("drop.yaml", overrides=changes), folder, **options)


def stopped(folder: str, after: int, **options: Any) -> RunResult:
    """A run that is interrupted when it has so many frames."""

    def stop(frame: Frame) -> None:
        if frame.number == after:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stop_of:
        simulate(folder, progress=stop, **options)
    return stop_of.value.result


def results(folder: str) -> dict[str, bytes | str]:
    """Every file that a run leaves. Of the certificate all but times."""
    found: dict[str, bytes | str] = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and ".resume" not in path.parts:
            found[str(path.relative_to(folder))] = path.read_bytes()
    report = json.loads(found["report.json"])
    del report["summary"]["ms_per_frame"]
    for entry in report["frames"]:
        del entry["ms"]
    return {**found, "report.json": json.dumps(report)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | str]:
    """What a run without a break leaves."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "drop.yaml").write_text(SCENE)
    (folder / "rag.obj").write_text(RAG)
    before = Path.cwd()
    os.chdir(folder)
    try:
        simulate("out")
        return results("out")
    finally:
        os.chdir(before)


def test_a_run_that_was_stopped_goes_on_to_the_same_files(whole: dict[str, bytes | str]) -> None:
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
def test_every_output_is_the_same_after_a_break() -> None:
    """To the last byte, films and pictures too."""
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


def test_checkpoints_take_a_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves for frames of 0.1 s and for checkpoints of 0.03 s, and for nothing else."""
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


def test_where_there_is_nothing_a_run_begins(whole: dict[str, bytes | str]) -> None:
    result = simulate("out", resume=True)
    assert result.resumed is None
    assert results("out") == whole


def test_a_complete_run_is_left_alone() -> None:
    before = simulate("out")
    times = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")}
    after = simulate("out", resume=True)
    assert after.written == []
    assert after.resumed == FRAMES
    assert after.report == before.report
    assert {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")} == times


def test_results_that_were_removed_are_made_again(whole: dict[str, bytes | str]) -> None:
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


def test_other_outputs_and_another_length_are_no_other_run() -> None:
    stopped("out", after=2)
    result = simulate("out", "outputs=[obj]", "time.frames=3", resume=True)
    assert result.resumed == 2
    assert len(list(Path("out/obj").iterdir())) == 4


def test_outputs_are_added_to_a_complete_run() -> None:
    simulate("out")
    assert simulate("out", "outputs=[npz, usd, obj]", resume=True).written
    assert len(list(Path("out/obj").iterdir())) == FRAMES + 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("gravity=[0,0,-9]", r"gravity\[2\]: -9.81 in that run, -9.0 in this one"),
        ("cloth[0].fabric=denim", 'cloth.0..fabric.name: "cotton" in that run, "denim" in this one'),
        ("filters[0].thickness=0.004", r"filters\[0\].thickness: 0.005 in that run, 0.004 in this one"),
        ("solids[0].motion.keyframes[1].time=0.4", r"solids\[0\].motion.keyframes\[1\].time: 0.3 in that run, 0.4 in this one"),
        ("forces=[drag]", r'forces: \[\] in that run, \[\{"type": "drag".* in this one'),
        ("seed=4", "seed: 0 in that run, 4 in this one"),
    ],
)
def test_another_scene_is_refused(change: str, said: str) -> None:
    stopped("out", after=1)
    before = results("out")
    with pytest.raises(InputError, match=f"out: holds another run[^$]*{said}"):
        simulate("out", change, resume=True)
    assert results("out") == before
    assert simulate("out", resume=True).resumed == 1


def test_another_file_is_refused(tmp_path: Path) -> None:
    stopped("out", after=1)
    (tmp_path / "rag.obj").write_text(RAG.replace("v 0.1 0.1 0", "v 0.1 0.12 0"))
    with pytest.raises(InputError, match="cloth: the files that it is read from have changed"):
        simulate("out", resume=True)


@pytest.mark.parametrize("what", ["precision", "device", "toile", "audit"])
def test_another_way_of_computing_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped("out", after=1)
    identity = toile.Simulation.identity
    monkeypatch.setattr(toile.Simulation, "identity", lambda simulation: {**identity(simulation), what: "another"})
    with pytest.raises(InputError, match=f'{what}: ".*" in that run, "another" in this one'):
        simulate("out", resume=True)


def test_a_run_without_resume_forgets_what_was_there(whole: dict[str, bytes | str]) -> None:
    stopped("out", after=3)
    stopped("out", after=1)
    assert simulate("out", resume=True).resumed == 1
    simulate("out", "seed=4")
    simulate("out")
    assert results("out") == whole


def test_a_run_that_cannot_begin_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one whose output needs what is not installed."""
    stopped("out", after=3)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pxr", None)
        with pytest.raises(InputError, match="usd-core"):
            simulate("out")
    assert simulate("out", resume=True).resumed == 3


@pytest.mark.parametrize("damage", ["checkpoint.npz", "frames", "run.json"])
def test_what_cannot_be_read_is_begun_again(damage: str, whole: dict[str, bytes | str]) -> None:
    stopped("out", after=3)
    path = Path("out/.resume", damage)
    path.write_bytes(path.read_bytes()[:500])
    assert simulate("out", resume=True).resumed is None
    assert results("out") == whole


def test_frames_beyond_the_checkpoint_are_forgotten(whole: dict[str, bytes | str]) -> None:
    """Also half of one."""
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


def test_a_folder_is_needed() -> None:
    with pytest.raises(InputError, match="resume needs the folder"):
        run(load("drop.yaml"), resume=True)


def test_the_command(whole: dict[str, bytes | str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["run", "drop.yaml", "--out", "out"]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/toile", *words])
    with monkeypatch.context() as stopping:
        add = toile.runs.checkpoint.Checkpoints.add

        def stop(checkpoints: Any, frame: Frame) -> None:
            add(checkpoints, frame)
            if frame.number == 2:
                raise KeyboardInterrupt

        stopping.setattr(toile.runs.checkpoint.Checkpoints, "add", stop)
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 130
    assert "Resume with: toile run drop.yaml --out out --resume" in result.stderr
    again = CliRunner().invoke(app, [*words, "--resume"])
    assert again.exit_code == 0, again.output
    assert "out: resumed from frame 2." in again.stdout
    assert results("out") == whole
    complete = CliRunner().invoke(app, [*words, "--resume", "--json"])
    assert complete.exit_code == 0
    document = json.loads(complete.stdout)
    assert (document["resumed"], document["written"]) == (FRAMES, [])
    assert "already complete" in CliRunner().invoke(app, [*words, "--resume"]).stdout
    other = CliRunner().invoke(app, [*words, "--resume", "--set", "seed=2"])
    assert other.exit_code == 2
    assert "seed: 0 in that run, 2 in this one" in other.stderr


# What a run does to files; it is killed before one of these calls, and then goes on.
CALLS = (
    (os, "replace"), (os, "fsync"), (os, "unlink"), (np, "savez"), (os, "mkdir"), (toile.runs.checkpoint, "_append"),
)  # fmt: skip


def counted(action: Callable[[int], None]) -> None:
    """`action` is called with a count before each of them, in this process and for good."""
    count = 0

    def before(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            action(count)
            return call(*arguments, **options)

        return counting

    for module, name in CALLS:
        setattr(module, name, before(getattr(module, name)))


def in_a_fork(body: Callable[[], None]) -> int:
    """Run in a copy of this process, where kernels are loaded already; how that ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of this process hold no locks now
        child = os.fork()
    if child == 0:
        try:
            body()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def file_calls_of_a_run() -> int:
    def body() -> None:
        counted(lambda count: Path("count").write_text(str(count)))
        simulate("counted")

    in_a_fork(body)
    shutil.rmtree("counted")
    return int(Path("count").read_text())


def killed_at(call: int, folder: str) -> None:
    """A run that no clean-up follows, with a checkpoint at every frame."""

    def body() -> None:
        toile.runs.checkpoint.SHARE = np.inf
        counted(lambda count: os.kill(os.getpid(), signal.SIGKILL) if count == call else None)
        simulate(folder, resume=True)

    assert os.WIFSIGNALED(in_a_fork(body))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("moments", [pytest.param(4, id="four"), pytest.param(20, id="twenty", marks=pytest.mark.slow)])
def test_killed_while_it_writes(moments: int, whole: dict[str, bytes | str]) -> None:
    """Before one of the calls that change files, chosen at random: the last ones are those of the outputs."""
    calls = file_calls_of_a_run()
    assert calls > 60
    for call in random.Random(moments).sample(range(1, calls + 1), moments):
        folder = f"killed_{call}"
        killed_at(call, folder)
        simulate(folder, resume=True)
        assert results(folder) == whole, f"killed before call {call} of {calls}"
        assert [path.name for path in Path(folder).iterdir() if path.name.startswith(".")] == [".resume"]
        shutil.rmtree(folder)


def command(folder: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "toile", "run", "drop.yaml", "--out", folder, "--quiet", *more]


def killed_after(seconds: float, folder: str) -> None:
    process = subprocess.Popen(command(folder, "--resume"), stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def test_killed_and_resumed_again_and_again(whole: dict[str, bytes | str]) -> None:
    """The command itself, three times at any moment after its first frame, and then to the end."""
    moments = random.Random(1)
    for _ in range(3):
        process = subprocess.Popen(command("out", "--resume"), stderr=subprocess.DEVNULL)
        while process.poll() is None and not Path("out/.resume/checkpoint.npz").exists():
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.3))
        process.kill()
        process.wait()
    subprocess.run(command("out", "--resume"), check=True, stderr=subprocess.DEVNULL)
    assert results("out") == whole


@pytest.mark.slow
def test_killed_at_twenty_moments() -> None:
    """Any time from the start of the process to its end."""
    begin = time.perf_counter()
    subprocess.run(command("whole"), check=True, stderr=subprocess.DEVNULL)
    duration, whole = time.perf_counter() - begin, results("whole")
    moments = random.Random(2)
    for k in range(20):
        folder = f"killed_{k}"
        killed_after(moments.uniform(0.0, duration), folder)
        subprocess.run(command(folder, "--resume"), check=True, stderr=subprocess.DEVNULL)
        assert results(folder) == whole
