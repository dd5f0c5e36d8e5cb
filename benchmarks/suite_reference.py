"""Writes the reference swings of `toile bench --suite`: toile/bench/swing.json.

    OPENBLAS_NUM_THREADS=1 TOILE_THREADS=1 python benchmarks/suite_reference.py [26 51 101 ...]

The arguments are numbers of vertices along the side of the sheet; references of other sizes remain. The method is
symplectic Euler, as for all comparisons (claims.py, explicit_reference), with 1,200 steps a frame, or 2,400 from 101
vertices on, because stable steps shrink with the mesh. It takes half a minute for 51 and four minutes for 101.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise

import numpy as np
from claims import explicit_reference, sheet

from toile.bench.swing import FILE

SIDES = (26, 51, 101)


def steps_for(side: int) -> int:
    """The number of steps a frame."""
    return 1200 if side < 101 else 2400


def difference(a: list[list[float]], b: list[list[float]]) -> float:
    """Root mean square distance of two paths [m]."""
    return float(np.sqrt(np.mean(np.sum((np.array(a) - b) ** 2, axis=1))))


def main() -> None:
    found = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"references": []}
    known = {entry["side"]: entry for entry in found["references"]}
    for side in [int(argument) for argument in sys.argv[1:]] or SIDES:
        centers = explicit_reference(sheet(side, 5e3), steps_for(side))  # it starts at the origin
        known[side] = {"side": side, "steps_per_frame": steps_for(side), "centers": centers.round(7).tolist()}
        print(side, flush=True)
    rows = [known[side] for side in sorted(known)]
    for coarse, fine in pairwise(rows):
        fine["change_from_the_one_before_m"] = round(difference(coarse["centers"], fine["centers"]), 5)
    about = "center of mass of the scene swing at frames 1 to 30, from its start [m], by symplectic Euler"
    FILE.write_text(json.dumps({"about": about, "references": rows}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
