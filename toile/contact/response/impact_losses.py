"""The kinetic energy that contacts between cloths take in a step.

    loss = - sum over contacts of J n . (r + r_end) / 2,    J = h n . f + lambda

It is what inelastic impacts cost: contacts that rest take nothing, and friction is left out.

Source      none
Symbols     J  impulse of a contact along its normal n [kg m/s]     f  force of its spring [N]
            lambda  impulse of the sweeps over velocities [kg m/s]     h  step of the integrator's scheme [s]
            r, r_end  relative velocities of the closest points before and after the step [m/s]
Deviations  none
"""

import numpy as np
import warp as wp

from toile.contact.collision_mesh import CollisionMesh
from toile.contact.narrow_phase.contact_set import ContactArrays
from toile.contact.narrow_phase.elements import EDGE_EDGE
from toile.contact.response.contact_springs import ContactSprings
from toile.contact.response.resolve import ContactResolver
from toile.contact.response.spring_kernels import ContactSpringArrays
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import numpy_real, real, vec3
from toile.step_limits import AT_REST

# Indices of the sums.
LOSS, KINETIC = wp.constant(0), wp.constant(1)


class ImpactLosses:
    """The loss of a step, relative to the kinetic energy that it began with."""

    def __init__(self, mesh: CollisionMesh, springs: ContactSprings, resolver: ContactResolver):
        self._mesh, self._springs, self._resolver = mesh, springs, resolver
        self._masses = wp.array(mesh.masses.astype(numpy_real), dtype=real, device=mesh.device)
        self._mass = float(np.sum(mesh.masses))
        self._sums = wp.zeros(2, dtype=real, device=mesh.device)
        self._readback = Readback(self._sums)
        self._launch = Launcher(mesh.device)

    def exceed(self, fraction: float, v: wp.array) -> bool:
        """Whether contacts took more than a fraction of the kinetic energy of v, the velocities at the start."""
        mesh, springs, contact_set = self._mesh, self._springs, self._resolver.contact_set
        count = contact_set.contact_count
        if not count:
            return False
        springs.include_new()
        self._sums.zero_()
        inputs = [contact_set.contacts, springs.springs, springs.h, self._resolver.velocity_impulses.normal]
        self._launch(add_losses, count, [*inputs, v, mesh.v_end, mesh.moving_count, self._sums])
        self._launch(add_kinetic_energy, mesh.moving_count, [self._masses, v, self._sums])
        loss, kinetic = self._readback().tolist()
        at_rest = 0.5 * self._mass * (AT_REST * mesh.thickest / springs.h) ** 2
        return bool(loss > fraction * kinetic and kinetic > at_rest)


@wp.kernel
def add_losses(
    # in
    contacts: ContactArrays, springs: ContactSpringArrays, h: real, impulse_v: wp.array(dtype=real),
    v: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3), moving_count: wp.int32,
    # in and out
    sums_out: wp.array(dtype=real),
):  # fmt: skip
    """Adds the losses of all contacts. Vertices of solids have one velocity for the whole step."""
    t = wp.tid()
    if contacts.kind[t] > EDGE_EDGE:
        return  # a limit of stretch
    at, w, n = contacts.vertices[t], contacts.weights[t], contacts.normal[t]
    impulse = real(1.0) * impulse_v[t]
    if springs.in_system[t] == 1:
        impulse += h * wp.dot(springs.force[t], n)
    if impulse == real(0.0):
        return
    both = real(0.0)
    for a in range(4):
        i = at[a]
        both += w[a] * wp.dot(n, v_end[i])
        if i < moving_count:
            both += w[a] * wp.dot(n, v[i])
        else:
            both += w[a] * wp.dot(n, v_end[i])
    wp.atomic_add(sums_out, LOSS, -real(0.5) * impulse * both)


@wp.kernel
def add_kinetic_energy(
    # in
    masses: wp.array(dtype=real), v: wp.array(dtype=vec3),
    # in and out
    sums_out: wp.array(dtype=real),
):  # fmt: skip
    """Adds the kinetic energy of all particles."""
    i = wp.tid()
    wp.atomic_add(sums_out, KINETIC, real(0.5) * masses[i] * wp.length_sq(v[i]))
