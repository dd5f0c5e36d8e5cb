"""Native cache: cache.pc2 (all positions of every frame, float32) beside rest.obj (the start state with uv).

A scene with solids adds solids.obj (all of them at the start) and, when one of them moves, solids.pc2.

    signature  "POINTCACHE2\\0"      12 bytes
    version    1                    int32
    points     vertices             int32
    start      0                    float32  [frame]
    rate       1                    float32  [frames per sample]
    samples    frames + 1           int32
    data       x y z ...            float32  [m]      frame 0 is the start state

All numbers are little-endian. Blender reads the cache with the Mesh Cache modifier on the imported rest.obj. PC2 has no
frame rate; it is in the first line of rest.obj. A file gets its name when it is complete: a reader never sees half a
run.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np

from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, explained
from toile.outputs._obj_text import ObjText, SolidsText, header
from toile.outputs.base import Output, Writer

HEADER = struct.Struct("<12siiffi")
SIGNATURE = b"POINTCACHE2\0"
CACHE_NAME, REST_NAME = "cache.pc2", "rest.obj"
SOLIDS_CACHE_NAME, SOLIDS_NAME = "solids.pc2", "solids.obj"


class Pc2(Output):
    """Written by every run."""

    def writer(self, folder: Path, name: str, surface: Surface) -> Writer:
        return Pc2Writer(folder, name, surface)


class Pc2Writer(Writer):
    """Writes frames straight to disk. The cache of the cloth gets its name last: if it exists, all files do."""

    def __init__(self, folder: Path, name: str, surface: Surface):
        texts = {REST_NAME: ObjText(name, surface).at(surface.rest)}
        if surface.solids:
            rest = tuple(solid.rest for solid in surface.solids)
            texts[SOLIDS_NAME] = header(name, surface.fps) + SolidsText(surface.solids).at(rest)
        self.folder = folder
        self.texts: list[Draft] = []
        self.caches: list[Cache] = []
        try:
            for file, text in texts.items():
                self.texts.append(Draft(folder / file))
                with explained(folder / file):
                    self.texts[-1].part.write_text(text, encoding="utf-8", newline="\n")
            if surface.solids_move:
                count = sum(len(solid.rest) for solid in surface.solids)
                take = partial(_solids_of, surface)
                self.caches.append(Cache(folder / SOLIDS_CACHE_NAME, count, take))
            self.caches.append(Cache(folder / CACHE_NAME, surface.vertex_count, attrgetter("positions")))
        except BaseException:
            self.discard()
            raise

    def write(self, frame: Frame) -> None:
        for cache in self.caches:
            cache.append(frame)

    def close(self) -> list[Path]:
        try:
            for cache in self.caches:
                cache.finish()
            *first, last = *self.texts, *(cache.draft for cache in self.caches)
            written = [draft.publish() for draft in first]
            self._remove_older({path.name for path in written})
            return [*written, last.publish()]
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        for cache in self.caches:
            cache.discard()
        for draft in self.texts:
            draft.discard()

    def _remove_older(self, written: set[str]) -> None:
        """Removes solids of an earlier run in the same folder, which would be read as those of this one."""
        for name in {SOLIDS_NAME, SOLIDS_CACHE_NAME} - written:
            with explained(self.folder / name):
                (self.folder / name).unlink(missing_ok=True)


class Cache:
    """One PC2 file under construction; the count in its header is filled in at the end."""

    def __init__(self, path: Path, points: int, take: Callable[[Frame], np.ndarray]):
        """`take` returns the positions of a frame that the file stores."""
        self.points, self.count, self.take = points, 0, take
        self.draft = Draft(path)
        with explained(path):
            self.file = self.draft.part.open("wb")
        try:
            self._write_header()
        except BaseException:
            self.discard()
            raise

    def append(self, frame: Frame) -> None:
        with explained(self.draft.path):
            self.file.write(np.ascontiguousarray(self.take(frame), "<f4").data)
        self.count += 1

    def finish(self) -> None:
        with explained(self.draft.path):
            self.file.seek(0)
            self._write_header()
            self.file.close()

    def discard(self) -> None:
        with contextlib.suppress(OSError):  # buffered data may not fit on a full disk
            self.file.close()
        self.draft.discard()

    def _write_header(self) -> None:
        with explained(self.draft.path):
            self.file.write(HEADER.pack(SIGNATURE, 1, self.points, 0.0, 1.0, self.count))


def _solids_of(surface: Surface, frame: Frame) -> np.ndarray:
    return np.concatenate(surface.solids_at(frame))
