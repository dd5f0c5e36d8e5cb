"""A surface as OBJ text: one object per cloth, uv per triangle corner, every digit that reads back as the same number.

What OBJ has no word for stands in comments as JSON, so that a rest surface can be read back completely:

    # toile {"name": "hang", "fps": 30.0}
    o sheet
    # part {"name": "sheet", "fabric": "cotton"}
"""

from __future__ import annotations

import json
import re

import numpy as np

from toile.model.frame import Part, Surface

SURFACE_MARK, PART_MARK = "# toile ", "# part "


class ObjText:
    """Everything but the positions is formatted once."""

    def __init__(self, name: str, surface: Surface):
        _check_order(surface)
        self.header = f"{SURFACE_MARK}{json.dumps({'name': name, 'fps': surface.fps})}\n"
        self.parts: list[tuple[str, slice, str]] = []  # text before the positions, which positions, text after
        first_uv = 1
        for part in surface.parts:
            before = f"o {_one_line(part.name)}\n{PART_MARK}{json.dumps({'name': part.name, 'fabric': part.fabric})}\n"
            after, first_uv = _faces(surface, part, first_uv)
            self.parts.append((before, part.vertices, after))

    def at(self, positions: np.ndarray) -> str:
        """The whole file for these positions."""
        pieces = [self.header]
        for before, vertices, after in self.parts:
            pieces += [before, _lines("v", positions[vertices]), after]
        return "".join(pieces)


def _faces(surface: Surface, part: Part, first_uv: int) -> tuple[str, int]:
    """uv and triangles of one cloth, and the number of the next uv; OBJ counts both from 1 through the whole file."""
    corners = surface.uv[part.triangles].reshape(-1, 2)
    uv, which = np.unique(corners, axis=0, return_inverse=True)
    triangles = surface.triangles[part.triangles] + 1
    which = which.reshape(-1, 3) + first_uv
    faces = "".join(
        f"f {a}/{p} {b}/{q} {c}/{r}\n"
        for (a, b, c), (p, q, r) in zip(triangles.tolist(), which.tolist(), strict=True)
    )
    return _lines("vt", uv) + faces, first_uv + len(uv)


def _lines(word: str, rows: np.ndarray) -> str:
    # repr is the shortest text that reads back as the same double
    return "".join(f"{word} {' '.join(map(repr, row))}\n" for row in np.asarray(rows, np.float64).tolist())


def _one_line(name: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]", "_", name)


def _check_order(surface: Surface) -> None:
    """The cache counts vertices through all cloths in order, so the file must as well."""
    vertex = triangle = 0
    for part in surface.parts:
        if part.vertices.start != vertex or part.triangles.start != triangle:
            raise ValueError(f'cloth "{part.name}" does not start where the one before it ends')
        vertex, triangle = part.vertices.stop, part.triangles.stop
    if vertex != surface.vertex_count or triangle != len(surface.triangles):
        raise ValueError("the cloths do not cover the surface")
