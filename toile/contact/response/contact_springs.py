"""Contacts between cloths in the linear system of a step: augmented Lagrangian springs that keep pairs apart.

    f_a = w_a ((lambda + k (target - n . r)) n + g - c r_t)
    r = sum of w_a (x_a - x_a(start)),    r_t = r - n (n . r)
    k = STIFFNESS_RATIO / (K h^2)
    c = k,  g = friction of the step before        while |g - c r_t| <= mu lambda: the pair sticks
    c = mu lambda / slip,  g = 0                   where it slides

Impulses alone move the particles in contact and not their neighbors: without these springs the solve would let folds
collapse and draw cloth in from around, and impulses would push it out again, step after step. The load lambda is that
of the step before, and after each solve it becomes the force that the spring had: a lasting contact is held at its
target without a stiffer spring, under any load. Impulses then correct what the springs left.

A spring acts if its pair had a load, or is new and about as close as it may come. After a solve, one that pulls is
removed and one that is missing is added. A pair whose spring was removed has none in the next step either, unless it
needed an impulse: layers at rest keep most of their set of springs. A spring that a solve compressed is stiffer in the
next one.

Friction has the load of the last solve, and the slip there. A pair that sticks begins a step with the friction that it
ended the last one with: a lasting force moves it once, not in every step. At a slip between those of both cases g gives
the force the size of its limit.

Source      none; [BW98] sec. 6 has springs between cloths
Symbols     K  effective inverse mass of the closest points [1/kg]     h  step [s]     slip  |r_t| [m]
            w, n, target  as in narrow_phase/contact_set.py     lambda  load [N]
Deviations  none
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from toile.contact.collision_mesh import CollisionMesh
from toile.contact.narrow_phase.contact_set import ContactSet
from toile.contact.response.inherited_loads import InheritedLoads
from toile.contact.response.spring_kernels import (
    SPRING_FIELDS,
    ContactSpringArrays,
    add_impacts_to,
    add_springs,
    allow_rebounds,
    clear_springs,
    correct_springs,
    count_impacts,
    end_springs,
    judge_springs,
    prepare_springs,
)
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.math.types import real
from toile.model.state_dict import StateDict
from toile.step_limits import FEW_CLOSE, HELPED

if TYPE_CHECKING:
    from toile.system.terms import Linearization


class ContactSprings:
    """The contact springs of a step (terms.ContactForce)."""

    name = "self_contact"

    def __init__(
        self,
        mesh: CollisionMesh,
        contact_set: ContactSet,
        find: Callable[[wp.array, wp.array, float], None],
        add_impacts: Callable[[wp.array], int],
    ):
        """`find` makes the contacts of a step that begins with positions and velocities, for a step of h."""
        self.mesh, self.contact_set, self._find, self._add_impacts = mesh, contact_set, find, add_impacts
        self.couplings, self.thickest = Couplings(mesh.device), mesh.thickest
        self._loads = InheritedLoads(mesh.device)
        self._too_close = wp.zeros(1, dtype=wp.int32, device=mesh.device)
        self._readback = Readback(self._too_close)
        self._share = wp.zeros(mesh.count, dtype=real, device=mesh.device)
        self._solves, self._h, self.count, self._checked = 0, 0.0, 0, False
        self._too_close_before: float = np.inf  # pairs, after the last solve of the linearization before
        self.springs = ContactSpringArrays()
        self._capacity = -1
        self._reserve(0)

    def detect(self, x: wp.array, v: wp.array, h: float) -> None:
        """Finds the contacts of a step; those that persist have the load of the step before."""
        self._find(x, v, h)
        contacts, count, mesh = self.contact_set.contacts, self.contact_set.contact_count, self.mesh
        self._solves, self._h, self._checked = 0, h, False
        self.count, self._too_close_before = 0, np.inf
        self._add_new()
        self._loads.look_up(contacts, count, self.springs.load, self.springs.friction_before)
        self._launch.split(prepare_springs, count, [mesh.x, mesh.x_end, contacts, self.springs])

    def linearize(self, at: "Linearization", f_out: wp.array, A_out: BlockMatrix) -> None:
        mesh, c = self.mesh, self.couplings
        self._add_new()
        c.count.zero_()
        self._h, self._solves = at.h, self._solves + 1
        model = [A_out.diagonal, mesh.moving_count]
        inputs = [mesh.x, mesh.x_end, at.x, at.h, self.contact_set.contacts]
        self._launch(add_springs, self.count, [*model, *inputs, f_out, A_out.values, self.springs, c.groups])

    def check(
        self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array, last: bool, pulls_out: wp.array
    ) -> bool:
        """Updates loads; removes springs that pull, adds those that are missing, and corrects the system by both.
        Returns, after the last solve, whether few pairs come much too close, or hardly fewer than in the last check.

        The system is corrected before every other solve: the loads in it would no longer be those of the springs, which
        would then be judged by forces that they did not have.
        """
        if not self._checked and not last:
            self._checked = True
            self._add_impacts(x)
            self._add_new()
        mesh, contacts = self.mesh, self.contact_set.contacts
        if not self.count:
            return True
        self._too_close.zero_()
        at = [mesh.moving_count, mesh.x, mesh.x_end, x]
        self._launch(judge_springs, self.count, [*at, contacts, self.springs, self._too_close, pulls_out])
        if last:
            before, self._too_close_before = self._too_close_before, int(self._readback()[0])
            few = self._too_close_before <= FEW_CLOSE * max(self.count, mesh.moving_count)
            return few or self._too_close_before > HELPED * before
        self.couplings.count.zero_()
        out = [self.springs, A_out.values, b_out, self.couplings.groups]
        self._launch(correct_springs, self.count, [A_out.diagonal, *at, h, contacts, *out])
        return False

    def _add_new(self) -> None:
        """Makes springs of the contacts that have been added; they do not act yet."""
        count = self.contact_set.contact_count
        self._reserve(count)
        if self.couplings.capacity < count:
            self.couplings.reserve(2 * count)
            self._launch = Launcher(self.mesh.device)
        if count > self.count:
            inputs = [self.count, self.contact_set.contacts, self.mesh.inverse_mass_in_system]
            self._launch(clear_springs, count - self.count, [*inputs, self.springs])
            self.count = count

    def allow_rebounds(self) -> None:
        """Contacts that landed in this step may take back their impulses. At the end of a step of BDF2, particles that
        a contact has stopped rebound: the scheme continues their motion before it."""
        if self.in_system:
            inputs = [self.springs, self._h, self.contact_set.contacts]
            self._launch(allow_rebounds, self.count, inputs)

    def add_impacts_to(self, v: wp.array, v_end: wp.array, dx: wp.array, dv: wp.array) -> None:
        """Adds the changes of position and velocity from v to v_end by contacts that have landed in this step."""
        if self.in_system:
            mesh, contacts = self.mesh, self.contact_set.contacts
            self._share.zero_()
            self._launch(count_impacts, self.count, [contacts, self._share])
            inputs = [contacts, self._share, mesh.inverse_mass_in_system, self._h, v, v_end]
            self._launch(add_impacts_to, self.count, [*inputs, mesh.moving_count, dx, dv])

    def include_new(self) -> None:
        """Makes springs that do not act of the contacts found after the solve."""
        self._add_new()

    @property
    def h(self) -> float:
        """The integrator's step [s]: the impulse of a spring is its force times h."""
        return self._h

    def forces_on_vertices(self) -> np.ndarray:
        """The force of contacts on every vertex of the collision mesh in the last step [N]; on the host."""
        contacts, springs, n = self.contact_set.contacts, self.springs, self.contact_set.contact_count
        arrays = (contacts.normal, contacts.friction_impulse, springs.force, contacts.vertices, contacts.weights)
        normal, friction, force, vertices, weights = (array.numpy()[:n] for array in arrays)
        total = (contacts.normal_impulse.numpy()[:n, None] * normal + friction) / self._h**2
        total += (springs.in_system.numpy()[:n, None] == 1) * force
        found = np.zeros((self.mesh.count, 3))
        np.add.at(found, vertices, weights[:, :, None] * total[:, None])
        return found

    @property
    def in_system(self) -> bool:
        """Whether the candidate includes the forces of the springs."""
        return self._solves > 0

    def accept(self) -> None:
        """Stores the loads of an accepted step for the next."""
        contacts, count = self.contact_set.contacts, self.contact_set.contact_count
        self._add_new()
        if not self.in_system:
            self.springs.load.zero_()
        self._launch.split(end_springs, count, [contacts, self.springs])
        self._loads.store(contacts, self.springs.load, self.springs.friction_before, count)

    def state_dict(self) -> StateDict:
        return self._loads.state_dict()

    def load_state_dict(self, state_dict: StateDict) -> None:
        self._loads.load_state_dict(state_dict)

    def _reserve(self, count: int) -> None:
        """Makes the arrays of the springs at least as long; they keep their values."""
        if count <= self._capacity:
            return
        grown = ContactSpringArrays()
        for name, kind in SPRING_FIELDS.items():
            array = wp.zeros(2 * count, dtype=kind, device=self.mesh.device)
            if self._capacity > 0:
                wp.copy(array, getattr(self.springs, name), count=self._capacity)
            setattr(grown, name, array)
        self.springs.retire()
        self.springs, self._capacity = grown, 2 * count
        self._launch = Launcher(self.mesh.device)
