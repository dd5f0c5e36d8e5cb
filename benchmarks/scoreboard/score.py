"""Evaluates results, adds them to scoreboard.json, and prints the tables and the comparison of simulators.

    python benchmarks/scoreboard/score.py [RESULT ...]

A result is named SCENE-SIMULATOR-SETTINGS.npz; README.md describes its contents. Results of earlier runs remain until
they are run again. Without arguments, scoreboard.json is printed.
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
    "sag": ("sag", "{:.3f}"),
    "swing_error_cm": ("swing error [cm]", "{:.1f}"),
    "edge_99": ("edges, 99 %", "{:.1%}"),
    "edge_max": ("longest edge", "{:.1%}"),
    "intersections_at_most": ("intersections", "{:d}"),
    "depth_of_triangles_mm": ("depth [mm]", "{:.2f}"),
}

# A run is accurate within this error, and sound if no edge is longer by more than this.
SWING_CM, EDGE = 4.0, {"hang_51": 0.1, "membrane_51": 0.1, "drape_51": 0.25, "layers_25": 0.25}


def judged(results: list[Path]) -> dict[str, Any]:
    """Returns scoreboard.json with these results added."""
    path = HERE / "scoreboard.json"
    board: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"scenes": {}}
    board.pop("compared", None)
    for file in results:
        name = file.stem.split("-")[0]
        scene = json.loads((HERE / "scenes" / f"{name}.json").read_text(encoding="utf-8"))
        result = np.load(file)
        label = json.loads(str(result["label"]))
        found = judge(scene, result["positions"], ms=result["ms"], cpu_ms=result["cpu_ms"])
        entry = f"{file.stem.split('-')[1]}/{label['settings'].pop('name')}"
        board["scenes"].setdefault(name, {})[entry] = {
            **found,
            "settings": label["settings"],
            "simulator": label["simulator"],
            "machine": machine(),
            "date": datetime.date.today().isoformat(),
        }
    board["compared"] = {name: compared(name, rows) for name, rows in board["scenes"].items() if "strip" not in name}
    return board


def good(scene: str, row: dict[str, Any]) -> bool:
    """Whether a run can be compared: accurate and, in scenes with contact between cloths, without intersections."""
    if row["burst_at_frame"] is not None or row["swing_error_cm"] > SWING_CM:
        return False
    return not scene.startswith(("drape", "layers")) or bool(row["intersections_at_most"] == 0)


def compared(scene: str, rows: dict[str, Any]) -> dict[str, Any]:
    """The default of Toile compared with the fastest settings of each other solver that are good, and good and sound.

    Time is the mean of a frame, because frames differ; a ratio of 2 means that Toile is twice as fast. Only rows of the
    same day are compared, because the speed of machines drifts.
    """
    ours = rows.get("toile/default")
    found: dict[str, Any] = {}
    if ours is None:
        return found
    of_that_day = {name: row for name, row in rows.items() if row.get("date") == ours.get("date")}
    for solver in ("mujoco", "newton/xpbd", "newton/vbd"):
        if not any(name.startswith(solver) for name in of_that_day):
            found[solver] = {"none": "not measured on the day of the present row of Toile"}
            continue
        theirs = {name: row for name, row in of_that_day.items() if name.startswith(solver) and good(scene, row)}
        for kind, some in (
            ("cheapest", theirs),
            ("cheapest that is sound", {name: row for name, row in theirs.items() if row["edge_max"] <= EDGE[scene]}),
        ):
            if some:
                best = min(some, key=lambda name: some[name]["cpu_ms_per_frame"]["mean"])
                ratios = {
                    time: some[best][f"{time}_per_frame"]["mean"] / ours[f"{time}_per_frame"]["mean"]
                    for time in ("ms", "cpu_ms")
                }
                found.setdefault(solver, {})[kind] = {"settings": best, **ratios}
        found.setdefault(solver, {"none": "no settings are good enough"})
    return found


def machine() -> dict[str, Any]:
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    cpu = next((line.split(":")[1].strip() for line in cpus.splitlines() if line.startswith("model name")), "")
    return {"cpu": cpu or platform.processor(), "cores": os.cpu_count(), "python": platform.python_version()}


def table(rows: dict[str, Any]) -> str:
    """The table of one scene in Markdown. Times are means of a frame."""
    names = [key for key in COLUMNS if any(row.get(key) is not None for row in rows.values())]
    titles = ["simulator/settings", *(COLUMNS[key][0] for key in names), "ms a frame", "processor time [ms]", "date"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for name, row in rows.items():
        cells = [COLUMNS[key][1].format(row[key]) if row.get(key) is not None else "-" for key in names]
        if row["burst_at_frame"] is not None:
            cells = [f"burst in frame {row['burst_at_frame']}", *cells[1:]]
        times = [row.get(key) for key in ("ms_per_frame", "cpu_ms_per_frame")]
        took = (f"{ms['mean']:.0f}" if ms else "-" for ms in times)
        lines.append("| " + " | ".join([name, *cells, *took, row.get("date", "-")]) + " |")
    return "\n".join(lines)


def write(board: dict[str, Any]) -> None:
    (HERE / "scoreboard.json").write_text(json.dumps(board, indent=1) + "\n", encoding="utf-8")


def show(board: dict[str, Any]) -> None:
    for name, rows in board["scenes"].items():
        print(f"\n{name}\n\n{table(rows)}")
        for solver, kinds in board["compared"].get(name, {}).items():
            for kind, best in kinds.items():
                if kind != "none":
                    print(f"{kind} of {solver}: {best['settings']}, {best['ms']:.1f} times Toile's time "
                          f"({best['cpu_ms']:.1f} by the processor's)")  # fmt: skip
                else:
                    print(f"{solver}: {best}")


def main() -> None:
    board = judged([Path(name) for name in sys.argv[1:]])
    if sys.argv[1:]:
        write(board)
    show(board)


if __name__ == "__main__":
    main()
