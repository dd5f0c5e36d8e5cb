"""Reader of PC2: a header of 32 bytes (see outputs/pc2.py), then the positions of every frame in float32.

The format has no frame rate in seconds, only the number of clock frames between samples.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.model.mesh_files import require_memory
from toile.model.sequence_files import FrameFile

HEADER = struct.Struct("<12siiffi")
SIGNATURE = b"POINTCACHE2\0"


def read(path: Path) -> FrameFile:
    with path.open("rb") as file:
        header = file.read(HEADER.size)
        if not header.startswith(SIGNATURE):
            raise InputError(f"{path.name}: not a PC2 file: it does not begin with POINTCACHE2.")
        if len(header) < HEADER.size:
            raise InputError(f"{path.name}: ends within its header of {HEADER.size} bytes.")
        _, version, points, _, rate, samples = HEADER.unpack(header)
        if version != 1:
            raise InputError(f"{path.name}: PC2 version {version}; only version 1 exists.")
        if points < 1 or samples < 1:
            raise InputError(f"{path.name}: declares {samples} frames of {points} vertices; both must be at least 1.")
        declared, size = HEADER.size + 12 * points * samples, path.stat().st_size
        if size != declared:
            raise InputError(
                f"{path.name}: {samples} frames of {points} vertices are {declared} bytes, but the file has "
                f"{size}: {'it was cut off' if size < declared else 'it does not match its header'}. Write it again."
            )
        require_memory(declared, f"reading {path.name}")
        positions = np.fromfile(file, "<f4").reshape(samples, points, 3)
    warnings = () if rate == 1.0 else (f"its samples are {rate:g} frames apart. Set fps to samples per second.",)
    return FrameFile(positions.astype(np.float32, copy=False), warnings=warnings)
