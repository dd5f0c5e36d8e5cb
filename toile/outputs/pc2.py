"""Native cache: cache.pc2 (every position of every frame, float32) beside rest.obj (the start state with uv).

    signature  "POINTCACHE2\\0"      12 bytes
    version    1                    int32
    points     vertices             int32
    start      0                    float32  [frame]
    rate       1                    float32  [frames per sample]
    samples    frames + 1           int32
    data       x y z ...            float32  [m]      frame 0 is the start state

All little-endian. Blender reads it with the Mesh Cache modifier on the imported rest.obj. PC2 has no frame rate; it is
in the first line of rest.obj. The file has its name only when every frame is in it: a reader never sees half a run.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np

from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, explained
from toile.outputs._obj_text import ObjText
from toile.outputs.base import Output, Writer

HEADER = struct.Struct("<12siiffi")
SIGNATURE = b"POINTCACHE2\0"
CACHE_NAME, REST_NAME = "cache.pc2", "rest.obj"


class Pc2(Output):
    """Written by every run."""

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return Pc2Writer(folder, name, surface)


class Pc2Writer(Writer):
    """Frames go straight to disk; the count in the header is filled in at the end."""

    def __init__(self, folder: Path, name: str, surface: Surface):
        rest = ObjText(name, surface).at(surface.rest)
        self.points, self.count = surface.vertex_count, 0
        self.cache, self.rest = Draft(folder / CACHE_NAME), Draft(folder / REST_NAME)
        with explained(self.cache.path):
            self.file = self.cache.part.open("wb")
        try:
            with explained(self.rest.path):
                self.rest.part.write_text(rest, encoding="utf-8", newline="\n")
            with explained(self.cache.path):
                self.file.write(self._header())
        except BaseException:
            self.discard()
            raise

    def write(self, frame: Frame) -> None:
        with explained(self.cache.path):
            self.file.write(np.ascontiguousarray(frame.positions, "<f4").data)
        self.count += 1

    def close(self) -> list[Path]:
        try:
            with explained(self.cache.path):
                self.file.seek(0)
                self.file.write(self._header())
                self.file.close()
            return [self.rest.publish(), self.cache.publish()]
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        with contextlib.suppress(OSError):  # what is still in the buffer may not fit on a full disk
            self.file.close()
        self.cache.discard()
        self.rest.discard()

    def _header(self) -> bytes:
        return HEADER.pack(SIGNATURE, 1, self.points, 0.0, 1.0, self.count)
