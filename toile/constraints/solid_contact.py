"""Contact with solids as constraints: a particle that reaches a solid is held there, sticks or slides, and is let go.

    near a solid -> held at `thickness` in front of it     locked: tangential force at most mu times the normal one
    sliding: friction mu times the normal force, against the motion     released: when the force would pull

A step begins with the contacts that its velocities lead to. After the solve each state is compared with the force it
needed and each free particle with the solids; where that disagrees the same linear system is solved again with the
corrected constraints, a few times. What is left inside a solid then is put on its surface.

Source      [BW98] secs. 2.1, 5.4, 6.1, 6.2
Symbols     e  what the constraints added to the momentum in a step; e/h is their force
Deviations  The paper finds contacts where the step begins and changes states one step later. It keeps particles at the
            surface, here they stay `thickness` in front of it, so that triangles do not cut through what is curved.
            Position alteration is not felt by inertia, as in the paper; damping feels it.
"""

from typing import Any

import numpy as np
import warp as wp

from toile.constraints.state import ConstraintState
from toile.contact.collision_mesh import Planes
from toile.contact.solid.contacts import (
    FRICTION_INEXACT,
    GROSS,
    IN_CONTACT,
    MAX_CONTACTS,
    WRONG,
    contacts_state_dict,
    load_contacts,
    make_counts,
    make_solid_contacts,
    total,
)
from toile.contact.solid.detection import detection_kernels
from toile.contact.solid.holding import drag_velocity, hold_contacts, project_out
from toile.contact.solid.modes import begin_step, choose_modes, end_step, judge_forces
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import vec3
from toile.model.corrections import Corrections
from toile.model.motion import Vector
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.plugins import Plugin, quantity

# Solves of one step with constraints corrected in between. Each correction leaves about half of what was wrong.
MAX_SOLVES = 4
# A solve is repeated when more than this share of the contacts was not known to it or pulled, or has friction that is
# far from Coulomb's; and once when friction is not close to it at more than the last share. Of what is left, that which
# is inside a solid is put on its surface, and other states come a step late, as all do in the paper.
WRONG_LEFT, GROSS_LEFT, FRICTION_INEXACT_LEFT = 0.05, 0.05, 0.1


class SolidContact(Plugin):
    """Cloth on solids; it is there by default when a scene has solids."""

    thickness: float = quantity(1e-3, unit="m", doc="distance at which cloth is held in front of a solid", gt=0)
    max_recovery: float = quantity(
        0.02, unit="m", doc="how far a step of max_step moves cloth that is inside a solid; a shorter one, less", gt=0
    )
    deepest_start: float = quantity(
        0.1, unit="m", doc="cloth that starts deeper than this inside a solid is an error", ge=0
    )

    def recovery(self) -> str:
        """How cloth comes out of a solid, for a message."""
        return f"They are pushed out, {self.max_recovery:g} m in a step of max_step."


