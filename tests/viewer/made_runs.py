"""Folders of runs without a simulation: a sheet that folds along its middle beside a ball, and a certificate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from toile.model.frame import Frame, Part, SolidSurface, Surface
from toile.outputs.pc2 import Pc2, Pc2Writer

FPS = 30.0


def sheet(n: int = 9) -> Surface:
    """n x n vertices on a square of 1 m, 1 m up, with a floor that does not move and a box that does."""
    u, v = (grid.ravel() for grid in np.meshgrid(*2 * [np.linspace(0.0, 1.0, n)], indexing="ij"))
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    low = np.stack([corner, corner + n, corner + n + 1], axis=1)
    high = np.stack([corner, corner + n + 1, corner + 1], axis=1)
    triangles = np.concatenate([low, high]).astype(np.int32)
    uv = np.stack([u, v], axis=1)
    rest = np.stack([u, v, np.ones(n * n)], axis=1)
    parts = (Part("sheet", slice(0, n * n), slice(0, len(triangles)), "cotton"),)
    return Surface(triangles, uv[triangles], rest, parts, FPS, (box("table", False), box("hammer", True)))


def box(name: str, moves: bool) -> SolidSurface:
    rest = np.array([[0.0, 0, 0], [0.4, 0, 0], [0, 0.4, 0], [0, 0, 0.4]]) + (0.0 if moves else 1.2)
    return SolidSurface(name, np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]], np.int32), rest, moves)


def frame_of(surface: Surface, number: int) -> Frame:
    """The sheet's far half turned up by 4 degrees a frame, stretched by 1 % a frame along warp."""
    x = surface.rest.copy()
    beyond = np.maximum(x[:, 0] - 0.5, 0.0)
    angle = np.deg2rad(4.0 * number)
    x[:, 0] = np.minimum(x[:, 0], 0.5) * (1.0 + 0.01 * number) + beyond * np.cos(angle)
    x[:, 2] += beyond * np.sin(angle)
    solids = tuple(s.rest + (0.02 * number if s.moves else 0.0) for s in surface.solids)
    return Frame(number, number / FPS, x, np.zeros_like(x), solids=solids)


def entry_of(number: int, **changes: Any) -> dict[str, Any]:
    strain = {
        "warp_max": 0.01 * number,
        "warp_mean": 0.0,
        "weft_max": 0.001,
        "weft_mean": 0.0,
        "edge_max": 0.01 * number,
    }
    return {
        "frame": number,
        "time": number / FPS,
        "steps": 2,
        "rejected": 0,
        "strain": strain,
        "intersections": 0,
        "solid_depth": 0.0,
        "contacts": {"solid": number, "cloth": 0},
        "energy": {"kinetic": 0.1 * number, "stretch": 0.01 * number**2},
        "ms": {"EVAL": 3.0, "CG": 10.0 + number},
        **changes,
    }


def certificate(frames: int, **changes: Any) -> dict[str, Any]:
    summary = {"frames": frames, "steps": 2 * frames, "rejected": 0, "max_strain": 0.01 * frames, "ok": True}
    return {
        "scene": "folding",
        "summary": {**summary, "intersections_start": 0},
        "expect": {"max_strain": {"max": 1.0}},
        "frames": [entry_of(number) for number in range(1, frames + 1)],
        **changes,
    }


def make_run(folder: Path, frames: int = 20, report: dict[str, Any] | None = None, n: int = 9) -> Surface:
    """A complete run with its certificate."""
    surface, writer = begin_run(folder, n)
    for number in range(frames + 1):
        writer.write(frame_of(surface, number))
    writer.close()
    (folder / "report.json").write_text(json.dumps(report or certificate(frames)))
    return surface


def begin_run(folder: Path, n: int = 9) -> tuple[Surface, Pc2Writer]:
    """A run whose cache is still being written."""
    surface = sheet(n)
    writer = Pc2().writer(folder, "folding", surface)
    assert isinstance(writer, Pc2Writer)
    return surface, writer
