"""Measures each optimization that avoids work by itself; writes benchmarks/avoided.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/avoided.py               # all, about five minutes
    OPENBLAS_NUM_THREADS=1 python benchmarks/avoided.py hierarchy     # one of them

Every measurement steps the same scene as it is and with one thing done differently, and stores the processor time of a
frame [ms] and the iterations of the linear solver in a frame. The best of REPEATS runs counts.

    hierarchy   multigrid updated for each solve, or for every second one
    factor      a factor of CHOLMOD for each solve, or the previous one while it needs at most KEPT_FOR iterations
    again       a step whose contacts changed, solved to the previous residual, or to a thousandth of the present one
    energies    stretch, shear and drag of a triangle in one kernel, or in three
    tree        boxes refitted, and the tree rebuilt every 32 searches, or in each
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from toile.bench.machine import machine, versions
from toile.contact.broad_phase import broad_phase
from toile.device import threads
from toile.linear import precondition_cholesky, solver
from toile.scene.load import load
from toile.simulation.simulation import Simulation
from toile.system import assembly, system

PATH = Path(__file__).parent / "avoided.json"
REPEATS = 2
KEPT_FOR = 40  # iterations

Change = Callable[[], contextlib.AbstractContextManager]


@contextlib.contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def every_second() -> contextlib.AbstractContextManager:
    """Updates the preconditioner only in every second solve."""
    renew, count = solver.LinearSolver._renew, [0]

    def sometimes(self: Any) -> bool:
        count[0] += 1
        return renew(self) if count[0] % 2 or not self._usable else True

    return changed(solver.LinearSolver, "_renew", sometimes)


def kept_factors() -> contextlib.AbstractContextManager:
    """Reuses a factor while it needs few iterations."""
    working = precondition_cholesky.CholeskyPreconditioner
    build = working.__init__

    def once(self: Any, *given: Any) -> None:
        build(self, *given)
        self.give_up_after = KEPT_FOR

    return changed(working, "__init__", once)


def to_the_end() -> contextlib.AbstractContextManager:
    solve = solver.LinearSolver.solve
    return changed(solver.LinearSolver, "solve", lambda self, again=0.0: solve(self))


def apart() -> contextlib.AbstractContextManager:
    """Launches a separate kernel for each energy."""
    return changed(system, "batches", lambda terms, A: [assembly.Batch([term], A) for term in terms])


MEASURED: dict[str, tuple[str, str, int, list[str], Change]] = {
    # label of the alternative, scene, frames, overrides, context that makes it
    "hierarchy": ("every second solve", "swing", 15, ["cloth[0].shape.resolution=[101,101]"], every_second),
    "factor": ("kept", "swing", 30, ["solver.preconditioner=cholesky"], kept_factors),
    "again": ("to a thousandth", "drape", 25, ["cloth[0].shape.resolution=[71,71]"], to_the_end),
    "energies": ("three kernels", "swing", 15, ["cloth[0].shape.resolution=[101,101]"], apart),
    "tree": (
        "built in each search", "drape", 25, ["cloth[0].shape.resolution=[71,71]"],
        lambda: changed(broad_phase, "REBUILD_INTERVAL", 1),
    ),
}  # fmt: skip


def run(scene: Any, frames: int) -> dict[str, float]:
    simulation = Simulation(scene)
    simulation.advance_frame()  # loads kernels
    begin = time.process_time()
    for _ in range(frames):
        simulation.advance_frame()
    ms = 1e3 * (time.process_time() - begin) / frames
    entries = simulation.report()["frames"][1:]
    stages = {stage: float(np.mean([entry["ms"][stage] for entry in entries])) for stage in ("EVAL", "CG", "C/C")}
    return {"ms": ms, "iterations": float(np.mean([entry["solver"]["iterations"] for entry in entries])), **stages}


def measure(name: str) -> dict[str, Any]:
    otherwise, scene_name, frames, overrides, change = MEASURED[name]
    scene = load(scene_name, overrides=["outputs=[]", *overrides])
    found: dict[str, dict[str, float]] = {}
    for _ in range(REPEATS):
        for way in ("as it is", otherwise):
            with change() if way == otherwise else contextlib.nullcontext():
                result = run(scene, frames)
            if way not in found or result["ms"] < found[way]["ms"]:
                found[way] = {key: round(value, 2) for key, value in result.items()}
    return {"scene": scene_name, "overrides": overrides, "frames": frames, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"{', '.join(MEASURED)}; all when none is named")
    threads.use(1)
    results = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    for name in parser.parse_args().what or MEASURED:
        results[name] = {**measure(name), "measured": {"date": datetime.date.today().isoformat(), **machine("cpu")}}
        print(name, json.dumps(results[name], indent=1), flush=True)
        results["versions"] = versions()
        PATH.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
