"""Rows of the suite in a file, written after each case, complete or not at all: a run that is cut keeps them."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from toile.bench.case import SCENES, Case
from toile.bench.machine import machine, versions
from toile.bench.suite import Row
from toile.device.threads import count
from toile.errors import InputError
from toile.math.types import precision
from toile.outputs._atomic import Draft

FORMAT = "toile suite 1"
FOLDER = Path("benchmarks")


class Results:
    """A file of rows that were all measured in one way."""

    def __init__(self, path: Path, way: dict[str, Any]):
        self.path, self.way = path, way
        self.rows: list[Row] = []
        if path.exists():
            found = read(path)
            if found["way"] != way:
                other = " and ".join(key for key in way if found["way"].get(key) != way[key])
                raise InputError(f"{path}: its times have another {other}. Choose another file with --out.")
            self.rows = found["rows"]

    def has(self, case: Case) -> bool:
        """Whether a case has been measured. One that failed is worth another try."""
        return any(_is(row, case.scene, case.size) and row["failed"] is None for row in self.rows)

    def keep(self, row: Row) -> None:
        """In place of an earlier one of the same case; scene by scene, by size."""
        rows = [other for other in self.rows if not _is(other, row["scene"], row["size"])] + [row]
        self.rows = sorted(rows, key=lambda row: (list(SCENES).index(row["scene"]), row["size"]))
        draft = Draft(self.path)
        with draft.finishing():
            head = {"format": FORMAT, "date": datetime.date.today().isoformat(), "way": self.way}
            lines = ",\n".join(json.dumps(entry, allow_nan=False) for entry in self.rows)
            draft.part.write_text(f'{json.dumps(head)[:-1]}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def way(device: str) -> dict[str, Any]:
    """All that times depend on, besides scene and size."""
    found = {"device": device, "precision": precision, "machine": machine(device), "versions": versions()}
    return found | ({"threads": count()} if device == "cpu" else {})


def default_path(device: str, threads: int | None) -> Path:
    parts = [device, *([precision] if precision != "double" else []), *([f"{threads}t"] if threads else [])]
    return FOLDER / f"suite_{'_'.join(parts)}_{datetime.date.today().isoformat()}.json"


def read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as results of the suite.") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{path}: holds no results of the suite.")
    return found


def _is(row: Row, scene: str, size: int) -> bool:
    return (row["scene"], row["size"]) == (scene, size)
