"""Runs that are killed at any moment resume and leave the same files as a run without a break."""

from __future__ import annotations

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
from resumed_runs import interruptible, results, scene_folder, simulate, uninterrupted_run  # noqa: F401  fixtures

import toile.runs.checkpoint

# Calls by which a run changes files; it is killed before one of them, and then resumed.
CALLS = (
    (os, "replace"), (os, "fsync"), (os, "unlink"), (np, "savez"), (os, "mkdir"), (toile.runs.checkpoint, "_append"),
)  # fmt: skip


def counted(action: Callable[[int], None]) -> None:
    """Calls `action` with a count before each of them, in this process from now on."""
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
    """Runs `body` in a copy of this process, where kernels are already loaded, and returns its status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of this process hold no locks at this point
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
    """A run that is killed without cleanup, with a checkpoint at every frame."""

    def body() -> None:
        toile.runs.checkpoint.SHARE = np.inf
        counted(lambda count: os.kill(os.getpid(), signal.SIGKILL) if count == call else None)
        simulate(folder, resume=True)

    assert os.WIFSIGNALED(in_a_fork(body))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither fork nor SIGKILL")
@pytest.mark.parametrize("moments", [pytest.param(4, id="four"), pytest.param(20, id="twenty", marks=pytest.mark.slow)])
def test_a_run_killed_while_it_writes_resumes(moments: int, whole: dict[str, bytes | str]) -> None:
    """Before one of the calls that change files, chosen at random; the last ones are those of the outputs."""
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


def test_a_run_killed_three_times_resumes(whole: dict[str, bytes | str]) -> None:
    """The command, three times at a random time after its first frame, and then to the end."""
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
def test_runs_killed_at_twenty_times_resume() -> None:
    """At random times between the start of the process and its end."""
    begin = time.perf_counter()
    subprocess.run(command("whole"), check=True, stderr=subprocess.DEVNULL)
    duration, whole = time.perf_counter() - begin, results("whole")
    moments = random.Random(2)
    for k in range(20):
        folder = f"killed_{k}"
        killed_after(moments.uniform(0.0, duration), folder)
        subprocess.run(command(folder, "--resume"), check=True, stderr=subprocess.DEVNULL)
        assert results(folder) == whole
