"""One run from a scene to a folder: simulates, passes every frame to the outputs, and writes the certificate.

The folder is made only when the simulation could be built. It always holds the files of `pc2`, then those of the
scene's outputs, `intersections.obj` if the cloth intersects itself at the start, and `report.json`, written last. A run
that is stopped by Ctrl-C completes its outputs with the frames it has; one that fails keeps the cache of its good
frames and the state before the failed step. All of them, and runs that are killed, can be resumed
(toile/runs/checkpoint.py).
"""

from __future__ import annotations

import contextlib
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from toile.errors import InputError, StepFailed
from toile.model.frame import Frame, Surface
from toile.outputs._atomic import Draft
from toile.outputs._intersections_obj import IntersectionsWriter
from toile.outputs.base import Writer
from toile.outputs.pc2 import Pc2
from toile.runs.checkpoint import Checkpoints, SavedRun
from toile.runs.folder import REPORT_NAME, RunFolder
from toile.runs.lock import locked_folder
from toile.runs.signals import delay_first_interrupt, delay_signals
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation


@dataclass(frozen=True)
class RunResult:
    """The results of a run."""

    folder: Path | None
    report: dict[str, Any]
    written: list[Path]  # empty if a run that was to be resumed is already complete
    resumed: int | None = None  # the frame from which the run was resumed


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run, raised after its outputs were completed with the frames computed so far.

    If it came after the last frame, the results are complete and the certificate has no `stopped`.
    """

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
    """Simulates a scene into the folder `out`; without a folder only the certificate is returned.

    `frames` replaces the scene's own number of frames. `progress` is called with every frame, and `warn` with every
    warning; by default warnings go to Python's `warnings`. `audit` sets when intersections are counted: "none", "frame"
    or "step"; by default at every frame of a scene with contact between cloth and cloth. `strict` refuses a scene that
    intersects at the start. `resume` continues the run in the folder, if there is one; the results are the same as
    those of a run without a break. Raises InputError before anything is written, StepFailed when the simulation cannot
    continue, and Interrupted for Ctrl-C.
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
        return RunResult(None, _final_report(simulation), [])
    with locked_folder(Path(out)) as folder, contextlib.closing(Checkpoints(folder, simulation)) as checkpoints:
        saved = checkpoints.saved_run() if resume else None
        if saved is not None:
            wanted = scene.time.frames if frames is None else frames
            saved.require_at_most(wanted)
            report = _complete_report(folder, saved, wanted)
            if report.get("hash") == simulation.certificate.hash:  # the hash covers the outputs of the scene as well
                return RunResult(folder, report, [], saved.frames)
        with _Outputs(scene, folder, simulation.surface) as outputs:
            if saved is None or not checkpoints.resume():
                checkpoints.begin()
            for frame in checkpoints.saved_frames():
                outputs.write(frame)
                if progress:
                    progress(frame)
            return _simulate_to_end(simulation, checkpoints, outputs, frames, progress)


def _simulate_to_end(
    simulation: Simulation,
    checkpoints: Checkpoints,
    outputs: _Outputs,
    frames: int | None,
    progress: Callable[[Frame], None] | None,
) -> RunResult:
    """Computes the remaining frames, writes them, and completes the results."""
    folder, resumed = outputs.folder, checkpoints.resumed
    try:
        computed = simulation.run(frames=frames)
        if resumed is not None:
            next(computed)  # the outputs already have the frame of the checkpoint
        for frame in computed:
            outputs.write(frame)
            checkpoints.add(frame)
            if progress:
                progress(frame)
        checkpoints.save()
    except KeyboardInterrupt as stop:
        outputs.close()
        report = outputs.certify(_final_report(simulation, stopped="interrupted"))
        raise Interrupted(RunResult(folder, report, outputs.written, resumed)) from stop
    except StepFailed as failure:
        outputs.close_cache()
        saved = _save_state(folder, failure)
        outputs.certify(_final_report(simulation, stopped=str(failure)))
        raise StepFailed(
            f"{failure}\n  State before the step saved to {saved}. {failure.remedy}",
            failure.frame,
            failure.time,
            failure.positions,
            failure.velocities,
            failure.remedy,
        ) from failure
    with delay_first_interrupt() as interrupts:
        outputs.close()
        report = outputs.certify(_final_report(simulation))
        checkpoints.finish()
    result = RunResult(folder, report, outputs.written, resumed)
    if interrupts:
        raise Interrupted(result) from interrupts[0]
    return result


@dataclass
class _Outputs:
    """The writers of one run, the cache first, which failed runs keep. Leaving the block discards open writers."""

    scene: Scene
    folder: Path
    surface: Surface
    writers: list[Writer] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    milliseconds: dict[int, float] = field(default_factory=dict)  # time that the outputs took, by frame

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
        """Passes a frame to every writer."""
        start = time.perf_counter()
        with delay_signals():
            for writer in self.writers:
                writer.write(frame)
        self.milliseconds[frame.number] = 1e3 * (time.perf_counter() - start)

    def close(self) -> None:
        """Completes the files of all writers."""
        while self.writers:
            self.written += self.writers.pop(0).close()

    def close_cache(self) -> None:
        """Completes the cache and the intersections at the start; other outputs are discarded on leaving the block."""
        for _ in range(2):
            self.written += self.writers.pop(0).close()

    def certify(self, report: dict[str, Any]) -> dict[str, Any]:
        """Adds the time that the outputs took, writes report.json, and returns the report."""
        for entry in report["frames"]:
            entry.setdefault("ms", {})["output"] = self.milliseconds.get(entry["frame"], 0.0)
        draft = Draft(self.folder / REPORT_NAME)
        with draft.finishing():
            draft.part.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        self.written.append(draft.path)
        return report


def _final_report(simulation: Simulation, stopped: str | None = None) -> dict[str, Any]:
    """Returns the simulation's certificate, with the scene's expectations and the reason of an early end."""
    report: dict[str, Any] = _json_types(simulation.report())
    report["expect"] = {key: bound.model_dump(exclude_none=True) for key, bound in simulation.scene.expect.items()}
    if stopped is not None:
        report["summary"]["ok"] = False
        report["stopped"] = stopped
    return report


def _complete_report(folder: Path, saved: SavedRun, frames: int) -> dict[str, Any]:
    """Returns the certificate of a run that already has all its results for this number of frames; {} otherwise."""
    if saved.complete and saved.frames == frames:
        with contextlib.suppress(InputError):
            return RunFolder(folder).report()
    return {}


def _save_state(folder: Path, failure: StepFailed) -> Path:
    """Saves the last good state, from which the failure can be examined or the run started again."""
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


def _json_types(value: Any) -> Any:
    """Converts a value to types that JSON has. NaN and infinity, which it does not have, become null."""
    if isinstance(value, dict):
        return {key: _json_types(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_json_types(item) for item in value]
    if isinstance(value, np.generic):
        return _json_types(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
