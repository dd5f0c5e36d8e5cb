"""Contacts between cloths in the linear system of a step: augmented Lagrangian springs that keep pairs apart.

    f_a = w_a ((lambda + k (target - n . r)) n - c (r - n (n . r)))        r = sum of w_a (x_a - x_a(start))
    k = STIFFNESS_RATIO / (K h^2),    c = mu lambda / slip,    at most k

Impulses alone move the particles in contact and not their neighbors: without these springs the solve would let folds
collapse and draw cloth in from around, and impulses would push it out again, step after step. The load lambda is that
of the step before, and after each solve it becomes the force that the spring had: a lasting contact is held at its
target without a stiffer spring, under any load. Impulses then correct what the springs left.

A spring acts if its pair had a load or would come too close. After a solve, one that pulls is removed and one that is
missing is added. Friction has the load of the last solve; its coefficient has the slip there.

Source      none; [BW98] sec. 6 has springs between cloths
Symbols     K  effective inverse mass of the closest points [1/kg]     h  step [s]     slip  across n [m]
            w, n, target  as in narrow_phase/contact_set.py     lambda  load [N]
Deviations  none
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import warp as wp

from toile.contact.collision_mesh import CollisionMesh
from toile.contact.narrow_phase.closest_points import combine
from toile.contact.narrow_phase.contact_set import ContactArrays, ContactSet
from toile.contact.response.inherited_loads import InheritedLoads
from toile.device.growable import Growable
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.linear.block_matrix import BlockMatrix, CouplingGroups, Couplings
from toile.math.types import TINY, identity, mat33, real, vec3, vec4
from toile.model.state_dict import StateDict
from toile.step_limits import MAX_SPRINGS_CHANGED

if TYPE_CHECKING:
    from toile.system.terms import Linearization

# k h^2 K. It is large because the four particles must also stop the cloth around them. The solver's iterations grow
# with its root where its preconditioner, such as a factor, does not include the couplings.
STIFFNESS_RATIO = wp.constant(real(300.0))
# Separation in a step above which a contact loses its load, as a fraction of the thickness.
MAX_SEPARATION = wp.constant(real(0.1))
# A spring whose force is that of being stretched by more than this fraction of the thickness pulls.
PULL_TOLERANCE = wp.constant(real(0.02))
# A contact without a spring whose pair comes closer than its target by this fraction of the thickness misses one.
MISS_TOLERANCE = wp.constant(real(0.1))
# Slip in a step below which friction is proportional to it, as a fraction of the thickness.
SLIP_REGULARIZATION = wp.constant(real(0.002))
# Indices of the counters.
CHANGED, ACTIVE = wp.constant(0), wp.constant(1)


@wp.struct
class ContactSpringArrays(Growable):
    """The springs of the contacts of a step, one for each."""

    active: wp.array(dtype=wp.int32)
    in_system: wp.array(dtype=wp.int32)  # whether the last solve included it
    stiffness: wp.array(dtype=real)  # [N/m]  k
    friction_stiffness: wp.array(dtype=real)  # [N/m]  c
    load: wp.array(dtype=real)  # [N]  lambda; after a solve the force of the spring
    force: wp.array(dtype=vec3)  # [N]  in the solve, with friction
    slip: wp.array(dtype=real)  # [m]  that velocities lead to


SPRING_FIELDS = {
    "active": wp.int32, "in_system": wp.int32, "stiffness": real, "friction_stiffness": real, "load": real,
    "force": vec3, "slip": real,
}  # fmt: skip


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
        self.couplings = Couplings(mesh.device)
        self._loads = InheritedLoads(mesh.device)
        self._counts = wp.zeros(2, dtype=wp.int32, device=mesh.device)
        self._readback = Readback(self._counts)
        self.count, self._solves, self._h = 0, 0, 0.0
        self.springs = ContactSpringArrays()
        self._capacity = -1
        self._reserve(0)

    def detect(self, x: wp.array, v: wp.array, h: float) -> None:
        """Finds the contacts of a step; those that persist have the load of the step before."""
        self._find(x, v, h)
        contacts, count, mesh = self.contact_set.contacts, self.contact_set.contact_count, self.mesh
        self._solves, self._h = 0, h
        self.count = 0
        self._add_new()
        self._loads.look_up(contacts, count, self.springs.load)
        self._launch.split(prepare_springs, count, [mesh.x, mesh.x_end, contacts, self.springs])

    def linearize(self, at: "Linearization", f_out: wp.array, A_out: BlockMatrix) -> None:
        mesh, c = self.mesh, self.couplings
        self._add_new()
        c.count.zero_()
        self._h, self._solves = at.h, self._solves + 1
        model = [A_out.diagonal, mesh.moving_count]
        inputs = [mesh.x, mesh.x_end, at.x, at.h, self.contact_set.contacts]
        self._launch(add_springs, self.count, [*model, *inputs, f_out, A_out.values, self.springs, c.groups])

    def check(self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array, last: bool) -> bool:
        """Updates loads; removes springs that pull and adds those that are missing, unless these are few."""
        if self._solves == 1 and not last:
            self._add_impacts(x)
            self._add_new()
        mesh, contacts = self.mesh, self.contact_set.contacts
        if not self.count:
            return True
        self._counts.zero_()
        at = [mesh.moving_count, mesh.x, mesh.x_end, x]
        self._launch(judge_springs, self.count, [*at, contacts, last, self.springs, self._counts])
        if last:
            return True
        changed, active = self._readback()
        if changed <= MAX_SPRINGS_CHANGED * active:
            return True
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
            self._launch(clear_springs, count - self.count, [self.count, self.springs])
            self.count = count

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
        self._launch.split(add_impulses, count, [contacts, self._h, self.springs])
        self._loads.store(contacts, self.springs.load, count)

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


@wp.func
def spring_target(contacts: ContactArrays, t: wp.int32) -> real:
    """The target of a spring. Overlaps are recovered by impulses, which add no velocity."""
    return wp.min(contacts.target[t], real(0.0))


@wp.kernel
def clear_springs(first: wp.int32, springs_out: ContactSpringArrays):
    """Makes springs that do not act, without a load."""
    t = first + wp.tid()
    springs_out.active[t] = 0
    springs_out.in_system[t] = 0
    springs_out.load[t] = real(0.0)
    springs_out.slip[t] = real(0.0)


@wp.kernel
def prepare_springs(
    # in
    first: wp.int32, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), contacts: ContactArrays,
    # in and out
    springs_out: ContactSpringArrays,
):  # fmt: skip
    """Chooses the springs that act: those with a load, unless they separate, and those that velocities compress."""
    t = first + wp.tid()
    at, w, n, tau = contacts.vertices[t], contacts.weights[t], contacts.normal[t], contacts.thickness[t]
    r = combine(w, x_end[at[0]] - x[at[0]], x_end[at[1]] - x[at[1]], x_end[at[2]] - x[at[2]], x_end[at[3]] - x[at[3]])
    along = wp.dot(n, r)
    if along > MAX_SEPARATION * tau:
        springs_out.load[t] = real(0.0)
    springs_out.slip[t] = wp.length(r - along * n)
    acts = springs_out.load[t] > real(0.0) or along < spring_target(contacts, t)
    springs_out.active[t] = wp.where(acts and contacts.effective_inverse_mass[t] > TINY, 1, 0)


@wp.func
def relative_motion(
    at: wp.vec4i, w: vec4, x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), moving_count: wp.int32,
    x: wp.array(dtype=vec3),
) -> vec3:  # fmt: skip
    """Displacement of the closest points relative to each other, with the particles at x."""
    r = vec3()
    for a in range(4):
        i = at[a]
        if i < moving_count:
            r += w[a] * (x[i] - x_start[i])
        else:  # solids have prescribed motion and are not in the system
            r += w[a] * (x_end[i] - x_start[i])
    return r


@wp.func
def spring_block(n: vec3, k: real, c: real) -> mat33:
    """- d force / d r [N/m]."""
    return c * identity() + (k - c) * wp.outer(n, n)


@wp.func
def spring_force(contacts: ContactArrays, t: wp.int32, load: real, k: real, c: real, r: vec3) -> vec3:
    """The force on the first element [N], where the closest points have moved by r relative to each other."""
    n = contacts.normal[t]
    along = wp.dot(n, r)
    return (load + k * (spring_target(contacts, t) - along)) * n - c * (r - along * n)


@wp.func
def friction_stiffness(contacts: ContactArrays, t: wp.int32, load: real, k: real, r: vec3, least: real) -> real:
    """c = mu lambda / slip, where the slip is at least `least` [N/m]."""
    n = contacts.normal[t]
    slip = wp.length(r - wp.dot(n, r) * n)
    slip = wp.max(wp.max(slip, least), SLIP_REGULARIZATION * contacts.thickness[t])
    return wp.min(contacts.mu[t] * load / slip, k)


@wp.func
def append_coupling(contacts: ContactArrays, t: wp.int32, moving_count: wp.int32, block: mat33, groups: CouplingGroups):
    """Appends the blocks of a spring between the particles of the system."""
    at, w = contacts.vertices[t], contacts.weights[t]
    particles, weights = wp.vec4i(), vec4()
    for a in range(4):
        if at[a] < moving_count:
            particles[a] = at[a]
            weights[a] = w[a]
    group = wp.atomic_add(groups.count, 0, 1)
    groups.particles[group] = particles
    groups.weights[group] = weights
    groups.blocks[group] = block


@wp.kernel
def add_springs(
    # model
    diagonal: wp.array(dtype=wp.int32), moving_count: wp.int32,
    # in
    x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), x: wp.array(dtype=vec3), h: real,
    contacts: ContactArrays,
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33), springs_out: ContactSpringArrays,
    # out
    couplings_out: CouplingGroups,
):  # fmt: skip
    """Adds the springs that act to the force, the diagonal of A and the couplings."""
    t = wp.tid()
    springs_out.in_system[t] = springs_out.active[t]
    if springs_out.active[t] == 0:
        return
    at, w, load = contacts.vertices[t], contacts.weights[t], springs_out.load[t]
    k = STIFFNESS_RATIO / (contacts.effective_inverse_mass[t] * h * h)
    r = relative_motion(at, w, x_start, x_end, moving_count, x)
    c = friction_stiffness(contacts, t, load, k, r, springs_out.slip[t])
    springs_out.slip[t] = real(0.0)  # from the next solve on the slip is that of the solved positions
    springs_out.stiffness[t] = k
    springs_out.friction_stiffness[t] = c
    force = spring_force(contacts, t, load, k, c, r)
    block = (h * h) * spring_block(contacts.normal[t], k, c)
    for a in range(4):
        if at[a] < moving_count:
            wp.atomic_add(f_out, at[a], w[a] * force)
            wp.atomic_add(A_out, diagonal[at[a]], (w[a] * w[a]) * block)
    append_coupling(contacts, t, moving_count, block, couplings_out)


@wp.kernel
def judge_springs(
    # in
    moving_count: wp.int32, x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), x: wp.array(dtype=vec3),
    contacts: ContactArrays, last: wp.bool,
    # in and out
    springs_out: ContactSpringArrays,
    # out
    counts_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Loads become the forces of the solve. Springs that pull no longer act, missing ones do; both are counted."""
    t = wp.tid()
    at, w, tau, k = contacts.vertices[t], contacts.weights[t], contacts.thickness[t], springs_out.stiffness[t]
    r = relative_motion(at, w, x_start, x_end, moving_count, x)
    stretch = wp.dot(contacts.normal[t], r) - spring_target(contacts, t)
    if springs_out.in_system[t] == 1:
        wp.atomic_add(counts_out, ACTIVE, 1)
        springs_out.force[t] = spring_force(contacts, t, springs_out.load[t], k, springs_out.friction_stiffness[t], r)
        load = springs_out.load[t] - k * stretch
        springs_out.load[t] = wp.max(load, real(0.0))
        if load < -k * PULL_TOLERANCE * tau:
            springs_out.active[t] = 0
            wp.atomic_add(counts_out, CHANGED, 1)
    elif not last and stretch < -MISS_TOLERANCE * tau and contacts.effective_inverse_mass[t] > TINY:
        springs_out.active[t] = 1
        springs_out.load[t] = real(0.0)
        wp.atomic_add(counts_out, CHANGED, 1)


