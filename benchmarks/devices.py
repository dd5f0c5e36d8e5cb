"""Compares devices, precisions and numbers of threads on the shipped scenes, and writes benchmarks/devices.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/devices.py --ways cpu cuda:0 --jobs 14
    python benchmarks/devices.py --write-docs        # the tables of docs/devices.md

A way is DEVICE[/single][/THREADS], such as cpu, cuda:0, cpu/single or cpu/2. The first is the reference, and the others
are compared with it: positions after one frame and after the last, center of mass, energy, strain, intersections,
steps.

Cloth in contact is chaotic, so the admissible difference is measured as well. The reference runs again with changes
that should not matter: starts that differ by a few roundings, another preconditioner, triangles in another order. The
largest difference of these from the plain run is the spread of the scene, and another way may differ by ALLOWED times
that. Where the reference has no intersections, there may be none.

Everything is done twice: with the scenes as they are, and with linear systems solved to a residual of TIGHT. The
differences are then due to rounding and contact, and without contact less than EXACT.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import toile

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "devices.json", HERE.parent / "docs" / "devices.md"
BEGIN, END = "<!-- what follows is made by benchmarks/devices.py -->\n", "<!-- until here -->\n"

ALLOWED = 10.0  # times the spread of the scene
EXACT = 1e-9  # [m]  smaller differences count as none
TIGHT = 1e-10  # solver.tolerance
FRAMES = 10
# Contact between cloths begins later in these.
LATER = {"twist": 24, "curtain": 30, "flip": 42, "pro95_flag": 20}

SETTINGS = {
    "as it is": [],
    "tight": [f"solver.tolerance={TIGHT}", "solver.max_iterations=100000"],
}
# Damping solves of explicit steps take many iterations each, and minutes with a tight tolerance.
TOO_LONG = ("bmf03_balloon", "bmf03_bottle", "bmf03_fold")
# Changes that should not matter, for each setting.
ROUNDINGS, ORDER = ("rounding 1", "rounding 2"), "order"
OTHER_SOLVER = "preconditioner"
CHANGES = {
    "as it is": (*ROUNDINGS, ORDER, OTHER_SOLVER),
    "tight": (*ROUNDINGS, ORDER),
}

# Values of a run that are stored beside its difference.
VALUES = ("strain", "intersections", "steps", "iterations", "contacts", "seconds")

Result = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A device, precision and number of threads."""

    device: str
    precision: str = "double"
    threads: int = 1

    @staticmethod
    def of(text: str) -> Way:
        device, *rest = text.split("/")
        threads = next((int(part) for part in rest if part.isdigit()), 1)
        return Way(device, "single" if "single" in rest else "double", threads)

    @property
    def rounding(self) -> float:
        return float(np.finfo(np.float32 if self.precision == "single" else np.float64).eps)


@dataclass(frozen=True)
class Task:
    """One run of a scene."""

    scene: str
    frames: int
    setting: str
    way: Way
    change: str = ""
    rounding: float = 0.0  # relative change of positions at the start, if any


def prepare(precision: str, threads: int) -> None:
    """Sets the precision and the number of threads of a process, which cannot change later."""
    toile.use_precision(precision)
    os.environ["TOILE_THREADS"] = str(threads)


def compute(task: Task) -> Result:
    """Positions after the first and last frame, and values of the certificate."""
    from toile.errors import StepFailed
    from toile.scene.load import load, meshes
    from toile.simulation import build
    from toile.simulation.simulation import Simulation

    begin = time.perf_counter()
    overrides = ["outputs=[]", *SETTINGS[task.setting]]
    if task.change == OTHER_SOLVER:
        overrides.append("solver.preconditioner=block_jacobi")
    scene = load(task.scene, overrides=overrides)
    build.load_meshes = shuffled if task.change == ORDER else meshes
    running = Simulation(scene, task.way.device)
    if task.change in ROUNDINGS:
        x = running.state.x.numpy()
        noise = np.random.default_rng(ROUNDINGS.index(task.change)).uniform(-4.0, 4.0, x.shape)
        running.state.x.assign((x + task.rounding * np.abs(x).max() * noise).astype(x.dtype))
    frames = {}
    try:
        for frame in running.run(task.frames):
            frames[frame.number] = frame.positions
    except StepFailed as failure:
        return {"failed": str(failure)}
    entries = running.certificate.frames
    masses = running.model.masses
    return {
        "first": frames[1],
        "last": frames[task.frames],
        "center": masses @ frames[task.frames] / masses.sum(),
        "energy": sum(entries[-1]["energy"].values()),
        "kinetic": max(entry["energy"]["kinetic"] for entry in entries),
        "strain": max(max(entry["strain"].values()) for entry in entries),
        "intersections": max((entry["intersections"] or 0) for entry in entries),
        "steps": sum(entry["steps"] for entry in entries),
        "iterations": sum(entry["solver"]["iterations"] for entry in entries),
        "contacts": entries[-1]["contacts"],
        "seconds": time.perf_counter() - begin,
    }


