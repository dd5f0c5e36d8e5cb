"""Binary PLY sequence: ply/NAME_0000.ply is the start state, then one file per frame.

Every file contains the cloths and after them the solids as one mesh, in meters with z up. The property `part` of a face
is the number of its cloth or solid: 0 is the first cloth, and the first solid comes after the last cloth. `s`, `t` are
uv in meters; where they are discontinuous, as on a seam, copies of vertices follow those of the cloths.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toile.model.frame import Frame, Surface
from toile.outputs._file_sequence import FileSequence
from toile.outputs._uv_seams import split_by_uv
from toile.outputs.base import Output, Writer

FACE = np.dtype([("count", "u1"), ("corners", "<i4", 3), ("part", "<i4")])


class Ply(Output):
    """For point cloud and mesh tools; every file repeats the faces."""

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return PlyWriter(folder / "ply", name, surface)


class PlyWriter(Writer):
    """Prepares faces and uv once; a frame overwrites the positions of the previous one."""

    def __init__(self, folder: Path, name: str, surface: Surface):
        self.surface = surface
        split = split_by_uv(surface.triangles, surface.uv, surface.vertex_count)
        self.origin = split.origin
        solids = sum(len(solid.rest) for solid in surface.solids)
        self.vertices = np.zeros((len(split.origin) + solids, 5), "<f4")
        self.vertices[: len(split.origin), 3:] = split.uv
        faces = _faces(surface, split.triangles, len(split.origin))
        self.faces = faces.tobytes()
        self.header = _header(len(self.vertices), len(faces))
        self.files = FileSequence(folder, name, ".ply")

    def write(self, frame: Frame) -> None:
        self.vertices[: len(self.origin), :3] = frame.positions[self.origin]
        if self.surface.solids:
            self.vertices[len(self.origin) :, :3] = np.concatenate(self.surface.solids_at(frame))
        self.files.add(frame.number, (self.header, self.vertices.tobytes(), self.faces))

    def close(self) -> list[Path]:
        return self.files.close()

    def discard(self) -> None:
        self.files.discard()


def _faces(surface: Surface, triangles: np.ndarray, first_of_solids: int) -> np.ndarray:
    faces = np.zeros(len(triangles) + sum(len(solid.triangles) for solid in surface.solids), FACE)
    faces["count"] = 3
    faces["corners"][: len(triangles)] = triangles
    for number, part in enumerate(surface.parts):
        faces["part"][part.triangles] = number
    face, vertex = len(triangles), first_of_solids
    for number, solid in enumerate(surface.solids, len(surface.parts)):
        own = slice(face, face + len(solid.triangles))
        faces["corners"][own] = solid.triangles + vertex
        faces["part"][own] = number
        face, vertex = own.stop, vertex + len(solid.rest)
    return faces


def _header(vertices: int, faces: int) -> bytes:
    properties = "".join(f"property float {name}\n" for name in "xyzst")
    return (
        "ply\nformat binary_little_endian 1.0\ncomment meters, z up\n"
        f"element vertex {vertices}\n{properties}"
        f"element face {faces}\nproperty list uchar int vertex_indices\nproperty int part\nend_header\n"
    ).encode()