class SolidContacts:
    """All solids of a scene against all its particles."""

    def __init__(
        self,
        settings: SolidContact,
        solids: Any,
        constraints: ConstraintState,
        corrections: Corrections,
        masses: wp.array,
        gravity: Vector,
        max_step: float,
    ):
        """`solids` is a toile.colliders.solids.Solids."""
        # A speed: were it the same in every step, cloth that it stretches too much would be so at any step size.
        self._recovery = settings.max_recovery / max_step  # [m/s]
        self._gravity = vec3(*gravity)
        self.settings, self.solids, self.constraints, self.masses = settings, solids, constraints, masses
        self._corrections = corrections
        self.device, n = constraints.device, len(masses)
        self._now, self._before = (make_solid_contacts(n, len(solids), self.device) for _ in range(2))
        self._kernels = [detection_kernels(solid.functions) for solid in solids]
        self._urgent = make_counts(n, self.device)
        self._readback = Readback(self._urgent)
        self._reviewed = wp.zeros(n, dtype=vec3, device=self.device)  # where the last solve had led
        self._launch = Launcher(self.device)
        self._step, self._solves, self._first = 0.0, 0, True

    def start(self, x: wp.array, time: float) -> np.ndarray:
        """Takes note of where the cloth is at the start; the distance of every particle from every solid [m]."""
        distances = np.stack([found["distance"] for found in self.solids.survey(x, time)])
        self._before.clearance.assign(distances.ravel())
        self._first = True
        return distances

    def begin(self, state: State, h: float) -> None:
        """The constraints that a step starts with."""
        n, now, before, constraints = len(state.x), self._now, self._before, self.constraints
        self._launch.split(begin_step, n, [before, now])
        for s, (predict, _) in enumerate(self._kernels):
            inputs = [*self._solid(s, h), self.masses, state.x, state.v, h, constraints.S_user, self._first, before, now]
            self._launch.split(predict, n, inputs, fewest=1)
        self._launch.split(choose_modes, n, [self.masses, state.v, self._gravity, h, before, now])
        self._step, self._solves = h, 0
        self.hold(h)

    def fit(self, state: State, x: wp.array, u: wp.array, force: wp.array, h: float) -> bool:
        """Compares a solve with its contacts and corrects them; False if so much was wrong that it must be repeated."""
        n, now, before, constraints = len(x), self._now, self._before, self.constraints
        self._solves += 1
        self._urgent.zero_()
        now.recovery.zero_()
        now.exerted.zero_()
        again = self._solves > 1
        for s, (_, review) in enumerate(self._kernels):
            positions = [state.x, self._reviewed, x, again, self._step]
            inputs = [*self._solid(s, self._step), *positions, constraints.S_user, before, now, self._urgent]
            self._launch.split(review, n, inputs, fewest=1)
        wp.copy(self._reviewed, x)
        thickness = self.settings.thickness
        held_now = [constraints.S, constraints.S_user, constraints.friction, constraints.drag, constraints.v_drag]
        judged = [self.masses, *held_now, force, u, thickness, h, before, now, self._urgent]
        self._launch.split(judge_forces, n, judged)
        urgent = total(self._readback)
        gross = urgent[GROSS] > GROSS_LEFT * urgent[IN_CONTACT]
        inexact = urgent[FRICTION_INEXACT] > FRICTION_INEXACT_LEFT * urgent[IN_CONTACT] and self._solves == 1
        wrong = urgent[WRONG] > WRONG_LEFT * urgent[IN_CONTACT]
        return self._solves >= MAX_SOLVES or not (wrong or gross or inexact)

    def find_drag_velocity(self, x_ref: wp.array, h: float) -> None:
        """The velocity u that carries each sliding particle along with its solid, for x = x_ref + h u."""
        self._launch.split(drag_velocity, len(x_ref), [self._now, x_ref, h, self.constraints.v_drag])

    def settle(self, state_out: State) -> None:
        """After the last solve."""
        self._solves = 0
        self._launch.split(project_out, len(state_out.x), [self.masses, self._step, self._now, state_out.x, state_out.v])
        self._launch.split(end_step, len(state_out.x), [self._before, self._now, self._corrections.discontinuous])

    def accept(self) -> None:
        """The step stands: its contacts are what the next one remembers."""
        self._now, self._before = self._before, self._now
        self._first = False

    def state_dict(self) -> StateDict:
        return {"first": self._first, **contacts_state_dict(self._before)}

    def load_state_dict(self, state_dict: StateDict) -> None:
        self._first = bool(state_dict["first"])
        load_contacts(state_dict, self._before)

    def planes(self) -> Planes:
        """What holds particles in the present step."""
        return Planes(self._now.count, self._now.normal)

    def contact_count(self) -> int:
        """Particles that touch a solid."""
        return int(np.count_nonzero(self._before.count.numpy()))

    def counts(self) -> np.ndarray:
        """Particles that touch each solid."""
        used = np.arange(int(MAX_CONTACTS)) < self._before.count.numpy()[:, None]  # which slots hold a contact
        return np.bincount(self._before.solid.numpy()[used.ravel()], minlength=len(self.solids))

    def forces(self, reaction: np.ndarray | None = None) -> np.ndarray:
        """Force of the cloth on each solid in the last step [N]. `reaction` is what constraints exerted on each particle
        beside what the solve knew of; contacts have their part of it, and of several the first.
        """
        forces = -self._before.exerted.numpy().reshape(len(self.solids), -1, 3).sum(axis=1, dtype=float)
        if reaction is not None:
            in_contact = np.flatnonzero(self._before.count.numpy())
            S_user, S = (S.numpy()[in_contact].astype(float) for S in (self.constraints.S_user, self.constraints.S))
            solid = self._before.solid.numpy().reshape(-1, int(MAX_CONTACTS))[in_contact, 0]
            np.subtract.at(forces, solid, np.einsum("pij,pj->pi", S_user - S, reaction[in_contact]))
        return forces

    def hold(self, h: float) -> None:
        """Makes constraints of the contacts as they are now."""
        constraints, again = self.constraints, self._solves > 0
        user = [constraints.S_user, constraints.x_user, constraints.v_user, self.settings.thickness, h, again]
        out = [constraints.S, constraints.x_held, constraints.v_held, constraints.friction, constraints.drag]
        self._launch.split(hold_contacts, len(constraints.S), [*user, self._now, constraints.in_contact, *out])

    def _solid(self, s: int, h: float) -> list[Any]:
        solid, settings = self.solids.solids[s], self.settings
        friction = float(solid.settings.friction)
        return [solid.shape, self.solids.poses, s, friction, settings.thickness, h * self._recovery]
