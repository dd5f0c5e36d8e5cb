"""One scene at one size on one device, measured: a row of the suite.

    python -m toile.bench.case '{"scene": "hang", "size": 2600, "device": "cpu"}'

As a program it has a process of its own, so that its peak of memory is its own, and what kills it kills nothing else.
It prints a line of JSON for every frame, and the row at last.

Frames are run from the start of the scene, because where cloth lies depends on all of them. What is timed is a window
in which the scene does what it is for. Where a frame takes long, the time allowed may end before that: the window is
then the last half of the frames there are, and the row says so.

    ms_per_frame    median over the window of the wall time of a frame, without that of the audit, as in the certificate
    ms_mean         the mean of the same
    processor_ms    mean time of all threads, with the audit; on a machine with other work it says more than the wall
    stages          means over the window [ms]; all but the audit add up to `ms_mean`, as `rest` is what no stage counts
    iterations      of the linear solver, median and largest over all solves in the window
    all else        of the whole run, from its certificate
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toile.bench import swing
from toile.bench.memory import peak_of_device, peak_of_process
from toile.bench.sizes import resized
from toile.device import threads
from toile.errors import ToileError
from toile.math.types import precision
from toile.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toile.model.frame import Frame
    from toile.scene.schema import Scene

STAGES = ("EVAL", "CG", "C/C", "C/S", "filters")
# The first frame loads kernels, and two are the least that tells anything.
FEWEST_FRAMES = 3


@dataclass(frozen=True)
class Window:
    """The frames of a shipped scene in which it does what it is for."""

    scene: str
    first: int
    last: int
    changes: tuple[str, ...] = ()


# Of a frame's strain: what the extension of a fabric limits. Edges across the threads change with shear as well.
THREADS = ("warp_max", "weft_max")

# `hang` is the sheet without damping and air: whether it swings as it should can be told (swing.py). The sheet on the
# stand has folds from frame 8 on, the five layers touch from frame 5 on, the mat lies on itself from frame 30 on. Steps
# on the stand are a quarter of the scene's own, as fast from 10,000 vertices on, and threads keep to their extension.
SCENES = {
    "hang": Window("swing", 2, 30),
    "drape": Window("drape", 8, 30, ("time.max_step=0.008333333333333333", "time.max_excess=0")),
    "layers": Window("layers", 5, 20),
    "twist": Window("twist", 30, 50),
}


@dataclass(frozen=True)
class Case:
    scene: str  # one of SCENES
    size: int  # vertices
    device: str = "cpu"
    threads: int | None = None  # None: as many as there are cores
    budget: float = 90.0  # [s]  for all frames but the first
    frames: int | None = None  # so many, whatever they take


def measure(case: Case, progress: Callable[[Frame, int], None] | None = None) -> dict[str, Any]:
    """The row. `progress` gets every frame, and how many there will be at most. What fails is told in the row."""
    if case.threads is not None:
        threads.use(case.threads)
    window = SCENES[case.scene]
    row: dict[str, Any] = {"scene": case.scene, "size": case.size, "device": case.device, "precision": precision}
    row |= {"threads": threads.count(), "date": datetime.date.today().isoformat(), "failed": None, "load": _load()}
    run = None
    try:
        begin = time.perf_counter()
        run = _Run(resized(window.scene, case.size, ["outputs=[]", *window.changes]), case.device)
        row["build_s"] = time.perf_counter() - begin
        last = case.frames or window.last
        for frame in run.frames(last, None if case.frames else case.budget):
            if progress is not None:
                progress(frame, last)
    except (ToileError, MemoryError, RuntimeError) as error:  # Warp tells of memory that a GPU lacks by the last
        row["failed"] = f"{type(error).__name__}: {error}".splitlines()[0]
    if run is not None:
        row |= run.row(window)
    return {**row, "memory": {"process": peak_of_process(), "device": peak_of_device(case.device)}}


class _Run:
    """A simulation under a stopwatch."""

    def __init__(self, scene: Scene, device: str):
        self.simulation = Simulation(scene, device=device)
        self.ms: list[float] = []
        self.processor_ms: list[float] = []
        self.iterations: list[list[int]] = []  # of each solve of each frame
        self.centers: list[np.ndarray] = []
        self._count_iterations()

    def frames(self, last: int, budget: float | None) -> Iterator[Frame]:
        """Each as it comes, until the last or until the next would take longer than is left [s]."""
        simulation = self.simulation
        self._note_center(simulation.state.x.numpy())
        while len(self.ms) < last:
            self.iterations.append([])
            begin, processor = time.perf_counter(), time.process_time()
            frame = simulation.advance_frame()
            self.ms.append(1e3 * (time.perf_counter() - begin))
            self.processor_ms.append(1e3 * (time.process_time() - processor))
            self._note_center(frame.positions)
            yield frame
            spent, longest = sum(self.ms[1:]), max(self.ms[-2:])
            if budget is not None and len(self.ms) >= FEWEST_FRAMES and spent + longest > 1e3 * budget:
                return

    def row(self, window: Window) -> dict[str, Any]:
        """What the frames so far say."""
        simulation, report = self.simulation, self.simulation.report()
        model, summary, entries = simulation.model, report["summary"], report["frames"]
        found = {
            "vertices": model.particle_count,
            "triangles": model.triangle_count,
            "frames": len(entries),
            "steps": summary["steps"],
            "rejected": summary["rejected"],
            "max_strain": summary["max_strain"],
            "thread_strain": max((entry["strain"][key] for entry in entries for key in THREADS), default=0.0),
            "intersections": summary["intersections"],
            "swing_error_cm": self._swing_error(window),
        }
        if len(entries) < FEWEST_FRAMES:
            return found
        ms = np.array(self.ms[: len(entries)])
        computing = ms - [entry["ms"]["audit"] for entry in entries]
        first = window.first if len(entries) > window.first else len(entries) // 2 + 1
        timed, chosen = entries[first - 1 :], computing[first - 1 :]
        stages = {stage: float(np.mean([entry["ms"][stage] for entry in timed])) for stage in STAGES}
        solves = [count for counts in self.iterations[first - 1 : len(entries)] for count in counts]
        return found | {
            "window": [first, len(entries)],
            "begun": first == window.first,
            "ms_per_frame": float(np.median(chosen)),
            "ms_mean": float(np.mean(chosen)),
            "processor_ms": float(np.mean(self.processor_ms[first - 1 : len(entries)])),
            "ms_frames": computing.round(3).tolist(),
            "stages": {
                **stages,
                "rest": float(np.mean(chosen)) - sum(stages.values()),
                "audit": float(np.mean([entry["ms"]["audit"] for entry in timed])),
            },
            "iterations": {"median": float(np.median(solves)), "max": max(solves)} if solves else None,
            "contacts": timed[-1]["contacts"],
        }

    def _swing_error(self, window: Window) -> float | None:
        """[cm]"""
        if window.scene != "swing":
            return None
        found = swing.error(self.centers, round(self.simulation.model.particle_count**0.5))  # it is a square
        return None if found is None else 100.0 * found

    def _note_center(self, positions: np.ndarray) -> None:
        masses = self.simulation.model.masses
        self.centers.append(masses @ positions.astype(float) / masses.sum())

    def _count_iterations(self) -> None:
        """Of every solve: the certificate has their sum, and only of steps that stand."""
        integrator: Any = self.simulation.integrator
        solver = integrator.newton.solver
        solve = solver.solve

        def counted(*given: Any, **named: Any) -> Any:
            solution = solve(*given, **named)
            if self.iterations:
                self.iterations[-1].append(solution.iterations)
            return solution

        solver.solve = counted


def _load() -> float | None:
    """How many processes wanted to run in the last minute, where the system tells."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def main() -> None:
    case = Case(**json.loads(sys.argv[1]))

    def report(frame: Frame, last: int) -> None:
        print(json.dumps({"frame": frame.number, "last": last}), flush=True)

    print(json.dumps({"row": plain(measure(case, report))}, allow_nan=False), flush=True)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Types that JSON has. It has no NaN or infinity: they become null."""
    found: dict[str, Any] = json.loads(json.dumps(row, default=float), parse_constant=lambda _: None)
    return found


if __name__ == "__main__":
    main()