@wp.kernel
def correct_springs(
    # model
    diagonal: wp.array(dtype=wp.int32), moving_count: wp.int32,
    # in
    x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), x: wp.array(dtype=vec3), h: real,
    contacts: ContactArrays,
    # in and out
    springs_out: ContactSpringArrays, A_out: wp.array(dtype=mat33), b_out: wp.array(dtype=vec3),
    # out
    couplings_out: CouplingGroups,
):  # fmt: skip
    """Replaces the springs of the last solve, in A and in its residual b, by those that act now."""
    t = wp.tid()
    at, w, n = contacts.vertices[t], contacts.weights[t], contacts.normal[t]
    force, block, whole = vec3(), mat33(), mat33()
    if springs_out.in_system[t] == 1:
        force -= springs_out.force[t]
        block -= (h * h) * spring_block(n, springs_out.stiffness[t], springs_out.friction_stiffness[t])
    if springs_out.active[t] == 1:
        r = relative_motion(at, w, x_start, x_end, moving_count, x)
        k = STIFFNESS_RATIO / (contacts.effective_inverse_mass[t] * h * h)
        c = friction_stiffness(contacts, t, springs_out.load[t], k, r, real(0.0))
        springs_out.stiffness[t] = k
        springs_out.friction_stiffness[t] = c
        force += spring_force(contacts, t, springs_out.load[t], k, c, r)
        whole = (h * h) * spring_block(n, k, c)
        append_coupling(contacts, t, moving_count, whole, couplings_out)
    if springs_out.in_system[t] == 1 or springs_out.active[t] == 1:
        for a in range(4):
            if at[a] < moving_count:
                wp.atomic_add(b_out, at[a], (h * w[a]) * force)
                wp.atomic_add(A_out, diagonal[at[a]], (w[a] * w[a]) * (block + whole))
    springs_out.in_system[t] = springs_out.active[t]


@wp.kernel
def add_impulses(first: wp.int32, contacts: ContactArrays, h: real, springs_out: ContactSpringArrays):
    """Adds the normal impulse of each contact in h to the load of its spring."""
    t = first + wp.tid()
    springs_out.load[t] = springs_out.load[t] + contacts.normal_impulse[t] / (h * h)
