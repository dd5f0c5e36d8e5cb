"""Reader of NumPy archives: `positions` (frames, vertices, 3), optionally `triangles` (triangles, 3) and `fps`.

Nothing is unpickled, and no array is allocated before its declared size has been compared with the size in the
archive.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import require_memory
from toile.model.sequence_files import FrameFile


def read(path: Path) -> FrameFile:
    try:
        with zipfile.ZipFile(path) as archive:
            found = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
            if "positions" not in found:
                names = ", ".join(sorted(found)[:10]) or "nothing"
                raise InputError(f'{path.name}: has no array "positions" (frames, vertices, 3), but {names}.')
            positions = _array(archive, "positions", path.name)
            triangles = _array(archive, "triangles", path.name) if "triangles" in found else None
            fps = _array(archive, "fps", path.name) if "fps" in found else None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(f"{path.name}: not a readable NumPy archive ({error}).") from error
    return FrameFile(
        _frames(positions, path.name),
        None if fps is None else _rate(fps, path.name),
        None if triangles is None else _faces(triangles, positions.shape[1], path.name),
    )


def _array(archive: zipfile.ZipFile, name: str, file_name: str) -> np.ndarray:
    entry = archive.getinfo(f"{name}.npy")
    with archive.open(entry) as file:
        shape, dtype = _header(file)
        if dtype.hasobject:
            raise InputError(f'{file_name}: "{name}" has Python objects, which are never read. Save plain numbers.')
        declared = math.prod(shape) * dtype.itemsize
        if file.tell() + declared != entry.file_size:
            raise InputError(
                f'{file_name}: "{name}" declares {declared} bytes and has {entry.file_size - file.tell()}.'
            )
    require_memory(declared, f"reading {file_name}")
    with archive.open(entry) as file:
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    if np.lib.format.read_magic(file) == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    return shape, dtype


def _frames(positions: np.ndarray, name: str) -> np.ndarray:
    if positions.ndim != 3 or positions.shape[2] != 3 or 0 in positions.shape or positions.dtype.kind not in "fiu":
        found = f"{positions.shape} of {positions.dtype}"
        raise InputError(f'{name}: "positions" is {found}; it must be (frames, vertices, 3) of numbers.')
    small = positions.dtype.kind == "f" and positions.dtype.itemsize <= 4
    return positions.astype(np.float32 if small else np.float64, copy=False)


def _rate(fps: np.ndarray, name: str) -> float:
    value = float(fps.ravel()[0]) if fps.size == 1 and fps.dtype.kind in "fiu" else math.nan
    if not 0.0 < value < math.inf:
        raise InputError(f'{name}: "fps" must be one number > 0 [1/s].')
    return value


def _faces(triangles: np.ndarray, vertex_count: int, name: str) -> np.ndarray:
    if triangles.ndim != 2 or triangles.shape[1] != 3 or triangles.dtype.kind not in "iu":
        found = f"{triangles.shape} of {triangles.dtype}"
        raise InputError(f'{name}: "triangles" is {found}; it must be (triangles, 3) of integers.')
    wrong = ((triangles < 0) | (triangles >= vertex_count)).any(axis=1)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise InputError(f"{name}: triangle {t} refers to a vertex outside of 0 to {vertex_count - 1}.")
    return triangles.astype(np.int32)