def shuffled(scene: Any) -> list[Any]:
    """The meshes of a scene with their triangles in another order; vertices keep their numbers."""
    from dataclasses import replace

    from toile.scene.load import meshes

    random = np.random.default_rng(7)
    orders = [(mesh, random.permutation(len(mesh.triangles))) for mesh in meshes(scene)]
    return [replace(mesh, triangles=mesh.triangles[order], uv=mesh.uv[order]) for mesh, order in orders]


def distance(one: Result, other: Result) -> Result:
    """The difference of two runs in positions [m], and in other values."""
    failures = [run["failed"] for run in (one, other) if "failed" in run]
    if failures:
        return {"failed": failures[0]}
    away = {name: np.linalg.norm(one[name] - other[name], axis=1) for name in ("first", "last")}
    return {
        "first_max": float(away["first"].max()),
        "last_max": float(away["last"].max()),
        "last_mean": float(away["last"].mean()),
        "center": float(np.linalg.norm(one["center"] - other["center"])),
        # Relative to the largest kinetic energy, because potentials have no natural zero.
        "energy": abs(one["energy"] - other["energy"]) / one["kinetic"] if one["kinetic"] else 0.0,
        **{name: other[name] for name in VALUES},
    }


def farthest(runs: Sequence[Result], name: str) -> float:
    return max((run.get(name, np.inf) for run in runs), default=0.0)


def judged(plain: Result, changed: dict[str, Result], others: dict[str, Result]) -> Result:
    """The results of one scene in one setting."""
    own = {change: distance(plain, run) for change, run in changed.items()}
    spread = {name: farthest(list(own.values()), name) for name in ("first_max", "last_max", "last_mean", "center")}
    found = {way: distance(plain, run) for way, run in others.items()}
    for run in found.values():
        allowed = {name: max(ALLOWED * spread[name], EXACT) for name in ("first_max", "last_max")}
        run["within"] = (
            "failed" not in run
            and all(run[name] <= allowed[name] for name in allowed)
            and (run["intersections"] == 0 or plain["intersections"] > 0)
        )
    return {"plain": distance(plain, plain), "own": own, "spread": spread, "others": found}


def changes_of(scene: str) -> dict[str, tuple[str, ...]]:
    """The changes that should not matter, by setting."""
    return {name: changes for name, changes in CHANGES.items() if name != "tight" or scene not in TOO_LONG}


def measure(
    ways: Sequence[str], scenes: Sequence[str], frames: int | None, jobs: int, keep: Path | None = None
) -> Result:
    """Runs every scene in every setting, in `jobs` processes at a time."""
    reference, *others = (Way.of(text) for text in ways)
    rounding = max(Way.of(text).rounding for text in ways)
    labels = [f"{text}, again" if text == ways[0] else text for text in ways[1:]]
    wanted: dict[tuple[str, str, str], Task] = {}
    for scene in scenes:
        for setting, changes in changes_of(scene).items():
            count = frames or LATER.get(scene, FRAMES)
            for label, way in zip(labels, others, strict=True):
                wanted[scene, setting, label] = Task(scene, count, setting, way)
            for change in ("", *changes):
                wanted[scene, setting, change] = Task(scene, count, setting, reference, change, rounding)
    results = computed(wanted, jobs, keep)
    found: Result = {}
    for scene in scenes:
        found[scene] = {"frames": frames or LATER.get(scene, FRAMES)}
        for setting, changes in changes_of(scene).items():
            changed = {change: results[scene, setting, change] for change in changes}
            of_others = {label: results[scene, setting, label] for label in labels}
            found[scene][setting] = judged(results[scene, setting, ""], changed, of_others)
    return found


