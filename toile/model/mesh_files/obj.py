"""Reader of Wavefront OBJ: v, vt, f, g and o. Materials, normals, curves and all other statements are ignored.

Negative indices count back from the last vertex read; groups and objects become groups of faces.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import PolygonMesh


def read(path: Path) -> PolygonMesh:
    """Reads polygons, groups, and uv if every corner has one."""
    reader = _ObjReader(path.name)
    with path.open(encoding="utf-8", errors="replace") as file:
        pending = ""
        for number, line in enumerate(file, 1):
            if "\0" in line:
                raise InputError(f"{path.name}:{number}: binary data in an OBJ text file.")
            line = pending + line.partition("#")[0].rstrip()
            if line.endswith("\\"):  # the statement continues on the next line
                pending = line[:-1] + " "
                continue
            pending = ""
            reader.statement(line.split(), number)
    return reader.mesh()


class _ObjReader:
    def __init__(self, name: str):
        self.name = name
        self.positions: list[tuple[float, float, float]] = []
        self.uv: list[tuple[float, float]] = []
        self.sizes: list[int] = []
        self.corners: list[int] = []
        self.uv_corners: list[int] = []
        self.bare_corners = 0  # number of corners without uv
        self.group: list[str] = []
        self.object: list[str] = []
        self.groups: dict[str, list[int]] = {}

    def statement(self, tokens: list[str], line: int) -> None:
        if not tokens:
            return
        keyword, *arguments = tokens
        if keyword == "v":
            x, y, z = self.numbers(arguments, 3, line)
            self.positions.append((x, y, z))
        elif keyword == "vt":
            u, v = self.numbers([*arguments, "0"][:2], 2, line)  # v is optional
            self.uv.append((u, v))
        elif keyword == "f":
            self.face(arguments, line)
        elif keyword == "g":
            self.group = arguments
        elif keyword == "o":
            self.object = [" ".join(arguments)] if arguments else []

    def numbers(self, tokens: list[str], count: int, line: int) -> list[float]:
        try:
            values = [float(token) for token in tokens[:count]]
        except ValueError as error:
            raise InputError(f"{self.name}:{line}: {error}.") from error
        if len(values) < count:
            raise InputError(f"{self.name}:{line}: needs {count} numbers and has {len(values)}.")
        return values

    def face(self, tokens: list[str], line: int) -> None:
        for token in tokens:
            vertex, _, rest = token.partition("/")
            texture = rest.partition("/")[0]
            self.corners.append(self.index(vertex, len(self.positions), line))
            if texture:
                self.uv_corners.append(self.index(texture, len(self.uv), line))
            else:
                self.bare_corners += 1
        for name in dict.fromkeys((*self.object, *self.group)):
            self.groups.setdefault(name, []).append(len(self.sizes))
        self.sizes.append(len(tokens))

    def index(self, token: str, count: int, line: int) -> int:
        """Returns an index counted from 0. Indices may point forward, so their upper limit is checked at the end."""
        try:
            value = int(token)
        except ValueError as error:
            raise InputError(f'{self.name}:{line}: "{token[:40]}" is not a vertex index.') from error
        if value == 0 or value < -count:
            raise InputError(f"{self.name}:{line}: index {value} does not exist; OBJ counts from 1, or back from -1.")
        if value > np.iinfo(np.int32).max:
            raise InputError(f"{self.name}:{line}: index {value} is out of range.")
        return value - 1 if value > 0 else count + value

    def mesh(self) -> PolygonMesh:
        has_uv = bool(self.uv_corners) and not self.bare_corners
        warnings: tuple[str, ...] = ()
        if self.uv_corners and self.bare_corners:
            warnings = (f"{self.bare_corners} of {len(self.corners)} face corners have no uv, so uv is ignored.",)
        return PolygonMesh(
            np.array(self.positions, np.float64).reshape(-1, 3),
            np.array(self.sizes, np.int64),
            np.array(self.corners, np.int64),
            np.array(self.uv, np.float64).reshape(-1, 2) if has_uv else None,
            np.array(self.uv_corners, np.int64) if has_uv else None,
            {name: np.array(faces, np.int64) for name, faces in self.groups.items()},
            warnings,
        )
