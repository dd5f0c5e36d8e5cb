"""Writes an Alembic archive from data on a pipe: `python -m toile.outputs._alembic_archive FILE PARENT`.

This is a process of its own, because the library ends its process when the disk is full. PARENT is the process number
of the parent; nothing is written if that process has ended. The input is:

    one line of JSON              {"fps", "frames", "meshes": [{"name", "vertices", "triangles", "uv", ...}]}
    each mesh                     triangles int32, uv float32 where it has them
    each mesh that stands still   positions float32
    each frame, each moving mesh  positions, and velocities where it has them, float32
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO

import numpy as np


def write_archive(path: str, source: BinaryIO, parent: int) -> None:
    from alembic3d import Abc, AbcCoreAbstract

    about = json.loads(source.readline())
    if os.getppid() != parent:  # the parent was killed, and another run may be writing this file by now
        return
    archive = Abc.OArchive(path)
    times = archive.addTimeSampling(AbcCoreAbstract.TimeSampling(1.0 / about["fps"], 0.0))
    meshes = [ArchivedMesh(archive.getTop(), times, mesh, source) for mesh in about["meshes"]]
    for mesh in meshes:
        if not mesh.about["moves"]:
            mesh.add(source)
    for _ in range(about["frames"]):
        for mesh in meshes:
            if mesh.about["moves"]:
                mesh.add(source)
    # The library completes the file when the last reference to it is gone.


class ArchivedMesh:
    """One mesh of the archive; each call of `add` appends a sample."""

    def __init__(self, top: Any, times: int, about: dict[str, Any], source: BinaryIO):
        """`times` is the number of its time sampling in the archive."""
        from alembic3d import AbcGeom

        # Programs expect a transform above every shape, and use its name for the object.
        shape = AbcGeom.OPolyMesh(AbcGeom.OXform(top, about["name"]), f"{about['name']}_shape", times)
        self.schema, self.about = shape.getSchema(), about
        self.triangles = _read(source, np.int32, about["triangles"], 3)
        self.uv = _read(source, np.float32, 3 * about["triangles"], 2) if about["uv"] else None
        self.started = False

    def add(self, source: BinaryIO) -> None:
        import imath
        from alembic3d import AbcGeom

        sample = AbcGeom.OPolyMeshSchemaSample()
        sample.setPositions(imath.V3fArrayFromBuffer(_read(source, np.float32, self.about["vertices"], 3)))
        if self.about["velocities"]:
            sample.setVelocities(imath.V3fArrayFromBuffer(_read(source, np.float32, self.about["vertices"], 3)))
        if not self.started:  # faces and uv, which do not change, are in the first sample only
            sample.setFaceIndices(imath.IntArrayFromBuffer(self.triangles.ravel()))
            sample.setFaceCounts(imath.IntArrayFromBuffer(np.full(len(self.triangles), 3, np.int32)))
            if self.uv is not None:
                scope = AbcGeom.GeometryScope.kFacevaryingScope
                sample.setUVs(AbcGeom.OV2fGeomParamSample(imath.V2fArrayFromBuffer(self.uv), scope))
            self.started = True
        self.schema.set(sample)


def _read(source: BinaryIO, kind: type, rows: int, columns: int) -> np.ndarray:
    size = rows * columns * np.dtype(kind).itemsize
    data = source.read(size)
    if len(data) < size:
        raise EOFError("the parent process has ended")
    return np.frombuffer(data, kind).reshape(rows, columns).copy()


if __name__ == "__main__":
    write_archive(sys.argv[1], sys.stdin.buffer, int(sys.argv[2]))
