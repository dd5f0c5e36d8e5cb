"""One run from a scene to a folder: simulate, hand every frame to the outputs, leave the certificate.

The folder appears only when the simulation could be built. It holds what `pc2` writes always, what the scene's outputs
add, `intersections.obj` if the start is tangled, and `report.json`, written last. A run that is stopped by Ctrl-C
completes its outputs with the frames it has; one that fails keeps the cache of its good frames and the state before the
step that failed. All of them, and those that are killed, can be resumed (toile/runs/checkpoint.py).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

import numpy as np

from toile.errors import InputError, StepFailed
from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft, explained
from toile.outputs._intersections_obj import IntersectionsWriter
from toile.outputs.base import Writer
from toile.outputs.pc2 import Pc2
from toile.runs.checkpoint import Checkpoints
from toile.runs.folder import RunFolder
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation


@dataclass(frozen=True)
class RunResult:
    """What a run leaves."""

    folder: Path | None
    report: dict[str, Any]
    written: list[Path]  # nothing if a run was to be resumed that is complete
    resumed: int | None = None  # the frame it went on from


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run, after its outputs were completed with the frames there are: all, if it came after the last,
    and then its certificate does not say `stopped`."""

    def __init__(self, result: RunResult):
        self.result = result
        super().__init__(f"interrupted after frame {result.report['summary']['frames']}")


