"""Judges all results in a folder, adds them to scoreboard.json and prints them as tables.

    python benchmarks/scoreboard/score.py out/*.npz

A result is called SCENE-SIMULATOR-SETTINGS.npz, as run.py calls it. Results of earlier runs stay until run anew.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
from judge import judge

HERE = Path(__file__).parent
COLUMNS = {
    "swing_error_cm": ("swing error [cm]", "{:.1f}"),
    "strain_mean": ("mean strain", "{:.2%}"),
    "edge_99": ("edges, 99 %", "{:.1%}"),
    "edge_max": ("largest edge", "{:.1%}"),
    "intersections_at_most": ("crossings", "{:d}"),
    "depth_of_triangles_mm": ("depth [mm]", "{:.2f}"),
}


def table(rows: dict[str, Any]) -> str:
    """Of one scene, in Markdown."""
    names = [key for key in COLUMNS if any(row.get(key) is not None for row in rows.values())]
    titles = ["simulator, settings", *(COLUMNS[key][0] for key in names), "ms a frame", "processor's ms"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for name, row in rows.items():
        cells = [COLUMNS[key][1].format(row[key]) if row.get(key) is not None else "-" for key in names]
        times = [f"{row[key]['median']:.0f}" for key in ("ms_per_frame", "cpu_ms_per_frame")]
        lines.append("| " + " | ".join([name, *cells, *times]) + " |")
    return "\n".join(lines)


def main() -> None:
    path = HERE / "scoreboard.json"
    board = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"scenes": {}}
    for file in sys.argv[1:]:
        name = Path(file).stem.split("-")[0]
        scene = json.loads((HERE / "scenes" / f"{name}.json").read_text(encoding="utf-8"))
        result = np.load(file)
        if len(result["positions"]) != scene["time"]["frames"] + 1:
            print(f"{file} is not of all frames: left out")
            continue
        label = json.loads(str(result["label"]))
        found = judge(scene, result["positions"], ms=result["ms"], cpu_ms=result["cpu_ms"])
        rows = board["scenes"].setdefault(name, {})
        rows[f"{label['simulator']}, {label['settings']['name']}"] = {
            **found,
            "settings": label["settings"],
            "date": datetime.date.today().isoformat(),
        }
    board["machine"] = {"cpu": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    path.write_text(json.dumps(board, indent=1) + "\n", encoding="utf-8")
    for name, rows in board["scenes"].items():
        print(f"\n{name}\n\n{table(rows)}")


def processor() -> str:
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    return next((line.split(":")[1].strip() for line in cpus.splitlines() if line.startswith("model name")), "")


if __name__ == "__main__":
    main()
