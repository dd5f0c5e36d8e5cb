"""Reads a finished run from its folder: the surface from rest.obj, the frames from cache.pc2, the certificate.

Solids are in solids.obj, and their frames in solids.pc2 if one of them moves; folders without solids have neither. The
cache holds positions in float32 and no velocities. The velocities of frames are differences of positions: central
between two neighbors, one-sided at both ends. Where the certificate counts intersections they are computed again, so
that pictures show them; where triangles barely touch, float32 may give a different result.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from toile import plugins
from toile.contact.intersection_audit import Audit
from toile.errors import InputError
from toile.model.frame import Frame, Surface
from toile.outputs._obj_read import read_rest, read_solids
from toile.outputs._rendered_output import RenderedOutput
from toile.outputs.base import Output, Writer, report_progress
from toile.outputs.pc2 import CACHE_NAME, HEADER, REST_NAME, SIGNATURE, SOLIDS_CACHE_NAME, SOLIDS_NAME

REPORT_NAME = "report.json"

D = TypeVar("D", bound=Output)


class RunFolder:
    """The folder of results that `toile run` has written."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if not self.path.is_dir():
            raise InputError(f"{self.path}: no such folder. {_runs_like(self.path)}")
        missing = [name for name in (REST_NAME, CACHE_NAME) if not (self.path / name).is_file()]
        if missing:
            raise InputError(
                f"{self.path}: not the folder of a finished run: no {' and no '.join(missing)} in it. "
                f"`toile run SCENE --out {self.path}` makes one."
            )
        self.name, surface = read_rest(self.path / REST_NAME)
        solids = self.path / SOLIDS_NAME
        self._surface = replace(surface, solids=read_solids(solids)) if solids.is_file() else surface
        self._cache = PointCache(self.path / CACHE_NAME, self._surface.vertex_count, REST_NAME)
        self.frame_count = self._cache.samples
        self._solids = self._solids_cache()
        self._counted = self._intersections()
        self._audit: Audit | None = None

    def surface(self) -> Surface:
        """Returns the mesh of the cloth, and the solids."""
        return self._surface

    def frames(self) -> Iterator[Frame]:
        """Yields every frame in order, frame 0 first. Velocities are differences of positions."""
        fps, last = self._surface.fps, self.frame_count - 1
        for k in range(self.frame_count):
            before, here, after = (self._cache.positions(i) for i in (max(k - 1, 0), k, min(k + 1, last)))
            span = (min(k + 1, last) - max(k - 1, 0)) / fps
            velocities = (after - before) / span if span > 0.0 else np.zeros_like(here)
            yield Frame(
                k, k / fps, here, velocities, solids=self._solids_at(k), intersecting=self._intersecting(k, here)
            )

    def report(self) -> dict[str, Any]:
        """Returns the certificate."""
        path = self.path / REPORT_NAME
        if not path.is_file():
            raise InputError(f"{path}: the run left no certificate. Run the scene again.")
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path}: not a certificate: {error}. Run the scene again.") from error
        if not isinstance(report, dict):
            raise InputError(f"{path}: not a certificate. Run the scene again.")
        return report

    def _intersecting(self, frame: int, positions: np.ndarray) -> np.ndarray | None:
        """Returns the triangles that intersect others, if the certificate counts any in this frame."""
        if not self._counted.get(frame):
            return None
        if self._audit is None:
            self._audit = Audit(self._surface.triangles, self._surface.vertex_count, "cpu")
        return np.unique(self._audit.pairs(positions))

    def _intersections(self) -> dict[int, int | None]:
        """Returns the number of intersections of each frame in the certificate; {} if it cannot be read."""
        try:
            report = self.report()
            counts = {entry["frame"]: entry["intersections"] for entry in report["frames"]}
            return {0: report["summary"]["intersections_start"], **counts}
        except (InputError, LookupError, TypeError):
            return {}

    def _solids_cache(self) -> PointCache | None:
        if not self._surface.solids_move:
            return None
        path = self.path / SOLIDS_CACHE_NAME
        if not path.is_file():
            raise InputError(f"{self.path}: has no {path.name}, but a solid moves. Run the scene again.")
        cache = PointCache(path, sum(len(solid.rest) for solid in self._surface.solids), SOLIDS_NAME)
        if cache.samples != self.frame_count:
            raise InputError(
                f"{path}: holds {cache.samples} frames, but {CACHE_NAME} holds {self.frame_count}: "
                "the two are not from the same run. Run the scene again."
            )
        return cache

    def _solids_at(self, frame: int) -> tuple[np.ndarray, ...]:
        if self._solids is None:
            return ()
        solids = self._surface.solids
        ends = np.cumsum([len(solid.rest) for solid in solids])
        moved = np.split(self._solids.positions(frame), ends[:-1])
        # The rest positions of solids that do not move have more digits.
        return tuple(m if solid.moves else solid.rest for solid, m in zip(solids, moved, strict=True))


