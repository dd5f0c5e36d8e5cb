"""Draws the suite: milliseconds a frame by vertices, both logarithmic, as a self-contained SVG.

Scenes differ in color, machines in their dashes. A hollow point is a case whose time ended before the scene
reached the phase that it is meant for. The gray lines below all others grow as n and as n^1.15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from toile.bench.sizes import size_label
from toile.bench.suite import GROWTH_FROM

WIDTH, HEIGHT = 860, 560
LEFT, RIGHT, TOP, BOTTOM = 92, 96, 56, 58
COLORS = {
    "hang": "#2f6db3", "drape": "#c8641e", "layers": "#2e8b57", "twist": "#84529f", "elbow": "#b0892a",
    "layers_50": "#4f8f9a",
}  # fmt: skip
DASHES = ("", "7 4", "2 3", "9 3 2 3")
GUIDES = ((1.0, ""), (1.15, "1.15"))
BELOW = 2.5  # factor by which the guides are below the lowest line
GAP = 15  # between the labels at the ends of lines
CLOSEST = 1.4  # smallest factor between sizes that both have a label

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Axes:
    """Maps vertices and milliseconds to the picture."""

    low: tuple[float, float]
    high: tuple[float, float]

    @staticmethod
    def around(points: Sequence[tuple[float, float]]) -> Axes:
        """Axes with whole decades of time, and with a margin beyond the numbers of vertices."""
        n, ms = zip(*points, strict=True)
        decades = math.floor(math.log10(min(ms))), math.ceil(math.log10(max(ms)) + 1e-9)
        return Axes((min(n) / 1.25, 10.0 ** decades[0]), (max(n) * 1.25, 10.0 ** decades[1]))

    def place(self, n: float, ms: float) -> tuple[float, float]:
        across, up = (
            math.log(value / low) / math.log(high / low)
            for value, low, high in zip((n, ms), self.low, self.high, strict=True)
        )
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def has(self, ms: float) -> bool:
        return self.low[1] * 0.999 <= ms <= self.high[1] * 1.001


def drawn(series: Sequence[tuple[str, Rows]]) -> str:
    """Returns the picture of rows by machine."""
    timed = [(name, [row for row in rows if "window" in row]) for name, rows in series]
    axes = Axes.around([(row["vertices"], row["ms_per_frame"]) for _, rows in timed for row in rows])
    sizes = sorted({row["size"] for _, rows in timed for row in rows})
    parts = [*_frame(axes, sizes), *_key([name for name, _ in timed])]
    ends: list[tuple[float, float, str, str]] = []
    lines = [
        (scene, dash, sorted((row for row in rows if row["scene"] == scene), key=lambda row: row["vertices"]))
        for (_, rows), dash in zip(timed, DASHES, strict=False)
        for scene in COLORS
    ]
    lines = [line for line in lines if line[2]]
    for exponent, text in GUIDES:
        places = _guide(axes, [row for _, rows in timed for row in rows], exponent)
        if places:
            parts.append(_line(places, "#9a9a9a", "1 4", 1.4))
            raised = f'<tspan dy="-5" font-size="10">{text}</tspan>' if text else ""
            ends.append((*places[-1], "#777", f"n{raised}"))
    for scene, dash, rows in lines:
        places = [axes.place(row["vertices"], row["ms_per_frame"]) for row in rows]
        parts.append(_line(places, COLORS[scene], dash, 2.0))
        parts += [_point(place, COLORS[scene], row["begun"]) for place, row in zip(places, rows, strict=True)]
        ends.append((*places[-1], COLORS[scene], scene))
    parts += _names(ends)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#333">',
        "<title>Milliseconds a frame against vertices</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#ffffff"/>',
        *parts,
        "</svg>",
        "",
    ])  # fmt: skip


def _apart(sizes: Sequence[int]) -> list[int]:
    """The sizes whose labels do not overlap."""
    found: list[int] = []
    for size in sizes:
        if not found or size > CLOSEST * found[-1]:
            found.append(size)
    return found


def _frame(axes: Axes, sizes: Sequence[int]) -> list[str]:
    """Grid, ticks and titles."""
    left, right, bottom, top = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP
    parts = []
    decade = axes.low[1]
    while axes.has(decade):
        for factor in (1, 2, 5):
            if axes.has(decade * factor):
                y = axes.place(axes.low[0], decade * factor)[1]
                color = "#cfcfcf" if factor == 1 else "#efefef"
                parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="{color}"/>')
        y = axes.place(axes.low[0], decade)[1]
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{_time(decade)}</text>')
        decade *= 10.0
    for size in _apart(sizes):
        x = axes.place(size, axes.low[1])[0]
        parts.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="#e2e2e2"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{size_label(size)}</text>')
    parts.append(f'<path d="M{left} {top}H{right}V{bottom}H{left}Z" fill="none" stroke="#999"/>')
    parts.append(f'<text x="{(left + right) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle">vertices</text>')
    middle = (top + bottom) / 2
    turned = f'transform="rotate(-90 20 {middle:.0f})"'
    return [*parts, f'<text x="20" y="{middle:.0f}" {turned} text-anchor="middle">time of a frame</text>']


def _key(names: Sequence[str]) -> list[str]:
    """The legend of dashes and machines, above the picture."""
    parts, x = [], float(LEFT)
    for name, dash in zip(names, DASHES, strict=False):
        parts.append(_line([(x, 30.0), (x + 34.0, 30.0)], "#555", dash, 2.0))
        parts.append(f'<text x="{x + 42:.0f}" y="34">{escape(name)}</text>')
        x += 72.0 + 7.0 * len(name)
    return parts


def _guide(axes: Axes, rows: Rows, exponent: float) -> list[tuple[float, float]]:
    """A line below all others, over the sizes at which growth is measured; empty if there are fewer than two."""
    large = [row for row in rows if row["size"] >= GROWTH_FROM]
    first, last = (end((row["vertices"] for row in large), default=0) for end in (min, max))
    if first == last:
        return []
    ms = min(row["ms_per_frame"] for row in large) / BELOW
    return [axes.place(first, ms), axes.place(last, ms * (last / first) ** exponent)]


def _names(ends: Sequence[tuple[float, float, str, str]]) -> list[str]:
    """Labels beside the ends of lines, moved apart where they would overlap."""
    parts, columns = [], sorted({round(x) for x, *_ in ends})
    for column in columns:
        y = -math.inf
        for x, wanted, color, name in sorted((end for end in ends if round(end[0]) == column), key=lambda end: end[1]):
            y = max(wanted, y + GAP)
            parts.append(f'<text x="{x + 9:.1f}" y="{y + 4:.1f}" fill="{color}">{name}</text>')
    return parts


def _line(places: Sequence[tuple[float, float]], color: str, dash: str, width: float) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}/>'


def _point(place: tuple[float, float], color: str, begun: bool) -> str:
    fill = color if begun else "#ffffff"
    return f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="4" fill="{fill}" stroke="{color}" stroke-width="1.6"/>'


def _time(ms: float) -> str:
    return f"{ms / 1000.0:g} s" if ms >= 1000.0 else f"{ms:g} ms"