def run(
    scene: Scene,
    out: Path | str | None = None,
    *,
    device: str = "cpu",
    frames: int | None = None,
    audit: str | None = None,
    strict: bool = False,
    resume: bool = False,
    progress: Callable[[Frame], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> RunResult:
    """Simulate a scene into the folder `out`; without a folder only the certificate is returned.

    `frames` replaces the scene's own number, `progress` is called with every frame, `warn` with every warning (by
    default they go to Python's `warnings`). `audit` says when intersections are counted: "none", "frame" or "step"; by
    default at every frame of a scene in which cloth meets cloth. `strict` refuses those at the start. `resume` goes on
    with the run that is in the folder, if there is one: what comes out is what it would have been without a break.
    Raises InputError before anything is written, StepFailed when the simulation cannot go on, Interrupted for Ctrl-C.
    """
    if resume and out is None:
        raise InputError("resume needs the folder of the run: give `out` as well.")
    simulation = Simulation(scene, device=device, audit=audit, strict=strict)
    for message in simulation.warnings:
        warn(message) if warn else warnings.warn(message, stacklevel=2)
    if out is None:
        for frame in simulation.run(frames=frames):
            if progress:
                progress(frame)
        return RunResult(None, _finished(simulation.report(), scene), [])
    with _folder(Path(out)) as folder, contextlib.closing(Checkpoints(folder, simulation)) as checkpoints:
        standing = checkpoints.standing() if resume else None
        if standing is not None:
            wanted = scene.time.frames if frames is None else frames
            standing.require_at_most(wanted)
            report = _report_in(folder) if standing.complete and standing.frames == wanted else {}
            if report.get("hash") == simulation.certificate.hash:  # which is also of the outputs asked for
                return RunResult(folder, report, [], standing.frames)
        with _Outputs(scene, folder, simulation.surface) as outputs:
            if standing is None or not checkpoints.resume():
                checkpoints.begin()
            for frame in checkpoints.past():
                outputs.write(frame)
                if progress:
                    progress(frame)
            return _go_on(simulation, checkpoints, outputs, frames, progress)


def _go_on(
    simulation: Simulation,
    checkpoints: Checkpoints,
    outputs: _Outputs,
    frames: int | None,
    progress: Callable[[Frame], None] | None,
) -> RunResult:
    """From where the simulation and the outputs are to the end of the run."""
    scene, folder, resumed = simulation.scene, outputs.folder, checkpoints.resumed
    try:
        computed = simulation.run(frames=frames)
        if resumed is not None:
            next(computed)  # the outputs have had it
        for frame in computed:
            outputs.write(frame)
            checkpoints.keep(frame)
            if progress:
                progress(frame)
        checkpoints.save()
    except KeyboardInterrupt as stop:
        outputs.close()
        report = outputs.certify(_finished(simulation.report(), scene, stopped="interrupted"))
        raise Interrupted(RunResult(folder, report, outputs.written, resumed)) from stop
    except StepFailed as failure:
        outputs.keep_cache()
        saved = _save_state(folder, failure)
        outputs.certify(_finished(simulation.report(), scene, stopped=str(failure)))
        raise StepFailed(
            f"{failure}\n  State before the step saved to {saved}. {failure.remedy}",
            failure.frame,
            failure.time,
            failure.positions,
            failure.velocities,
            failure.remedy,
        ) from failure
    with _patient() as stops:
        outputs.close()
        report = outputs.certify(_finished(simulation.report(), scene))
        checkpoints.finish()
    result = RunResult(folder, report, outputs.written, resumed)
    if stops:
        raise Interrupted(result) from stops[0]
    return result


@dataclass
class _Outputs:
    """The writers of one run, what failed runs keep first. Leaving the block discards whatever was not closed."""

    scene: Scene
    folder: Path
    surface: Surface
    writers: list[Writer] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    milliseconds: dict[int, float] = field(default_factory=dict)  # frame -> time its outputs took

    def __enter__(self) -> _Outputs:
        others = [output for output in self.scene.outputs if not isinstance(output, Pc2)]
        try:
            self.writers.append(Pc2().writer(self.folder, self.scene.name, self.surface))
            self.writers.append(IntersectionsWriter(self.folder, self.surface))
            for output in others:
                self.writers.append(output.writer(self.folder, self.scene.name, self.surface))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        while self.writers:
            self.writers.pop().discard()

    def write(self, frame: Frame) -> None:
        start = time.perf_counter()
        with _undisturbed():
            for writer in self.writers:
                writer.write(frame)
        self.milliseconds[frame.number] = 1e3 * (time.perf_counter() - start)

    def close(self) -> None:
        while self.writers:
            self.written += self.writers.pop(0).close()

    def keep_cache(self) -> None:
        """Complete the cache and the intersections at the start; the rest is discarded when the block is left."""
        for _ in range(2):
            self.written += self.writers.pop(0).close()

    def certify(self, report: dict[str, Any]) -> dict[str, Any]:
        """Write report.json, with the time that the outputs took."""
        for entry in report["frames"]:
            entry.setdefault("ms", {})["output"] = self.milliseconds.get(entry["frame"], 0.0)
        draft = Draft(self.folder / "report.json")
        with draft.finishing():
            draft.part.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        self.written.append(draft.path)
        return report


def _finished(report: dict[str, Any], scene: Scene, stopped: str | None = None) -> dict[str, Any]:
    """The simulation's certificate with what was expected of the run, and why it ended early if it did."""
    report = _plain(report)
    report["expect"] = {key: bound.model_dump(exclude_none=True) for key, bound in scene.expect.items()}
    if stopped is not None:
        report["summary"]["ok"] = False
        report["stopped"] = stopped
    return report


def _report_in(folder: Path) -> dict[str, Any]:
    """The certificate of a run whose results are there; nothing if they are not."""
    with contextlib.suppress(InputError):
        return RunFolder(folder).report()
    return {}


def _save_state(folder: Path, failure: StepFailed) -> Path:
    """The last good state, for whoever looks into the failure or starts again from it."""
    draft = Draft(folder / f"failed_{failure.frame:04d}.npz")
    with draft.finishing():
        np.savez(
            draft.part,
            frame=failure.frame,
            time=failure.time,
            positions=failure.positions,
            velocities=failure.velocities,
        )
    return draft.path


def _plain(value: Any) -> Any:
    """The same as types that JSON has. It has no NaN or infinity: they become null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextlib.contextmanager
def _folder(folder: Path) -> Iterator[Path]:
    """The folder of a run, held by this run alone. One that was made here goes again if nothing came into it."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = folder / ".lock"
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    with file:
        if not _hold(file):
            raise InputError(f"{folder}: another run is writing here. Wait until it ends, or choose another folder.")
        try:
            yield folder
        finally:
            with contextlib.suppress(OSError):  # Windows does not remove what is open, and a folder with files stays
                lock.unlink()
                for path in missing:
                    path.rmdir()


def _hold(file: IO[str]) -> bool:
    """Whether this process got the file. The system lets go of it when the process ends, however that happens."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A run that just ended has removed its file: what we hold then is no longer what others look at.
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except OSError:
        return False


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the block ends, so that every output holds whole frames, and the same ones."""
    if threading.current_thread() is not threading.main_thread():  # signals do not arrive elsewhere
        yield
        return
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda n, _: waiting.append(n)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
    if waiting:
        signal.raise_signal(waiting[0])


@contextlib.contextmanager
def _patient() -> Iterator[list[KeyboardInterrupt]]:
    """The first Ctrl-C or SIGTERM, in the list afterwards, lets the block end: to draw a film takes longer than many a
    run, and is all that is left to do. The second one does not."""
    stops: list[KeyboardInterrupt] = []
    if threading.current_thread() is not threading.main_thread():  # signals do not arrive elsewhere
        yield stops
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def once(number: int, frame: FrameType | None) -> None:
        handler = before[number]
        assert callable(handler)
        try:
            handler(number, frame)
        except KeyboardInterrupt as stop:
            if stops:
                raise
            stops.append(stop)

    handled = [number for number, handler in before.items() if callable(handler)]
    for number in handled:
        signal.signal(number, once)
    try:
        yield stops
    finally:
        for number in handled:
            signal.signal(number, before[number])
