"""Measures the filter strain_velocity ([BMF03] sec. 3), and writes the results to benchmarks/strain_velocity.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/strain_velocity.py [passes | fold | hang | knit | drape ...]

passes  a sheet of 33 x 33 weak springs swings from two corners for a second; the largest strain by passes
fold    the scene bmf03_fold with and without its limit of compression: strain, and zero crossings of the height
hang, drape  the shipped scenes at steps of 1/60 s with the default integrator, with and without the filter: largest
        strain along warp and weft before and after the first second, time, energy. Variants are stepped in turn, and
        `stretch` does not stiffen by itself. `knit` is `hang` with a fabric that stretches more easily.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from toile.model.springs import STRUCTURAL, springs_of
from toile.scene.load import load
from toile.simulation.simulation import Simulation

HERE = Path(__file__).parent
LEAST = (0.002, 0.006)  # [m]  lower waves are not counted; the second is half a cell
PASSES = (0, 1, 2, 5, 10, 20)
SWING = [
    "preset=bmf03", "outputs=[]", "cloth[0].shape.resolution=[33, 33]", "time={frames: 30, fps: 30, max_step: 0.001}",
    "cloth[0].energies=[{type: spring, structural: 20, shear: 20, flexion: 0}, bend_mode]",
]  # fmt: skip
ALONE = {"type": "strain_velocity", "compression": None, "shear_extension": None}
WAYS: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "+10 % -0 %": [{"type": "strain_velocity"}],
    "+5 %": [{**ALONE, "extension": 0.05}],
    "+1 %": [{**ALONE, "extension": 0.01}],
}
KNIT = "cloth[0].fabric=white_swim_solid"


class Threads:
    """Structural springs of the first cloth."""

    def __init__(self, simulation: Simulation):
        self.springs = springs_of(simulation.model.parts[0]).of(STRUCTURAL)

    def strains(self, x: np.ndarray) -> np.ndarray:
        i, j = self.springs.particles.T
        return np.linalg.norm(x[j] - x[i], axis=1) / self.springs.lengths - 1.0


def passes() -> dict[str, Any]:
    found = {}
    for count in PASSES:
        filters = [{"type": "strain_velocity", "passes": count}] if count else []
        simulation = Simulation(load("hang", overrides=[*SWING, f"filters={json.dumps(filters)}"]))
        threads, begin = Threads(simulation), time.perf_counter()
        strains = np.array([threads.strains(frame.positions) for frame in simulation.run()])
        found[str(count)] = {
            "longest": float(strains.max()),
            "shortest": float(strains.min()),
            "at_the_end": float(strains[-1].max()),
            "seconds": time.perf_counter() - begin,
        }
    return found


def fold() -> dict[str, Any]:
    found = {}
    for compression in ("0.0", "null"):
        overrides = ["outputs=[]", f"filters[0].compression={compression}"]
        simulation = Simulation(load("bmf03_fold", overrides=overrides))
        threads = Threads(simulation)
        frames = [frame.positions for frame in simulation.run()]
        strains = np.array([threads.strains(x) for x in frames])
        around, along = simulation.scene.cloth[0].shape.resolution  # type: ignore[attr-defined]
        radius = np.hypot(*frames[-1][:, :2].T).reshape(along, around)
        height = radius - radius.mean()
        found[f"compression {compression}"] = {
            "longest": float(strains.max()),
            "shortest": float(strains.min()),
            "outside_by_a_point": float(np.mean((strains > 0.11) | (strains < -0.01))),
            "crossings_per_ring": {f"{1e3 * least:g} mm": _zero_crossings(height, least) / along for least in LEAST},
            "crossings_per_thread": {
                f"{1e3 * least:g} mm": _zero_crossings(height.T, least, closed=False) / around for least in LEAST
            },
            "height_rms_mm": 1e3 * float(height.std()),
        }
    return found


def _zero_crossings(lines: np.ndarray, least: float, closed: bool = True) -> int:
    """The number of changes between ridge and valley over all lines; heights below `least` are neither."""
    count = 0
    for line in lines:
        sides = np.sign(line[np.abs(line) > least])
        changes = sides != np.roll(sides, 1)
        count += int(np.count_nonzero(changes if closed else changes[1:]))
    return count


def scene(name: str, *overrides: str) -> dict[str, Any]:
    common = ["outputs=[]", "time.max_step=0.016666666666666666", "time.frames=60"]
    common += [*overrides, "cloth[0].energies=[{type: stretch, limit_stiffness: 0}, shear, bend_mode]"]
    contact = [item.model_dump() for item in load(name).filters]
    simulations = {
        way: Simulation(load(name, overrides=[*common, f"filters={json.dumps([*filters, *contact])}"]))
        for way, filters in WAYS.items()
    }
    spent: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(60):
        for way, simulation in simulations.items():
            begin = time.perf_counter()
            simulation.advance_frame()
            spent[way].append(time.perf_counter() - begin)
    found = {}
    for way, simulation in simulations.items():
        report = simulation.report()
        strain = np.array([max(f["strain"]["warp_max"], f["strain"]["weft_max"]) for f in report["frames"]])
        late = np.array([f["time"] > 1.0 for f in report["frames"]])
        found[way] = {
            "strain_before_1s": float(strain[~late].max()),
            "strain_after_1s": float(strain[late].max()),
            "time_ratio": float(np.sum(spent[way][1:]) / np.sum(spent["nothing"][1:])),
            "ms_per_frame": 1e3 * float(np.mean(spent[way][1:])),
            "energy_at_1s": sum(report["frames"][29]["energy"].values()),
            "energy_at_2s": sum(report["frames"][59]["energy"].values()),
            "steps": report["summary"]["steps"],
            "rejected": report["summary"]["rejected"],
        }
    return found


def main() -> None:
    path = HERE / "strain_velocity.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in sys.argv[1:] or ["passes", "fold", "hang", "knit", "drape"]:
        measured = {"passes": passes, "fold": fold, "knit": lambda: scene("hang", KNIT)}
        results[name] = measured[name]() if name in measured else scene(name)
        print(name, json.dumps(results[name], indent=1), flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
