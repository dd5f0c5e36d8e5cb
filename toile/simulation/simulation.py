"""A scene that runs: its parts are built once, stepped through time, and measured at every frame."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from threadpoolctl import ThreadpoolController

from toile import __version__
from toile.errors import InputError, StepFailed
from toile.math.types import precision
from toile.model.frame import Frame
from toile.model.state import State
from toile.model.state_dict import StateDict, Stateful, joined, part_of
from toile.scene.no_effect import settings_without_effect
from toile.scene.presets import dropped_from_preset
from toile.simulation import warnings
from toile.simulation.build import build
from toile.simulation.certificate import Certificate, FrameTally
from toile.simulation.hashes import hash_of, input_hashes
from toile.simulation.intersections import Intersections
from toile.simulation.solid_report import SolidReport
from toile.simulation.step import StepLoop, StepRejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toile.energies.base import Energy
    from toile.scene.schema import Scene


class Simulation:
    """Simulates a scene. `run` yields its frames; `report` is the certificate of what has run so far."""

    def __init__(
        self,
        scene: Scene,
        device: str = "cpu",
        audit: str | None = None,
        strict: bool = False,
        forces: Sequence[Energy] = (),
    ):
        """`audit` chooses when intersections are counted: "none", every "frame", or every "step"; by default at every
        frame of a scene with contact between cloths. `strict` makes intersections at the start an error. `forces` act
        besides those that the scene names.
        """
        self.scene, self.device = scene, _device(device)
        self.parts = parts = build(scene, self.device, forces)
        self.loop = StepLoop(parts)
        # These names are the interface for tools and tests.
        self.model, self.surface, self.solids, self.system = parts.model, parts.surface, parts.solids, parts.system
        self.constraints, self.corrections, self.contacts = parts.constraints, parts.corrections, parts.contacts
        self.filters, self.integrator, self.control = parts.filters, parts.integrator, parts.control
        self._solid_report = SolidReport(parts)
        self._threads = ThreadpoolController()  # after the solver, whose libraries it has to know
        self.frame = 0
        self._files = input_hashes(parts)
        content = hash_of(scene.model_dump_json().encode(), *map(str.encode, self._files.values()))
        self.certificate = Certificate(scene.name, content, self.device, scene.seed)
        self.intersections = Intersections(scene, self.model, parts.solids.contact_surfaces, audit, self.device)
        self.warnings = [
            *(warning for mesh in parts.meshes for warning in mesh.warnings),
            *(warning for solid in self.solids for warning in solid.warnings),
            *warnings.at_start(parts),
            *dropped_from_preset(scene),
            *settings_without_effect(scene, parts.meshes),
            *self.intersections.begin(self.state.x, strict),
        ]
        self.certificate.intersections_start = self.intersections.start

    @property
    def state(self) -> State:
        """The present state."""
        return self.loop.state

    def run(self, frames: int | None = None) -> Iterator[Frame]:
        """Yields the present state, frame 0 at the start, and then each frame up to the last."""
        wanted = self.scene.time.frames if frames is None else frames
        self.certificate.complete = False
        yield self._frame(None)
        while self.frame < wanted:
            yield self.advance_frame()
        self.certificate.complete = True

    def advance_frame(self) -> Frame:
        """Steps to the next multiple of 1/fps."""
        tally = FrameTally()
        # One BLAS thread at any size: CHOLMOD took 11 ms with one and with two at 2,601 particles, 66 and 67 at 10,201,
        # 432 and 440 at 40,401, and on a busy machine waiting threads cost time.
        with self._threads.limit(limits=1, user_api="blas"):
            while self.state.t < self._frame_end:
                with self._failures(tally):
                    self.loop.advance(self._frame_end, tally)
                self._after_step()
        self.frame += 1
        state, timers = self.state, self.parts.timers
        strain = self.loop.strain.summary(state.x, state.t)
        solids = self._solid_report.measure(state, self.filter_reaction())
        with timers.stage("audit"):
            found = self.intersections.of_frame(state.x, state.t, self.contacts.pinched_by())
        contacts, pinched = self.contacts.count_between_cloths(), self._count_pinched()
        entry = self.certificate.add(
            self.frame, state, tally, strain, self.system, timers.take(), solids, found, contacts, pinched
        )
        return self._frame(entry)

    def _count_pinched(self) -> int | None:
        """Number of particles pinched between solids; None where no account is kept of contacts."""
        pinched = self.contacts.pinched_vertices()
        if pinched is None:
            return None if len(self.solids) else 0
        return len(pinched)

    def step(self, h: float, tally: FrameTally) -> None:
        """Takes one step of at most h; a rejected candidate is repeated with half the step."""
        with self._failures(tally):
            self.loop.step(h, tally, self._frame_end)
        self._after_step()

    def take_over(self, other: Simulation) -> None:
        """Continues from another simulation of the same particles: its positions, velocities, time and frame.

        For a scene that is changed while it runs. Solids and forces are where this scene has them at that time. New
        constraints hold particles where they are, and go on from there along their motion. Steps, contacts, the history
        of the integrator and the certificate start anew.
        """
        if not np.array_equal(self.model.triangles, other.model.triangles) or len(self.state.x) != len(other.state.x):
            raise InputError("take_over: the other simulation has other cloths, or other meshes. Start anew.")
        if self.scene.time.fps != other.scene.time.fps:
            raise InputError("take_over: the other simulation has another time.fps. Start anew.")
        x, v, t = other.state.x.numpy(), other.state.v.numpy(), other.state.t
        self.loop.move_to(x, v, t)
        self.frame = other.frame
        self.constraints.take_over(other.constraints, t, x.astype(float))
        self.contacts.restart(self.state.x, t)
        self.intersections.begin(self.state.x, strict=False, time=t)
        self.certificate.intersections_start = self.intersections.start

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that the next step needs of earlier ones (toile/model/state_dict.py)."""
        x, v = self.state.x.numpy(), self.state.v.numpy()
        own = {"x": x, "v": v, "t": self.state.t, "frame": self.frame}
        parts = joined({name: part.state_dict() for name, part in self._stateful_parts().items()})
        return {name: np.array(value) for name, value in {**own, **parts}.items()}  # copies: the next step overwrites

    def load_state_dict(self, state_dict: StateDict, entries: Sequence[dict[str, Any]] = ()) -> None:
        """Continues, as if never interrupted, from a state of the same scene: to the last bit on the CPU.

        `entries` are those of the certificate, of the frames so far.
        """
        self.state.x.assign(state_dict["x"])
        self.state.v.assign(state_dict["v"])
        self.state.t, self.frame = float(state_dict["t"]), int(state_dict["frame"])
        for name, part in self._stateful_parts().items():
            part.load_state_dict(part_of(state_dict, name))
        if self.frame:
            self.loop.strain.move(self.state.t)
        self.intersections.find(self.state.x, self.state.t, self.contacts.pinched_by())
        self.certificate.frames[:] = entries

    def identity(self) -> dict[str, Any]:
        """Identifies what a state_dict belongs to: one of another scene may not be loaded. Plain enough for JSON."""
        free: Any = {"outputs": True, "expect": True, "about": True, "time": {"frames"}}  # may change at any time
        scene = json.loads(self.scene.model_dump_json(exclude=free))
        kept = {"device": self.device, "precision": precision, "audit": self.intersections.when}
        return {"toile": __version__, **kept, "scene": scene, "files": self._files}

    def solids_at(self, time: float) -> tuple[np.ndarray, ...]:
        """Returns the vertices of each solid at a time."""
        return tuple(solid.vertices(time) for solid in self.solids)

    def report(self) -> dict:
        """Returns the certificate so far."""
        return self.certificate.report()

    def constraint_forces(self) -> np.ndarray:
        """Returns the force that the constraints exerted on each particle in the last step [N]."""
        forces, reaction = self.integrator.constraint_forces.numpy().astype(float), self.filter_reaction()
        return forces if reaction is None else forces + reaction

    def filter_reaction(self) -> np.ndarray | None:
        """Returns the part of the constraint forces that filters account for [N]; None if no filter does."""
        found = [correction.reaction.numpy() for correction in self.filters if correction.reaction is not None]
        return np.sum(found, axis=0, dtype=float) if found else None

    @property
    def _frame_end(self) -> float:
        return (self.frame + 1) / self.scene.time.fps

    @contextlib.contextmanager
    def _failures(self, tally: FrameTally) -> Iterator[None]:
        """Turns a step that no step size makes possible into a StepFailed with a remedy."""
        try:
            yield
        except StepRejected as rejected:
            self.certificate.failed_tries = tally.rejected
            raise self._failure(rejected) from None

    def _after_step(self) -> None:
        with self.parts.timers.stage("audit"):
            self.intersections.after_step(self.state.x, self.state.t, self.contacts.pinched_by())

    def _failure(self, rejected: StepRejected) -> StepFailed:
        trouble, state = rejected.trouble, self.state
        where = trouble if trouble.endswith(".") else f"{trouble} of {1e3 * rejected.h:.3g} ms."
        return StepFailed(
            f"StepFailed at t = {state.t:.6g} s (frame {self.frame + 1}): {where}",
            self.frame + 1,
            state.t,
            state.x.numpy().astype(float),
            state.v.numpy().astype(float),
            warnings.remedy(self.parts, state, trouble),
        )

    def _stateful_parts(self) -> dict[str, Stateful]:
        """Every part that keeps anything from step to step."""
        parts: dict[str, Stateful] = {
            "control": self.control,
            "constraints": self.constraints,
            "integrator": self.integrator,
            "contacts": self.contacts,
        }
        return parts | {f"filters.{k}": correction for k, correction in enumerate(self.filters)}

    def _frame(self, entry: dict | None) -> Frame:
        x, v = (np.array(array.numpy(), dtype=float) for array in (self.state.x, self.state.v))
        for finish in self.parts.post:
            x = finish.apply(x, self.state.t)
        counted = None if self.intersections.when == "none" else self.intersections.triangles()
        return Frame(self.frame, self.state.t, x, v, entry, self.solids_at(self.state.t), counted)


def _device(name: str) -> str:
    try:
        return str(wp.get_device(name))
    except Exception as error:
        known = ", ".join(str(device) for device in wp.get_devices())
        raise InputError(f'device "{name}" is not available here. Choose from: {known}.') from error
