"""The results file of the suite, written atomically after each case, so that an interrupted suite keeps its rows."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from toile.bench.case import SCENES, Case, Row
from toile.bench.machine import machine, versions
from toile.device.threads import count
from toile.errors import InputError
from toile.math.types import precision
from toile.outputs._atomic import Draft

FORMAT = "toile suite 1"
FOLDER = Path("benchmarks")


class Results:
    """A file of rows that were all measured under the same conditions."""

    def __init__(self, path: Path, conditions: dict[str, Any]):
        self.path, self.conditions = path, conditions
        self.rows: list[Row] = []
        if path.exists():
            found = read(path)
            before = found["conditions"]
            if before != conditions:
                other = " and ".join(key for key in conditions if before.get(key) != conditions[key])
                raise InputError(f"{path}: was measured with another {other}. Choose another file with --out.")
            self.rows = found["rows"]

    def has(self, case: Case) -> bool:
        """Whether a case has been measured. A failed case is measured again."""
        return any(_is(row, case.scene, case.size) and row["failed"] is None for row in self.rows)

    def add(self, row: Row) -> None:
        """Adds a row, in place of an earlier one of the same case, and writes the file, sorted by scene and size."""
        rows = [other for other in self.rows if not _is(other, row["scene"], row["size"])] + [row]
        self.rows = sorted(rows, key=lambda row: (list(SCENES).index(row["scene"]), row["size"]))
        draft = Draft(self.path)
        with draft.finishing():
            head = {"format": FORMAT, "date": datetime.date.today().isoformat(), "conditions": self.conditions}
            lines = ",\n".join(json.dumps(entry, allow_nan=False) for entry in self.rows)
            draft.part.write_text(f'{json.dumps(head)[:-1]}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def conditions_on(device: str) -> dict[str, Any]:
    """Returns all that times on a device depend on besides scene and size: machine, versions, precision, threads."""
    found = {"device": device, "precision": precision, "machine": machine(device), "versions": versions()}
    return found | ({"threads": count()} if device == "cpu" else {})


def default_path(device: str, threads: int | None) -> Path:
    """Returns the results file of today, such as benchmarks/suite_cpu_2026-11-20.json."""
    parts = [device, *([precision] if precision != "double" else []), *([f"{threads}t"] if threads else [])]
    return FOLDER / f"suite_{'_'.join(parts)}_{datetime.date.today().isoformat()}.json"


def read(path: Path) -> dict[str, Any]:
    """Reads a results file; InputError if it is not one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as results of the suite.") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{path}: holds no results of the suite.")
    return found


def _is(row: Row, scene: str, size: int) -> bool:
    return (row["scene"], row["size"]) == (scene, size)
