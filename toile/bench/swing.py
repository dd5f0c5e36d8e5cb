"""Error of a swinging sheet: the distance of its center of mass from a reference.

    e = sqrt( 1/30 sum_k |c_k - c_k^ref|^2 ),    k = 1 ... 30, the frames of the first second

The sheet is that of the scene `swing`. Its reference is symplectic Euler with tiny steps, which shares the forces with
Toile but none of its solvers (benchmarks/suite_reference.py makes swing.json). A sheet is compared with the reference
whose number of vertices along a side is nearest, and one that is finer than all of them with the finest: from 26 to 51
the reference changes by 6.3 mm, from 51 to 101 by 2.2 mm, so that about one millimeter remains to convergence. Half as
many steps change it by half a millimeter.

Symbols     c  center of mass, relative to its start [m]
Deviations  none
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = Path(__file__).with_name("swing.json")


def reference(side: int) -> np.ndarray:
    """Returns the center of mass at frames 1 to 30 of the reference that is nearest to `side` vertices along a side."""
    known: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["references"]
    nearest = min(known, key=lambda entry: abs(np.log(entry["side"] / side)))
    return np.array(nearest["centers"])


def error(centers: Sequence[np.ndarray], side: int) -> float | None:
    """Returns the error [m] of the centers of frames 0, 1, ...; None if they end before the first second does."""
    expected = reference(side)
    if len(centers) <= len(expected):
        return None
    difference = np.array(centers[1 : len(expected) + 1]) - centers[0] - expected
    return float(np.sqrt(np.mean(np.sum(difference**2, axis=1))))
