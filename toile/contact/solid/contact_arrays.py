"""Arrays of the contacts between particles and solids, which all kernels of this folder share.

A particle has at most three contacts, each with another solid. Each contact is one slot; the first slot is the contact
that leads: the one with the largest friction. faces.py combines the contacts of one particle, modes.py decides whether
they lock, slide or release, holding.py turns them into constraints.

Source      [BW98] secs. 5.1, 5.4
Symbols     mu  friction
Deviations  none
"""

from typing import Any

import numpy as np
import warp as wp

from toile.device.launcher import SHARE
from toile.device.readback import Readback
from toile.math.solid import Pose
from toile.math.types import real, vec3
from toile.model.state_dict import StateDict

MAX_CONTACTS = wp.constant(3)  # contacts of a particle
FREE, SLIDING, LOCKED, PINCHED = wp.constant(0), wp.constant(1), wp.constant(2), wp.constant(3)

# In contact before this step: `stick` is carried along from there. Too far for contact, but near enough to pinch a
# particle that is in contact with another solid.
LASTING, OPPOSES = wp.constant(1), wp.constant(2)

UNKNOWN = wp.constant(real(-1.0))  # load of a contact that was not part of any solve yet

# Indices of the counters: contacts that the solve missed or that pulled, contacts whose friction is far from Coulomb's,
# contacts whose friction is not close to it, all contacts, and pinched particles.
WRONG, GROSS, FRICTION_INEXACT, IN_CONTACT, IN_PINCH, COUNTS = (wp.constant(place) for place in range(6))
BLOCK = wp.constant(SHARE)  # particles per counter, at least: threads count separately


@wp.struct
class SolidContactArrays:
    """Fields per particle first, then per slot; slot k of particle i has index 3 i + k."""

    offset: real  # [m]  by which layers that are pinched may be off the surface of minima
    mode: wp.array(dtype=wp.int32)
    count: wp.array(dtype=wp.int32)
    planes: wp.array(dtype=wp.int32)  # number of contacts that keep impulses from moving it; -1 if it is pinched
    slack: wp.array(dtype=real)  # [m]  by which impulses may move it towards solids
    # Solids that pinch it, and that did in the step before; -1 for none. A solid s of the step before is -2 - s if the
    # particle was in front of it.
    pinched_by: wp.array(dtype=wp.vec4i)
    eased: wp.array(dtype=vec3)  # [m]  from the surface of minima to where it is held, besides `offset`
    changes: wp.array(dtype=wp.int32)  # number of changes of state in this step
    stops: wp.array(dtype=wp.int32)  # number of consecutive steps at whose end it did not slip
    slip: wp.array(dtype=vec3)  # [m/s]  velocity relative to the solid that friction is linearized at
    limit: wp.array(dtype=real)  # [N]  largest friction force
    recovery: wp.array(dtype=vec3)  # [m]  displacement out of solids that the last solve missed
    x_checked: wp.array(dtype=vec3)  # [m]  where the last solve led, after which `clearance` was measured
    solid: wp.array(dtype=wp.int32)
    face: wp.array(dtype=wp.int32)
    anchor: wp.array(dtype=vec3)  # position in the coordinates of the solid's material
    inner_normal: wp.array(dtype=vec3)  # in the solid's frame
    normal: wp.array(dtype=vec3)
    plane: wp.array(dtype=vec3)  # [m]  a point of the plane that the particle may not cross
    stick: wp.array(dtype=vec3)  # [m]  where the material in contact is at the end of the step
    velocity: wp.array(dtype=vec3)  # [m/s]  velocity of that material
    carried: wp.array(dtype=vec3)  # [m]  where the solid's material would carry the particle in the step
    lasting: wp.array(dtype=wp.int32)  # LASTING, OPPOSES, or 0
    target: wp.array(dtype=real)  # [m]  distance from the surface at which the particle is held
    mu: wp.array(dtype=real)
    load: wp.array(dtype=real)  # [N]  normal force
    # Fields per pair; solid s and particle i have index s * particles + i:
    clearance: wp.array(dtype=real)  # [m]  distance from the surface, or a lower bound of it
    exerted: wp.array(dtype=vec3)  # [N]  force on the particle in the last solve


@wp.struct
class SolidParameters:
    """Constants of one solid for the detection kernels, made once."""

    solid: wp.int32
    poses: wp.array(dtype=Pose)
    mu: real
    gap: real  # [m]  distance at which cloth is held


PER_PARTICLE = {
    "mode": wp.int32, "count": wp.int32, "planes": wp.int32, "slack": real, "pinched_by": wp.vec4i, "eased": vec3,
    "changes": wp.int32, "stops": wp.int32, "slip": vec3, "limit": real, "recovery": vec3, "x_checked": vec3,
}  # fmt: skip
PER_SLOT = {
    "solid": wp.int32, "face": wp.int32, "anchor": vec3, "inner_normal": vec3, "normal": vec3, "plane": vec3,
    "stick": vec3, "velocity": vec3, "carried": vec3, "lasting": wp.int32, "target": real, "mu": real, "load": real,
}  # fmt: skip


