"""An export that is killed at any moment leaves complete files or none, and the next one cleans up."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from toile.model.frame import Frame, Part, Surface
from toile.outputs.pc2 import Pc2
from toile.runs.folder import export_run

KILLS = 20
FRAMES = 12
FORMATS = ["glb", "ply", "obj", "npz", "usd", "alembic"]  # the same bytes every time


def run(folder: Path) -> Path:
    side = 60
    uv = np.array([[i, j] for j in range(side) for i in range(side)], float) / side
    a = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    triangles = np.concatenate([np.stack([a, a + 1, a + side], 1), np.stack([a + 1, a + side + 1, a + side], 1)])
    rest = np.column_stack([uv, np.ones(len(uv))])
    part = Part("sheet", slice(0, len(uv)), slice(0, len(triangles)))
    surface = Surface(triangles.astype(np.int32), uv[triangles], rest, (part,), 30.0)
    writer = Pc2().writer(folder, "sheet", surface)
    for k in range(FRAMES):
        writer.write(Frame(k, k / 30.0, rest + 0.01 * k, 0.0 * rest))
    writer.close()
    return folder


def visible(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(".")}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_killed_at_any_moment(tmp_path: Path) -> None:
    pytest.importorskip("pxr")
    formats = [name for name in FORMATS if name != "alembic" or _has_alembic()]
    folder = run(tmp_path / "run")
    complete = {
        name: visible(tmp_path / "complete" / name)
        for name in formats if export_run(folder, [name], tmp_path / "complete" / name)
    }  # fmt: skip
    whole = {name: data for files in complete.values() for name, data in files.items()}
    script = (
        "import sys; from toile.runs.folder import export_run\n"
        "print('ready', flush=True)\n"
        "export_run(sys.argv[1], sys.argv[3:], sys.argv[2])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(folder), str(tmp_path / "out"), *formats]
    begin = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    longest = time.monotonic() - begin
    moments = random.Random(1)
    for _ in range(KILLS):
        for path in sorted((tmp_path / "out").rglob("*"), reverse=True):
            if not path.relative_to(tmp_path / "out").parts[0].startswith("."):  # what is hidden stays as it was left
                path.rmdir() if path.is_dir() else path.unlink()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(moments.uniform(0.0, longest))
        process.kill()
        process.wait()
        process.stdout.close()
        found = visible(tmp_path / "out")
        for files in complete.values():
            there = set(files) & set(found)
            assert there in (set(), set(files))  # all frames of a sequence, or none
        assert all(whole[name] == data for name, data in found.items())
    export_run(folder, formats, tmp_path / "out")
    assert visible(tmp_path / "out") == whole
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


def _has_alembic() -> bool:
    import importlib.util

    return importlib.util.find_spec("alembic3d") is not None
