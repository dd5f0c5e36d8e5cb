"""A run as far as it is on disk: finished, stopped, killed, or still being written.

Frames are read one by one from files that stay open, so a run of any length takes the memory of one frame, and a folder
in which a new run begins does not change under the page. (A memory map would do the same until somebody truncates the
file, and then end the process.) While a run is written its files have temporary names (toile/outputs/_atomic.py), and
the cache grows by whole frames and a rest: the rest is no frame yet.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toile.errors import InputError
from toile.model.frame import Surface
from toile.outputs._atomic import part_of
from toile.outputs._obj_read import read_rest, read_solids
from toile.outputs.pc2 import CACHE_NAME, HEADER, REST_NAME, SIGNATURE, SOLIDS_CACHE_NAME, SOLIDS_NAME
from toile.runs.expectations import read_report
from toile.runs.folder import REPORT_NAME, RunFolder
from toile.scene.schema import Bound

NO_CERTIFICATE = (
    "No certificate yet: the run is still being written, or it was ended before it could leave one. "
    "`toile run --resume` goes on with one that was ended."
)


class Recording:
    """Surface, frames and certificate of one run. InputError says why a folder holds none."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.growing = _is_newer(part_of(folder / CACHE_NAME), folder / CACHE_NAME)
        if not self.growing:
            RunFolder(folder)  # which looks whether files are whole, and fit each other
        self._signature = self._stamp()
        self.name, self.surface = self._read_surface()
        self._cloth = _Points(self._file(CACHE_NAME), self.surface.vertex_count)
        self._solids: _Points | None = None
        if self.surface.solids_move:
            count = sum(len(solid.rest) for solid in self.surface.solids)
            self._solids = _Points(self._file(SOLIDS_CACHE_NAME), count)
        self.frame_count = self._whole_frames()
        self.expect: dict[str, Bound] = {}
        self.report: dict[str, Any] | None = None
        self.message = NO_CERTIFICATE if self.growing else self._read_certificate()

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The certificate, frame by frame. The start has no entry."""
        return [] if self.report is None else self.report["frames"]

    @property
    def fps(self) -> float:
        return self.surface.fps

    def positions(self, frame: int) -> np.ndarray:
        """(vertices, 3) float32"""
        return self._cloth.at(frame)

    def solids(self, frame: int) -> tuple[np.ndarray, ...]:
        solids = self.surface.solids
        if self._solids is None:
            return tuple(solid.rest for solid in solids)
        ends = np.cumsum([len(solid.rest) for solid in solids])
        return tuple(np.split(self._solids.at(frame), ends[:-1]))

    def grow(self) -> bool:
        """Whether there are more frames than before."""
        before, self.frame_count = self.frame_count, self._whole_frames()
        return self.frame_count > before

    def is_stale(self) -> bool:
        """Whether the folder now holds something else: the finished run, its certificate, or another run."""
        return self._stamp() != self._signature

    def close(self) -> None:
        for points in (self._cloth, self._solids):
            if points is not None:
                points.file.close()

    def _read_surface(self) -> tuple[str, Surface]:
        name, surface = read_rest(self._file(REST_NAME))
        solids = self._file(SOLIDS_NAME)
        return name, replace(surface, solids=read_solids(solids)) if solids.is_file() else surface

    def _read_certificate(self) -> str:
        """Sets the certificate; returns what is to be said about it."""
        if not (self.folder / REPORT_NAME).is_file():
            return NO_CERTIFICATE
        try:
            expect, report = read_report(self.folder)
            numbers = [int(entry["frame"]) for entry in report["frames"]]
            if not all(_is_entry(entry) for entry in report["frames"]):
                raise ValueError
        except InputError as error:
            return str(error)
        except (TypeError, KeyError, ValueError, AttributeError):
            return f"{self.folder / REPORT_NAME}: not a certificate that can be read."
        if len(numbers) != self.frame_count - 1:
            return (
                f"{REPORT_NAME} tells of {len(numbers)} frames after the start, and {CACHE_NAME} holds "
                f"{self.frame_count - 1}: it is of another run, and left out here."
            )
        self.expect, self.report = expect, report
        return str(report["stopped"]) if "stopped" in report else ""

    def _file(self, name: str) -> Path:
        part = part_of(self.folder / name)
        return part if self.growing and part.is_file() else self.folder / name

    def _whole_frames(self) -> int:
        return min(points.count() for points in (self._cloth, self._solids) if points is not None)

    def _stamp(self) -> list[tuple[int, int] | None]:
        """What there is, and which; how much of it, only of what is complete."""
        complete = [_identity(self.folder / name) for name in (CACHE_NAME, REPORT_NAME)]
        draft = _identity(part_of(self.folder / CACHE_NAME))
        return [*complete, draft and (draft[0], 0)]


class _Points:
    """A PC2 file, complete or not."""

    def __init__(self, path: Path, points: int):
        self.path, self.points = path, points
        try:
            self.file = path.open("rb")
        except FileNotFoundError:
            raise InputError(f"{path}: no such file. Run the scene again.") from None
        start = self.file.read(HEADER.size)
        if not start:  # the first words of a run are still in its buffer
            return
        if len(start) < HEADER.size or not start.startswith(SIGNATURE) or HEADER.unpack(start)[2] != points:
            self.file.close()
            raise InputError(f"{path}: not a PC2 cache of {points} points. Run the scene again.")

    def count(self) -> int:
        """Of whole frames."""
        end = self.file.seek(0, 2)
        if self.points:
            return max(end - HEADER.size, 0) // (12 * self.points)
        self.file.seek(0)  # a scene without cloth: frames take no room, and only the header of the finished run counts
        return int(HEADER.unpack(self.file.read(HEADER.size))[5]) if end >= HEADER.size else 0

    def at(self, frame: int) -> np.ndarray:
        size = 12 * self.points
        self.file.seek(HEADER.size + size * frame)
        data = self.file.read(size)
        if len(data) < size:
            raise InputError(f"{self.path}: frame {frame} is no longer in it. Open the folder again.")
        return np.frombuffer(data, "<f4").reshape(-1, 3)


def _is_entry(entry: dict[str, Any]) -> bool:
    """Whether it has the shape that plots and marks expect."""
    tables = [entry.get(name) or {} for name in ("strain", "energy", "contacts", "ms")]
    values = [entry.get(name) for name in ("rejected", "intersections", "solid_depth")]
    values += [value for table in tables for value in table.values()]
    return all(value is None or isinstance(value, int | float) for value in values)


def _identity(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_mtime_ns
    return None


def _is_newer(path: Path, than: Path) -> bool:
    """Whether the file is there, and is the later of the two."""
    own, other = _identity(path), _identity(than)
    return own is not None and (other is None or own[1] > other[1])
