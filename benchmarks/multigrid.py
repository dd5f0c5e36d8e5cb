"""Iterations and time of `multigrid` by size, and from which size on it is faster; writes benchmarks/multigrid.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/multigrid.py                 # all, about ten minutes
    OPENBLAS_NUM_THREADS=1 python benchmarks/multigrid.py iterations      # one of them: iterations, growth, crossover
    python benchmarks/multigrid.py --device cuda:0 iterations growth      # on a GPU: into multigrid_cuda.json

`iterations`: hanging cloth with k = 1e4 N/m, steps of 1/60 s, solves to 1e-3: grids of 33 x 33 to 400 x 400, a disc and
a sewn tube of 10,000 and 40,000 vertices. At most MAX_ITERATIONS are allowed. `growth`: time of a frame at 10,000,
40,000 and 160,000 vertices and its exponent, at most MAX_EXPONENT. `crossover`: frames with `multigrid` and with
`cholesky`, in turn.

Times are processor times with one thread, the best of several, which other load affects least. The wall time is stored
beside them, also with all threads.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from toile.bench.machine import machine, versions
from toile.device import threads
from toile.linear.solver import LinearSolver
from toile.scene.load import load
from toile.simulation.simulation import Simulation

HERE = Path(__file__).parent

MAX_ITERATIONS = 60  # iterations
MAX_EXPONENT = 1.15  # exponent of time by particles
FRAMES = 40
REPEATS = 3

FABRIC = {"density": 0.2, "shear": 100.0, "bend_warp": 1.2e-5, "bend_weft": 1.2e-5}
HELD = {"grid": {"corners": ["upper_left", "upper_right"]}, "disc": {"indices": [0]}, "revolved": {"region": "top"}}


def grid(side: int) -> dict[str, Any]:
    return {"type": "grid", "size": [1.0, 1.0], "resolution": [side, side]}


def tube(around: int, along: int) -> dict[str, Any]:
    return {"type": "revolved", "profile": [[0.3, 0.0], [0.3, 1.0]], "resolution": [around, along]}


SHAPES = {
    **{f"grid {side} x {side}": grid(side) for side in (33, 65, 129, 200, 317, 400)},
    "disc of 10,000": {"type": "disc", "radius": 0.5, "rings": 57},
    "disc of 40,000": {"type": "disc", "radius": 0.5, "rings": 115},
    "tube of 10,000": tube(137, 73),
    "tube of 40,000": tube(274, 146),
}


def hanging(shape: dict[str, Any], preconditioner: str = "multigrid") -> Any:
    """Cloth of k = 1e4 N/m that falls from rest and swings, with one step a frame."""
    fabric = FABRIC | {"stretch_warp": 1e4, "stretch_weft": 1e4}
    pin = {"type": "pin", "cloth": "sheet", "where": HELD[shape["type"]]}
    return load("hang", overrides=[
        f"cloth[0].shape={json.dumps(shape)}", f"cloth[0].fabric={json.dumps(fabric)}",
        f"constraints={json.dumps([pin])}", "time.fps=60", "outputs=[]", f"solver.preconditioner={preconditioner}",
    ])  # fmt: skip


def iterations(device: str) -> dict[str, Any]:
    """Iterations of the solves of FRAMES frames."""
    found: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        simulation = Simulation(hanging(shape), device)
        needed = solves(simulation)
        found[name] = {
            "particles": simulation.model.particle_count,
            "solves": len(needed),
            "median": float(np.median(needed)),
            "max": max(needed),
        }
        print(f"  {name}: {found[name]}", flush=True)
    found["within"] = max(case["max"] for case in found.values()) <= MAX_ITERATIONS
    return found


def solves(simulation: Simulation) -> list[int]:
    """Iterations of each solve."""
    needed: list[int] = []
    solve = LinearSolver.solve

    def counted(self: LinearSolver, *given: Any, **named: Any) -> Any:
        solution = solve(self, *given, **named)
        needed.append(solution.iterations)
        return solution

    LinearSolver.solve = counted  # type: ignore[method-assign]
    try:
        for _ in simulation.run(FRAMES):
            pass
    finally:
        LinearSolver.solve = solve  # type: ignore[method-assign]
    return needed


def frame_times(scenes: dict[str, Any], frames: int, device: str, repeats: int = REPEATS) -> dict[str, Any]:
    """Advances scenes in turn, frame by frame, several times. Returns ms a frame, the best of each frame."""
    every: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in scenes}
    built: dict[str, float] = {}
    for _ in range(repeats):
        simulations = {}
        for name, scene in scenes.items():
            begin = time.process_time()
            simulations[name] = Simulation(scene, device)
            built[name] = min(built.get(name, np.inf), time.process_time() - begin)
            every[name].append([])
        for simulation in simulations.values():
            simulation.advance_frame()  # loads kernels
        for _ in range(frames):
            for name, simulation in simulations.items():
                begin = time.process_time(), time.perf_counter()
                simulation.advance_frame()
                end = time.process_time(), time.perf_counter()
                every[name][-1].append((1e3 * (end[0] - begin[0]), 1e3 * (end[1] - begin[1])))
    found = {}
    for name in scenes:
        processor, wall = np.min(every[name], axis=0).mean(axis=0)
        results = {"ms": processor, "wall_ms": wall, "build_s": built[name]}
        found[name] = {key: round(float(value), 2) for key, value in results.items()}
    return found


def growth(device: str) -> dict[str, Any]:
    """Time by size, and its exponent from 10,000 to 160,000 particles."""
    sides = {10_201: 101, 40_000: 200, 160_000: 400}
    scenes = {f"{particles:,}": hanging(grid(side)) for particles, side in sides.items()}
    found: dict[str, Any] = {}
    kind = "ms" if device == "cpu" else "wall_ms"
    for count in (1, threads.available()) if device == "cpu" else (1,):
        threads.use(count)
        times = frame_times(scenes, 15, device)
        found[f"{count} thread{'s' if count > 1 else ''}"] = times
        print(f"  {count}: {times}", flush=True)
    threads.use(1)
    times = found["1 thread"]
    ratio = times["160,000"][kind] / times["10,201"][kind]
    found["exponent"] = round(float(np.log(ratio) / np.log(160_000 / 10_201)), 3)
    found["within"] = found["exponent"] <= MAX_EXPONENT
    return found


CROSSOVER = {
    "hang": ("cloth[0].shape.resolution", 12, (36, 51, 71, 86, 101)),
    "drape": ("cloth[0].shape.resolution", 12, (36, 51, 71, 101)),
    "layers": ("", 6, (0,)),
    "twist": ("", 12, (0,)),
    "ball": ("", 10, (0,)),
}


def crossover(device: str) -> dict[str, Any]:
    """The first frames of shipped scenes with both preconditioners."""
    found: dict[str, Any] = {}
    threads.use(1)
    for scene, (field, frames, sides) in CROSSOVER.items():
        for side in sides:
            size = [f"{field}=[{side},{side}]"] if field else []
            scenes = {
                type_name: load(scene, overrides=[*size, "outputs=[]", f"solver.preconditioner={type_name}"])
                for type_name in ("multigrid", "cholesky")
            }
            times = frame_times(scenes, frames, device, repeats=2)
            particles = Simulation(scenes["multigrid"], device).model.particle_count
            found[f"{scene}, {particles:,}"] = {type_name: times[type_name]["ms"] for type_name in scenes}
            print(f"  {scene}, {particles:,}: {found[f'{scene}, {particles:,}']}", flush=True)
    return found


MEASUREMENTS = (iterations, growth, crossover)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="iterations, growth, crossover; all when none is named")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    kind = "" if given.device == "cpu" else "_" + given.device.partition(":")[0]
    path = HERE / f"multigrid{kind}.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for function in MEASUREMENTS:
        if function.__name__ in (given.what or [each.__name__ for each in MEASUREMENTS]):
            print(function.__name__, flush=True)
            results[function.__name__] = function(given.device)
            measured = {"date": datetime.date.today().isoformat(), **machine(given.device), **versions()}
            results[function.__name__]["measured"] = measured
            path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