def make_solid_contacts(
    particles: int, solids: int, offset: float, device: str
) -> tuple[SolidContactArrays, SolidContactArrays]:
    """Allocates the contacts of the present step and of the step before."""
    now, before = (_make_arrays(particles, solids, device) for _ in range(2))
    now.offset = before.offset = offset
    return now, before


def _make_arrays(particles: int, solids: int, device: str) -> SolidContactArrays:
    contacts = SolidContactArrays()
    for name, kind in PER_PARTICLE.items():
        setattr(contacts, name, wp.zeros(particles, dtype=kind, device=device))
    for name, kind in PER_SLOT.items():
        setattr(contacts, name, wp.zeros(3 * particles, dtype=kind, device=device))
    contacts.pinched_by.fill_(-1)
    contacts.clearance = wp.zeros(solids * particles, dtype=real, device=device)
    contacts.exerted = wp.zeros(solids * particles, dtype=vec3, device=device)
    return contacts


def contacts_state_dict(contacts: SolidContactArrays) -> StateDict:
    """Everything but forces, which every solve computes anew; only the slots in use."""
    used = _slots_in_use(contacts)
    return {
        "clearance": contacts.clearance.numpy(),
        **{name: getattr(contacts, name).numpy() for name in PER_PARTICLE},
        **{name: getattr(contacts, name).numpy().take(used, axis=0) for name in PER_SLOT},
    }


def load_contacts(state_dict: StateDict, contacts_out: SolidContactArrays) -> None:
    """Restores what `contacts_state_dict` holds."""
    for name in ("clearance", *PER_PARTICLE):
        getattr(contacts_out, name).assign(state_dict[name])
    used = _slots_in_use(contacts_out)
    for name in PER_SLOT:
        array = getattr(contacts_out, name)
        values = array.numpy().copy()
        values[used] = state_dict[name]
        array.assign(values)


def _slots_in_use(contacts: SolidContactArrays) -> np.ndarray:
    return np.flatnonzero(np.arange(int(MAX_CONTACTS)) < contacts.count.numpy()[:, None])


def make_counts(particles: int, device: str) -> wp.array:
    """Allocates counters for every block of particles that a range of a launch may begin with."""
    return wp.zeros(int(COUNTS) * (particles // SHARE + 1), dtype=wp.int32, device=device)


def total(counts: Readback) -> np.ndarray:
    """Sums the counters of all ranges."""
    summed: np.ndarray = counts().reshape(-1, int(COUNTS)).sum(axis=0)
    return summed


@wp.func
def count_one(counts: wp.array(dtype=wp.int32), what: wp.int32, first: wp.int32):
    """Increments a counter of the range that begins at `first`."""
    wp.atomic_add(counts, COUNTS * (first // BLOCK) + what, 1)


@wp.func
def slot_of(contacts: SolidContactArrays, i: wp.int32, solid: wp.int32) -> wp.int32:
    """Returns the slot of a particle's contact with a solid, or -1."""
    found = wp.int32(-1)
    for k in range(contacts.count[i]):
        if contacts.solid[MAX_CONTACTS * i + k] == solid:
            found = MAX_CONTACTS * i + k
    return found


@wp.func
def note_pinched(contacts: SolidContactArrays, i: wp.int32, before: SolidContactArrays):
    """Notes, when a step begins, the solids that pinch a particle or did in the step before."""
    a = MAX_CONTACTS * i
    by = wp.vec4i(-1, -1, -1, -1)
    if contacts.mode[i] == PINCHED:
        by = wp.vec4i(contacts.solid[a], contacts.solid[a + 1], -1, -1)
    if before.mode[i] == PINCHED:
        for k in range(2):
            s = before.solid[a + k]
            in_front = contacts.clearance[s * contacts.mode.shape[0] + i] > real(0.0)
            by[2 + k] = wp.where(in_front, -2 - s, s)
    contacts.pinched_by[i] = by


@wp.func
def exchange(values: wp.array(dtype=Any), a: wp.int32, b: wp.int32):
    kept = values[a]
    values[a] = values[b]
    values[b] = kept


@wp.func
def exchange_slots(contacts: SolidContactArrays, a: wp.int32, b: wp.int32):
    exchange(contacts.solid, a, b)
    exchange(contacts.face, a, b)
    exchange(contacts.anchor, a, b)
    exchange(contacts.inner_normal, a, b)
    exchange(contacts.normal, a, b)
    exchange(contacts.plane, a, b)
    exchange(contacts.stick, a, b)
    exchange(contacts.velocity, a, b)
    exchange(contacts.carried, a, b)
    exchange(contacts.lasting, a, b)
    exchange(contacts.target, a, b)
    exchange(contacts.mu, a, b)
    exchange(contacts.load, a, b)


@wp.func
def drop(contacts: SolidContactArrays, i: wp.int32, k: wp.int32):
    """Removes slot k of particle i; later slots move up."""
    last = contacts.count[i] - 1
    for j in range(k, last):
        exchange_slots(contacts, MAX_CONTACTS * i + j, MAX_CONTACTS * i + j + 1)
    contacts.count[i] = last
