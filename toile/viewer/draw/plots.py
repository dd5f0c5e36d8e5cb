"""Series of the certificate as charts: strain, energies, contacts, milliseconds per stage, over the frames.

    plots = Plots(server.gui)
    plots.show(entries)             entries of the certificate, in order
    plots.show(entries, at=31)      and a line at a frame; frames that are `marked` have a red foot

A line is a series on a scale of its own, 0 to 1, that lies below the chart but for a peak without width; red feet are
the same, filled. uPlot draws charts of this many points without thinning them, which would lose peaks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

# uPlot draws every point up to four for each pixel of a chart that is about 250 pixels wide.
MAX_POINTS = 800

COLORS = ("#4878a8", "#c4564a", "#689668", "#d4a448", "#8c68a0", "#50a0a0", "#8a7460", "#b06a90")
NOW, MARKED = "#222222", "#e02020"

HEIGHT = 150  # [pixels]
BELOW, FOOT, ABOVE = -1.0, 0.07, 2.0  # on the scale from 0 to 1

Values = Mapping[str, float | None]


def _strain(entry: Mapping[str, Any]) -> Values:
    strain = entry.get("strain") or {}
    return {name: _percent(strain.get(f"{name}_max")) for name in ("warp", "weft", "edge")}


def _contacts(entry: Mapping[str, Any]) -> Values:
    contacts = entry.get("contacts") or {}
    pairs = {"intersections": entry["intersections"]} if entry.get("intersections") is not None else {}
    return {"on solids": contacts.get("solid"), "on cloth": contacts.get("cloth"), **pairs}


def _percent(value: float | None) -> float | None:
    return None if value is None else 100.0 * value


# Title, and the figures of an entry
CHARTS: tuple[tuple[str, Callable[[Mapping[str, Any]], Values]], ...] = (
    ("largest strain [%]", _strain),
    ("energy [J]", lambda entry: entry.get("energy") or {}),
    ("contacts", _contacts),
    ("time to compute [ms]", lambda entry: entry.get("ms") or {}),
)


class Plots:
    """Four charts, where they are made in the panel."""

    def __init__(self, gui: Any):
        self._charts = [_Chart(gui, title, values) for title, values in CHARTS]

    def show(self, entries: Sequence[Mapping[str, Any]], at: float | None = None, marked: Collection[int] = ()) -> None:
        """Everything anew. Browsers get all of it, so call it a few times a second and not for every frame."""
        for chart in self._charts:
            chart.read(entries, marked)
        self.point_at(at)

    def point_at(self, frame: float | None) -> None:
        """The line elsewhere, in the charts as they are."""
        for chart in self._charts:
            chart.draw(frame)

    def remove(self) -> None:
        for chart in self._charts:
            chart.remove()


class _Chart:
    def __init__(self, gui: Any, title: str, values: Callable[[Mapping[str, Any]], Values]):
        self.gui, self.title, self.values = gui, title, values
        self.names: list[str] = []
        self.x, self.rows = np.zeros(0), np.zeros((0, 0))
        self.feet: np.ndarray | None = None
        # A chart without series cannot be made: until there are some, this keeps its place.
        self.place = gui.add_folder(None)
        self.handle: Any = None
        self.labels: list[str] = []  # of the series that it was made with

    def read(self, entries: Sequence[Mapping[str, Any]], marked: Collection[int]) -> None:
        found = [self.values(entry) for entry in entries]
        self.names = list(dict.fromkeys(name for row in found for name, value in row.items() if value is not None))
        x = np.array([entry["frame"] for entry in entries], float)
        rows = np.array([[_number(values.get(name)) for values in found] for name in self.names], float)
        feet = np.isin(x, list(marked)).astype(float)
        self.x, columns = _thinned(x, np.vstack([rows.reshape(len(self.names), len(x)), feet]))
        self.rows = columns[:-1]
        self.feet = np.where(columns[-1] > 0.0, FOOT, BELOW) if marked else None

    def draw(self, at: float | None) -> None:
        if not self.names or not len(self.x):
            self.remove()
            return
        x, rows, feet, line = self.x, self.rows, self.feet, None
        if at is not None:
            i = int(np.clip(np.searchsorted(x, at), 0, len(x) - 1))
            x = np.maximum.accumulate(np.insert(x, i, 3 * [at]))  # also before the first entry, and after the last
            rows = np.insert(rows, i, np.repeat(rows[:, i : i + 1], 3, axis=1).T, axis=1)
            line = np.insert(np.full(len(self.x), BELOW), i, [BELOW, ABOVE, BELOW])
            feet = None if feet is None else np.insert(feet, i, 3 * [BELOW])
        series: list[tuple[dict[str, Any], np.ndarray]] = [
            ({"label": name, "stroke": color}, row)
            for name, color, row in zip(self.names, cycle(COLORS), rows, strict=False)
        ]
        if feet is not None:
            series.append(({"label": "marked", "stroke": MARKED, "fill": MARKED, "scale": "line", "width": 1}, feet))
        if line is not None:
            series.append(({"label": "shown", "stroke": NOW, "scale": "line", "width": 1}, line))
        self._send((x, *(row for _, row in series)), [about for about, _ in series])

    def _send(self, data: tuple[np.ndarray, ...], series: list[dict[str, Any]]) -> None:
        labels = [about["label"] for about in series]
        if self.handle is not None and labels == self.labels:
            self.handle.data = data
            return
        self.remove()
        self.labels = labels
        with self.place:
            self.handle = self.gui.add_uplot(
                data=data,
                series=({"label": "frame"}, *({"width": 1.5, "points": {"show": False}, **about} for about in series)),
                scales={"x": {"time": False}, "y": {}, "line": {"range": (0.0, 1.0)}},
                axes=({}, {}),
                title=self.title,
                legend={"show": True, "live": False},
                height=HEIGHT,
            )

    def remove(self) -> None:
        if self.handle is not None:
            self.handle.remove()
            self.handle = None


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _thinned(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points: of several frames in a row the largest, so that no peak is lost."""
    step = -(-len(x) // MAX_POINTS)
    if step <= 1:
        return x, rows
    starts = np.arange(0, len(x), step)
    return x[starts], np.fmax.reduceat(rows, starts, axis=1)
