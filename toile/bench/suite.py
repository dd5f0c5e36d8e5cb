"""The benchmark suite: the same scenes at growing sizes, each in a separate process, and how the time of a frame grows.

    p = slope of log ms against log n, by least squares;    steepest = the largest slope between neighbors

Where the budget did not allow all frames of a scene, sizes are compared over the frames that all of them computed.
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

from toile.bench.case import SCENES, Case, Row
from toile.errors import InputError

SIZES = {"cpu": (2_600, 10_000, 40_000, 160_000), "cuda": (2_600, 10_000, 40_000, 160_000, 1_000_000)}
# Sizes of scenes that have their own: sleeves with edges of 8 to 2 mm; two, eight and fifty sheets.
SIZES_OF = {
    "elbow": {"cpu": (2_600, 10_000), "cuda": (2_600, 10_000, 40_000)},
    "layers_50": {"cpu": (10_000, 40_000), "cuda": (10_000, 40_000, 245_000)},
}
# Vertices of a run that only compiles the kernels of a scene.
SMALL = 300
# Vertices from which the growth is measured. Below, the fixed cost of a step is a large part of its time.
GROWTH_FROM = 10_000
# Smallest ratio between neighboring sizes whose times are compared.
MIN_RATIO = 2.0


def cases(
    device: str,
    scenes: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    threads: int | None = None,
    budget: float = Case.budget,
    frames: int | None = None,
) -> list[Case]:
    """Returns the cases of the suite, small ones first, so that an interrupted suite has those of all scenes."""
    for name in scenes or ():
        if name not in SCENES:
            raise InputError(f'the suite has no scene "{name}": choose from {", ".join(SCENES)}.')
    wanted = {scene: sizes or SIZES_OF.get(scene, SIZES)[device] for scene in scenes or SCENES}
    return [
        Case(scene, size, device, threads, budget, frames)
        for size in sizes or sorted(set().union(*wanted.values()))
        for scene, own in wanted.items()
        if size in own
    ]


def measured(case: Case, progress: Callable[[int, int], None] | None = None) -> Row:
    """Measures a case in a separate process, and returns its row, in which `failed` holds the reason of a crash.

    `progress` is called with the number of each frame, and with that of the last.
    """
    command = [sys.executable, "-m", "toile.bench.case", json.dumps(asdict(case))]
    row = None
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
    ):
        assert child.stdout is not None
        try:
            for line in child.stdout:
                if not line.startswith("{"):  # printed by a library
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
        last_line = errors.read().strip().splitlines()[-1:]
    if row is None:
        # Linux kills a process with signal 9 when there is no memory left.
        why = "out of memory" if code == -9 else last_line[0] if last_line else f"ended with {code}"
        row = {"scene": case.scene, "size": case.size, "device": case.device, "failed": why}
    return row


def prepare(scene: str, device: str) -> None:
    """Compiles the kernels of a scene by a small run of it, so that no compilation is timed in the middle of a case."""
    measured(Case(scene, SMALL, device, frames=SCENES[scene].last))


def growth(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Returns the exponent of the rows of one scene, with its frames and sizes.

    None if the timed window was reached at fewer than two sizes.
    """
    timed = spaced(sorted((row for row in rows if row.get("begun")), key=lambda row: row["vertices"]))
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


def spaced(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows, sorted by size, that are at least MIN_RATIO times as large as the one before.

    Slopes between closer sizes are dominated by noise.
    """
    found: list[Row] = []
    for row in rows:
        if not found or row["vertices"] >= MIN_RATIO * found[-1]["vertices"]:
            found.append(row)
    return found


def growths(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Returns the growth of every scene that has one."""
    found = {scene: growth([row for row in rows if row["scene"] == scene]) for scene in SCENES}
    return {scene: entry for scene, entry in found.items() if entry is not None}
