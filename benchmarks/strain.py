"""Compares the methods that limit stretch, and writes the results to benchmarks/strain.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/strain.py [scene ...]

Every method is run on the same scenes at steps of 1/60 s: no limit, the limit in the energy `stretch` (the default),
and the three filters. Results are the largest strain along warp and weft after the first second and before it, time a
frame relative to no limit (all methods stepped in turn), steps, energy that the undamped sheet of `swing` lost in its
first second, and the error of its center of mass relative to a converged explicit run.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from claims import explicit_reference

HERE = Path(__file__).parent
LARGEST = ("warp_max", "weft_max")
STEP = "time.max_step=0.016666666666666666"

# Each filter with the settings of its paper.
NO_LIMIT = {"type": "stretch", "limit_stiffness": 0.0}
WAYS: dict[str, tuple[Any, list[Any]]] = {
    "nothing": (NO_LIMIT, []),
    "stretch": ("stretch", []),
    "strain_impulse": (NO_LIMIT, [{"type": "strain_impulse"}]),
    "strain_velocity": (NO_LIMIT, [{"type": "strain_velocity"}]),
    "strain_deformation_rate": (NO_LIMIT, [{"type": "strain_deformation_rate"}]),
}
SCENES: dict[str, list[str]] = {
    "hang": [],
    "hang, a knit": ["cloth[0].fabric=white_swim_solid"],
    "drape": [],
    "flag": [],
}
# The same sheet with an extension that it does not reach, and one that it does.
SWINGS = {"swing": 0.05, "swing, 1 %": 0.01}


def variant(scene: str, way: str, extension: float, overrides: list[str]) -> Any:
    """A shipped scene with one of the methods, limited to the extension of its fabric."""
    from toile.scene.load import load

    stretch, filters = WAYS[way]
    filters = [item | limits(item["type"], extension) for item in filters]
    plain = load(scene, overrides=["outputs=[]", STEP, *overrides])
    contact = [
        item.model_dump() | {"type": item.type_name()} for item in plain.filters if item.type_name() == "self_contact"
    ]
    energies = f"cloth[0].energies={json.dumps([stretch, 'shear', 'bend_mode'])}"
    changed = [energies, f"filters={json.dumps([*filters, *contact])}"]
    return load(scene, overrides=["outputs=[]", STEP, *overrides, *changed])


def limits(type_name: str, extension: float) -> dict[str, Any]:
    """Limits of extension alone; compression is left to the energies in all methods."""
    if type_name == "strain_deformation_rate":
        return {"structural": extension, "shear": None, "flexion": None}
    return {"extension": extension, "compression": 0.9}


def compare(scene: str, overrides: list[str]) -> dict[str, Any]:
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    extension = load(scene, overrides=overrides).cloth[0].fabric.extension_warp
    found: dict[str, Any] = {"extension": extension}
    simulations, spent = {}, {}
    for way in WAYS:
        simulations[way] = Simulation(variant(scene, way, extension, overrides))
        spent[way] = []
    frames = load(scene, overrides=overrides).time.frames
    for frame in range(frames):
        for way, simulation in list(simulations.items()):
            begin = time.perf_counter()
            try:
                simulation.advance_frame()
            except Exception as error:  # a method that fails is a result
                found[way] = {"failed": f"frame {frame + 1}: {error}"}
                del simulations[way]
                continue
            spent[way].append(time.perf_counter() - begin)
    for way, simulation in simulations.items():
        report = simulation.report()
        strains = np.array([[f["strain"]["warp_max"], f["strain"]["weft_max"]] for f in report["frames"]]).max(axis=1)
        later = np.array([f["time"] > 1.0 for f in report["frames"]])
        summary = report["summary"]
        found[way] = {
            "strain_after_1s": float(strains[later].max()),
            "strain_before": float(strains[~later].max()),
            "ms_per_frame": 1e3 * float(np.mean(spent[way][1:])),
            "time_ratio": float(np.mean(spent[way][1:]) / np.mean(spent["nothing"][1:])),
            "steps": summary["steps"],
            "rejected": summary["rejected"],
            "intersections": summary["intersections"],
        }
    return found


def swing(extension: float) -> dict[str, Any]:
    """The undamped sheet in its first second with an extension; the explicit run has the limit in `stretch`."""
    from toile.simulation.simulation import Simulation

    given = [f"cloth[0].fabric.extension_{thread}={extension}" for thread in ("warp", "weft")]
    reference = explicit_reference(variant("swing", "stretch", extension, given), 1200)
    found = {}
    for way in WAYS:
        simulation = Simulation(variant("swing", way, extension, given))
        masses = simulation.model.masses
        centers = []
        energies = simulation.system.energies(simulation.state.x, simulation.state.v)
        start = sum(energies.values())
        for frame in simulation.run():
            centers.append(masses @ frame.positions / masses.sum())
        last = simulation.report()["frames"][-1]
        weight = masses.sum() * 9.81 * 0.5  # [J]  released by a fall of half its length
        error = np.array(centers[1:]) - reference
        found[way] = {
            "rms_error_cm": 100.0 * float(np.sqrt(np.mean(np.sum(error**2, axis=1)))),
            "energy_lost": (start - sum(last["energy"].values())) / weight,
            "strain": max(max(f["strain"][key] for key in LARGEST) for f in simulation.report()["frames"]),
        }
    return found


def main() -> None:
    path = HERE / "strain.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    wanted = sys.argv[1:] or [*SCENES, *SWINGS]
    for scene in wanted:
        in_swing = scene in SWINGS
        results[scene] = swing(SWINGS[scene]) if in_swing else compare(scene.split(",")[0], SCENES[scene])
        print(scene, json.dumps(results[scene], indent=1), flush=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
