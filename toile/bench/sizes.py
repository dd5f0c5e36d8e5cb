"""Resizes scenes: refines or coarsens all their sheets by one factor, so that they have about n vertices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toile.errors import InputError
from toile.filters.self_contact import THICK, SelfContact
from toile.scene.load import load
from toile.shapes.grid import Grid

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
    sheets = [cloth.shape for cloth in scene.cloth if isinstance(cloth.shape, Grid)]
    if len(sheets) < len(scene.cloth) or not sheets:
        raise InputError(f"{name}: only cloths that are grids can be resized. Change other meshes with --set.")
    widest = max(n - 1 for sheet in sheets for n in sheet.resolution)
    guess = widest * (size / _count(sheets, 1.0)) ** 0.5  # approximate, because the factor multiplies cells
    factors = [cells / widest for cells in range(max(1, int(0.9 * guess)), int(1.1 * guess) + 4)]
    factor = min(factors, key=lambda factor: abs(_count(sheets, factor) - size))
    finer = [f"cloth[{k}].shape.resolution={list(_resolution(sheet, factor))}" for k, sheet in enumerate(sheets)]
    edges = [
        min(length / (n - 1) for length, n in zip(sheet.size, _resolution(sheet, factor), strict=True))
        for sheet in sheets
    ]
    return load(name, overrides=[*changes, *finer, *_thinner(scene, edges)], allow_outside=allow_outside)


def _resolution(sheet: Grid, factor: float) -> tuple[int, ...]:
    return tuple(1 + max(1, round(factor * (n - 1))) for n in sheet.resolution)


def _count(sheets: Sequence[Grid], factor: float) -> int:
    sizes = [_resolution(sheet, factor) for sheet in sheets]
    return sum(n * m for n, m in sizes)


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
