"""Series of the certificate as charts: strain, energies, contacts, milliseconds per stage, over the frames.

    plots = Plots(server.gui)
    plots.show(entries)             entries of the certificate, in order
    plots.show(entries, at=31)      and a line at a frame; frames that are `marked` have a red foot

A line is a series on a scale of its own, 0 to 1, that lies below the chart but for a peak without width; red feet are
the same, filled. uPlot draws charts of this many points without thinning them, which would lose peaks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

# uPlot draws every point up to four for each pixel of a chart that is about 250 pixels wide.
MOST_POINTS = 800

COLOURS = ("#4878a8", "#c4564a", "#689668", "#d4a448", "#8c68a0", "#50a0a0", "#8a7460", "#b06a90")
NOW, MARKED = "#222222", "#e02020"

HEIGHT = 150  # [pixels]
BELOW, FOOT, ABOVE = -1.0, 0.07, 2.0  # on the scale from 0 to 1

Figures = Mapping[str, float | None]


def _strain(entry: Mapping[str, Any]) -> Figures:
    strain = entry.get("strain") or {}
    return {name: _percent(strain.get(f"{name}_max")) for name in ("warp", "weft", "edge")}


def _contacts(entry: Mapping[str, Any]) -> Figures:
    contacts = entry.get("contacts") or {}
    pairs = {"intersections": entry["intersections"]} if entry.get("intersections") is not None else {}
    return {"on solids": contacts.get("solid"), "on cloth": contacts.get("cloth"), **pairs}


def _percent(value: float | None) -> float | None:
    return None if value is None else 100.0 * value


# Title, and the figures of an entry
CHARTS: tuple[tuple[str, Callable[[Mapping[str, Any]], Figures]], ...] = (
    ("largest strain [%]", _strain),
    ("energy [J]", lambda entry: entry.get("energy") or {}),
    ("contacts", _contacts),
    ("time to compute [ms]", lambda entry: entry.get("ms") or {}),
)


class Plots:
    """Four charts, where they are made in the panel."""

    def __init__(self, gui: Any):
        self._charts = [_Chart(gui, title, figures) for title, figures in CHARTS]

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
    def __init__(self, gui: Any, title: str, figures: Callable[[Mapping[str, Any]], Figures]):
        self.gui, self.title, self.figures = gui, title, figures
        self.names: list[str] = []
        self.x, self.rows = np.zeros(0), np.zeros((0, 0))
        self.feet = np.zeros(0)
        # A chart without series cannot be made: until there are some, this keeps its place.
        self.place = gui.add_folder(None)
        self.handle: Any = None

    def read(self, entries: Sequence[Mapping[str, Any]], marked: Collection[int]) -> None:
        found = [self.figures(entry) for entry in entries]
        names = list(dict.fromkeys(name for figures in found for name, value in figures.items() if value is not None))
        x = np.array([entry["frame"] for entry in entries], float)
        rows = np.array([[_number(figures.get(name)) for figures in found] for name in names], float)
        feet = np.isin(x, list(marked)).astype(float)
        if names != self.names:
            self.remove()
            self.names = names
        self.x, columns = _thinned(x, np.vstack([rows.reshape(len(names), len(x)), feet]))
        self.rows, self.feet = columns[:-1], np.where(columns[-1] > 0.0, FOOT, BELOW)

    def draw(self, at: float | None) -> None:
        if not self.names or not len(self.x):
            self.remove()
            return
        x, rows, feet, line = self.x, self.rows, self.feet, np.full(len(self.x), BELOW)
        if at is not None:
            i = int(np.clip(np.searchsorted(x, at), 0, len(x) - 1))
            x = np.insert(x, i, [at, at, at])
            rows = np.insert(rows, i, np.repeat(rows[:, i : i + 1], 3, axis=1).T, axis=1)
            feet = np.insert(feet, i, [BELOW, BELOW, BELOW])
            line = np.insert(line, i, [BELOW, ABOVE, BELOW])
            x = np.maximum.accumulate(x)  # a frame before the first entry, as frame 0 is, or after the last
        data = (x, *rows, feet, line)
        if self.handle is None:
            self._make(data)
        else:
            self.handle.data = data

    def remove(self) -> None:
        if self.handle is not None:
            self.handle.remove()
            self.handle = None

    def _make(self, data: tuple[np.ndarray, ...]) -> None:
        lines = [
            {"label": name, "stroke": COLOURS[i % len(COLOURS)], "width": 1.5, "points": {"show": False}}
            for i, name in enumerate(self.names)
        ]
        extra = {"scale": "line", "width": 1, "points": {"show": False}}
        with self.place:
            self.handle = self.gui.add_uplot(
                data=data,
                series=(
                    {"label": "frame"},
                    *lines,
                    {"label": "marked", "stroke": MARKED, "fill": MARKED, **extra},
                    {"label": "shown", "stroke": NOW, **extra},
                ),
                scales={"x": {"time": False}, "y": {}, "line": {"range": (0.0, 1.0)}},
                axes=({}, {}),
                title=self.title,
                legend={"show": True, "live": False},
                height=HEIGHT,
            )


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _thinned(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points: of several frames in a row the largest, so that no peak is lost."""
    step = -(-len(x) // MOST_POINTS)
    if step <= 1:
        return x, rows
    starts = np.arange(0, len(x), step)
    return x[starts], np.fmax.reduceat(rows, starts, axis=1)
