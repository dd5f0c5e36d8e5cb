"""The suite: the same scenes at growing sizes, each in a process of its own, and how the time of a frame grows.

    p = slope of log ms against log n, by least squares;    steepest = the largest slope between neighbors

Scenes that had not the time for all of their frames are compared over frames that all sizes ran.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from toile.bench.case import SCENES, Case
from toile.errors import InputError

Row = dict[str, Any]

SIZES = {"cpu": (2_600, 10_000, 40_000, 160_000), "cuda": (2_600, 10_000, 40_000, 160_000, 1_000_000)}
# Vertices of a run that loads all kernels of a scene
SMALL = 300
# Below this, what a step costs whatever its size takes part of the time.
GROWTH_FROM = 10_000
# Sizes whose times are compared are so many times apart.
FARTHER = 2.0


def cases(
    device: str,
    scenes: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    threads: int | None = None,
    budget: float = Case.budget,
    frames: int | None = None,
) -> list[Case]:
    """The small ones first: what is cut short has them."""
    for name in scenes or ():
        if name not in SCENES:
            raise InputError(f'the suite has no scene "{name}": choose from {", ".join(SCENES)}.')
    return [
        Case(scene, size, device, threads, budget, frames)
        for size in sizes or SIZES[device]
        for scene in scenes or SCENES
    ]


def measured(case: Case, progress: Callable[[int, int], None] | None = None) -> Row:
    """The row of a case; one that ends in another way says so. `progress` gets each frame's number, and the last's."""
    command = [sys.executable, "-m", "toile.bench.case", json.dumps(asdict(case))]
    row = None
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
    ):
        assert child.stdout is not None
        try:
            for line in child.stdout:
                if not line.startswith("{"):  # what a library prints
                    continue
                found = json.loads(line)
                row = found.get("row", row)
                if progress is not None and "frame" in found:
                    progress(found["frame"], found["last"])
            code = child.wait()
        except BaseException:
            child.kill()
            raise
        errors.seek(0)
        last_words = errors.read().strip().splitlines()[-1:]
    if row is None:
        # What Linux does to a process when there is no memory left
        why = "out of memory" if code == -9 else last_words[0] if last_words else f"ended with {code}"
        row = {"scene": case.scene, "size": case.size, "device": case.device, "failed": why}
    return row


def prepare(scene: str, device: str) -> None:
    """A small run of the whole scene: kernels that are not in Warp's cache are compiled when they are first needed, in
    the middle of a scene, and would be timed.
    """
    measured(Case(scene, SMALL, device, frames=SCENES[scene].last))


def growth(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Of rows of one scene: the exponent, over which frames and sizes; None if there are fewer than two sizes at which
    the scene had come to what it is for."""
    timed = apart(sorted((row for row in rows if row.get("begun")), key=lambda row: row["vertices"]))
    large = [row for row in timed if row["size"] >= GROWTH_FROM]
    timed = large if len(large) > 1 else timed
    if len(timed) < 2:
        return None
    first, last = min((row["window"] for row in timed), key=lambda window: window[1])
    n = np.log([row["vertices"] for row in timed])
    ms = np.log([np.median(row["ms_frames"][first - 1 : last]) for row in timed])
    return {
        "exponent": float(np.polyfit(n, ms, 1)[0]),
        "steepest": float((np.diff(ms) / np.diff(n)).max()),
        "sizes": [timed[0]["size"], timed[-1]["size"]],
        "frames": [first, last],
    }


def apart(rows: Sequence[Row]) -> list[Row]:
    """Of rows by size: those that are FARTHER times as large as the one before. Between others time is noise."""
    found: list[Row] = []
    for row in rows:
        if not found or row["vertices"] >= FARTHER * found[-1]["vertices"]:
            found.append(row)
    return found


def growths(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """By scene, where it can be told."""
    found = {scene: growth([row for row in rows if row["scene"] == scene]) for scene in SCENES}
    return {scene: entry for scene, entry in found.items() if entry is not None}
