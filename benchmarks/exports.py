"""Time and size of every output for 100 frames of 10,000 vertices: `python benchmarks/exports.py`.

Writes benchmarks/exports.json. The sheet is a smooth wave of 100 x 100 vertices. Time is measured from the first frame,
or from the folder of a run, to files that are complete and flushed to disk; `processor` is the time of this process and
its children, which depends less on other load. Pictures and films are ray-traced, and timed for five frames.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from results import record

from toile import plugins
from toile.model.frame import Frame, Part, Surface
from toile.outputs.base import Output
from toile.outputs.pc2 import Pc2
from toile.runs.folder import export_run

SIDE, FRAMES, FPS = 100, 100, 30.0
REPEATS = 5
DRAWN = ("picture", "pictures", "video", "gif")
FRAMES_DRAWN = 5
FORMATS = [name for name in plugins.names("outputs") if name not in DRAWN]


def sheet() -> Surface:
    u, v = np.meshgrid(np.linspace(0.0, 1.0, SIDE), np.linspace(0.0, 1.0, SIDE), indexing="xy")
    uv = np.column_stack([u.ravel(), v.ravel()])
    a = (np.arange(SIDE - 1)[:, None] * SIDE + np.arange(SIDE - 1)).ravel()
    lower, upper = np.stack([a, a + 1, a + SIDE], 1), np.stack([a + 1, a + SIDE + 1, a + SIDE], 1)
    triangles = np.concatenate([lower, upper]).astype(np.int32)
    rest = np.column_stack([uv, np.ones(len(uv))])
    return Surface(triangles, uv[triangles], rest, (Part("sheet", slice(0, len(uv)), slice(0, len(triangles))),), FPS)


def wave(surface: Surface, count: int) -> list[Frame]:
    """Positions with the precision of the cache."""
    x, y = surface.rest[:, 0], surface.rest[:, 1]
    frames = []
    for k in range(count):
        t = k / FPS
        phase = 7.0 * x + 5.0 * y - 4.0 * t
        up = np.column_stack([0.02 * np.sin(phase), 0.0 * x, 0.1 * np.sin(phase)])
        speed = np.column_stack([-0.08 * np.cos(phase), 0.0 * x, -0.4 * np.cos(phase)])
        frames.append(Frame(k, t, (surface.rest + up).astype(np.float32).astype(np.float64), speed))
    return frames


def exports() -> dict[str, Any]:
    """Seconds and megabytes of each output during a run, the best of five."""
    surface = sheet()
    found: dict[str, Any] = {}
    for name in plugins.names("outputs"):
        frames = wave(surface, FRAMES_DRAWN if name in DRAWN else FRAMES)
        runs = [written(name, surface, frames) for _ in range(2 if name in DRAWN else REPEATS)]
        found[name] = {
            "frames": len(frames),
            "seconds": round(min(seconds for seconds, _, _ in runs), 3),
            "processor": round(min(processor for _, processor, _ in runs), 3),
            "megabytes": round(runs[0][2] / 1e6, 2),
        }
    return found


def from_a_folder() -> dict[str, Any]:
    """Seconds of `toile export` within Python, including reading the folder of the run, the best of five."""
    surface = sheet()
    folder = Path(tempfile.mkdtemp())
    try:
        writer = Pc2().writer(folder / "run", "wave", surface)
        for frame in wave(surface, FRAMES):
            writer.write(frame)
        writer.close()
        return {name: round(min(exported(folder, name) for _ in range(REPEATS)), 3) for name in FORMATS}
    finally:
        shutil.rmtree(folder)


def exported(folder: Path, name: str) -> float:
    begin = time.perf_counter()
    export_run(folder / "run", [name], folder / "out")
    taken = time.perf_counter() - begin
    shutil.rmtree(folder / "out")
    return taken


def written(name: str, surface: Surface, frames: list[Frame]) -> tuple[float, float, float]:
    """Seconds from the first frame to complete files, processor seconds, and bytes."""
    folder = Path(tempfile.mkdtemp())
    try:
        output = plugins.find("outputs", name)()
        assert isinstance(output, Output)
        begin, worked = time.perf_counter(), sum(os.times()[:4])
        writer = output.writer(folder, "wave", surface)
        for frame in frames:
            writer.write(frame)
        paths = writer.close()
        seconds, processor = time.perf_counter() - begin, sum(os.times()[:4]) - worked
        return seconds, processor, float(sum(path.stat().st_size for path in paths))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    record(Path(__file__).with_suffix(".json"), [exports, from_a_folder])
