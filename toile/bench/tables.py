"""Tables and notes of the suite's results, the same in a terminal and in the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toile.bench.case import STAGES, Row
from toile.bench.sizes import size_label

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]

NONE = "-"


def times(rows: Sequence[Row]) -> Table:
    """Returns the time per frame [ms], in total and by stage. Rows whose timed window was not reached are marked."""
    shown = (*STAGES, "rest", "audit")
    head = ("scene", "vertices", "frames", "ms/frame", "mean", *shown)
    cells = []
    for row in rows:
        if "window" in row:
            frames = "{}-{}".format(*row["window"]) + ("" if row["begun"] else " *")
            stages = (_format(row["stages"][stage]) for stage in shown)
            found = (frames, _format(row["ms_per_frame"]), _format(row["ms_mean"]), *stages)
        else:
            found = (NONE,) * (3 + len(shown))
        cells.append((row["scene"], _vertices(row), *found))
    return head, cells


def outcomes(rows: Sequence[Row]) -> Table:
    """Returns what was simulated in that time: steps, iterations, errors, contacts and memory."""
    columns = ("iterations", "threads", "strain", "swing", "contacts", "intersections", "memory")
    head = ("scene", "vertices", "steps", "rejected", *columns)
    cells: list[tuple[str, ...]] = []
    for row in rows:
        iterations, contacts = row.get("iterations"), row.get("contacts")
        swing, intersections = row.get("swing_error_cm"), row.get("intersections")
        cells.append((
            row["scene"],
            _vertices(row),
            _count(row.get("steps")),
            _count(row.get("rejected")),
            f"{iterations['median']:.0f}, {iterations['max']}" if iterations else NONE,
            *(_percent(row.get(key)) for key in ("thread_strain", "max_strain")),
            NONE if swing is None else f"{swing:.1f} cm",
            f"{(contacts['solid'] or 0) + contacts['cloth']:,}" if contacts else NONE,
            _count(intersections),
            _memory(row.get("memory")),
        ))  # fmt: skip
    return head, cells


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100.0 * share:.1f} %"


def notes(rows: Sequence[Row], cores: int) -> list[str]:
    """Returns lines that explain the marks, the failures, and whether the machine was busy."""
    lines = []
    load = max((row.get("load") or 0.0 for row in rows), default=0.0)
    if load > cores + 1:  # the case before may still count in the load average
        lines.append(f"! the machine was busy: a load of up to {load:.1f} on {cores} cores")
    if any("window" in row and not row["begun"] for row in rows):
        lines.append("* the budget ended before the timed window of the scene began")
    return lines + [f"{row['scene']} {size_label(row['size'])}: {row['failed']}" for row in rows if row["failed"]]


def growths(found: dict[str, dict[str, Any]]) -> list[str]:
    """Returns a line for each scene on how the time of a frame grows."""
    lines = []
    for scene, entry in found.items():
        (small, large), (first, last) = entry["sizes"], entry["frames"]
        lines.append(
            f"{scene}: n^{entry['exponent']:.2f} from {size_label(small)} to {size_label(large)}, "
            f"n^{entry['steepest']:.2f} where it is steepest (frames {first} to {last})"
        )
    return lines


def _vertices(row: Row) -> str:
    return f"{row['vertices']:,}" if "vertices" in row else size_label(row["size"])


def _format(ms: float) -> str:
    """Formats a time with three digits."""
    return f"{ms:,.0f}" if ms >= 100.0 else f"{ms:.1f}" if ms >= 10.0 else f"{ms:.2f}" if ms >= 0.005 else "0"


def _count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def _memory(peak: dict[str, int | None] | None) -> str:
    """Formats the peak memory of the GPU if there is one, otherwise that of the process."""
    found = peak and (peak["device"] or peak["process"])
    return NONE if not found else f"{found / 1e9:.2f} GB"
