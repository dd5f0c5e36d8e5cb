"""Runs all simulators on all scenes, frame by frame in turn, and writes the evaluation to scoreboard.json.

    python benchmarks/scoreboard/run.py [--others PYTHON] [--scenes hang_51 ...] [--only mujoco/guide ...] [--out DIR]

PYTHON is the interpreter of an environment with MuJoCo and Newton (README.md), by default this one. Simulators that
cannot be imported are left out. Every simulator is a separate process with one thread; only one of them computes at a
time, and all take turns within each frame, so that other load on the machine affects all of them alike.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from worker import adapter

HERE = Path(__file__).parent
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")} | {"TOILE_THREADS": "1"}

# Simulator and settings: those of its examples, and tuned ones.
BOARD: dict[str, tuple[str, ...]] = {
    "strip_11": ("toile/default", "mujoco/guide", "newton/xpbd 640", "newton/vbd example", "newton/vbd converged"),
    "hang_51": (
        "toile/default", "toile/half steps", "mujoco/example", "mujoco/guide", "mujoco/explicit 0.1 ms",
        "mujoco/edges 4.2 ms", "newton/xpbd example", "newton/xpbd 320", "newton/vbd example", "newton/vbd 100",
    ),
    "membrane_51": (
        "toile/default", "mujoco/guide", "mujoco/discrete 1.8 ms", "mujoco/explicit 0.1 ms", "newton/xpbd example",
        "newton/xpbd 320", "newton/vbd example", "newton/vbd 100",
    ),
    "drape_51": (
        "toile/default", "toile/half steps", "mujoco/example", "mujoco/guide", "mujoco/passive 11 ms",
        "mujoco/ipc 11 ms", "mujoco/ipc 33 ms", "newton/xpbd example", "newton/xpbd 360 undamped",
        "newton/vbd example", "newton/vbd 2",
    ),
    "layers_25": (
        "toile/default", "toile/half steps", "mujoco/example", "mujoco/guide", "mujoco/passive 11 ms",
        "mujoco/ipc 11 ms", "mujoco/ipc 17 ms", "mujoco/ipc 33 ms", "newton/xpbd 360 undamped", "newton/vbd example",
        "newton/vbd 2",
    ),
}  # fmt: skip


class Worker:
    """A simulator in a process that waits for its turn."""

    def __init__(self, python: str, simulator: str, settings: dict[str, Any], scene: Path, result: Path) -> None:
        command = [python, str(HERE / "worker.py"), simulator, str(scene), json.dumps(settings), str(result)]
        self.result = result
        self.log = result.with_suffix(".log").open("w", encoding="utf-8")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
        self.label = self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.result.stem} stopped: see {self.log.name}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def frame(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._reply()

    def finish(self) -> Path:
        self.process.communicate()
        self.log.close()
        return self.result


def installed(python: str, simulator: str) -> bool:
    return subprocess.run([python, "-c", f"import {simulator}"], capture_output=True, cwd=HERE.parent).returncode == 0


def in_turn(scene: Path, entries: dict[str, tuple[str, str, dict[str, Any]]], out: Path) -> list[Path]:
    """Returns the results of the entries, which are (interpreter, simulator, settings) by name."""
    out.mkdir(parents=True, exist_ok=True)
    workers = []
    for name, (python, simulator, settings) in entries.items():
        result = out / f"{scene.stem}-{name.replace('/', '-').replace(' ', '_')}.npz"
        workers.append(Worker(python, simulator, {"name": name.split("/")[-1], **settings}, scene, result))
        print(f"{scene.stem}: {name} is ready", flush=True)
    frames = json.loads(scene.read_text(encoding="utf-8"))["time"]["frames"]
    for frame in range(frames):
        took = [worker.frame()["ms"] for worker in workers]
        print(f"\r{scene.stem}: frame {frame + 1} of {frames}, {sum(took):.0f} ms ", end="", flush=True)
    print()
    return [worker.finish() for worker in workers]


def main() -> None:
    from score import judged, show, write

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", default=sys.executable, help="interpreter that has MuJoCo and Newton")
    parser.add_argument("--scenes", nargs="+", choices=list(BOARD), default=list(BOARD))
    parser.add_argument("--only", nargs="+", default=[], help="simulators, or simulator/settings")
    parser.add_argument("--out", type=Path, default=Path("out/scoreboard"))
    chosen = parser.parse_args()
    pythons = {name: chosen.others if name != "toile" else sys.executable for name in ("toile", "mujoco", "newton")}
    for name in [name for name, python in pythons.items() if not installed(python, name)]:
        print(f"{name} is not installed: left out")
        del pythons[name]
    results = []
    for scene in chosen.scenes:
        entries = {}
        for entry in BOARD[scene]:
            simulator, settings = entry.split("/")
            if simulator in pythons and (not chosen.only or simulator in chosen.only or entry in chosen.only):
                entries[entry] = (pythons[simulator], simulator, adapter(simulator).SETTINGS[settings])
        results += in_turn(HERE / "scenes" / f"{scene}.json", entries, chosen.out)
    board = judged(results)
    write(board)
    show(board)


if __name__ == "__main__":
    main()
