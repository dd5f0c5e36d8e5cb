"""Tries settings of the other simulators, from coarse to fine, and writes error and cost to tuning.json.

    python benchmarks/scoreboard/tune.py [--others PYTHON] [--scenes hang_51 drape_51] [--only mujoco newton]

Settings are run one at a time, and their cost is processor time, which other load changes little. The best settings are
in SETTINGS of the adapters.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from judge import judge
from run import HERE, in_turn, installed
from worker import adapter

mujoco, newton = adapter("mujoco"), adapter("newton")


def discrete(steps: int, **changes: Any) -> dict[str, Any]:
    """Implicit steps of MuJoCo, by their number a frame."""
    return {**mujoco.GUIDE, "timestep": 1.0 / (30 * steps), **changes}


def explicit(integrator: str, timestep: float) -> dict[str, Any]:
    return {**mujoco.EXAMPLE, "integrator": integrator, "timestep": timestep}


def edges(integrator: str, steps: int, stiffness: float, damping: float) -> dict[str, Any]:
    """Edges with length constraints. Stiffness is relative to 1 / h^2, damping to 1 / h, both per inertia of the
    edge."""
    h = 1.0 / (30 * steps)
    found = discrete(steps, integrator=integrator, iterations=2, membrane="edges", edge_solimp=".9999 .9999 .001")
    return {**found, "edge_solref": f"{-stiffness / h**2:.6g} {-damping / h:.6g}"}


def sheets(solver: str, substeps: int, iterations: int, **changes: Any) -> dict[str, Any]:
    return {"solver": solver, "substeps": substeps, "iterations": iterations, **changes}


CG = {"solver": "CG", "iterations": 100}
TRIED: dict[str, dict[str, list[dict[str, Any]]]] = {
    "hang_51": {
        "mujoco": [
            *(discrete(steps) for steps in (2, 4, 8, 16, 18, 32)),
            *(discrete(18, **CG, tolerance=tolerance) for tolerance in (1e-6, 1e-3)),
            *(explicit("Euler", h) for h in (1.2e-4, 1.1e-4, 1e-4, 8e-5)),
            explicit("RK4", 1.5e-4),
            explicit("RK4", 1e-4),
            *(edges("implicitfast", steps, 0.25, 1.0) for steps in (6, 7, 8, 9, 12, 16, 24)),
            *(edges("implicitfast", 8, *of) for of in ((0.1, 1.0), (0.5, 0.5), (1.0, 1.0))),
            *(edges("implicitfast", 16, *of) for of in ((0.1, 1.0), (1.0, 1.0))),
            *(edges("discrete", 10, *of) for of in ((1.0, 1.0), (10.0, 0.0), (10.0, 10.0))),
        ],
        "newton": [
            *(sheets("xpbd", substeps, 1) for substeps in (200, 280, 300, 320, 340, 360, 400, 640)),
            *(sheets("xpbd", 640, iterations) for iterations in (2, 4)),
            sheets("xpbd", 20, 10),
            *(sheets("vbd", *of) for of in ((20, 10), (40, 10), (60, 3), (80, 1), (100, 1), (100, 2), (200, 1))),
        ],
    },
    "drape_51": {
        "mujoco": [
            *(discrete(steps, **CG, contact="passive") for steps in (2, 3, 4)),
            *(discrete(steps, **CG, contact="ipc") for steps in (1, 2, 3)),
            *(discrete(2, contact="ipc", **{**CG, **of}) for of in ({"iterations": 30}, {"tolerance": 1e-4})),
        ],
        "newton": [
            *(sheets("vbd", *of) for of in ((2, 5), (2, 10), (4, 5))),
            sheets("xpbd", 360, 1, damping=0.0),
        ],
    },
    "layers_25": {
        "mujoco": [
            *(discrete(steps, **CG, contact="ipc") for steps in (2, 3)),
            discrete(2, **{**CG, "tolerance": 1e-4}, contact="ipc"),
            discrete(3, **{**CG, "iterations": 400}, contact="passive"),
        ],
        "newton": [
            *(sheets("vbd", *of) for of in ((2, 10), (4, 5), (20, 10))),
            sheets("xpbd", 360, 1, damping=0.0),
        ],
    },
}


MEASURES = ("burst_at_frame", "swing_error_cm", "edge_max", "intersections_at_most", "depth_of_triangles_mm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", default=sys.executable, help="interpreter that has MuJoCo and Newton")
    parser.add_argument("--scenes", nargs="+", choices=list(TRIED), default=list(TRIED))
    parser.add_argument("--only", nargs="+", choices=("mujoco", "newton"), default=("mujoco", "newton"))
    parser.add_argument("--out", type=Path, default=Path("out/tuning"))
    chosen = parser.parse_args()
    path = HERE / "tuning.json"
    rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in chosen.scenes:
        scene = json.loads((HERE / "scenes" / f"{name}.json").read_text(encoding="utf-8"))
        for simulator in chosen.only:
            if not installed(chosen.others, simulator):
                raise SystemExit(f"{simulator} is not installed.")
            found = []
            for settings in TRIED[name][simulator]:
                entry = {f"{simulator}/tried": (chosen.others, simulator, settings)}
                (result,) = in_turn(HERE / "scenes" / f"{name}.json", entry, chosen.out)
                run = np.load(result)
                measured = judge(scene, run["positions"], cpu_ms=run["cpu_ms"])
                found.append({
                    "settings": settings,
                    **{key: measured[key] for key in MEASURES if key in measured},
                    "cpu_ms": measured.get("cpu_ms_per_frame", {}).get("mean"),
                })  # fmt: skip
                print(json.dumps(found[-1]), flush=True)
            rows.setdefault(name, {})[simulator] = found
            path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
