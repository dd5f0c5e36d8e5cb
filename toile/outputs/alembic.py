"""Alembic NAME.abc: a mesh per cloth and solid with a sample of its points per frame, for Unreal, Unity, Maya, Houdini.

Units are meters and seconds from the start of the run, y is up, and faces are clockwise, as Alembic requires. uv are
the flat coordinates of the cloth in meters, one per triangle corner. A solid that stands still has one sample.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from toile.errors import InputError, ToileError
from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, Spool
from toile.outputs._names import file_name, identifiers
from toile.outputs._y_up import y_up
from toile.outputs.base import Output, Writer
from toile.plugins import quantity
from toile.render.pipe import feed


class Alembic(Output):
    """Needs alembic3d."""

    velocities: bool = quantity(True, doc="also write the velocity of every point, for motion blur")

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        try:
            import alembic3d  # noqa: F401
        except ImportError as error:
            message = 'output alembic needs alembic3d, which is not installed: pip install "toile[alembic]"'
            raise InputError(message) from error
        return AlembicWriter(folder / f"{file_name(name)}.abc", surface, self.velocities)


class AlembicWriter(Writer):
    """Stores frames in an unnamed file; at the end a child process makes the archive from them."""

    def __init__(self, path: Path, surface: Surface, velocities: bool):
        self.surface, self.velocities = surface, velocities
        rows = surface.vertex_count * (2 if velocities else 1) + sum(len(s.rest) for s in surface.solids if s.moves)
        self.draft = Draft(path)
        self.frames = Spool(path, (rows, 3), np.float32)

    def write(self, frame: Frame) -> None:
        rows = [np.zeros((0, 3), np.float32)]
        for part in self.surface.parts:
            rows.append(y_up(frame.positions[part.vertices]))
            if self.velocities:
                rows.append(y_up(frame.velocities[part.vertices]))
        for solid, points in zip(self.surface.solids, self.surface.solids_at(frame), strict=True):
            if solid.moves:
                rows.append(y_up(points))
        self.frames.append(np.concatenate(rows))

    def close(self) -> list[Path]:
        try:
            with self.draft.finishing():
                self._archive()
        finally:
            self.frames.close()
        return [self.draft.path]

    def discard(self) -> None:
        self.frames.close()
        self.draft.discard()

    def _archive(self) -> None:
        command = [sys.executable, "-m", "toile.outputs._alembic_archive", str(self.draft.part), str(os.getpid())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        status = feed(command, self._pieces(), subprocess.DEVNULL, environment)
        if status != 0:
            self._fail(status)

    def _pieces(self) -> Iterator[bytes | memoryview]:
        """The input of _alembic_archive.py. The order of corners is reversed to be clockwise."""
        parts, solids = self.surface.parts, self.surface.solids
        names = identifiers([*(part.name for part in parts), *(solid.name for solid in solids)])
        meshes, arrays = [], []
        for name, part in zip(names, parts, strict=False):
            triangles = self.surface.triangles[part.triangles] - part.vertices.start
            count = part.vertices.stop - part.vertices.start
            meshes.append(_about(name, count, len(triangles), True, uv=True, velocities=self.velocities))
            arrays.append(_packed(triangles[:, ::-1], np.int32))
            arrays.append(_packed(self.surface.uv[part.triangles, ::-1], np.float32))
        for name, solid in zip(names[len(parts) :], solids, strict=True):
            meshes.append(_about(name, len(solid.rest), len(solid.triangles), solid.moves))
            arrays.append(_packed(solid.triangles[:, ::-1], np.int32))
        arrays += [_packed(y_up(solid.rest), np.float32) for solid in solids if not solid.moves]
        about = {"fps": self.surface.fps, "frames": self.frames.count, "meshes": meshes}
        yield json.dumps(about).encode() + b"\n"
        yield from arrays
        yield from (array.data for array in self.frames.arrays())

    def _fail(self, status: int) -> None:
        """Raises an error with its cause, which the library does not report: the system does if as much is written."""
        with self.draft.part.open("ab") as file:
            file.write(bytes(12 * self.frames.shape[0] * self.frames.count + 1))
            file.flush()
            os.fsync(file.fileno())
        raise ToileError(f"{self.draft.path}: Alembic cannot write it (exit code {status}). Check the disk.")


def _about(
    name: str, vertices: int, triangles: int, moves: bool, uv: bool = False, velocities: bool = False
) -> dict[str, object]:
    return {
        "name": name, "vertices": vertices, "triangles": triangles, "moves": moves, "uv": uv, "velocities": velocities,
    }  # fmt: skip


def _packed(array: np.ndarray, kind: type) -> bytes:
    return np.ascontiguousarray(array, kind).tobytes()
