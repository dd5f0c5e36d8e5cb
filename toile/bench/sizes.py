"""Scenes at other sizes: all of their sheets finer or coarser by one factor, so that they have about n vertices."""

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
    """Numbers of vertices: "2.6k,10k,1M"."""
    sizes = []
    for word in text.split(","):
        number, unit = word.strip().lower(), 1.0
        if number[-1:] in UNITS:
            number, unit = number[:-1], UNITS[number[-1]]
        try:
            size = float(number) * unit
        except ValueError:
            size = 0.0
        if not FEWEST <= size < float("inf"):
            raise InputError(f'size "{word}": must be a number of vertices, such as 2601, 10k or 1M.')
        sizes.append(round(size))
    return sizes


def size_label(size: int) -> str:
    """2.6k, 10k, 1M"""
    for letter, unit in (("M", 1_000_000), ("k", 1000)):
        if size >= unit:
            return f"{size / unit:.4g}{letter}"
    return str(size)


def resized(name: str, size: int, changes: Sequence[str] = (), allow_outside: bool = False) -> Scene:
    """A scene with about `size` vertices.

    Layers of cloth keep the distance that the scene gives, but no more than half an edge, the most that a mesh allows.
    """
    scene = load(name, overrides=changes, allow_outside=allow_outside)
    sheets = [cloth.shape for cloth in scene.cloth if isinstance(cloth.shape, Grid)]
    if len(sheets) < len(scene.cloth) or not sheets:
        raise InputError(f"{name}: sizes are for scenes whose cloths are grids. Change other meshes with --set.")
    widest = max(n - 1 for sheet in sheets for n in sheet.resolution)
    guess = widest * (size / _count(sheets, 1.0)) ** 0.5  # not quite: it is cells that a factor multiplies
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
    """Thicknesses that the meshes are too fine for, made smaller; `edges` are the shortest of each cloth [m]."""
    own = [
        f"cloth[{k}].thickness={THICK * edge}"
        for k, (cloth, edge) in enumerate(zip(scene.cloth, edges, strict=True))
        if cloth.thickness is not None and cloth.thickness > THICK * edge
    ]
    common = [
        f"filters[{k}].thickness={THICK * min(edges)}"
        for k, item in enumerate(scene.filters)
        if isinstance(item, SelfContact) and item.thickness > THICK * min(edges)
    ]
    return own + common
