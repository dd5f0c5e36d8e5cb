"""Runs one simulator on one scene and keeps positions and times.

    python benchmarks/scoreboard/run.py mujoco scenes/hang_51.json out/ [--settings example] [--frames 30]

Only the chosen simulator is imported, so each may live in an environment of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from types import ModuleType

import numpy as np

HERE = Path(__file__).parent


def adapter(name: str) -> ModuleType:
    """By path: its name is that of the package it imports."""
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", HERE / "adapters" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulator", choices=sorted(path.stem for path in (HERE / "adapters").glob("*.py")))
    parser.add_argument("scene", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--settings", help="a name of the adapter's SETTINGS; the first when not given")
    parser.add_argument("--frames", type=int, help="fewer than the scene has")
    chosen = parser.parse_args()
    scene = json.loads(chosen.scene.read_text(encoding="utf-8"))
    module = adapter(chosen.simulator)
    name = chosen.settings or next(iter(module.SETTINGS))
    running = module.run(scene, module.SETTINGS[name])
    positions, ms, cpu = [next(running)], [], []
    for _ in range(chosen.frames or scene["time"]["frames"]):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        positions.append(next(running))
        ms.append(1e3 * (time.perf_counter() - begin))
        cpu.append(1e3 * (time.process_time() - begin_cpu))
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / f"{chosen.scene.stem}-{chosen.simulator}-{name.replace(', ', '_').replace(' ', '_')}.npz"
    label = {"simulator": module.version(), "settings": {"name": name, **module.SETTINGS[name]}}
    np.savez_compressed(path, positions=np.array(positions), ms=ms, cpu_ms=cpu, label=json.dumps(label))
    print(path, f"median {np.median(ms[1:]):.1f} ms a frame, processor time {np.median(cpu[1:]):.1f} ms")


if __name__ == "__main__":
    main()
