"""The whole loop on one page: build a scene, step it, yield its frames.

    move pins and solids to t + h -> find contacts -> integrate -> check -> swap, and at each frame time one entry of
    the certificate
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from threadpoolctl import ThreadpoolController

from toile import __version__
from toile.colliders.solids import Solids
from toile.constraints.base import Constraint
from toile.constraints.solid_contact import SolidContact, SolidContacts
from toile.constraints.state import ConstraintState
from toile.device.timers import Timers
from toile.errors import InputError, StepFailed
from toile.filters.base import FilterContext
from toile.filters.forecast import Forecast
from toile.integrators.base import IntegratorContext
from toile.linear.automatic import automatic
from toile.linear.modified_pcg import ModifiedPCG, Solution
from toile.linear.solver import LinearSolver
from toile.math.types import precision
from toile.model.corrections import Corrections
from toile.model.frame import Frame, Part, SolidSurface, Surface
from toile.model.model import build_model
from toile.model.state import State
from toile.model.state_dict import StateDict, joined, part_of
from toile.scene.load import meshes as load_meshes
from toile.scene.presets import lost
from toile.scene.unheeded import unheeded
from toile.simulation import warnings as advice
from toile.simulation.build import (
    build_energies,
    build_solids,
    build_terms,
    hash_of,
    hashes,
    is_limited,
    start_velocities,
)
from toile.simulation.certificate import Certificate, Changes, FrameTally, Intersections, Strain
from toile.simulation.step_control import StepControl
from toile.system.system import System

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toile.energies.base import Energy
    from toile.plugins import Plugin
    from toile.scene.schema import Scene

# A step in which any triangle's stretch changes by more than this is discarded ([BW98] sec. 7). An unstable step
# changes it by several times as much, a good one by a few hundredths: the exact number does not matter.
LARGEST_STRETCH_CHANGE = 0.15

# Linearizations added to a step that stretches the cloth beyond what its fabric allows; one, if it is so drastic, or if
# such steps are halved instead (time.max_excess). They are so often: what a load draws out is so at any step size.
MAX_IMPROVEMENTS, MAX_HALVINGS = 3, 3

# If corrections after the solve stretch a triangle by more than this, the system has to know of them. Left to the next
# step it would draw cloth in from around, and the corrections push it out again: folds would tie themselves in knots.
# It is solved again so often; what is then still stretched by more than the second figure is discarded.
RESOLVE_ABOVE, LARGEST_BY_CORRECTIONS = 0.04, 0.3
MAX_RESOLVES = 3

# Rounding allowed in the sum of a frame's steps.
FRAME_ROUNDING = 1e-10


class Simulation:
    """A scene at work. `run` yields its frames; `report` is the certificate of what has run so far."""

    def __init__(
        self,
        scene: Scene,
        device: str = "cpu",
        audit: str | None = None,
        strict: bool = False,
        forces: Sequence[Energy] = (),
    ):
        """`audit` says when intersections are counted: "none", every "frame", or every "step"; by default at every
        frame of a scene in which cloth meets cloth. `strict` makes an error of those at the start. `forces` act besides
        those that the scene names.
        """
        self.scene, self.device = scene, _device(device)
        cloths, meshes = scene.cloth, load_meshes(scene)
        self.warnings = [warning for mesh in meshes for warning in mesh.warnings]
        self.model = build_model(
            [cloth.name for cloth in cloths],
            meshes,
            [cloth.fabric for cloth in cloths],
            [cloth.rest_stretch for cloth in cloths],
            [cloth.thickness for cloth in cloths],
        )
        positions = np.concatenate([mesh.positions for mesh in meshes]) if meshes else np.zeros((0, 3))
        self.solids = Solids(build_solids(scene, self.device), self.device)
        self.warnings += [warning for solid in self.solids for warning in solid.warnings]
        self.surface = Surface(
            self.model.triangles,
            self.model.uv,
            positions,
            tuple(
                Part(p.name, p.particles, p.triangles, p.fabric.name, p.fabric.properties()) for p in self.model.parts
            ),
            scene.time.fps,
            tuple(SolidSurface(s.name, s.triangles, s.vertices(0.0), s.moves) for s in self.solids),
        )
        energies = build_energies(scene, meshes)
        terms = build_terms(scene, energies, self.model, self.device, forces)
        self.system = System(self.model, terms, self.device)
        self.timers = Timers(self.device)
        self.control = StepControl(min(scene.time.max_step, 1.0 / scene.time.fps), scene.time.min_step)
        self._max_excess = np.inf if scene.time.max_excess is None else scene.time.max_excess
        with_contacts = self._solid_contact() is not None
        self.constraints = ConstraintState(self._constrained_particles(), self.model.particle_count, self.device, with_contacts)
        self.corrections = Corrections(self.model.particle_count, self.device)
        self.state = State.of(positions, start_velocities(scene, self.model, positions), self.device)
        self._next = self.state.empty_like()
        self.contacts = self._solid_contacts()
        context = IntegratorContext(
            self.system,
            self.constraints,
            self.corrections,
            self.contacts,
            self._make_solver,
            scene.solver,
            self.timers,
        )
        self.integrator = scene.integrator.start(context)
        contacts = self.contacts
        correcting = FilterContext(
            self.model,
            self.system.masses,
            self.constraints,
            self.corrections,
            self.solids,
            lambda: None if contacts is None else contacts.planes(),
            self.control.max_step,
        )
        self.filters = [settings.start(correcting) for settings in scene.filters]
        context.limits = [correction for correction in self.filters if correction.limits_velocity]
        self.system.join([contact_forces for correction in self.filters for contact_forces in correction.contact_forces])
        self.warnings += [*advice.at_start(self), *lost(scene), *unheeded(scene, meshes)]
        self.post = [settings.start(self.solids, self.device) for settings in scene.post]
        self._threads = ThreadpoolController()  # after the solver, whose libraries it has to know
        self.strain = Strain(self.model, self.device, [is_limited(cloth) for cloth in cloths])
        self.frame = 0
        self._files = hashes(self.surface, self.solids, energies)
        content = hash_of(scene.model_dump_json().encode(), *map(str.encode, self._files.values()))
        self.certificate = Certificate(scene.name, content, self.device, scene.seed)
        self.intersections = Intersections(scene, self.model, self.solids, audit, self.device)
        self.warnings += self.intersections.begin(self.state.x, strict)
        self.certificate.intersections_start = self.intersections.start

    def run(self, frames: int | None = None) -> Iterator[Frame]:
        """The present state, frame 0 at the start, and then each frame up to the last."""
        wanted = self.scene.time.frames if frames is None else frames
        self.certificate.complete = False
        yield self._frame(None)
        while self.frame < wanted:
            yield self.advance_frame()
        self.certificate.complete = True

    def take_over(self, other: Simulation) -> None:
        """Goes on from where another simulation of the same particles is: its positions, velocities, time and frame.

        For a scene that is changed while it runs. Solids and forces are where this scene has them at that time. New
        constraints hold particles where they are, and go on from there along their motion. Steps, contacts and what
        the integrator remembers begin anew, and so does the certificate.
        """
        if not np.array_equal(self.model.triangles, other.model.triangles) or len(self.state.x) != len(other.state.x):
            raise InputError("take_over: the other simulation has other cloths, or other meshes. Start anew.")
        if self.scene.time.fps != other.scene.time.fps:
            raise InputError("take_over: the other simulation has another time.fps. Start anew.")
        x, v, t = other.state.x.numpy(), other.state.v.numpy(), other.state.t
        for state in (self.state, self._next):
            state.x.assign(x)
            state.v.assign(v)
            state.t = t
        self.frame = other.frame
        self.constraints.take_over(other.constraints, t, x.astype(float))
        self.strain.move(t)
        if self.contacts is not None:
            self.contacts.start(self.state.x, t)
        self.intersections.begin(self.state.x, strict=False, time=t)
        self.certificate.intersections_start = self.intersections.start

    def state_dict(self) -> dict[str, np.ndarray]:
        """All that the next step needs of those before it (toile/model/state_dict.py)."""
        x, v = self.state.x.numpy(), self.state.v.numpy()
        own = {"x": x, "v": v, "t": self.state.t, "frame": self.frame}
        parts = joined({name: part.state_dict() for name, part in self._stateful_parts().items()})
        return {name: np.array(value) for name, value in {**own, **parts}.items()}  # copies: the next step overwrites

    def load_state_dict(self, state_dict: StateDict, entries: Sequence[dict[str, Any]] = ()) -> None:
        """Goes on, as if never interrupted, from a memory of the same scene: to the last bit on the CPU.

        `entries` are those of the certificate, of the frames so far.
        """
        self.state.x.assign(state_dict["x"])
        self.state.v.assign(state_dict["v"])
        self.state.t, self.frame = float(state_dict["t"]), int(state_dict["frame"])
        for name, part in self._stateful_parts().items():
            part.load_state_dict(part_of(state_dict, name))
        if self.frame:
            self.strain.move(self.state.t)
        self.intersections.look(self.state.x, self.state.t)
        self.certificate.frames[:] = entries

    def identity(self) -> dict[str, Any]:
        """What a memory is of: one of another may not be recalled. Plain enough for JSON."""
        free: Any = {"outputs": True, "expect": True, "about": True, "time": {"frames"}}  # as one likes, at any time
        scene = json.loads(self.scene.model_dump_json(exclude=free))
        kept = {"device": self.device, "precision": precision, "audit": self.intersections.when}
        return {"toile": __version__, **kept, "scene": scene, "files": self._files}

    def solids_at(self, time: float) -> tuple[np.ndarray, ...]:
        """The vertices of each solid at a time."""
        return tuple(solid.vertices(time) for solid in self.solids)

    def _stateful_parts(self) -> dict[str, Any]:
        """Whatever remembers anything from step to step."""
        parts = {"control": self.control, "constraints": self.constraints, "integrator": self.integrator}
        if self.contacts is not None:
            parts["contacts"] = self.contacts
        return {**parts, **{f"filters.{k}": correction for k, correction in enumerate(self.filters)}}

    def advance_frame(self) -> Frame:
        """Step to the next multiple of 1/fps."""
        tally = FrameTally()
        # One BLAS thread at any size: CHOLMOD took 11 ms with one and with two at 2,601 particles, 66 and 67 at 10,201,
        # 432 and 440 at 40,401, and on a busy machine waiting threads cost time.
        with self._threads.limit(limits=1, user_api="blas"):
            while self.state.t < self._frame_end:
                self.step(self.control.fit(self._next_event() - self.state.t), tally)
        self.frame += 1
        strain = self.strain.summary(self.state.x, self.state.t)
        solids = self._measure_solids()
        with self.timers.stage("audit"):
            found = self.intersections.of_frame(self.state.x, self.state.t)
        ms = self.timers.take()
        cloth_contacts = sum(correction.contact_count() for correction in self.filters)
        entry = self.certificate.add(self.frame, self.state, tally, strain, self.system, ms, solids, found, cloth_contacts)
        return self._frame(entry)

    def step(self, h: float, tally: FrameTally) -> None:
        """One accepted step of at most h; rejected tries are halved until one stands."""
        while True:
            t = self._time_after(h)
            if self.constraints.move(self.state.t, t, self.state.x):
                self.integrator.restart()
            self.system.move(t)
            self.solids.move(self.state.t, t)
            if self.system.contact_forces:
                with self.timers.stage("C/C"):
                    self.system.detect_contacts(self.state.x, self.state.v, h)
            if self.contacts is not None:
                with self.timers.stage("C/S"):
                    self.contacts.begin(self.state, h)
            self.corrections.begin_step()
            solution = self.integrator.step(self.state, self._next, h)
            for done in range(1 if self._max_excess < np.inf else MAX_IMPROVEMENTS):
                change, excess = self._changes()
                drastic = done == 0 and change > LARGEST_STRETCH_CHANGE
                if not solution.converged or not (drastic or excess > 0.0):
                    break
                # One linearization was not enough. Another costs less than the two steps of half the size.
                better = self.integrator.improve(self.state, self._next, h)
                if better is None:
                    break
                solution = solution.then(better)
            trouble = self._trouble(solution) or self._correct(h)
            for _ in range(MAX_RESOLVES):
                if not self._system_should_know(solution):
                    break
                better = self.integrator.improve(self.state, self._next, h)
                if better is None:
                    break
                solution = solution.then(better)
                trouble = self._trouble(solution) or self._correct(h)
            if trouble is None:
                break
            tally.rejected += 1
            if not self.control.failed():
                self.certificate.failed_tries = tally.rejected
                self._fail(trouble, h)
            h = min(0.5 * h, self.control.size)
        self.integrator.accept(self.state, self._next, h)
        if self.contacts is not None:
            self.contacts.accept()
        for correction in self.filters:
            correction.accept()
        self.control.succeeded(h)
        tally.add_step(h, solution.iterations, solution.residual)
        self.state, self._next = self._next, self.state
        self.state.t = t
        with self.timers.stage("audit"):
            self.intersections.after_step(self.state.x, t)

    def _correct(self, h: float) -> str | None:
        """Filters, in the order of the scene. Why the candidate must be discarded, or None."""
        self.corrections.clear()
        for correction in self.filters:
            if correction.limits_velocity and self.integrator.limits:
                continue  # the integrator has done it
            with self.timers.stage(correction.stage):
                trouble = correction.apply(self.state, self._next, h)
            if trouble is not None:
                return trouble
        return self._too_much_stretch(LARGEST_BY_CORRECTIONS) if self.filters else None

    def _system_should_know(self, solution: Solution) -> bool:
        """Whether corrections stretched the cloth by so much that they were made part of the linear system."""
        if not any(correction.contact_forces for correction in self.filters) or not solution.converged:
            return False
        if self._changes().stretch <= RESOLVE_ABOVE:
            return False
        return sum(correction.hold() for correction in self.filters) > 0

    @property
    def _frame_end(self) -> float:
        return (self.frame + 1) / self.scene.time.fps

    def _next_event(self) -> float:
        """The end of the frame, or of a window of time before it: steps cross neither."""
        end = self._frame_end
        times = [time for item in (*self.scene.constraints, *self.scene.forces) for time in _window(item)]
        return min([end, *(time for time in times if time > self.state.t + FRAME_ROUNDING * end)])

    def _time_after(self, h: float) -> float:
        """The end of a step: frames fall exactly on multiples of 1/fps, windows of time on their ends."""
        time, event = self.state.t + h, self._next_event()
        return event if abs(event - time) < FRAME_ROUNDING * event else time

    def report(self) -> dict:
        return self.certificate.report()

    def constraint_forces(self) -> np.ndarray:
        """Force that the constraints exerted on each particle in the last step [N]."""
        forces, reaction = self.integrator.constraint_forces.numpy().astype(float), self._reaction()
        return forces if reaction is None else forces + reaction

    def _reaction(self) -> np.ndarray | None:
        """The part of it that filters account for; None if there is no filter that does."""
        found = [correction.reaction.numpy() for correction in self.filters if correction.reaction is not None]
        return np.sum(found, axis=0, dtype=float) if found else None

    def _constrained_particles(self) -> list:
        found = []
        for constraint in self.scene.constraints:
            if not isinstance(constraint, Constraint):
                continue
            part = self.model.part_named(constraint.cloth)
            found.append((constraint, constraint.where.resolve(part.mesh) + part.particles.start))
        return found

    def _solid_contact(self) -> SolidContact | None:
        """How cloth meets solids: as the scene says, or by default, unless a filter does it instead."""
        constraints: tuple[Plugin, ...] = self.scene.constraints
        given = [constraint for constraint in constraints if isinstance(constraint, SolidContact)]
        if not self.solids or not self.model.particle_count:
            return None
        if given:
            return given[0]
        return None if any(isinstance(item, Forecast) for item in self.scene.filters) else SolidContact()

    def _solid_contacts(self) -> SolidContacts | None:
        settings = self._solid_contact()
        if settings is None:
            return None
        masses, gravity = self.system.masses, self.scene.gravity
        contacts = SolidContacts(
            settings, self.solids, self.constraints, self.corrections, masses, gravity, self.control.max_step
        )
        contacts.start(self.state.x, 0.0)
        return contacts

    def _measure_solids(self) -> dict[str, dict]:
        """For each solid: particles that touch it, the force on it in the last step [N], how deep cloth is in it [m].

        Depth is measured from positions alone, at the frame; what the contacts believe does not enter.
        """
        if not self.solids or not self.model.particle_count:
            return {}
        # Filters keep no account of contacts: no figure rather than a zero nobody measured.
        counts, forces = ([None] * len(self.solids) for _ in range(2))
        if self.contacts is not None:
            counts, forces = self.contacts.counts().tolist(), self.contacts.forces(self._reaction()).tolist()
        distances = [found["distance"] for found in self.solids.survey(self.state.x, self.state.t)]
        return {
            solid.name: {
                "contacts": counts[s],
                "force": forces[s],
                "depth": max(0.0, -float(distances[s].min())),
            }
            for s, solid in enumerate(self.solids)
        }

    def _make_solver(self, b: wp.array, dv: wp.array) -> LinearSolver:
        settings = self.scene.solver
        preconditioner = settings.preconditioner or automatic(self.model.particle_count, self.device)
        pcg = ModifiedPCG(self.system.A, b, self.constraints.S, dv)
        working = preconditioner.build(self.system.A, self.constraints.S)
        return LinearSolver(pcg, working, settings.tolerance, settings.max_iterations)

    def _trouble(self, solution: Solution) -> str | None:
        """Why the candidate must be discarded, or None."""
        if not solution.converged:
            if np.isnan(solution.residual):
                return "the linear system could not be solved: a force or a matrix entry is not a finite number."
            found = f"residual {solution.residual:.2g} after {solution.iterations} iterations"
            return f"the linear solver stopped at {found} (solver.max_iterations, solver.tolerance)."
        if any(correction.limits_strain for correction in self.filters):
            return None  # what stands is seen after them
        return self._too_much_stretch(LARGEST_STRETCH_CHANGE)

    def _too_much_stretch(self, allowed: float) -> str | None:
        change, excess = self._changes()
        if change <= allowed and (excess <= self._max_excess or self.control.level >= MAX_HALVINGS):
            return None
        x_before, x = self.state.x.numpy(), self._next.x.numpy()
        bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if len(bad):
            return f"vertex {bad[0]} has no finite position."
        moved = np.linalg.norm(x - x_before, axis=1)
        worst = int(np.argmax(moved))
        return f"a triangle's stretch changed by {change:.2g}; vertex {worst} moved {moved[worst]:.2g} m in one step"

    def _changes(self) -> Changes:
        """Of stretch, from the state to the candidate."""
        return self.strain.changes(self.state.x, self._next.x)

    def _fail(self, trouble: str, h: float) -> None:
        where = trouble if trouble.endswith(".") else f"{trouble} of {1e3 * h:.3g} ms."
        raise StepFailed(
            f"StepFailed at t = {self.state.t:.6g} s (frame {self.frame + 1}): {where}",
            self.frame + 1,
            self.state.t,
            self.state.x.numpy().astype(float),
            self.state.v.numpy().astype(float),
            advice.remedy(self, trouble),
        )

    def _frame(self, entry: dict | None) -> Frame:
        x, v = (np.array(array.numpy(), dtype=float) for array in (self.state.x, self.state.v))
        for finish in self.post:
            x = finish.apply(x, self.state.t)
        counted = None if self.intersections.when == "none" else self.intersections.triangles()
        return Frame(self.frame, self.state.t, x, v, entry, self.solids_at(self.state.t), counted)


def _window(item: Plugin) -> list[float]:
    """Start and end of what acts for a time only."""
    return [time for name in ("start", "end") if (time := getattr(item, name, None)) is not None]


def _device(name: str) -> str:
    try:
        return str(wp.get_device(name))
    except Exception as error:
        known = ", ".join(str(device) for device in wp.get_devices())
        raise InputError(f'device "{name}" is not available here. Choose from: {known}.') from error
