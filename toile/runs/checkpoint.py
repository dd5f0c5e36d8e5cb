"""Checkpoints of a run, so that it can be resumed after anything: Ctrl-C, a full disk, kill -9, a power cut.

    .resume/run.json          identity of the run: scene, files, device, precision, version
    .resume/frames            every frame so far, in double precision; a resumed run writes its outputs again from them
    .resume/checkpoint.npz    state of the simulation at one of these frames (toile/model/state_dict.py)
    .resume/complete.json     number of frames whose results are all complete

A checkpoint is written atomically, after the frames up to its own are on the disk; later entries of `frames` are
ignored. A run may therefore be killed at any moment, and the resumed run takes the same steps as one that was not:
outputs receive the same frames to the last bit.

`checkpoint.npz` and `complete.json` name the run that they belong to by the hash of its `run.json`. A new run begins by
replacing that one file, which invalidates all files of an earlier run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from toile.errors import InputError, ToileError
from toile.model.frame import Frame
from toile.outputs._atomic import Draft, explained

if TYPE_CHECKING:
    from toile.simulation.simulation import Simulation

FOLDER = ".resume"

# Largest share of the run time that checkpoints may take; the slower they are, the less often they are saved.
SHARE = 0.01
# Most bytes of frames that a finished run keeps so that it can be extended.
MAX_KEPT = 50_000_000
# Most differences listed when a folder holds another run.
MAX_SHOWN = 6

UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True)
class SavedRun:
    """The run that a folder already holds, and how far it has come."""

    folder: Path
    frames: int
    complete: bool  # whether all its results are written

    def require_at_most(self, frames: int) -> None:
        """Raises InputError if the run has more frames than these."""
        if self.frames > frames:
            raise InputError(
                f"{self.folder}: the run has already reached frame {self.frames}, and {frames} are requested. "
                f"Request {self.frames} or more, or omit --resume to start over."
            )


class Checkpoints:
    """The checkpoints of one run. Either `begin` or `resume` is called first."""

    def __init__(self, folder: Path, simulation: Simulation):
        self.folder, self.simulation = folder / FOLDER, simulation
        self._text = json.dumps(simulation.identity(), indent=1) + "\n"
        self._key = _key_of(self._text)
        self.resumed: int | None = None  # the frame of the checkpoint that `resume` loaded
        self._file: IO[bytes] | None = None
        self._state_dict: dict[str, Any] | None = None  # of the last frame, if it is not saved yet
        self._saved, self._saved_at, self._cost = -1, 0.0, 0.0  # last saved frame, when [s], and how long it took [s]

    def saved_run(self) -> SavedRun | None:
        """Returns the run in the folder; None if there is nothing to resume. InputError if it is a different run."""
        with contextlib.suppress(*UNREADABLE):
            text = (self.folder / "run.json").read_text(encoding="utf-8")
            saved = self._saved_run_of(_key_of(text))
            if saved is not None:
                self._require_same(json.loads(text))
            return saved
        return None

    def begin(self) -> None:
        """Begins a new run, and removes the files of an earlier one."""
        with explained(self.folder):
            self.folder.mkdir(exist_ok=True)
        _write(self.folder / "run.json", self._text)
        self._remove("checkpoint.npz", "complete.json")
        with explained(self.folder / "frames"):
            self._file = (self.folder / "frames").open("wb")

    def resume(self) -> bool:
        """Loads the last checkpoint into the simulation; False if it cannot be read and the run must start over."""
        if not (self.folder / "checkpoint.npz").exists():
            raise InputError(
                f"{self.folder.parent}: the run is complete, and its checkpoint was too large to keep for more frames. "
                "Omit --resume to start over; `toile export` writes other formats."
            )
        try:
            with np.load(self.folder / "checkpoint.npz", allow_pickle=False) as archive:
                state_dict = {name: archive[name] for name in archive.files}
            last = int(state_dict["frame"])
            file = (self.folder / "frames").open("r+b")
            try:
                entries = [_read(file)[0]["certificate"] for _ in range(last + 1)]
                file.truncate(file.tell())
            except BaseException:
                file.close()
                raise
        except UNREADABLE:
            return False
        self._remove("complete.json")
        self._file, self._saved, self._saved_at = file, last, time.perf_counter()
        self.resumed = last
        self.simulation.load_state_dict(state_dict, entries[1:])
        return True

    def saved_frames(self) -> Iterator[Frame]:
        """Yields the frames up to the checkpoint that `resume` loaded; none for a new run."""
        if self.resumed is None:
            return
        with (self.folder / "frames").open("rb") as file:
            for _ in range(self.resumed + 1):
                about, positions, velocities, intersecting = _read(file)
                solids = self.simulation.solids_at(about["time"])
                number, certificate = about["number"], about["certificate"]
                yield Frame(number, about["time"], positions, velocities, certificate, solids, intersecting)

    def add(self, frame: Frame) -> None:
        """Appends the frame that the simulation has just computed, and saves a checkpoint from time to time."""
        assert self._file is not None
        with explained(self.folder / "frames"):
            _append(self._file, frame)
        self._state_dict = self.simulation.state_dict()
        if time.perf_counter() - self._saved_at >= self._cost / SHARE:
            self.save()

    def save(self) -> None:
        """Saves a checkpoint of the last frame that was added."""
        assert self._file is not None
        if self._state_dict is None:
            return
        begin, state_dict = time.perf_counter(), {**self._state_dict, "run": np.array(self._key)}
        with explained(self.folder / "frames"):
            self._file.flush()
            os.fsync(self._file.fileno())
        draft = Draft(self.folder / "checkpoint.npz")
        with draft.finishing():
            np.savez(draft.part, **state_dict)
        self._state_dict, self._saved, self._saved_at = None, int(state_dict["frame"]), time.perf_counter()
        self._cost = self._saved_at - begin

    def finish(self) -> None:
        """Marks the results as complete. The checkpoint is kept for more frames unless it is too large."""
        complete = {"run": self._key, "frames": self._saved}
        _write(self.folder / "complete.json", json.dumps(complete) + "\n")
        if (self.folder / "frames").stat().st_size > MAX_KEPT:
            self._remove("checkpoint.npz", "frames")

    def close(self) -> None:
        """Saves the last frame, so that a run can be resumed however it ends. A run without frames leaves no files."""
        if self._file is None:
            return
        with contextlib.suppress(ToileError):  # the disk may be full; an earlier checkpoint remains
            self.save()
        with contextlib.suppress(OSError):  # the rest of the buffer may not fit on a full disk
            self._file.close()
        if self._saved <= 0 and not (self.folder / "complete.json").exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _saved_run_of(self, key: str) -> SavedRun | None:
        """Returns what the files record about the run with this key."""
        with contextlib.suppress(*UNREADABLE):
            complete = json.loads((self.folder / "complete.json").read_text(encoding="utf-8"))
            if complete["run"] == key:
                return SavedRun(self.folder.parent, int(complete["frames"]), True)
        with contextlib.suppress(*UNREADABLE), np.load(self.folder / "checkpoint.npz", allow_pickle=False) as archive:
            if str(archive["run"]) == key:
                return SavedRun(self.folder.parent, int(archive["frame"]), False)
        return None

    def _require_same(self, other: dict[str, Any]) -> None:
        """Raises InputError that lists how another run differs: in its scene or, if that is the same, in its files."""
        now = json.loads(self._text)
        before_files, now_files = other.pop("files", {}), now.pop("files")
        found = list(_differences(other.pop("scene", {}), now.pop("scene"))) + list(_differences(other, now))
        if not found:
            changed = [name for name in now_files if before_files.get(name) != now_files[name]]
            found = [f"{name}: the files that it is read from have changed" for name in changed]
        if found:
            more = [f"and {len(found) - MAX_SHOWN} more"] if len(found) > MAX_SHOWN else []
            heading = f"{self.folder.parent}: holds another run, which cannot be resumed as this one:"
            raise InputError(
                "\n  ".join([heading, *found[:MAX_SHOWN], *more])
                + "\nChoose another folder, or omit --resume to replace it."
            )

    def _remove(self, *names: str) -> None:
        for name in names:
            with explained(self.folder / name):
                (self.folder / name).unlink(missing_ok=True)


def _key_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, text: str) -> None:
    draft = Draft(path)
    with draft.finishing():
        draft.part.write_text(text, encoding="utf-8", newline="\n")


def _append(file: IO[bytes], frame: Frame) -> None:
    """Writes a line of JSON, and then positions, velocities and intersecting triangles as binary arrays."""
    about = {
        "number": frame.number,
        "time": frame.time,
        "certificate": frame.certificate,
        "vertices": len(frame.positions),
        "intersecting": None if frame.intersecting is None else len(frame.intersecting),
    }
    file.write(json.dumps(about, default=lambda value: value.item()).encode() + b"\n")  # `item` converts NumPy scalars
    file.write(np.ascontiguousarray(frame.positions, np.float64).data)
    file.write(np.ascontiguousarray(frame.velocities, np.float64).data)
    if frame.intersecting is not None:
        file.write(np.ascontiguousarray(frame.intersecting, np.int64).data)


def _read(file: IO[bytes]) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray | None]:
    """Reads a frame that `_append` wrote: its JSON line and its three arrays. EOFError if it is not complete."""
    about = json.loads(file.readline() or b"null")
    if about is None:
        raise EOFError

    def array(count: int, kind: type) -> np.ndarray:
        found: np.ndarray = np.fromfile(file, kind, count)
        if len(found) < count:
            raise EOFError
        return found

    positions, velocities = (array(3 * about["vertices"], np.float64).reshape(-1, 3) for _ in range(2))
    counted = about["intersecting"]
    return about, positions, velocities, None if counted is None else array(counted, np.int64)


def _differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yields the path and both values wherever nested dictionaries and lists differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for k, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{path}[{k}]")
    elif before != now:
        yield f"{path}: {_short(before)} in that run, {_short(now)} in this one"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
