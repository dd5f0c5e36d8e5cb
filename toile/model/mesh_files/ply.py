"""Reader of PLY, ASCII and binary of either byte order: vertices x, y, z, their uv, and faces.

uv are named s, t or u, v or texture_u, texture_v. Other elements and properties are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import PolygonMesh

TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "float32": "f4", "float64": "f8",
}  # fmt: skip
UV_NAMES = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))
HEADER_LIMIT = 1 << 16  # bytes; a file whose header does not end within this is not a PLY


@dataclass(frozen=True)
class Property:
    name: str
    type: str  # NumPy code without byte order
    count_type: str | None = None  # type of a list's length; None for a single value


@dataclass
class Element:
    name: str
    count: int
    properties: list[Property] = field(default_factory=list)


def read(path: Path) -> PolygonMesh:
    """Reads polygons, and uv if the vertices have it."""
    content = path.read_bytes()
    form, elements, start = _header(content, path.name)
    columns: dict[str, dict[str, Any]] = {}
    try:
        if form == "ascii":
            tokens = content[start:].split()
            position = 0
            for element in elements:
                columns[element.name], position = _read_ascii(element, tokens, position)
        else:
            order = "<" if form == "binary_little_endian" else ">"
            for element in elements:
                columns[element.name], start = _read_binary(element, content, start, order)
        return _mesh(columns, path.name)
    except (ValueError, OverflowError, struct.error, IndexError) as error:
        raise InputError(f"{path.name}: the data does not match the header ({error}).") from error


def _header(content: bytes, name: str) -> tuple[str, list[Element], int]:
    """Returns the format, the elements, and the offset at which the data starts."""
    end = content.find(b"end_header", 0, HEADER_LIMIT)
    if not content.startswith(b"ply") or end < 0:
        raise InputError(f"{name}: not a PLY file: it has no PLY header.")
    newline = content.find(b"\n", end)
    start = len(content) if newline < 0 else newline + 1
    form, elements = "", []
    for number, line in enumerate(content[:end].decode("ascii", errors="replace").splitlines(), 1):
        match line.split():
            case ["format", ("ascii" | "binary_little_endian" | "binary_big_endian") as form, *_]:
                pass
            case ["element", element, count] if count.isdecimal() and int(count) <= len(content):
                elements.append(Element(element, int(count)))
            case ["property", "list", count_type, type_, property_] if (
                elements and TYPES.get(count_type, "f")[0] != "f" and type_ in TYPES
            ):
                elements[-1].properties.append(Property(property_, TYPES[type_], TYPES[count_type]))
            case ["property", type_, property_] if elements and type_ in TYPES:
                elements[-1].properties.append(Property(property_, TYPES[type_]))
            case [] | ["ply"] | ["comment" | "obj_info", *_]:
                pass
            case _:
                raise InputError(f'{name}:{number}: cannot read the header line "{line[:60]}".')
    if not form:
        raise InputError(f"{name}: the header has no format line.")
    return form, elements, start


def _read_ascii(element: Element, tokens: list[bytes], position: int) -> tuple[dict[str, Any], int]:
    if not any(property_.count_type for property_ in element.properties):
        width = len(element.properties)
        end = position + element.count * width
        if end > len(tokens):
            raise ValueError(f"{element.name} ends early")
        table = np.array(tokens[position:end], dtype="S").astype(np.float64).reshape(element.count, width)
        return {property_.name: table[:, i] for i, property_ in enumerate(element.properties)}, end

    def take(property_: Property, count: int) -> list[float]:
        nonlocal position
        values = [float(token) for token in tokens[position : position + count]]
        if len(values) < count:
            raise ValueError(f"{element.name} ends early")
        position += count
        return values

    return _read_rows(element, take), position


def _read_binary(element: Element, content: bytes, start: int, order: str) -> tuple[dict[str, Any], int]:
    if not any(property_.count_type for property_ in element.properties):
        dtype = np.dtype([(f"f{i}", order + p.type) for i, p in enumerate(element.properties)])
        if start + element.count * dtype.itemsize > len(content):
            raise ValueError(f"{element.name} ends early")
        table = np.frombuffer(content, dtype, element.count, start)
        columns = {p.name: table[f"f{i}"].astype(np.float64) for i, p in enumerate(element.properties)}
        return columns, start + element.count * dtype.itemsize

    position = start

    def take(property_: Property, count: int) -> list[float]:
        nonlocal position
        values = np.frombuffer(content, order + property_.type, count, position)
        position += values.nbytes
        return values.tolist()

    def take_count(property_: Property) -> int:
        nonlocal position
        value = np.frombuffer(content, order + str(property_.count_type), 1, position)
        position += value.nbytes
        return int(value[0])

    return _read_rows(element, take, take_count), position


def _read_rows(
    element: Element,
    take: Callable[[Property, int], list[float]],
    take_count: Callable[[Property], int] | None = None,
) -> dict[str, Any]:
    """Reads row by row, because lists differ in length: a list becomes (lengths, values)."""
    columns: dict[str, Any] = {p.name: ([], []) if p.count_type else [] for p in element.properties}
    for _ in range(element.count):
        for p in element.properties:
            if p.count_type is None:
                columns[p.name] += take(p, 1)
                continue
            count = take_count(p) if take_count else int(take(p, 1)[0])
            if count < 0:
                raise ValueError(f"a list of {element.name} has {count} entries")
            columns[p.name][0].append(count)
            columns[p.name][1].extend(take(p, count))
    return columns


def _mesh(columns: dict[str, dict[str, Any]], name: str) -> PolygonMesh:
    vertices, faces = columns.get("vertex", {}), columns.get("face", {})
    if not {"x", "y", "z"} <= vertices.keys():
        raise InputError(f"{name}: the vertices have no x, y, z.")
    indices = faces.get("vertex_indices", faces.get("vertex_index"))
    if not isinstance(indices, tuple):
        raise InputError(f"{name}: no faces with vertex_indices: points alone are not cloth.")
    positions = np.column_stack([np.asarray(vertices[axis], np.float64) for axis in "xyz"])
    corners = np.array(indices[1], np.float64)
    if not np.isfinite(corners).all() or (np.abs(corners) > np.iinfo(np.int32).max).any():
        raise InputError(f"{name}: a face refers to a vertex number that is out of range.")
    corners = corners.astype(np.int64)
    for u, v in UV_NAMES:
        if u in vertices and v in vertices:
            uv = np.column_stack([np.asarray(vertices[u], np.float64), np.asarray(vertices[v], np.float64)])
            return PolygonMesh(positions, np.array(indices[0], np.int64), corners, uv, corners)
    return PolygonMesh(positions, np.array(indices[0], np.int64), corners)
