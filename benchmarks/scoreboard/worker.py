"""One simulator on one scene, frame by frame on request, so that several can take turns.

    python benchmarks/scoreboard/worker.py ADAPTER SCENE SETTINGS RESULT

SETTINGS is JSON. Each line on the standard input asks for a frame; each line on the standard output answers: first with
what simulates, then with the milliseconds that frames took. When the input ends, RESULT is written (README.md). Only
the chosen simulator is imported, so each may live in an environment of its own.
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
FAR = 1e3  # [m] A cloth that has come so far has burst, and its further frames may take for ever.


def adapter(name: str) -> ModuleType:
    """By path: its name is that of the package it imports."""
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", HERE / "adapters" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    # What simulators print is no answer: it goes to the standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, scene_file, settings, result = sys.argv[1:]
    scene = json.loads(Path(scene_file).read_text(encoding="utf-8"))
    module = adapter(name)
    running = module.run(scene, json.loads(settings))
    positions, ms, cpu = [next(running)], [], []
    label = {"simulator": module.version(), "settings": json.loads(settings)}
    print(json.dumps(label), file=answers, flush=True)
    for _ in sys.stdin:
        if np.abs(positions[-1]).max() < FAR:  # not if it is no number, either
            begin, begin_cpu = time.perf_counter(), time.process_time()
            positions.append(next(running))
            ms.append(1e3 * (time.perf_counter() - begin))
            cpu.append(1e3 * (time.process_time() - begin_cpu))
        else:
            positions.append(np.full_like(positions[0], np.nan))
        print(json.dumps({"ms": ms[-1], "cpu_ms": cpu[-1]}), file=answers, flush=True)
    np.savez_compressed(result, positions=np.array(positions), ms=ms, cpu_ms=cpu, label=json.dumps(label))


if __name__ == "__main__":
    main()
