"""Measures strain in all shipped scenes with contact, beside its bounds: benchmarks/contact_strain.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/contact_strain.py [SCENE ...]

Threads should stay within 1.5 times the extension of their fabric (no bound where it has none), all edges below 25 %.
Strains are the largest of any frame; times are those of the process, without the first frame, which loads kernels.
Solves count those of rejected steps too.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
WITHOUT_CONTACT = {"hang", "swing"}
EDGE_BOUND, THREAD_BOUND = 0.25, 1.5


def measure(name: str) -> dict[str, Any]:
    """Runs a scene. Times in ms a frame."""
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    simulation = Simulation(load(name, overrides=["outputs=[]"]))
    times = []
    for _ in range(simulation.scene.time.frames):
        begin = time.process_time()
        simulation.advance_frame()
        times.append(1e3 * (time.process_time() - begin))
    entries, ms = simulation.certificate.frames, times[1:]
    threads = max(max(entry["strain"][key] for key in ("warp_max", "weft_max")) for entry in entries)
    edges = max(entry["strain"]["edge_max"] for entry in entries)
    extension = float(np.max(simulation.model.extensions(), initial=0.0))
    steps = sum(entry["steps"] for entry in entries)
    return {
        "extension": extension if np.isfinite(extension) else None,
        "threads": round(threads, 3),
        "edges": round(edges, 3),
        "inside": bool(threads <= THREAD_BOUND * extension and edges < EDGE_BOUND),
        "intersections_end": entries[-1]["intersections"],
        "steps_per_frame": round(steps / len(entries), 2),
        "rejected": sum(entry["rejected"] for entry in entries),
        "ms_median": round(float(np.median(ms)), 1),
        "ms_mean": round(float(np.mean(ms)), 1),
        "largest_over_median": round(float(np.max(ms) / np.median(ms)), 1),
    }


def main() -> None:
    from toile.cli.catalog import scenes

    path = HERE / "contact_strain.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in sys.argv[1:] or sorted(set(scenes()) - WITHOUT_CONTACT):
        try:
            results[name] = measure(name)
        except Exception as error:  # a scene that fails is a result
            results[name] = {"failed": str(error)}
        print(name, json.dumps(results[name]), flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
