"""NumPy archive in double precision: positions and velocities of every frame, times, triangles, uv, cloths and solids.

    positions   (frames, vertices, 3) [m]         triangles        (triangles, 3)
    velocities  (frames, vertices, 3) [m/s]       uv               (triangles, 3, 2) [m]
    times       (frames,) [s]                     part_names       (cloths,)
    fps         () [1/s]                          part_vertices    (cloths, 2): first, one past the last
                                                  part_triangles   (cloths, 2)

A scene with solids adds these; if `solid_positions` is missing, all solids stand still:

    solid_rest       (solid vertices, 3) [m]      solid_names            (solids,)
    solid_triangles  (solid triangles, 3)         solid_vertex_ranges    (solids, 2): first, one past the last
    solid_positions  (frames, solid vertices, 3)  solid_triangle_ranges  (solids, 2)

`numpy.load(path)` reads it; nothing in it needs pickle.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from toile.model.frame import Frame, SolidSurface, Surface
from toile.outputs._atomic import Draft, Spool
from toile.outputs._names import file_name
from toile.outputs.base import Output, Writer


class Npz(Output):
    """For NumPy, PyTorch, JAX and other programs that read .npy."""

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return NpzWriter(folder / f"{file_name(name)}.npz", surface)


class NpzWriter(Writer):
    """Stores frames in unnamed files until their number is known: the shape of an array precedes its data."""

    def __init__(self, path: Path, surface: Surface):
        self.surface = surface
        self.times: list[float] = []
        self.draft = Draft(path)
        self.positions = Spool(path, (surface.vertex_count, 3), np.float64)
        self.velocities = Spool(path, (surface.vertex_count, 3), np.float64)
        count = sum(len(solid.rest) for solid in surface.solids)
        self.solids = Spool(path, (count, 3), np.float64) if surface.solids_move else None

    def write(self, frame: Frame) -> None:
        self.positions.append(frame.positions)
        self.velocities.append(frame.velocities)
        if self.solids is not None:
            self.solids.append(np.concatenate(self.surface.solids_at(frame)))
        self.times.append(frame.time)

    def close(self) -> list[Path]:
        try:
            with self.draft.finishing(), zipfile.ZipFile(self.draft.part, "w", allowZip64=True) as archive:
                self._fill(archive)
        finally:
            self._close_spools()
        return [self.draft.path]

    def discard(self) -> None:
        self._close_spools()
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
        if self.surface.solids:
            _put_solids(archive, self.surface.solids)
        if self.solids is not None:
            _put_frames(archive, "solid_positions", self.solids)

    def _close_spools(self) -> None:
        self.positions.close()
        self.velocities.close()
        if self.solids is not None:
            self.solids.close()


def _put_solids(archive: zipfile.ZipFile, solids: tuple[SolidSurface, ...]) -> None:
    vertices = np.cumsum([0, *(len(solid.rest) for solid in solids)])
    triangles = np.cumsum([0, *(len(solid.triangles) for solid in solids)])
    shifted = [solid.triangles + first for solid, first in zip(solids, vertices[:-1], strict=True)]
    _put(archive, "solid_rest", np.concatenate([solid.rest for solid in solids]))
    _put(archive, "solid_triangles", np.concatenate(shifted).astype(np.int32))
    _put(archive, "solid_names", np.array([solid.name for solid in solids], np.str_))
    _put(archive, "solid_vertex_ranges", np.stack([vertices[:-1], vertices[1:]], axis=1))
    _put(archive, "solid_triangle_ranges", np.stack([triangles[:-1], triangles[1:]], axis=1))


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
    # The date of an entry is the earliest of the format, so that the same run gives the same bytes.
    return zipfile.ZipInfo(f"{name}.npy")


def _ranges(slices: list[slice]) -> np.ndarray:
    return np.array([(s.start, s.stop) for s in slices], np.int64).reshape(-1, 2)
