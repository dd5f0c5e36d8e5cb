"""Persistent contacts in the linear system of a step: compliant springs that keep pairs apart during the solve.

    f_a = w_a (k (target - n . r) n - c (r - n (n . r)))        r = sum of w_a (x_a - x_a(start))
    k = STIFFNESS_RATIO / (K h^2),    c = mu lambda / (h^2 slip),    at most k

Impulses alone move the particles in contact and not their neighbors: without these springs the solve lets folds
collapse and draws cloth in from around, and impulses push it out again, step after step. So each step has a warm start:
contacts that carried a load in the step before are part of its system, with the normal impulses of that step as loads.
New contacts are added to the system in a second solve, where impulses stretched the cloth much. A spring that pulls is
removed, and the step solved again. The friction limit is mu times the load of the step before; its coefficient uses the
slip predicted from the velocities.

Source      none; [BW98] sec. 6 has springs between cloths
Symbols     K  effective inverse mass of the closest points [1/kg]     h  step [s]     slip  across n [m]
            w, n, target  as in narrow_phase/contact_set.py     lambda  normal impulse, the load times h^2 [kg m]
Deviations  none
"""

from typing import TYPE_CHECKING

import warp as wp

from toile.contact.collision_mesh import CollisionMesh
from toile.contact.narrow_phase.closest_points import closest_points, combine, effective_inverse_mass
from toile.contact.narrow_phase.contact_set import CLOSE_DISTANCE, ContactArrays, ContactSet, on_boundary
from toile.contact.response.merge_contacts import ContactList, ContactMerger, copy_contact
from toile.device.growable import Growable
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.linear.block_matrix import BlockMatrix, CouplingGroups, Couplings
from toile.math.types import TINY, identity, mat33, real, vec3, vec4
from toile.model.state_dict import StateDict
from toile.step_limits import MAX_PERSISTENT_SOLVES, MAX_PULLING

if TYPE_CHECKING:
    from toile.system.terms import Linearization

# k h^2 K. It is large because the four particles must also stop the cloth around them. The solver's iterations grow
# with its root where its preconditioner, such as a factor, does not include the couplings.
STIFFNESS_RATIO = wp.constant(real(1000.0))
# Separation in a step above which a contact is dropped, as a fraction of the thickness.
MAX_SEPARATION = wp.constant(real(0.1))
# A spring that is stretched by more than this fraction of the thickness pulls.
PULL_TOLERANCE = wp.constant(real(0.02))
# Slip in a step below which friction is proportional to it, as a fraction of the thickness.
SLIP_REGULARIZATION = wp.constant(real(0.002))


@wp.struct
class ContactSpringArrays(Growable):
    """Properties of the springs that contacts have in the linear system."""

    stiffness: wp.array(dtype=real)  # [N/m]  k
    friction_stiffness: wp.array(dtype=real)  # [N/m]  c
    load: wp.array(dtype=real)  # [kg m]  normal force times h^2
    slip: wp.array(dtype=real)  # [m]  that velocities lead to


