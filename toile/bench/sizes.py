"""Resizes scenes: refines or coarsens all their sheets and tubes by one factor, so that they have about n vertices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toile.errors import InputError
from toile.filters.self_contact import THICK, SelfContact
from toile.scene.load import load
from toile.shapes.grid import Grid
from toile.shapes.revolved import Revolved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toile.scene.schema import Scene

UNITS = {"k": 1e3, "m": 1e6}
FEWEST = 4


def parsed(text: str) -> list[int]:
    """Parses numbers of vertices such as "2.6k,10k,1M"."""
    sizes = []
    for entry in text.split(","):
        number, unit = entry.strip().lower(), 1.0
        if number[-1:] in UNITS:
            number, unit = number[:-1], UNITS[number[-1]]
        try:
            size = float(number) * unit
        except ValueError:
            size = 0.0
        if not FEWEST <= size < float("inf"):
            raise InputError(f'size "{entry}": must be a number of vertices, such as 2601, 10k or 1M.')
        sizes.append(round(size))
    return sizes


def size_label(size: int) -> str:
    """Formats a number of vertices as 2.6k, 10k or 1M."""
    for letter, unit in (("M", 1_000_000), ("k", 1000)):
        if size >= unit:
            return f"{size / unit:.4g}{letter}"
    return str(size)


def resized(name: str, size: int, changes: Sequence[str] = (), allow_outside: bool = False) -> Scene:
    """Returns a scene with about `size` vertices.

    The thickness of cloth stays as the scene sets it, but is at most half an edge, the largest that a mesh allows.
    """
    scene = load(name, overrides=changes, allow_outside=allow_outside)
    sheets = [_cells(cloth.shape) for cloth in scene.cloth if isinstance(cloth.shape, Grid) or _is_tube(cloth.shape)]
    if len(sheets) < len(scene.cloth) or not sheets:
        raise InputError(f"{name}: only cloths that are grids or tubes can be resized. Change other meshes with --set.")
    widest = max(sheet.widest for sheet in sheets)
    guess = widest * (size / _count(sheets, 1.0)) ** 0.5  # approximate, because the factor multiplies cells
    factors = [cells / widest for cells in range(max(1, int(0.9 * guess)), int(1.1 * guess) + 4)]
    factor = min(factors, key=lambda factor: abs(_count(sheets, factor) - size))
    finer = [f"cloth[{k}].shape.resolution={list(sheet.resolution(factor))}" for k, sheet in enumerate(sheets)]
    edges = [sheet.shortest_edge(factor) for sheet in sheets]
    return load(name, overrides=[*changes, *finer, *_thinner(scene, edges)], allow_outside=allow_outside)


@dataclass(frozen=True)
class _Cells:
    """Cells of a sheet along its sides, and the vertices that each side has beyond them: none around a tube."""

    cells: tuple[int, int]
    more: tuple[int, int]
    size: tuple[float, float]  # [m]
    fewest: int = 1

    @property
    def widest(self) -> int:
        return max(self.cells)

    def _finer(self, factor: float) -> tuple[int, ...]:
        return tuple(max(self.fewest, round(factor * cells)) for cells in self.cells)

    def resolution(self, factor: float) -> tuple[int, ...]:
        return tuple(more + cells for more, cells in zip(self.more, self._finer(factor), strict=True))

    def shortest_edge(self, factor: float) -> float:
        return min(length / cells for length, cells in zip(self.size, self._finer(factor), strict=True))


def _is_tube(shape: object) -> bool:
    """Whether a shape is a cylinder without ends."""
    return isinstance(shape, Revolved) and len(shape.profile) == 2 and shape.profile[0][0] == shape.profile[1][0]


def _cells(shape: Any) -> _Cells:
    n, m = shape.resolution
    if isinstance(shape, Grid):
        return _Cells((n - 1, m - 1), (1, 1), shape.size)
    (radius, bottom), (_, top) = shape.profile
    return _Cells((n, m - 1), (0, 1), (2.0 * math.pi * radius, abs(top - bottom)), fewest=3)


def _count(sheets: Sequence[_Cells], factor: float) -> int:
    return sum(math.prod(sheet.resolution(factor)) for sheet in sheets)


def _thinner(scene: Scene, edges: Sequence[float]) -> list[str]:
    """Returns overrides of the thicknesses that are too large for the meshes; `edges` are the shortest edges [m]."""
    own = [
        f"cloth[{k}].thickness={THICK * edge}"
        for k, (cloth, edge) in enumerate(zip(scene.cloth, edges, strict=True))
        if cloth.thickness is not None and cloth.thickness > THICK * edge
    ]
    common = [
        f"filters[{k}].thickness={THICK * min(edges)}"
        for k, item in enumerate(scene.filters)
        if isinstance(item, SelfContact) and item.thickness is not None and item.thickness > THICK * min(edges)
    ]
    return own + common
