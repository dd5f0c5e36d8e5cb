"""A small scene in which two cloths fall on a moving ball: runs of it, stopped runs of it, and the files they leave."""

from __future__ import annotations

import json
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest

from toile.model.frame import Frame
from toile.runs.run import Interrupted, RunResult, run
from toile.scene.load import load

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


def write_scene(folder: Path) -> None:
    (folder / "drop.yaml").write_text(SCENE)
    (folder / "rag.obj").write_text(RAG)


def simulate(folder: str, *changes: str, **options: Any) -> RunResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(load("drop.yaml", overrides=changes), folder, **options)


def stopped(folder: str, after: int, **options: Any) -> RunResult:
    """A run that is interrupted after a number of frames."""

    def stop(frame: Frame) -> None:
        if frame.number == after:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stop_of:
        simulate(folder, progress=stop, **options)
    return stop_of.value.result


def results(folder: str) -> dict[str, bytes | str]:
    """The contents of every file of a run; the certificate without times."""
    found: dict[str, bytes | str] = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and ".resume" not in path.parts:
            found[str(path.relative_to(folder))] = path.read_bytes()
    report = json.loads(found["report.json"])
    del report["summary"]["ms_per_frame"]
    for entry in report["frames"]:
        del entry["ms"]
    return {**found, "report.json": json.dumps(report)}


# Fixtures. A test module imports all of them: every test then runs in its own folder with the scene in it.


@pytest.fixture(autouse=True)
def scene_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pxr")
    monkeypatch.chdir(tmp_path)
    write_scene(tmp_path)


@pytest.fixture(autouse=True)
def interruptible() -> Any:
    """Restores Ctrl-C, which is ignored where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(name="whole", scope="module")
def uninterrupted_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | str]:
    """The files of a run without a break."""
    folder = tmp_path_factory.mktemp("whole")
    write_scene(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        simulate("out")
        return results("out")
    finally:
        os.chdir(before)
