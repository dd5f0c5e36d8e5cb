"""Frames of a run that need attention: rejected steps, intersections, values out of the expected bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from toile.runs.expectations import excess, value_at
from toile.scene.schema import Bound
from toile.viewer.draw.text import number

Measure = Callable[[Mapping[str, Any]], float | None]  # of an entry of the certificate


@dataclass(frozen=True)
class FlaggedFrames:
    """Consecutive frames with the same fault."""

    first: int
    last: int
    worst: int
    reason: str

    def __str__(self) -> str:
        frames = f"frame {self.first}" if self.first == self.last else f"frames {self.first}-{self.last}"
        return f"{frames}: {self.reason}"


def find_flagged(expect: Mapping[str, Bound], report: Mapping[str, Any], frame_count: int) -> list[FlaggedFrames]:
    """Returns the flagged frames in order. A fault that comes and goes gives several entries."""
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
        found.append(FlaggedFrames(0, 0, 0, f"pairs of triangles intersect: {start}"))
    if "stopped" in report:
        last = frame_count - 1
        found.append(FlaggedFrames(last, last, last, "the run stopped here"))
    return sorted(found, key=lambda flagged: (flagged.first, flagged.last))


def frame_numbers(found: Sequence[FlaggedFrames]) -> set[int]:
    return {frame for flagged in found for frame in range(flagged.first, flagged.last + 1)}


def _largest_strain(entry: Mapping[str, Any]) -> float | None:
    strain = entry.get("strain") or {}
    return max(
        (strain[name] for name in ("warp_max", "weft_max", "edge_max") if strain.get(name) is not None), default=None
    )


# Values of the summary that are the maximum over all frames: a bound on them holds for every frame.
LARGEST_OF_FRAMES: dict[str, Measure] = {
    "max_strain": _largest_strain,
    "solid_depth": lambda entry: entry.get("solid_depth"),
}


def _faults(reason: str, entries: Sequence[Mapping[str, Any]], measure: Measure) -> list[FlaggedFrames]:
    """Flags the frames in which a count that should be 0 is positive."""
    return _grouped([(entry["frame"], measure(entry), measure(entry) or 0.0) for entry in entries], reason)


def _outside(name: str, bound: Bound, entries: Sequence[Mapping[str, Any]], measure: Measure) -> list[FlaggedFrames]:
    values = [(entry["frame"], measure(entry)) for entry in entries]
    return _grouped([(frame, value, excess(value, bound)) for frame, value in values], f"{name} out of bounds")


def _grouped(found: Sequence[tuple[int, float | None, float]], reason: str) -> list[FlaggedFrames]:
    """Groups consecutive frames with positive severity. Each item is a frame, its value and its severity."""
    groups: list[list[tuple[int, float | None, float]]] = []
    for item in found:
        if item[2] > 0.0:
            if groups and groups[-1][-1][0] == item[0] - 1:
                groups[-1].append(item)
            else:
                groups.append([item])
    flagged = []
    for group in groups:
        worst, value, _ = max(group, key=lambda item: item[2])
        flagged.append(FlaggedFrames(group[0][0], group[-1][0], worst, f"{reason}: {number(value)}"))
    return flagged