class PersistentContacts:
    """The contact springs of a step (terms.ContactForce).

    They start as the contacts of the step before (warm start); `add_new_contacts` adds those of this step.
    """

    name = "self_contact"

    def __init__(self, mesh: CollisionMesh, contact_set: ContactSet):
        self.mesh, self.contact_set = mesh, contact_set
        self.couplings = Couplings(mesh.device)
        # The springs of this step, the contacts that the next step starts with, and a list to fill.
        self._springs, self._warm_start, self._spare = (ContactList(mesh.device) for _ in range(3))
        self._merger = ContactMerger(mesh.device)
        self._solves, self._h, self._warm_start_h = 0, 0.0, 0.0
        self._launch = Launcher(mesh.device)
        self._values = self._make_values(0)
        self._counts = wp.zeros(2, dtype=wp.int32, device=mesh.device)
        self._readback = Readback(self._counts)
        self._x_start = mesh.x

    def add_new_contacts(self) -> None:
        """Adds the contacts with an impulse in this step to the linear system, for another solve."""
        self._merge()
        self._springs, self._spare = self._spare, self._springs
        self._reserve()
        self._values.slip.zero_()  # the slip is that of the solved positions
        self._x_start = self.mesh.x

    def store_warm_start(self) -> None:
        """Stores the loads of an accepted step for the warm start of the next."""
        self._merge()
        self._warm_start, self._spare, self._warm_start_h = self._spare, self._warm_start, self._h

    def state_dict(self) -> StateDict:
        """The contacts of the last step with their impulses, and its inverse masses: springs are made before these are
        updated."""
        return {"inverse_mass": self.mesh.inverse_mass.numpy(), "h": self._warm_start_h, **self._warm_start.numpy()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        self.mesh.inverse_mass.assign(state_dict["inverse_mass"])
        self._warm_start_h = float(state_dict["h"])
        self._warm_start.assign(state_dict)

    def detect(self, x: wp.array, v: wp.array, h: float) -> None:
        """Updates the contacts of the step before to x and v; those that separate are dropped."""
        self._x_start, self._h = x, h
        springs, count = self._springs, self._warm_start.count
        springs.reserve(count)
        springs.count = count
        self._reserve()
        ratio = (h / self._warm_start_h) ** 2 if self._warm_start_h else 1.0
        at = [x, v, h, ratio, self.mesh.moving_count]
        self._launch(update_warm_start, count, [self._warm_start.contacts, *at, springs.contacts, self._values.slip])

    def linearize(self, at: "Linearization", f_out: wp.array, A_out: BlockMatrix) -> None:
        c, mesh = self.couplings, self.mesh
        springs = self._springs
        if c.capacity < springs.count:
            c.reserve(springs.capacity)
            self._launch = Launcher(mesh.device)
        self._solves = 0
        c.count.fill_(springs.count)
        model = [A_out.diagonal, mesh.moving_count]
        inputs = [mesh.inverse_mass, self._x_start, mesh.x_end, at.x, at.h]
        out = [f_out, A_out.values, springs.contacts, self._values, self.couplings.groups]
        self._launch(add_springs, springs.count, [*model, *inputs, *out])

    def check(self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array) -> bool:
        """Removes springs that pull; False if more than MAX_PULLING did, and the step must be solved again."""
        count = self._springs.count
        if not count:
            return True
        self._solves += 1
        self._counts.zero_()
        model, inputs = [A_out.diagonal, self.mesh.moving_count], [self._x_start, self.mesh.x_end, x, h]
        system = [A_out.values, b_out, self.couplings.blocks]
        out = [*system, self._springs.contacts, self._values, self._counts]
        self._launch(remove_pulling_springs, count, [*model, *inputs, *out])
        pulling, active = self._readback()
        return bool(pulling <= MAX_PULLING * active) or self._solves >= MAX_PERSISTENT_SOLVES

    def _merge(self) -> None:
        """Merges springs with a load and contacts with an impulse into the spare list."""
        springs, contact_set = self._springs, self.contact_set
        contacts = contact_set.contacts
        old, new = self._values.load, contacts.normal_impulse
        lists = ((springs.contacts, springs.count, old), (contacts, contact_set.contact_count, new))
        self._merger.merge(lists, self._spare)

    def _reserve(self) -> None:
        """Makes the arrays of the springs as long as the list; their values are lost when they grow."""
        if len(self._values.load) < self._springs.count:
            self._values.retire()
            self._values = self._make_values(self._springs.capacity)
            self._launch = Launcher(self.mesh.device)

    def _make_values(self, capacity: int) -> ContactSpringArrays:
        values = ContactSpringArrays()
        values.stiffness, values.friction_stiffness, values.load, values.slip = (
            wp.zeros(capacity, dtype=real, device=self.mesh.device) for _ in range(4)
        )
        return values


@wp.kernel
def update_warm_start(
    # in
    previous: ContactArrays, x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, ratio: real,
    moving_count: wp.int32,
    # out
    contacts_out: ContactArrays, slip_out: wp.array(dtype=real),
):  # fmt: skip
    """Warm start: contacts of the step before at their new closest points, with the impulses scaled to the new step."""
    k = wp.tid()
    copy_contact(previous, k, contacts_out, k)
    at = previous.vertices[k]
    contacts_out.normal_impulse[k] = ratio * previous.normal_impulse[k]
    if at[0] >= moving_count or at[1] >= moving_count or at[2] >= moving_count or at[3] >= moving_count:
        contacts_out.normal_impulse[k] = real(0.0)
        return
    found = closest_points(previous.kind[k], x[at[0]], x[at[1]], x[at[2]], x[at[3]])
    w, tau = found.weights, previous.thickness[k]
    contacts_out.weights[k] = w
    contacts_out.normal[k] = found.normal
    # Overlaps are recovered by impulses, which add no velocity.
    contacts_out.target[k] = wp.min(tau - found.distance, real(0.0))
    displacement = h * combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])
    separation = wp.dot(found.normal, displacement)
    slip_out[k] = wp.length(displacement - separation * found.normal)
    if found.distance > CLOSE_DISTANCE * tau or separation > MAX_SEPARATION * tau or on_boundary(w):
        contacts_out.normal_impulse[k] = real(0.0)


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


