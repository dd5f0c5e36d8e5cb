"""Times scenes as [BW98] table 1 does, and measures how the time of a frame grows with the number of particles.

Times of different machines are hard to compare; shares, steps and the exponent can be compared with the paper, which
has 63.6 % CG and 17.9 % EVAL for its hanging sheet, and an exponent of 1.43 from 500 to 7,359 particles.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from toile.scene.load import load
from toile.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toile.model.frame import Frame
    from toile.scene.schema import Scene

# Grids with about the paper's numbers of particles: 500, 899, 2,602 and 7,359.
GROWTH = ((20, 25), (29, 31), (51, 51), (86, 86))
GROWTH_FRAMES = 12

STAGES = ("EVAL", "CG", "C/C", "C/S")


def measure(scene: Scene, frames: int | None = None, progress: Callable[[Frame], None] | None = None) -> dict[str, Any]:
    """Runs a scene without outputs, and returns the wall time per frame and the shares of the stages.

    `progress` is called with every frame.
    """
    simulation = Simulation(scene)
    running = simulation.run(frames)
    next(running)
    times = []
    begin = time.perf_counter()
    for frame in running:
        times.append(1e3 * (time.perf_counter() - begin))
        if progress is not None:
            progress(frame)
        begin = time.perf_counter()
    report = simulation.report()
    entries = report["frames"][1:]  # the first frame loads kernels
    total = sum(times[1:]) or 1.0
    return {
        "scene": scene.name,
        "particles": simulation.model.particle_count,
        "triangles": simulation.model.triangle_count,
        "frames": report["summary"]["frames"],
        "steps": report["summary"]["steps"],
        "rejected": report["summary"]["rejected"],
        "h_min": min((entry["h_min"] for entry in report["frames"]), default=0.0),
        "h_max": max((entry["h_max"] for entry in report["frames"]), default=0.0),
        "ms_per_frame": float(np.median(times[1:])) if len(times) > 1 else 0.0,
        "shares": {stage: sum(entry["ms"][stage] for entry in entries) / total for stage in STAGES},
        "max_strain": report["summary"]["max_strain"],
    }


def growth(
    sizes: Sequence[tuple[int, int]] = GROWTH,
    frames: int = GROWTH_FRAMES,
    progress: Callable[[tuple[int, int]], Callable[[Frame], None]] | None = None,
) -> tuple[list[dict], float]:
    """Times the hanging sheet at several resolutions, and fits the exponent p of time ~ n^p.

    `progress` is called with each resolution, and returns the function that is called with its frames.
    """
    rows = []
    for resolution in sizes:
        scene = load("hang", overrides=[f"cloth[0].shape.resolution={list(resolution)}", "outputs=[]"])
        rows.append(measure(scene, frames, progress(resolution) if progress is not None else None))
    slope = np.polyfit(np.log([row["particles"] for row in rows]), np.log([row["ms_per_frame"] for row in rows]), 1)[0]
    return rows, float(slope)