class PointCache:
    """A PC2 file whose header and size have been checked."""

    def __init__(self, path: Path, points: int, rest_name: str):
        """Raises InputError if the file does not fit its own header, or the surface in the file `rest_name`."""
        self.path, self.points = path, points
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(HEADER.size)
        if len(start) < HEADER.size or not start.startswith(SIGNATURE):
            raise InputError(f"{path}: not a PC2 cache. Run the scene again.")
        _, _, held, _, _, self.samples = HEADER.unpack(start)
        if held != points:
            raise InputError(
                f"{path}: holds {held} points, but {rest_name} holds {points}: "
                "the two are not from the same run. Run the scene again."
            )
        expected = HEADER.size + 12 * points * self.samples
        if self.samples < 0 or size != expected:
            raise InputError(
                f"{path}: damaged: {self.samples} frames of {points} points take {expected} bytes, but it has {size}. "
                "Run the scene again."
            )

    def positions(self, frame: int) -> np.ndarray:
        """Returns the positions of a frame in float64."""
        n = 3 * self.points
        data = np.fromfile(self.path, "<f4", n, offset=HEADER.size + 4 * n * frame)
        return data.astype(np.float64).reshape(-1, 3)


def render_run(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    frame: int | None = None,
    **options: Any,
) -> Path:
    """Draws a finished run and returns the file: one frame as .png (the last by default), or all as .mp4 or .gif.

    `out` is a file, or a folder that gets a picture under the run's name; the run's own folder by default. `options`
    are those of the outputs `picture`, `video` and `gif`: width, height, samples, look_at, look_from, fov, device.
    """
    from toile.outputs.gif import Gif
    from toile.outputs.picture import Picture
    from toile.outputs.video import Video

    films: dict[str, type[RenderedOutput]] = {film.suffix: film for film in (Video, Gif)}
    run = RunFolder(path)
    target = run.path if out is None else Path(out)
    if frame is not None and not 0 <= frame < run.frame_count:
        raise InputError(f"{run.path}: no frame {frame}: the run has frames 0 to {run.frame_count - 1}.")
    kind = target.suffix.lower() if not target.is_dir() else ""
    if kind in films:
        if frame is not None:
            raise InputError(f"{target}: a film shows every frame: omit the frame, or give a .png.")
        writer = _configured(films[kind], options).writer_to(target, run.surface())
    elif kind == Picture.suffix:
        writer = _configured(Picture, {"frame": frame, **options}).writer_to(target, run.surface())
    elif kind == "":
        writer = _configured(Picture, {"frame": frame, **options}).writer(target, run.name, run.surface())
    else:
        raise InputError(f"{target}: cannot draw {kind} files. Give a .png, a .mp4, a .gif, or a folder.")
    return _replay(run, [writer])[0]


def export_run(
    path: str | os.PathLike[str], formats: list[str], out: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Writes a finished run in other formats, into its folder or into `out`, and returns the files."""
    run = RunFolder(path)
    known = plugins.names("outputs")
    for name in formats:
        if name not in known:
            raise InputError(f'no output "{name}".{plugins.nearest(name, known)}')
    target = run.path if out is None else Path(out)
    writers: list[Writer] = []
    try:
        for name in dict.fromkeys(formats):
            output = plugins.find("outputs", name)()
            assert isinstance(output, Output)
            writers.append(output.writer(target, run.name, run.surface()))
    except BaseException:
        _discard(writers)
        raise
    return _replay(run, writers)


def _runs_like(path: Path) -> str:
    """Returns a hint with the most similar run beside a path or in out/, where `toile run` writes by default."""
    beside = [folder for parent in (path.parent, Path("out")) if parent.is_dir() for folder in parent.iterdir()]
    runs = {folder.name: folder for folder in beside if (folder / CACHE_NAME).is_file()}
    close = difflib.get_close_matches(path.name, runs, n=1)
    return f'Did you mean "{runs[close[0]]}"?' if close else "Give the folder of a run, such as out/hang."


def _replay(run: RunFolder, writers: list[Writer]) -> list[Path]:
    """Passes every frame to every writer. If something fails, unfinished writers leave no files."""
    written: list[Path] = []
    waiting = list(writers)
    try:
        for frame in run.frames():
            for writer in writers:
                writer.write(frame)
            report_progress("frame", frame.number + 1, run.frame_count)
        while waiting:
            written += waiting[0].close()
            waiting.pop(0)
    except BaseException:
        _discard(waiting)
        raise
    return written


def _discard(writers: list[Writer]) -> None:
    for writer in writers:
        writer.discard()


def _configured(kind: type[D], options: dict[str, Any]) -> D:
    """Returns an output with these settings; InputError describes what is wrong with them."""
    try:
        return kind(**options)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            key = ".".join(map(str, problem["loc"]))
            lines.append(f"{kind.type_name()}: {key} = {problem['input']!r}: {problem['msg']}.")
        raise InputError("\n".join(lines)) from error
