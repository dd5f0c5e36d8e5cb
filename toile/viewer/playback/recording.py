"""Reads a run from disk that is finished, stopped, killed, or still being written.

Frames are read one by one from files that stay open, so a run of any length takes the memory of one frame, and a new
run in the same folder does not change what the page shows. (A memory map would do the same until somebody truncates the
file, and then end the process.) While a run is being written, its files have temporary names
(toile/outputs/_atomic.py), and the cache may end with an incomplete frame, which is not counted.
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
from toile.runs.expectations import Finding, check, read_report
from toile.runs.folder import REPORT_NAME, RunFolder
from toile.scene.schema import Bound
from toile.viewer.playback.flagged_frames import FlaggedFrames, find_flagged

NO_CERTIFICATE = (
    "No certificate yet: the run is still being written, or it was killed. `toile run --resume` continues a killed run."
)


class Recording:
    """Surface, frames and certificate of one run. Raises InputError with the reason if a folder contains none."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.growing = _is_newer(part_of(folder / CACHE_NAME), folder / CACHE_NAME)
        if not self.growing:
            RunFolder(folder)  # checks that the files are complete and consistent
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
        """The entries of the certificate, one per frame. The start has none."""
        return [] if self.report is None else self.report["frames"]

    @property
    def fps(self) -> float:
        return self.surface.fps

    def positions(self, frame: int) -> np.ndarray:
        """Returns (vertices, 3) float32."""
        return self._cloth.at(frame)

    def solids(self, frame: int) -> tuple[np.ndarray, ...]:
        solids = self.surface.solids
        if self._solids is None:
            return tuple(solid.rest for solid in solids)
        ends = np.cumsum([len(solid.rest) for solid in solids])
        return tuple(np.split(self._solids.at(frame), ends[:-1]))

    def flagged(self) -> list[FlaggedFrames]:
        return [] if self.report is None else find_flagged(self.expect, self.report, self.frame_count)

    def findings(self) -> list[Finding]:
        """Compares the certificate with the expectations. Raises SceneError if it has another version."""
        return [] if self.report is None else check(self.expect, self.report)

    def values_besides(self, findings: list[Finding]) -> list[tuple[str, Any]]:
        """The names and values of the certificate's summary that have no finding."""
        known = {finding.key for finding in findings}
        summary = {} if self.report is None else self.report["summary"]
        return [(key, value) for key, value in summary.items() if key not in known]

    def grow(self) -> bool:
        """Counts the frames again. Returns whether there are more than before."""
        before, self.frame_count = self.frame_count, self._whole_frames()
        return self.frame_count > before

    def is_stale(self) -> bool:
        """Whether the folder now contains something else: the finished run, its certificate, or another run."""
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
        """Sets the certificate, and returns a message about it."""
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
            return f"{self.folder / REPORT_NAME}: not a readable certificate."
        if len(numbers) != self.frame_count - 1:
            return (
                f"{REPORT_NAME} has {len(numbers)} frames after the start, and {CACHE_NAME} has "
                f"{self.frame_count - 1}: it is of another run, and is not shown."
            )
        self.expect, self.report = expect, report
        return str(report["stopped"]) if "stopped" in report else ""

    def _file(self, name: str) -> Path:
        part = part_of(self.folder / name)
        return part if self.growing and part.is_file() else self.folder / name

    def _whole_frames(self) -> int:
        return min(points.count() for points in (self._cloth, self._solids) if points is not None)

    def _stamp(self) -> list[tuple[int, int] | None]:
        """Identity of the files and, of those that are complete, their time."""
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
        if not start:  # the header is still in the buffer of the writing process
            return
        if len(start) < HEADER.size or not start.startswith(SIGNATURE) or HEADER.unpack(start)[2] != points:
            self.file.close()
            raise InputError(f"{path}: not a PC2 cache of {points} points. Run the scene again.")

    def count(self) -> int:
        """Returns the number of complete frames."""
        end = self.file.seek(0, 2)
        if self.points:
            return max(end - HEADER.size, 0) // (12 * self.points)
        self.file.seek(0)  # frames without cloth are empty: their number is only in the header of the finished run
        return int(HEADER.unpack(self.file.read(HEADER.size))[5]) if end >= HEADER.size else 0

    def at(self, frame: int) -> np.ndarray:
        size = 12 * self.points
        self.file.seek(HEADER.size + size * frame)
        data = self.file.read(size)
        if len(data) < size:
            raise InputError(f"{self.path}: it no longer contains frame {frame}. Open the folder again.")
        return np.frombuffer(data, "<f4").reshape(-1, 3)


def _is_entry(entry: dict[str, Any]) -> bool:
    """Whether an entry of the certificate has the structure that plots and flagged frames need."""
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
    """Whether the file exists and is the later of the two."""
    own, other = _identity(path), _identity(than)
    return own is not None and (other is None or own[1] > other[1])
