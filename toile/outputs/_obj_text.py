"""A surface as OBJ text, one object per cloth or solid.

`at` writes enough digits to read back the same float64, `pieces` enough for the same float32 and is ten times as fast.
Comments hold as JSON what OBJ cannot express, so that a rest surface can be read back completely:

    # toile {"name": "hang", "fps": 30.0}
    o sheet
    # part {"name": "sheet", "fabric": "cotton", "properties": {"density": [0.12, "kg/m^2"], ...}}
    o table
    # solid {"name": "table", "moves": false}

Cloth has uv per triangle corner, solids have none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np

from toile.model.frame import Part, SolidSurface, Surface
from toile.outputs._float_text import number_lines

SURFACE_MARK, PART_MARK, SOLID_MARK = "# toile ", "# part ", "# solid "


class ObjText:
    """The cloths of a surface. All text but the positions is formatted once."""

    def __init__(self, name: str, surface: Surface):
        _check_order(surface)
        self.header = header(name, surface.fps)
        self.parts: list[tuple[str, slice, str]] = []  # text before the positions, range of positions, text after
        first_uv = 1
        for part in surface.parts:
            properties = {"properties": dict(part.properties)} if part.properties else {}
            about = {"name": part.name, "fabric": part.fabric, **properties}
            before = f"o {_one_line(part.name)}\n{PART_MARK}{json.dumps(about)}\n"
            after, first_uv = _faces(surface, part, first_uv)
            self.parts.append((before, part.vertices, after))

    def at(self, positions: np.ndarray) -> str:
        """Returns the whole file for these positions."""
        pieces = [self.header]
        for before, vertices, after in self.parts:
            pieces += [before, _lines("v", positions[vertices]), after]
        return "".join(pieces)

    def pieces(self, positions: np.ndarray) -> Iterator[bytes]:
        """The same text with float32 positions."""
        yield self.header.encode()
        for before, vertices, after in self.parts:
            yield from (before.encode(), number_lines("v", positions[vertices]), after.encode())


class SolidsText:
    """The solids of a surface."""

    def __init__(self, solids: tuple[SolidSurface, ...], first_vertex: int = 1):
        """`first_vertex` is the number of the first vertex in its file."""
        self.solids: list[tuple[str, str]] = []  # text before and after the positions
        for solid in solids:
            about = json.dumps({"name": solid.name, "moves": solid.moves})
            faces = _triangles(solid.triangles + first_vertex)
            self.solids.append((f"o {_one_line(solid.name)}\n{SOLID_MARK}{about}\n", faces))
            first_vertex += len(solid.rest)

    def at(self, positions: tuple[np.ndarray, ...]) -> str:
        """Returns all solids with these positions of their vertices."""
        pieces = []
        for (before, faces), points in zip(self.solids, positions, strict=True):
            pieces += [before, _lines("v", points), faces]
        return "".join(pieces)

    def pieces(self, positions: tuple[np.ndarray, ...]) -> Iterator[bytes]:
        """The same text with float32 positions."""
        for (before, faces), points in zip(self.solids, positions, strict=True):
            yield from (before.encode(), number_lines("v", points), faces.encode())


def header(name: str, fps: float) -> str:
    """The first line of every file."""
    return f"{SURFACE_MARK}{json.dumps({'name': name, 'fps': fps})}\n"


def object_text(name: str, positions: np.ndarray, corners: np.ndarray) -> str:
    """Returns one object of triangles; `corners` are vertex numbers that count through the whole file."""
    return f"o {_one_line(name)}\n{_lines('v', positions)}{_triangles(corners)}"


def _triangles(corners: np.ndarray) -> str:
    return "".join(f"f {a} {b} {c}\n" for a, b, c in corners.tolist())


def _faces(surface: Surface, part: Part, first_uv: int) -> tuple[str, int]:
    """Text of uv and triangles of one cloth, and the number of the next uv. Both count through the file, from 1."""
    corners = surface.uv[part.triangles].reshape(-1, 2)
    uv, which = np.unique(corners, axis=0, return_inverse=True)
    triangles = surface.triangles[part.triangles] + 1
    which = which.reshape(-1, 3) + first_uv
    faces = "".join(
        f"f {a}/{p} {b}/{q} {c}/{r}\n" for (a, b, c), (p, q, r) in zip(triangles.tolist(), which.tolist(), strict=True)
    )
    return _lines("vt", uv) + faces, first_uv + len(uv)


def _lines(keyword: str, rows: np.ndarray) -> str:
    # repr is the shortest text that reads back as the same float64.
    return "".join(f"{keyword} {' '.join(map(repr, row))}\n" for row in np.asarray(rows, np.float64).tolist())


def _one_line(name: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]", "_", name)


def _check_order(surface: Surface) -> None:
    """The cache counts vertices through all cloths in order, so the file must do the same."""
    vertex = triangle = 0
    for part in surface.parts:
        if part.vertices.start != vertex or part.triangles.start != triangle:
            raise ValueError(f'cloth "{part.name}" does not start where the one before it ends')
        vertex, triangle = part.vertices.stop, part.triangles.stop
    if vertex != surface.vertex_count or triangle != len(surface.triangles):
        raise ValueError("the cloths do not cover the surface")
