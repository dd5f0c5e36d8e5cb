"""All contacts of a scene behind one protocol, which the step loop and both families of integrators use.

    detect           at the start of a step, from x and v: contacts with solids and between cloths
    linearize        the friction of contacts with solids; System.linearize adds contacts between cloths
    check            after a solve: whether the contacts that were solved for fit the result; if not, they are corrected
    restore          before another linearization of the same step: the constraints that the last check left
    project          after the last solve of an integrator: particles inside a solid move onto its surface
    correct          after the integrator: the filters of the scene, impulses between cloths among them
    accept           the step stands: contacts pass their loads on to the next one

toile/step_limits.py has the diagram of a step, and the limits of its loops.

Source      [BW98] secs. 5.4, 6
Symbols     x_ref  start of the step [m]: x = x_ref + h u     u  velocity at the end of the step [m/s]     b  residual
Deviations  see toile/contact/solid and toile/contact/response
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from toile.contact.solid.friction import add_friction, make_friction
from toile.contact.solid.solid_contacts import SolidContacts
from toile.device.launcher import Launcher
from toile.device.timers import Timers
from toile.model.state import State
from toile.model.state_dict import StateDict

if TYPE_CHECKING:
    from toile.filters.base import Correction
    from toile.system.system import System


class Contacts:
    """Contacts with solids, contact forces of the system, and the corrections that resolve what is left."""

    def __init__(
        self,
        system: System,
        solid: SolidContacts | None,
        corrections: Sequence[Correction],
        timers: Timers,
        limits_in_integrator: bool = False,
    ):
        """`corrections` are the filters in the order of the scene; with `limits_in_integrator` the integrator applies
        those that limit velocities itself."""
        self.solid, self.corrections = solid, corrections
        self._limits_in_integrator = limits_in_integrator
        self._system, self._timers = system, timers
        particle_count = system.model.particle_count
        self.sliding_friction = make_friction(particle_count, system.device) if solid is None else solid.friction
        self._launch = Launcher(system.device)
        # Whether the contacts between cloths that the last check of a linearization left are worth another one.
        self.too_close = False

    def detect(self, state: State, h: float) -> None:
        """Finds the contacts of a step of h that begins with `state`."""
        if self.solid is not None:
            with self._timers.stage("C/S"):
                self.solid.detect(state, h)
        if self._system.contact_forces:
            with self._timers.stage("C/C"):
                self._system.detect_contacts(state.x, state.v, h)

    def linearize(self, x_ref: wp.array, h: float, u: wp.array | None = None, b_out: wp.array | None = None) -> None:
        """Updates the friction of sliding contacts. With u and b_out it is added to the linear system, whose other
        forces have been linearized at u."""
        if self.solid is not None:
            self.solid.find_drag_velocity(x_ref, h)
            if b_out is not None:
                self._add_friction(u, h, b_out)

    def check(
        self,
        state: State,
        x: wp.array,
        u: wp.array,
        force: wp.array,
        x_ref: wp.array,
        h: float,
        b_out: wp.array | None = None,
        last: bool = False,
    ) -> bool:
        """Whether the contacts that were solved for are those that the result shows.

        Contacts, constraints and the linear system (A, and its residual b_out) are corrected for another solve. After
        the `last` one nothing is, and the contacts that are left become those of the next step. `force` is that of the
        constraints. Integrators without a linear system pass no b_out, and do not solve again if the contacts fit.
        """
        consistent = True
        if b_out is not None:
            with self._timers.stage("C/C"):
                consistent = self._system.check_contacts(x, u, h, b_out, last)
            self.too_close = last and not consistent
        if self.solid is None:
            return consistent
        with self._timers.stage("C/S"):
            # Without a linear system this solve is the last, unless contacts turn out not to fit it.
            release = last or b_out is None
            consistent = self.solid.check(state, x, u, force, self._system.pulls, h, last, release) and consistent
            if last or (consistent and b_out is None):
                return consistent
            # Even a few contacts that have changed must not be judged by forces of constraints that they had before.
            if b_out is not None:
                self._add_friction(u, -h, b_out)
            self.solid.hold(h)
            self.linearize(x_ref, h, u, b_out)
        return consistent

    def restore(self, h: float) -> None:
        """Before another linearization of the same step: constraints become those that the last check left."""
        if self.solid is not None:
            self.solid.hold(h)

    def project(self, state_out: State) -> None:
        """After the last solve of an integrator: projects what is inside a solid onto its surface."""
        if self.solid is not None:
            with self._timers.stage("C/S"):
                self.solid.correct(state_out)

    def correct(self, state: State, state_out: State, h: float) -> str | None:
        """Applies the corrections. Returns why the candidate must be rejected, or None."""
        for correction in self.corrections:
            if correction.limits_velocity and self._limits_in_integrator:
                continue
            with self._timers.stage(correction.stage):
                trouble = correction.apply(state, state_out, h)
            if trouble is not None:
                return trouble
        return None

    def accept(self) -> None:
        """The step stands."""
        if self.solid is not None:
            self.solid.accept()
        for correction in self.corrections:
            correction.accept()

    def count_between_cloths(self) -> int:
        """Number of contacts between cloths in the last step."""
        return sum(correction.contact_count() for correction in self.corrections)

    def count_truncated(self) -> int:
        """Number of vertices whose paths the last step shortened, because nothing else kept them apart."""
        return sum(correction.truncated_count() for correction in self.corrections)

    def vertices_on_solids(self) -> np.ndarray:
        """Particles in contact with a solid in the last step."""
        return np.flatnonzero(self.sliding_friction.in_contact.numpy())

    def vertices_on_cloth(self) -> np.ndarray:
        """Particles in contact with cloth in the last step."""
        found = [correction.vertices_in_contact() for correction in self.corrections]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))

    @property
    def any(self) -> bool:
        """Whether a solve may be judged by contacts."""
        return self.solid is not None or bool(self._system.contact_forces)

    @property
    def found(self) -> bool:
        """Whether any contact is known, by detection or by the last check."""
        by_solids = self.solid is not None and self.solid.any
        return by_solids or self.between_cloths

    @property
    def between_cloths(self) -> bool:
        """Whether any contact between cloths acts in the system of this step, or may."""
        return any(force.count > 0 for force in self._system.contact_forces)

    @property
    def holds_particles(self) -> bool:
        """Whether contacts with solids may hold particles."""
        return self.solid is not None

    def restart(self, x: wp.array, time: float) -> None:
        """Drops all contacts with solids, and measures where the cloth is."""
        if self.solid is not None:
            self.solid.start(x, time)

    def state_dict(self) -> StateDict:
        """Returns the contacts with solids that the next step needs; corrections have state dicts of their own."""
        return {} if self.solid is None else self.solid.state_dict()

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restores what `state_dict` holds."""
        if self.solid is not None:
            self.solid.load_state_dict(state_dict)

    def pinched_vertices(self) -> np.ndarray | None:
        """Returns the particles that solids pinched in the last step; None if a filter keeps cloth out of solids."""
        if self.solid is None:
            return None
        by = self.pinched_by()
        return np.zeros(0, int) if by is None else np.flatnonzero((by >= 0).any(axis=1))

    def pinched_by(self) -> np.ndarray | None:
        """Returns the solids that pinched or caught each particle in the last step, -1 for none; None if there are no
        such particles."""
        if self.solid is None:
            return None
        every = (self.solid.pinched_by(), *(correction.caught_by() for correction in self.corrections))
        found = [by for by in every if by is not None]
        return np.concatenate(found, axis=1) if found else None

    def measure_solids(self, reaction: np.ndarray | None) -> tuple[list[int], list[list[float]]] | None:
        """Returns the number of particles in contact with each solid, and the force on it in the last step [N]; None if
        a filter keeps cloth out of solids, which keeps no account of contacts."""
        if self.solid is None:
            return None
        forces = self.solid.forces(reaction)
        solids = list(self.solid.solids)
        for correction in self.corrections:
            for solid, force in correction.forces_on_solids():
                forces[solids.index(solid)] += force
        return self.solid.counts().tolist(), forces.tolist()

    def _add_friction(self, u: wp.array, h: float, b_out: wp.array) -> None:
        A = self._system.A
        inputs = [A.diagonal, self.sliding_friction, u, h, A.values, A.row_sum, b_out]
        self._launch(add_friction, len(u), inputs)
