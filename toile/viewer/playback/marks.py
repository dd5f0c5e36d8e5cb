"""Frames of a run that somebody should look at: what went wrong there, and how far from what was expected it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from toile.runs.expectations import excess, value_at
from toile.scene.schema import Bound
from toile.viewer.draw.text import number

Measure = Callable[[Mapping[str, Any]], float | None]


@dataclass(frozen=True)
class Mark:
    """Frames in a row with the same fault."""

    first: int
    last: int
    worst: int
    what: str

    def __str__(self) -> str:
        frames = f"frame {self.first}" if self.first == self.last else f"frames {self.first}-{self.last}"
        return f"{frames}: {self.what}"


def marks(expect: Mapping[str, Bound], report: Mapping[str, Any], frame_count: int) -> list[Mark]:
    """In the order of the frames. A fault that comes and goes is several."""
    entries = report["frames"]
    found = [
        *_faults("steps rejected", entries, lambda entry: entry.get("rejected")),
        *_faults("pairs of triangles intersect", entries, lambda entry: entry.get("intersections")),
    ]
    for key, bound in expect.items():
        if key.startswith("frames."):
            path = key.removeprefix("frames.")
            found += _outside(path, bound, entries, partial(value_at, path=path))
        elif key in LARGEST_OF_FRAMES and bound.max is not None:
            found += _outside(key, Bound(max=bound.max), entries, LARGEST_OF_FRAMES[key])
    if start := report["summary"].get("intersections_start"):
        found.append(Mark(0, 0, 0, f"pairs of triangles intersect: {start}"))
    if "stopped" in report:
        last = frame_count - 1
        found.append(Mark(last, last, last, "the run stopped here"))
    return sorted(found, key=lambda mark: (mark.first, mark.last))


def marked_frames(found: Sequence[Mark]) -> set[int]:
    return {frame for mark in found for frame in range(mark.first, mark.last + 1)}


def _largest_strain(entry: Mapping[str, Any]) -> float | None:
    strain = entry.get("strain") or {}
    return max(
        (strain[name] for name in ("warp_max", "weft_max", "edge_max") if strain.get(name) is not None), default=None
    )


# Figures of the summary that are the largest of all frames: a limit on them holds for every frame.
LARGEST_OF_FRAMES: dict[str, Measure] = {
    "max_strain": _largest_strain,
    "solid_depth": lambda entry: entry.get("solid_depth"),
}


def _faults(what: str, entries: Sequence[Mapping[str, Any]], measure: Measure) -> list[Mark]:
    """Where there is any of something that there should be none of."""
    return _rows([(entry["frame"], measure(entry), measure(entry) or 0.0) for entry in entries], what)


def _outside(name: str, bound: Bound, entries: Sequence[Mapping[str, Any]], measure: Measure) -> list[Mark]:
    values = [(entry["frame"], measure(entry)) for entry in entries]
    return _rows([(frame, value, excess(value, bound)) for frame, value in values], f"{name} out of bounds")


def _rows(found: Sequence[tuple[int, float | None, float]], what: str) -> list[Mark]:
    """Frame, figure and how bad it is, to one mark for each row of frames in which it is bad at all."""
    rows: list[list[tuple[int, float | None, float]]] = []
    for item in found:
        if item[2] > 0.0:
            if rows and rows[-1][-1][0] == item[0] - 1:
                rows[-1].append(item)
            else:
                rows.append([item])
    made = []
    for row in rows:
        worst, value, _ = max(row, key=lambda item: item[2])
        made.append(Mark(row[0][0], row[-1][0], worst, f"{what}: {number(value)}"))
    return made
