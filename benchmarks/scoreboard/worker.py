"""Runs one simulator on one scene, frame by frame on request, so that several can take turns.

    python benchmarks/scoreboard/worker.py ADAPTER SCENE SETTINGS RESULT

SETTINGS is JSON. Each line on the standard input requests a frame. The first line on the standard output names the
simulator, and each further line has the milliseconds of a frame. When the input ends, RESULT is written (README.md).
Only the selected simulator is imported, so each may have its own environment.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np

HERE = Path(__file__).parent
FAR = 1e3  # [m]  a cloth that is this far away has burst, and its further frames may take forever


def adapter(name: str) -> ModuleType:
    """Imports an adapter by path, because its name is that of the package it imports."""
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", HERE / "adapters" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    # Output of simulators is redirected to the standard error.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, scene_file, settings, result = sys.argv[1:]
    scene = json.loads(Path(scene_file).read_text(encoding="utf-8"))
    module = adapter(name)
    running = module.run(scene, json.loads(settings))
    positions, ms, cpu = [next(running)], [], []
    label = {"simulator": module.version(), "settings": json.loads(settings)}
    print(json.dumps(label), file=replies, flush=True)
    for _ in sys.stdin:
        if np.abs(positions[-1]).max() < FAR:  # NaN does not count as inside either
            begin, begin_cpu = time.perf_counter(), time.process_time()
            positions.append(next(running))
            ms.append(1e3 * (time.perf_counter() - begin))
            cpu.append(1e3 * (time.process_time() - begin_cpu))
        else:
            positions.append(np.full_like(positions[0], np.nan))
        print(json.dumps({"ms": ms[-1], "cpu_ms": cpu[-1]}), file=replies, flush=True)
    np.savez_compressed(result, positions=np.array(positions), ms=ms, cpu_ms=cpu, label=json.dumps(label))


if __name__ == "__main__":
    main()