def computed(tasks: dict[Any, Task], jobs: int, keep: Path | None = None) -> dict[Any, Result]:
    """Runs tasks in processes of one precision and one number of threads each; GPUs first, which compile longest.

    Runs in the file `keep` are not repeated, and each new run is added to it.
    """
    found: dict[Any, Result] = pickle.loads(keep.read_bytes()) if keep is not None and keep.exists() else {}
    tasks = {key: task for key, task in tasks.items() if key not in found}
    for kind in dict.fromkeys((task.way.precision, task.way.threads) for task in tasks.values()):
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, spawn, initializer=prepare, initargs=kind) as pool:
            mine = {key: task for key, task in tasks.items() if (task.way.precision, task.way.threads) == kind}
            order = sorted(mine, key=lambda key: mine[key].way.device == "cpu")
            running: dict[Any, Future] = {key: pool.submit(compute, mine[key]) for key in order}
            for key in order:
                found[key] = running[key].result()
                if keep is not None:
                    keep.write_bytes(pickle.dumps(found))
                print(*key, found[key].get("failed", f"{found[key].get('seconds', 0.0):.1f} s"), flush=True)
    return found


def scientific(value: float) -> str:
    return "0" if value == 0.0 else f"{value:.1e}".replace("e-0", "e-")


def mark(run: Result) -> str:
    return "" if run["within"] else " (!)"


def table(scenes: Result, label: str) -> str:
    """The table of one way."""
    head = ["scene", "frames", "rounding", "spread", "difference", "center of mass", "after 1 frame", "tight: spread",
            "difference", "steps", "intersections"]  # fmt: skip
    lines = [head, ["---", *["--:"] * (len(head) - 1)]]
    for scene, found in scenes.items():
        loose, tight = found["as it is"], found.get("tight")
        run = loose["others"][label]
        exact = tight["others"][label] if tight else {}
        failure = run.get("failed") or exact.get("failed")
        if failure:
            lines.append([scene, str(found["frames"]), failure, *[""] * (len(head) - 3)])
            continue
        steps = dict.fromkeys(str(one["steps"]) for one in (loose["plain"], run))
        lines.append(
            [
                scene,
                str(found["frames"]),
                scientific(farthest([loose["own"][change] for change in ROUNDINGS], "last_max")),
                scientific(loose["spread"]["last_max"]),
                scientific(run["last_max"]) + mark(run),
                scientific(run["center"]),
                scientific(run["first_max"]),
                scientific(tight["spread"]["last_max"]) if tight else "-",
                scientific(exact["last_max"]) + mark(exact) if tight else "-",
                " and ".join(steps),
                str(run["intersections"]),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section(result: Result) -> str:
    """The section of one comparison."""
    parts = []
    for label in next(iter(result["scenes"].values()))["as it is"]["others"]:
        parts.append(f"### `{label}` compared with `{result['ways'][0]}`")
        parts.append(f"{result['date']}, {result['machine']}, Toile {result['toile']}. Distances in meters.")
        parts.append(table(result["scenes"], label))
    return "\n\n".join(parts) + "\n"


def page(text: str, results: dict[str, Result]) -> str:
    """Returns the page with these results in place of the present ones."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    made = "\n".join(section(result) for result in results.values())
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def describe_machine(ways: Sequence[str]) -> str:
    """Describes the machine: its processor, and its GPU if one was used."""
    from toile.bench.machine import describe, machine

    devices = dict.fromkeys(Way.of(text).device for text in ways)
    return ", ".join(describe(machine(device)) for device in devices)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--ways", nargs="+", default=["cpu", "cuda:0"], help="the reference, and the ways to compare with it"
    )
    parser.add_argument("--scenes", nargs="+", help="all shipped scenes if not given")
    parser.add_argument("--frames", type=int, help=f"frames of every scene; by default {FRAMES}, and more for some")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="stores runs, to continue later or on another machine"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true", help="write the results to their page; computes nothing")
    given = parser.parse_args()
    results = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    if given.write_docs:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
        return
    if len(given.ways) < 2:
        parser.error("--ways needs a reference and at least one more")
    from toile.scene.load import scene_names

    scenes = measure(given.ways, given.scenes or scene_names(), given.frames, given.jobs, given.keep)
    results[" ".join(given.ways)] = {
        "ways": given.ways,
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(given.ways),
        "toile": toile.__version__,
        "scenes": scenes,
    }
    given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for label in next(iter(scenes.values()))["as it is"]["others"]:
        print(f"\n{label} compared with {given.ways[0]}\n{table(scenes, label)}")
    beyond = [scene for scene, found in scenes.items() for setting in changes_of(scene)
              for run in found[setting]["others"].values() if not run["within"]]  # fmt: skip
    if beyond:
        sys.exit(f"differences beyond the bound: {', '.join(dict.fromkeys(beyond))}")


if __name__ == "__main__":
    main()
