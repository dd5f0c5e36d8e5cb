"""Reads the surface and the solids of a run from the OBJ files that the pc2 output writes beside its cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.model.frame import Part, SolidSurface, Surface
from toile.outputs._obj_text import PART_MARK, SOLID_MARK, SURFACE_MARK

Start = tuple[str, str, dict[str, tuple[float, str]]]  # name, fabric and its properties


def read_rest(path: Path) -> tuple[str, Surface]:
    """Returns the name of the run and its surface, as pc2 wrote them."""
    name, fps = "", 0.0
    vertices: list[list[float]] = []
    uv: list[list[float]] = []
    triangles: list[list[int]] = []
    triangle_uv: list[list[int]] = []
    starts: list[tuple[Start, int, int]] = []  # of each part: name and fabric, first vertex, first triangle

    def read_surface(text: str) -> None:
        nonlocal name, fps
        about = json.loads(text)
        name, fps = str(about["name"]), float(about["fps"])

    def read_part(text: str) -> None:
        about = json.loads(text)
        properties = {key: (float(value), str(unit)) for key, (value, unit) in about.get("properties", {}).items()}
        starts.append(((about["name"], about["fabric"], properties), len(vertices), len(triangles)))

    def read_triangle(text: str) -> None:
        (a, p), (b, q), (c, r) = (corner.split("/") for corner in text.split())
        triangles.append([int(a) - 1, int(b) - 1, int(c) - 1])
        triangle_uv.append([int(p) - 1, int(q) - 1, int(r) - 1])

    _read_lines(
        path,
        {
            "v ": lambda text: vertices.append(_floats(text, 3)),
            "vt ": lambda text: uv.append(_floats(text, 2)),
            "f ": read_triangle,
            PART_MARK: read_part,
            SURFACE_MARK: read_surface,
        },
    )
    if not fps > 0.0:
        raise InputError(f"{path}: not the surface of a run: it has no line with the frame rate. Run the scene again.")
    return name, _surface(path, fps, vertices, uv, triangles, triangle_uv, starts)


def read_solids(path: Path) -> tuple[SolidSurface, ...]:
    """Returns the solids at the start of a run, as pc2 wrote them."""
    vertices: list[list[float]] = []
    triangles: list[list[int]] = []
    starts: list[tuple[str, bool, int, int]] = []  # of each solid: name, whether it moves, first vertex, first triangle

    def read_solid(text: str) -> None:
        about = json.loads(text)
        starts.append((str(about["name"]), bool(about["moves"]), len(vertices), len(triangles)))

    def read_triangle(text: str) -> None:
        a, b, c = text.split()
        triangles.append([int(a) - 1, int(b) - 1, int(c) - 1])

    _read_lines(
        path, {"v ": lambda text: vertices.append(_floats(text, 3)), "f ": read_triangle, SOLID_MARK: read_solid}
    )
    if not starts:
        raise InputError(f"{path}: not the solids of a run: it contains none. Run the scene again.")
    rest = np.array(vertices, np.float64).reshape(-1, 3)
    corners = np.array(triangles, np.int32).reshape(-1, 3)
    ends = [*starts[1:], ("", False, len(rest), len(corners))]
    solids = []
    for (name, moves, v, t), (_, _, v_end, t_end) in zip(starts, ends, strict=True):
        own = corners[t:t_end]
        if own.size and (own.min() < v or own.max() >= v_end):
            raise InputError(f"{path}: a triangle refers to a vertex of another solid. Run the scene again.")
        solids.append(SolidSurface(name, own - np.int32(v), rest[v:v_end], moves))
    return tuple(solids)


def _read_lines(path: Path, readers: Mapping[str, Callable[[str], None]]) -> None:
    """Passes every line that starts with a keyword to the reader of that keyword, without the keyword."""
    number = 0
    try:
        for line in path.read_text(encoding="utf-8").split("\n"):
            number += 1
            for keyword, read in readers.items():
                if line.startswith(keyword):
                    read(line.removeprefix(keyword))
                    break
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}:{number}  cannot be read: {error}. Run the scene again.") from error


def _floats(text: str, count: int) -> list[float]:
    values = [float(value) for value in text.split()]
    if len(values) != count:
        raise ValueError(f"{len(values)} numbers instead of {count}")
    return values


def _surface(
    path: Path,
    fps: float,
    vertices: list[list[float]],
    uv: list[list[float]],
    triangles: list[list[int]],
    triangle_uv: list[list[int]],
    starts: list[tuple[Start, int, int]],
) -> Surface:
    rest = np.array(vertices, np.float64).reshape(-1, 3)
    corners, corners_uv = np.array(triangles, np.int32).reshape(-1, 3), np.array(triangle_uv, np.int32).reshape(-1, 3)
    for kind, index, count in (("vertex", corners, len(rest)), ("uv", corners_uv, len(uv))):
        if index.size and (index.min() < 0 or index.max() >= count):
            raise InputError(f"{path}: a triangle refers to a {kind} that does not exist. Run the scene again.")
    ends = [*(start[1:] for start in starts[1:]), (len(rest), len(corners))]
    parts = (
        tuple(
            Part(name, slice(v, v_end), slice(t, t_end), fabric, properties)
            for ((name, fabric, properties), v, t), (v_end, t_end) in zip(starts, ends, strict=True)
        )
        if starts
        else ()
    )
    return Surface(corners, np.array(uv, np.float64).reshape(-1, 2)[corners_uv], rest, parts, fps)