@wp.struct
class ContactSpring:
    """Force and stiffness of a contact spring."""

    force: vec3  # [N]  on the first element
    block: mat33  # [N/m]  - d force / d r


@wp.func
def contact_spring(contacts: ContactArrays, t: wp.int32, k: real, c: real, r: vec3) -> ContactSpring:
    """The spring of a contact whose closest points have moved by r relative to each other."""
    found = ContactSpring()
    n = contacts.normal[t]
    across = identity() - wp.outer(n, n)
    found.block = k * wp.outer(n, n) + c * across
    found.force = k * (contacts.target[t] - wp.dot(n, r)) * n - c * (across * r)
    return found


@wp.kernel
def add_springs(
    # model
    diagonal: wp.array(dtype=wp.int32), moving_count: wp.int32,
    # in
    inverse_mass: wp.array(dtype=mat33), x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    x: wp.array(dtype=vec3), h: real,
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33), contacts_out: ContactArrays,
    springs_out: ContactSpringArrays,
    # out
    couplings_out: CouplingGroups,
):  # fmt: skip
    """Adds the springs of all contacts with a load to the force, the diagonal of A and the couplings."""
    t = wp.tid()
    couplings_out.particles[t] = wp.vec4i()
    couplings_out.weights[t] = vec4()
    couplings_out.blocks[t] = mat33()
    springs_out.load[t] = real(0.0)
    at = contacts_out.vertices[t]
    w = contacts_out.weights[t]
    n = contacts_out.normal[t]
    K = effective_inverse_mass(w, n, inverse_mass[at[0]], inverse_mass[at[1]], inverse_mass[at[2]], inverse_mass[at[3]])
    if contacts_out.normal_impulse[t] == real(0.0) or K < TINY:
        contacts_out.normal_impulse[t] = real(0.0)
        return
    k = STIFFNESS_RATIO / (K * h * h)
    r = relative_motion(at, w, x_start, x_end, moving_count, x)
    least = wp.max(springs_out.slip[t], SLIP_REGULARIZATION * contacts_out.thickness[t])
    slip = wp.max(wp.length(r - wp.dot(n, r) * n), least)
    c = wp.min(contacts_out.mu[t] * contacts_out.normal_impulse[t] / (h * h * slip), k)
    spring = contact_spring(contacts_out, t, k, c, r)
    particles, weights = wp.vec4i(), vec4()
    for a in range(4):
        i = at[a]
        if i < moving_count:
            particles[a] = i
            weights[a] = w[a]
            wp.atomic_add(f_out, i, w[a] * spring.force)
            wp.atomic_add(A_out, diagonal[i], (h * h * w[a] * w[a]) * spring.block)
    couplings_out.particles[t] = particles
    couplings_out.weights[t] = weights
    couplings_out.blocks[t] = (h * h) * spring.block
    springs_out.stiffness[t] = k
    springs_out.friction_stiffness[t] = c


@wp.kernel
def remove_pulling_springs(
    # model
    diagonal: wp.array(dtype=wp.int32), moving_count: wp.int32,
    # in
    x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), x: wp.array(dtype=vec3), h: real,
    # in and out
    A_out: wp.array(dtype=mat33), b_out: wp.array(dtype=vec3), blocks_out: wp.array(dtype=mat33),
    contacts_out: ContactArrays, springs_out: ContactSpringArrays,
    # out
    counts_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Removes springs that pull from the system and from its residual b; counts them, and all springs."""
    t = wp.tid()
    if contacts_out.normal_impulse[t] == real(0.0):
        return
    wp.atomic_add(counts_out, 1, 1)
    at = contacts_out.vertices[t]
    w = contacts_out.weights[t]
    r = relative_motion(at, w, x_start, x_end, moving_count, x)
    stretch = wp.dot(contacts_out.normal[t], r) - contacts_out.target[t]
    springs_out.load[t] = wp.max(-h * h * springs_out.stiffness[t] * stretch, real(0.0))
    if stretch < PULL_TOLERANCE * contacts_out.thickness[t]:
        return
    wp.atomic_add(counts_out, 0, 1)
    spring = contact_spring(contacts_out, t, springs_out.stiffness[t], springs_out.friction_stiffness[t], r)
    for a in range(4):
        i = at[a]
        if i < moving_count:
            wp.atomic_sub(b_out, i, (h * w[a]) * spring.force)
            wp.atomic_sub(A_out, diagonal[i], (h * h * w[a] * w[a]) * spring.block)
    blocks_out[t] = mat33()
    contacts_out.normal_impulse[t] = real(0.0)
