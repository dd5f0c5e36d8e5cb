"""Charts of the certificate over the frames: strain, energies, contacts, milliseconds per stage.

    plots = Plots(server.gui)
    plots.show(entries)             entries of the certificate, in order
    plots.show(entries, at=31)      with a vertical line at a frame; `flagged` frames have a red bar at the bottom

The vertical line is a series on a scale of its own, 0 to 1, that lies below the chart except for a peak without width;
the red bars are another, filled one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from toile.viewer.draw.palette import FLAGGED, SERIES

# uPlot thins longer series, which would lose peaks: it draws every point up to four for each pixel of a chart, which is
# about 250 pixels wide.
MAX_POINTS = 800

CURRENT = "#222222"  # color of the line at the current frame

HEIGHT = 150  # [pixels]
BELOW, BAR, ABOVE = -1.0, 0.07, 2.0  # heights on the scale from 0 to 1

Entry = Mapping[str, Any]  # of the certificate, for one frame
Values = Mapping[str, float | None]


def _strain(entry: Entry) -> Values:
    strain = entry.get("strain") or {}
    return {name: _percent(strain.get(f"{name}_max")) for name in ("warp", "weft", "edge")}


def _contacts(entry: Entry) -> Values:
    contacts = entry.get("contacts") or {}
    pairs = {"intersections": entry["intersections"]} if entry.get("intersections") is not None else {}
    return {"on solids": contacts.get("solid"), "on cloth": contacts.get("cloth"), **pairs}


def _percent(value: float | None) -> float | None:
    return None if value is None else 100.0 * value


# Title of each chart, and its values in an entry of the certificate
CHARTS: tuple[tuple[str, Callable[[Entry], Values]], ...] = (
    ("largest strain [%]", _strain),
    ("energy [J]", lambda entry: entry.get("energy") or {}),
    ("contacts", _contacts),
    ("time to compute [ms]", lambda entry: entry.get("ms") or {}),
)


class Plots:
    """Four charts, in the container of the panel in which they are made."""

    def __init__(self, gui: Any):
        self._charts = [_Chart(gui, title, values) for title, values in CHARTS]

    def show(self, entries: Sequence[Entry], at: float | None = None, flagged: Collection[int] = ()) -> None:
        """Replaces all data. Browsers receive all of it, so call this a few times a second and not for every frame."""
        for chart in self._charts:
            chart.read(entries, flagged)
        self.point_at(at)

    def point_at(self, frame: float | None) -> None:
        """Moves the vertical line to a frame."""
        for chart in self._charts:
            chart.draw(frame)

    def remove(self) -> None:
        for chart in self._charts:
            chart.remove()


class _Chart:
    def __init__(self, gui: Any, title: str, values: Callable[[Entry], Values]):
        self.gui, self.title, self.values = gui, title, values
        self.names: list[str] = []
        self.x, self.rows = np.zeros(0), np.zeros((0, 0))
        self.bars: np.ndarray | None = None
        # viser cannot make a chart without series: this reserves its place until there are some.
        self.place = gui.add_folder(None)
        self.handle: Any = None
        self.labels: list[str] = []  # of the series that it was made with

    def read(self, entries: Sequence[Entry], flagged: Collection[int]) -> None:
        found = [self.values(entry) for entry in entries]
        self.names = list(dict.fromkeys(name for row in found for name, value in row.items() if value is not None))
        x = np.array([entry["frame"] for entry in entries], float)
        rows = np.array([[_number(values.get(name)) for values in found] for name in self.names], float)
        bars = np.isin(x, list(flagged)).astype(float)
        self.x, columns = _thinned(x, np.vstack([rows.reshape(len(self.names), len(x)), bars]))
        self.rows = columns[:-1]
        self.bars = np.where(columns[-1] > 0.0, BAR, BELOW) if flagged else None

    def draw(self, at: float | None) -> None:
        if not self.names or not len(self.x):
            self.remove()
            return
        x, rows, bars, line = self.x, self.rows, self.bars, None
        if at is not None:
            i = int(np.clip(np.searchsorted(x, at), 0, len(x) - 1))
            x = np.maximum.accumulate(np.insert(x, i, 3 * [at]))  # `at` may be before the first entry or after the last
            rows = np.insert(rows, i, np.repeat(rows[:, i : i + 1], 3, axis=1).T, axis=1)
            line = np.insert(np.full(len(self.x), BELOW), i, [BELOW, ABOVE, BELOW])
            bars = None if bars is None else np.insert(bars, i, 3 * [BELOW])
        series: list[tuple[dict[str, Any], np.ndarray]] = [
            ({"label": name, "stroke": color}, row)
            for name, color, row in zip(self.names, cycle(SERIES), rows, strict=False)
        ]
        if bars is not None:
            series.append(({"label": "flagged", "stroke": FLAGGED, "fill": FLAGGED, "scale": "line", "width": 1}, bars))
        if line is not None:
            series.append(({"label": "current", "stroke": CURRENT, "scale": "line", "width": 1}, line))
        self._send((x, *(row for _, row in series)), [style for style, _ in series])

    def _send(self, data: tuple[np.ndarray, ...], series: list[dict[str, Any]]) -> None:
        labels = [style["label"] for style in series]
        if self.handle is not None and labels == self.labels:
            self.handle.data = data
            return
        self.remove()
        self.labels = labels
        with self.place:
            self.handle = self.gui.add_uplot(
                data=data,
                series=({"label": "frame"}, *({"width": 1.5, "points": {"show": False}, **style} for style in series)),
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
    """Reduces series to MAX_POINTS, and keeps the largest value of consecutive frames so that no peak is lost."""
    step = -(-len(x) // MAX_POINTS)
    if step <= 1:
        return x, rows
    starts = np.arange(0, len(x), step)
    return x[starts], np.fmax.reduceat(rows, starts, axis=1)
