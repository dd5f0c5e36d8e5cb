"""NumPy archive in double precision: positions and velocities of every frame, times, triangles, uv, and the cloths.

    positions   (frames, vertices, 3) [m]         triangles        (triangles, 3)
    velocities  (frames, vertices, 3) [m/s]       uv               (triangles, 3, 2) [m]
    times       (frames,) [s]                     part_names       (cloths,)
    fps         () [1/s]                          part_vertices    (cloths, 2): first, one past the last
                                                  part_triangles   (cloths, 2)

`numpy.load(path)` reads it; nothing in it needs pickle.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, Spool
from toile.outputs._names import file_name
from toile.outputs.base import Output, Writer


class Npz(Output):
    """For NumPy, PyTorch, JAX and everything that reads .npy."""

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return NpzWriter(folder / f"{file_name(name)}.npz", surface)


class NpzWriter(Writer):
    """The shape of an array stands before its data, so frames wait in nameless files until their count is known."""

    def __init__(self, path: Path, surface: Surface):
        self.surface = surface
        self.times: list[float] = []
        self.draft = Draft(path)
        self.positions = Spool(path, (surface.vertex_count, 3), np.float64)
        self.velocities = Spool(path, (surface.vertex_count, 3), np.float64)

    def write(self, frame: Frame) -> None:
        self.positions.append(frame.positions)
        self.velocities.append(frame.velocities)
        self.times.append(frame.time)

    def close(self) -> list[Path]:
        try:
            with self.draft.finishing(), zipfile.ZipFile(self.draft.part, "w", allowZip64=True) as archive:
                self._fill(archive)
        finally:
            self._forget()
        return [self.draft.path]

    def discard(self) -> None:
        self._forget()
        self.draft.discard()

    def _fill(self, archive: zipfile.ZipFile) -> None:
        parts = self.surface.parts
        _put_frames(archive, "positions", self.positions)
        _put_frames(archive, "velocities", self.velocities)
        _put(archive, "times", np.array(self.times, np.float64))
        _put(archive, "fps", np.array(self.surface.fps, np.float64))
        _put(archive, "triangles", self.surface.triangles)
        _put(archive, "uv", self.surface.uv)
        _put(archive, "part_names", np.array([part.name for part in parts], np.str_))
        _put(archive, "part_vertices", _ranges([part.vertices for part in parts]))
        _put(archive, "part_triangles", _ranges([part.triangles for part in parts]))

    def _forget(self) -> None:
        self.positions.close()
        self.velocities.close()


def _put(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(_entry(name), "w") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)


def _put_frames(archive: zipfile.ZipFile, name: str, frames: Spool) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(frames.kind),
        "fortran_order": False,
        "shape": (frames.count, *frames.shape),
    }
    with archive.open(_entry(name), "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for array in frames.arrays():
            file.write(array.data)


def _entry(name: str) -> zipfile.ZipInfo:
    # The date of an entry is left at the format's earliest: the same run gives the same bytes.
    return zipfile.ZipInfo(f"{name}.npy")


def _ranges(slices: list[slice]) -> np.ndarray:
    return np.array([(s.start, s.stop) for s in slices], np.int64).reshape(-1, 2)
