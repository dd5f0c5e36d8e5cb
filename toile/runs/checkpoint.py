"""What a run keeps beside its results so that it can go on after anything: Ctrl-C, a full disk, kill -9, a power cut.

    .resume/run.json          what the run is of: scene, files, device, precision, version
    .resume/frames            every frame so far, in double precision; a resumed run makes its outputs from them anew
    .resume/checkpoint.npz    what the simulation remembers at one of these frames (toile/model/state_dict.py)
    .resume/complete.json     that all the results of so many frames are there

A checkpoint appears in one step, after the frames up to its own are on the disk; what `frames` holds beyond it is
forgotten. So there is no moment at which a run may not be killed, and the steps after it are those of a run that was
not: outputs see the same frames to the last bit.

`checkpoint.npz` and `complete.json` name the run that they belong to by the hash of its `run.json`. A new run begins by
replacing that one file, and whatever an earlier one has left no longer counts.
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

# Of the time of a run, what its checkpoints may take: they come so much less often as they are slow.
SHARE = 0.01
# What a finished run keeps, in bytes, so that more frames can be added to it.
MAX_KEPT = 50_000_000
# Differences told when a folder holds another run.
MAX_SHOWN = 6

UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Standing:
    """How far the run in a folder has come."""

    folder: Path
    frames: int
    complete: bool  # and all its results are there

    def require_at_most(self, frames: int) -> None:
        if self.frames > frames:
            raise InputError(
                f"{self.folder}: the run has come to frame {self.frames} already, and {frames} are asked for. "
                f"Ask for {self.frames} or more, or leave out --resume to run it again from the start."
            )


class Checkpoints:
    """The checkpoints of one run. Either `begin` or `resume` comes first."""

    def __init__(self, folder: Path, simulation: Simulation):
        self.folder, self.simulation = folder / FOLDER, simulation
        self._text = json.dumps(simulation.identity(), indent=1) + "\n"
        self._key = _key_of(self._text)
        self.resumed: int | None = None  # the frame that `resume` went back to
        self._file: IO[bytes] | None = None
        self._state_dict: dict[str, Any] | None = None  # of the last frame, if that is not saved yet
        self._saved, self._saved_at, self._cost = -1, 0.0, 0.0  # frame, when [s], and how long it took [s]

    def standing(self) -> Standing | None:
        """Of the run that is in the folder; None if there is nothing to go on from. InputError if it is another run."""
        with contextlib.suppress(*UNREADABLE):
            text = (self.folder / "run.json").read_text(encoding="utf-8")
            known = self._known(_key_of(text))
            if known is not None:
                self._require_same(json.loads(text))
            return known
        return None

    def begin(self) -> None:
        """A new run: what an earlier one has left is forgotten."""
        with explained(self.folder):
            self.folder.mkdir(exist_ok=True)
        _write(self.folder / "run.json", self._text)
        self._forget("checkpoint.npz", "complete.json")
        with explained(self.folder / "frames"):
            self._file = (self.folder / "frames").open("wb")

    def resume(self) -> bool:
        """Brings the simulation to the last checkpoint; False if that cannot be read, and all must be done again."""
        if not (self.folder / "checkpoint.npz").exists():
            raise InputError(
                f"{self.folder.parent}: the run is complete, and was too large to keep what more frames would need. "
                "Leave out --resume to run it again from the start; `toile export` writes other formats."
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
        self._forget("complete.json")
        self._file, self._saved, self._saved_at = file, last, time.perf_counter()
        self.resumed = last
        self.simulation.load_state_dict(state_dict, entries[1:])
        return True

    def past(self) -> Iterator[Frame]:
        """The frames up to the checkpoint that `resume` went back to; none of a run that begins."""
        if self.resumed is None:
            return
        with (self.folder / "frames").open("rb") as file:
            for _ in range(self.resumed + 1):
                about, positions, velocities, intersecting = _read(file)
                solids = self.simulation.solids_at(about["time"])
                number, certificate = about["number"], about["certificate"]
                yield Frame(number, about["time"], positions, velocities, certificate, solids, intersecting)

    def keep(self, frame: Frame) -> None:
        """The frame that the simulation has just come to; now and then a checkpoint of it."""
        assert self._file is not None
        with explained(self.folder / "frames"):
            _append(self._file, frame)
        self._state_dict = self.simulation.state_dict()
        if time.perf_counter() - self._saved_at >= self._cost / SHARE:
            self.save()

    def save(self) -> None:
        """A checkpoint of the last frame that was kept."""
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
        """All results are there. What would be needed for more frames is kept if it is not much."""
        complete = {"run": self._key, "frames": self._saved}
        _write(self.folder / "complete.json", json.dumps(complete) + "\n")
        if (self.folder / "frames").stat().st_size > MAX_KEPT:
            self._forget("checkpoint.npz", "frames")

    def close(self) -> None:
        """However a run ends, it can go on from its last frame. Of one that came to nothing, nothing is kept."""
        if self._file is None:
            return
        with contextlib.suppress(ToileError):  # a full disk may be why it ends; there is an earlier checkpoint then
            self.save()
        with contextlib.suppress(OSError):  # what is still in the buffer may not fit on a full disk
            self._file.close()
        if self._saved <= 0 and not (self.folder / "complete.json").exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _known(self, key: str) -> Standing | None:
        """What the files say that belong to the run with this key."""
        with contextlib.suppress(*UNREADABLE):
            complete = json.loads((self.folder / "complete.json").read_text(encoding="utf-8"))
            if complete["run"] == key:
                return Standing(self.folder.parent, int(complete["frames"]), True)
        with contextlib.suppress(*UNREADABLE), np.load(self.folder / "checkpoint.npz", allow_pickle=False) as archive:
            if str(archive["run"]) == key:
                return Standing(self.folder.parent, int(archive["frame"]), False)
        return None

    def _require_same(self, other: dict[str, Any]) -> None:
        """What the scenes say; where that is the same, whose files have changed."""
        now = json.loads(self._text)
        before_files, now_files = other.pop("files", {}), now.pop("files")
        found = list(_differences(other.pop("scene", {}), now.pop("scene"))) + list(_differences(other, now))
        if not found:
            changed = [name for name in now_files if before_files.get(name) != now_files[name]]
            found = [f"{name}: what was read from files is not what it was" for name in changed]
        if found:
            more = [f"{len(found) - MAX_SHOWN} more"] if len(found) > MAX_SHOWN else []
            heading = f"{self.folder.parent}: holds another run, which cannot be resumed as this one:"
            raise InputError(
                "\n  ".join([heading, *found[:MAX_SHOWN], *more])
                + "\nChoose another folder, or leave out --resume to replace it."
            )

    def _forget(self, *names: str) -> None:
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
    """A line of JSON, and then positions, velocities and the triangles that intersect, as they are in memory."""
    about = {
        "number": frame.number,
        "time": frame.time,
        "certificate": frame.certificate,
        "vertices": len(frame.positions),
        "intersecting": None if frame.intersecting is None else len(frame.intersecting),
    }
    file.write(json.dumps(about, default=lambda value: value.item()).encode() + b"\n")  # also of NumPy's numbers
    file.write(np.ascontiguousarray(frame.positions, np.float64).data)
    file.write(np.ascontiguousarray(frame.velocities, np.float64).data)
    if frame.intersecting is not None:
        file.write(np.ascontiguousarray(frame.intersecting, np.int64).data)


def _read(file: IO[bytes]) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray | None]:
    """What `_append` wrote: what is known of a frame, and its three arrays. EOFError if it is not all there."""
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
    """Every value of nested dictionaries and lists that is not the same in both, with where it is."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for k, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{path}[{k}]")
    elif before != now:
        yield f"{path}: {_short(before)} there, {_short(now)} here"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
