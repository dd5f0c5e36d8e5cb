"""Contacts between cloth vertices and solids, as constraints of the step that is being computed.

    detect     contacts that the velocities of the step lead to, and those that persist from the step before
    hold       constraints and friction made of the contacts as they are
    check      after a solve: states against the forces they needed, and free particles against the solids
    correct    what the last solve left inside a solid is projected onto its surface
    keep_out   planes for particles that impulses between layers have moved into a solid
    accept     the contacts of this step are where the next one starts from

Source      [BW98] secs. 2.1, 5.4, 6.1, 6.2
Symbols     h  step [s]     u  velocity at the end of the step [m/s]     x_ref  start of the step: x = x_ref + h u [m]
Deviations  The paper finds contacts where the step begins and changes states one step later. It keeps particles at the
            surface; here they stay `thickness` in front of it, so that triangles do not cut through what is curved.
            Position alteration is not felt by inertia, as in the paper; damping feels it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from toile.contact.collision_mesh import Planes
from toile.contact.solid.added_planes import make_added_planes
from toile.contact.solid.contact_arrays import (
    FRICTION_INEXACT,
    GROSS,
    IN_CONTACT,
    IN_PINCH,
    MAX_CONTACTS,
    PINCHED,
    WRONG,
    SolidParameters,
    contacts_state_dict,
    load_contacts,
    make_counts,
    make_solid_contacts,
    total,
)
from toile.contact.solid.detection import detection_kernels
from toile.contact.solid.easing import Easing
from toile.contact.solid.friction import make_friction
from toile.contact.solid.holding import find_drag_velocity, hold_contacts, project_out
from toile.contact.solid.modes import SolveResult, begin_step, choose_modes, end_step, judge_forces
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import vec3
from toile.model.constraint_state import ConstraintState
from toile.model.corrections import Corrections
from toile.model.motion import Vector
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.step_limits import (
    MAX_FRICTION_INEXACT,
    MAX_FRICTION_WRONG,
    MAX_STATES_WRONG,
)

if TYPE_CHECKING:
    from toile.colliders.solids import Solids
    from toile.constraints.solid_contact import SolidContact


class SolidContacts:
    """Contacts of all particles with all solids of a scene."""

    def __init__(
        self,
        settings: SolidContact,
        solids: Solids,
        constraints: ConstraintState,
        corrections: Corrections,
        masses: wp.array,
        gravity: Vector,
        max_step: float,
        layers: bool = False,
        easing: Easing | None = None,
    ):
        """With `layers`, contacts between cloths hold layers apart that solids pinch. `easing` keeps pinched cloth from
        being stretched."""
        # Recovery is a speed [m/s]. Were it a distance per step, cloth that it stretches too much would be stretched as
        # much in a step of any size.
        self._recovery = settings.max_recovery / max_step
        self._gravity = vec3(*gravity)
        self.settings, self.solids, self.constraints, self.masses = settings, solids, constraints, masses
        self._corrections, self._easing = corrections, easing
        self.device, n = solids.device, len(masses)
        self.friction = make_friction(n, self.device)
        self._now, self._before = make_solid_contacts(
            n, len(solids), settings.thickness if layers else 0.0, self.device
        )
        self._kernels = [detection_kernels(solid.functions) for solid in solids]
        self._parameters = [self._make_parameters(s) for s in range(len(solids))]
        self.added_planes = make_added_planes(n, self.device)
        self._added = wp.zeros(1, dtype=wp.int32, device=self.device)
        self._readback_added = Readback(self._added)
        self._urgent = make_counts(n, self.device)
        self._readback = Readback(self._urgent)
        self._launch = Launcher(self.device)
        self._results: dict[tuple[int, int], SolveResult] = {}
        self._step, self._solves, self._first = 0.0, 0, True
        # Whether any particle is in contact, as far as the last check knows; and that of the last step that stands.
        self.any = self._any_before = True
        # Whether any particle was pinched in the last step, and in the one before it.
        self._pinched = self._pinched_before = self._pinched_earlier = False

    def start(self, x: wp.array, time: float) -> np.ndarray:
        """Measures where the cloth starts; returns the distance of every particle from every solid [m]."""
        distances = np.stack([found["distance"] for found in self.solids.closest_points(x, time)])
        self._before.clearance.assign(distances.ravel())
        wp.copy(self._before.x_checked, x)
        self._first = True
        return distances

    def detect(self, state: State, h: float) -> None:
        """Finds the contacts that a step begins with, and holds them."""
        n, now, before = len(state.x), self._now, self._before
        self._launch.split(begin_step, n, [before, now])
        for solid, parameters, (predict, _, _) in zip(self.solids, self._parameters, self._kernels, strict=True):
            of_solid = [solid.shape, parameters, h * self._recovery]
            inputs = [*of_solid, self.masses, state.x, state.v, h, self.constraints.S_user, self._first, before, now]
            self._launch.split(predict, n, inputs, fewest=1)
        at_start = [self.masses, state.x, state.v, self._gravity, h, self.settings.thickness, h * self._recovery]
        self._launch.split(choose_modes, n, [*at_start, before, now])
        if self._easing is not None and self._pinched_before:
            self._easing.ease(state.x, state.v, h, h * self._recovery, before, now)
        self._step, self._solves, self.any = h, 0, self._any_before
        self.hold(h)

    def hold(self, h: float) -> None:
        """Makes constraints and friction of the contacts as they are now."""
        inputs = [self.settings.thickness, h, self._solves > 0, self._now, self.constraints, self.friction]
        self._launch.split(hold_contacts, len(self.masses), inputs)

    def find_drag_velocity(self, x_ref: wp.array, h: float) -> None:
        """Finds the velocity that carries each sliding particle along with its solid."""
        self._launch.split(find_drag_velocity, len(x_ref), [self._now, x_ref, h, self.friction.v_drag])

    def check(
        self, state: State, x: wp.array, u: wp.array, force: wp.array, pulls: wp.array, h: float, last: bool,
        release: bool,
    ) -> bool:  # fmt: skip
        """Compares a solve with its contacts, and corrects them. Returns False if so many were wrong that the step has
        to be solved again.

        `h` is the integrator's own: that of x = x_ref + h u. `pulls` are forces [N] that acted in the solve and that
        contacts between cloths cannot exert: contacts with solids are judged without them. With `release` contacts that
        pull ever so little are released.
        """
        n, now, before = len(x), self._now, self._before
        self._solves += 1
        self._urgent.zero_()
        now.recovery.zero_()
        now.exerted.zero_()
        again = self._solves > 1
        for solid, parameters, (_, review, _) in zip(self.solids, self._parameters, self._kernels, strict=True):
            of_solid = [solid.shape, parameters, self._step * self._recovery]
            inputs = [*of_solid, state.x, x, again, self._step, self.constraints.S_user, before, now, self._urgent]
            self._launch.split(review, n, inputs, fewest=1)
        wp.copy(now.x_checked, x)
        at = [self.masses, self.constraints, self.friction, self._result(force, pulls, u), self.settings.thickness, h]
        self._launch.split(judge_forces, n, [*at, self._step * self._recovery, release, before, now, self._urgent])
        urgent = total(self._readback)
        self.any, self._pinched = bool(urgent[IN_CONTACT]), bool(urgent[IN_PINCH])
        gross = urgent[GROSS] > MAX_FRICTION_WRONG * urgent[IN_CONTACT]
        inexact = urgent[FRICTION_INEXACT] > MAX_FRICTION_INEXACT * urgent[IN_CONTACT] and self._solves == 1
        wrong = urgent[WRONG] > MAX_STATES_WRONG * urgent[IN_CONTACT]
        return last or not (wrong or gross or inexact)

    def _result(self, force: wp.array, pulls: wp.array, u: wp.array) -> SolveResult:
        """The arrays of a solve as one argument; made once, because packed launches are keyed by identity."""
        key = (id(force), id(u))
        if key not in self._results:
            self._results[key] = SolveResult()
            self._results[key].force, self._results[key].pulls, self._results[key].u = force, pulls, u
        return self._results[key]

    def correct(self, state_out: State) -> None:
        """After the last solve: projects what is inside a solid onto its surface, and marks discontinuous motion."""
        self._solves = 0
        n = len(state_out.x)
        self._launch.split(project_out, n, [self.masses, self._step, self._now, state_out.x, state_out.v])
        self._launch.split(end_step, n, [self._before, self._now, self._corrections.discontinuous])

    def keep_out(self, x: wp.array, x_end: wp.array, v_end: wp.array) -> int:
        """After corrections of the last solve: adds planes for particles that they have moved into solids; returns
        their number."""
        self._added.zero_()
        inputs = [x, x_end, v_end, self.constraints.S_user, self._now, self.added_planes, self._added]
        for solid, parameters, (_, _, keep_out) in zip(self.solids, self._parameters, self._kernels, strict=True):
            self._launch(keep_out, len(self.masses), [solid.shape, parameters, *inputs])
        return int(self._readback_added()[0])

    def accept(self) -> None:
        """The step stands: its contacts are where the next one starts from."""
        self._now, self._before = self._before, self._now
        self._first, self._any_before = False, self.any
        self._pinched_earlier, self._pinched_before = self._pinched_before, self._pinched

    def state_dict(self) -> StateDict:
        known = {"first": self._first, "any": self._any_before}
        known |= {"pinched": self._pinched_before, "pinched_earlier": self._pinched_earlier}
        return {**known, **contacts_state_dict(self._before)}

    def load_state_dict(self, state_dict: StateDict) -> None:
        self._first, self._any_before = bool(state_dict["first"]), bool(state_dict["any"])
        self._pinched_before = bool(state_dict["pinched"])
        self._pinched_earlier = bool(state_dict["pinched_earlier"])
        load_contacts(state_dict, self._before)

    def planes(self) -> Planes:
        """The planes that contacts hold particles at in the present step."""
        return Planes(self._now.planes, self._now.normal, self._now.slack, self._now.pinched_by, self._now.solid)

    def contact_count(self) -> int:
        """Number of particles in contact with a solid."""
        return int(np.count_nonzero(self._before.count.numpy()))

    def pinched(self) -> np.ndarray:
        """Particles that are pinched between two solids."""
        return np.flatnonzero(self._before.mode.numpy() == int(PINCHED))

    def let_go(self) -> np.ndarray | None:
        """The solids that pinch each particle and that did in the step before; None if there are none."""
        return self._before.pinched_by.numpy() if self._pinched_before or self._pinched_earlier else None

    def pinched_by(self) -> np.ndarray | None:
        """(particles, 2) the solids that pinch each particle; -1 for none. None if no particle is pinched."""
        if not self._pinched_before:
            return None
        solids = self._before.solid.numpy().reshape(-1, int(MAX_CONTACTS))[:, :2]
        return np.where(self._before.mode.numpy()[:, None] == int(PINCHED), solids, -1)

    def counts(self) -> np.ndarray:
        """Number of particles in contact with each solid."""
        used = np.arange(int(MAX_CONTACTS)) < self._before.count.numpy()[:, None]  # which slots hold a contact
        return np.bincount(self._before.solid.numpy()[used.ravel()], minlength=len(self.solids))

    def forces(self, reaction: np.ndarray | None = None) -> np.ndarray:
        """Force of the cloth on each solid in the last step [N].

        `reaction` is the part of the constraint forces that filters account for. A contact takes its share of it; of
        several contacts of one particle, the first.
        """
        forces = -self._before.exerted.numpy().reshape(len(self.solids), -1, 3).sum(axis=1, dtype=float)
        if reaction is not None:
            in_contact = np.flatnonzero(self._before.count.numpy())
            S_user, S = (S.numpy()[in_contact].astype(float) for S in (self.constraints.S_user, self.constraints.S))
            solid = self._before.solid.numpy().reshape(-1, int(MAX_CONTACTS))[in_contact, 0]
            np.subtract.at(forces, solid, np.einsum("pij,pj->pi", S_user - S, reaction[in_contact]))
        return forces

    def _make_parameters(self, s: int) -> Any:
        parameters = SolidParameters()
        parameters.solid, parameters.poses = s, self.solids.poses
        parameters.mu, parameters.gap = float(self.solids.solids[s].settings.friction), self.solids.gaps[s]
        return parameters
