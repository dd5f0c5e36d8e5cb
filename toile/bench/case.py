"""Measures one scene at one size on one device: a row of the suite.

    python -m toile.bench.case '{"scene": "hang", "size": 2600, "device": "cpu"}'

The suite runs it as a separate process, so that the peak of memory is its own, and a crash ends nothing else. It prints
a line of JSON for every frame, and the row at the end.

Frames are computed from the start of the scene, because the state of the cloth depends on all of them. The timed window
is the part in which the scene shows what it was made for. On slow cases the budget may end before the window begins:
the second half of the computed frames is then timed, and `begun` is false.

    ms_per_frame    median wall time of a frame in the window, without the audit, as in the certificate
    ms_mean         mean of the same times
    processor_ms    mean processor time of all threads, with the audit; more reliable than wall time on a busy machine
    stages          mean times in the window [ms]; `rest` is the time outside all stages, so that the sum of all but
                    the audit is `ms_mean`
    iterations      of the linear solver, median and maximum over all solves in the window
    other values    of the whole run, from its certificate
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
from toile.bench.layers_50 import layers_50
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

# The results of a case, as in the results file of the suite.
Row = dict[str, Any]

STAGES = ("EVAL", "CG", "C/C", "C/S", "filters")
# The first frame loads kernels and is not timed, and a mean needs at least two more.
FEWEST_FRAMES = 3


@dataclass(frozen=True)
class Window:
    """The frames of a scene in which it shows what it was made for."""

    scene: str  # a shipped one, or layers_50
    first: int
    last: int
    changes: tuple[str, ...] = ()

    def of_size(self, size: int) -> Scene:
        """Returns the scene with about `size` vertices, and without outputs."""
        if self.scene == "layers_50":
            return layers_50(size)
        return resized(self.scene, size, ["outputs=[]", *self.changes])


# Strains of a frame that the extension of a fabric limits. Edges across the threads also change with shear.
THREADS = ("warp_max", "weft_max")

# `hang` is the sheet without damping and air, so that the error of its swing can be computed (swing.py). The sheet on
# the stand has folds from frame 8 on, the five layers are in contact from frame 5 on, the mat lies on itself from frame
# 30 on. Steps on the stand are half of the scene's own.
SCENES = {
    "hang": Window("swing", 2, 30),
    "drape": Window("drape", 8, 30, ("time.max_step=0.016666666666666666",)),
    "layers": Window("layers", 5, 20),
    "twist": Window("twist", 30, 50),
    "elbow": Window("elbow", 27, 60),
    "layers_50": Window("layers_50", 5, 45),
}


@dataclass(frozen=True)
class Case:
    """A scene of the suite, its size, and how to run it."""

    scene: str  # one of SCENES
    size: int  # vertices
    device: str = "cpu"
    threads: int | None = None  # all cores by default
    budget: float = 90.0  # [s]  for all frames but the first
    frames: int | None = None  # a fixed number of frames, without a budget


def measure(case: Case, progress: Callable[[Frame, int], None] | None = None) -> Row:
    """Runs a case and returns its row, in which `failed` holds the reason of a failure.

    `progress` is called with every frame, and with the largest number of frames that there will be.
    """
    if case.threads is not None:
        threads.use(case.threads)
    window = SCENES[case.scene]
    row: Row = {"scene": case.scene, "size": case.size, "device": case.device, "precision": precision}
    row |= {"threads": threads.count(), "date": datetime.date.today().isoformat(), "failed": None, "load": _load()}
    run = None
    try:
        begin = time.perf_counter()
        run = _Run(window.of_size(case.size), case.device)
        row["build_s"] = time.perf_counter() - begin
        last = case.frames or window.last
        for frame in run.frames(last, None if case.frames else case.budget):
            if progress is not None:
                progress(frame, last)
    except (ToileError, MemoryError, RuntimeError) as error:  # Warp raises RuntimeError when a GPU is out of memory
        row["failed"] = f"{type(error).__name__}: {error}".splitlines()[0]
    if run is not None:
        row |= run.row(window)
    return {**row, "memory": {"process": peak_of_process(), "device": peak_of_device(case.device)}}


class _Run:
    """A simulation whose frames are timed."""

    def __init__(self, scene: Scene, device: str):
        self.simulation = Simulation(scene, device=device)
        self.ms: list[float] = []
        self.processor_ms: list[float] = []
        self.iterations: list[list[int]] = []  # per frame, the iterations of each solve
        self.centers: list[np.ndarray] = []
        self._count_iterations()

    def frames(self, last: int, budget: float | None) -> Iterator[Frame]:
        """Yields each frame as it is computed, until the last or until the next would exceed the budget [s]."""
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

    def row(self, window: Window) -> Row:
        """Returns the results of the frames so far."""
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
        """Returns the error of the swing [cm]; None for other scenes."""
        if window.scene != "swing":
            return None
        found = swing.error(self.centers, round(self.simulation.model.particle_count**0.5))  # the sheet is square
        return None if found is None else 100.0 * found

    def _note_center(self, positions: np.ndarray) -> None:
        masses = self.simulation.model.masses
        self.centers.append(masses @ positions.astype(float) / masses.sum())

    def _count_iterations(self) -> None:
        """Collects the iterations of every solve; the certificate has only their sum over accepted steps."""
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
    """Returns the load average of the last minute; None if the system does not provide it."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def main() -> None:
    case = Case(**json.loads(sys.argv[1]))

    def report(frame: Frame, last: int) -> None:
        print(json.dumps({"frame": frame.number, "last": last}), flush=True)

    print(json.dumps({"row": plain(measure(case, report))}, allow_nan=False), flush=True)


def plain(row: Row) -> Row:
    """Converts a row to types that JSON has. NaN and infinity, which it does not have, become null."""
    found: Row = json.loads(json.dumps(row, default=float), parse_constant=lambda _: None)
    return found


if __name__ == "__main__":
    main()
