"""The contacts of every particle with solids: what is known of each, in arrays that kernels share.

A particle touches at most three solids; each contact is one slot, and the first is the one whose friction matters most.
What the contacts of a particle do together is in _faces.py, what state they are in and when it changes in _modes.py,
what they hold in _holding.py.

Source      [BW98] secs. 5.1, 5.4
Symbols     mu  friction
Deviations  none
"""

from typing import Any

import numpy as np
import warp as wp

from toile.device.launcher import SHARE
from toile.device.readback import Readback
from toile.math.types import real, vec3
from toile.model.state_dict import StateDict

MAX_CONTACTS = wp.constant(3)  # contacts of a particle
FREE, SLIDING, LOCKED = wp.constant(0), wp.constant(1), wp.constant(2)

UNKNOWN = wp.constant(real(-1.0))  # load of a contact that no solve has known yet

# Places of the counts: contacts that a solve did not know of or that pulled, those whose friction is far from
# Coulomb's, those where it is not close to it, all.
WRONG, GROSS, FRICTION_INEXACT, IN_CONTACT, COUNTS = (wp.constant(place) for place in range(5))
BLOCK = wp.constant(SHARE)  # particles that one thread counts, at least


@wp.struct
class SolidContactArrays:
    """Per particle, and per slot (slot k of particle i is 3 i + k)."""

    mode: wp.array(dtype=wp.int32)
    count: wp.array(dtype=wp.int32)
    changes: wp.array(dtype=wp.int32)  # of state in this step
    stops: wp.array(dtype=wp.int32)  # steps in a row at whose end it had stopped
    slip: wp.array(dtype=vec3)  # [m/s]  velocity relative to the solid that friction is linearized at
    limit: wp.array(dtype=real)  # [N]  the largest friction
    recovery: wp.array(dtype=vec3)  # [m]  what brings it out of solids that the last solve did not know of
    solid: wp.array(dtype=wp.int32)
    face: wp.array(dtype=wp.int32)
    anchor: wp.array(dtype=vec3)  # the particle in coordinates of the solid's material
    inner_normal: wp.array(dtype=vec3)  # in the solid's frame
    normal: wp.array(dtype=vec3)
    plane: wp.array(dtype=vec3)  # [m]  a point of the plane that it may not cross
    stick: wp.array(dtype=vec3)  # [m]  where the material that it touches will be
    velocity: wp.array(dtype=vec3)  # [m/s]  of that material
    lasting: wp.array(dtype=wp.int32)  # 1: it touched the solid before this step, and `stick` is where that carries it
    target: wp.array(dtype=real)  # [m]  the distance from the surface that it is brought to
    mu: wp.array(dtype=real)
    load: wp.array(dtype=real)  # [N]  normal force
    # Of solid s and particle i, entry s * particles + i:
    clearance: wp.array(dtype=real)  # [m]  distance, or a lower bound of it
    exerted: wp.array(dtype=vec3)  # [N]  force on the particle in the last solve


PER_PARTICLE = {
    "mode": wp.int32, "count": wp.int32, "changes": wp.int32, "stops": wp.int32, "slip": vec3, "limit": real,
    "recovery": vec3,
}  # fmt: skip
PER_SLOT = {
    "solid": wp.int32, "face": wp.int32, "anchor": vec3, "inner_normal": vec3, "normal": vec3, "plane": vec3,
    "stick": vec3, "velocity": vec3, "lasting": wp.int32, "target": real, "mu": real, "load": real,
}  # fmt: skip


def make_solid_contacts(particles: int, solids: int, device: str) -> SolidContactArrays:
    contacts = SolidContactArrays()
    for name, kind in PER_PARTICLE.items():
        setattr(contacts, name, wp.zeros(particles, dtype=kind, device=device))
    for name, kind in PER_SLOT.items():
        setattr(contacts, name, wp.zeros(3 * particles, dtype=kind, device=device))
    contacts.clearance = wp.zeros(solids * particles, dtype=real, device=device)
    contacts.exerted = wp.zeros(solids * particles, dtype=vec3, device=device)
    return contacts


def contacts_state_dict(contacts: SolidContactArrays) -> StateDict:
    """All but forces, which every solve finds anew; of the slots those that are in use."""
    used = _slots_in_use(contacts)
    return {
        "clearance": contacts.clearance.numpy(),
        **{name: getattr(contacts, name).numpy() for name in PER_PARTICLE},
        **{name: getattr(contacts, name).numpy().take(used, axis=0) for name in PER_SLOT},
    }


def load_contacts(state_dict: StateDict, contacts_out: SolidContactArrays) -> None:
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
    """For each block of particles that a range of a launch may begin with."""
    return wp.zeros(int(COUNTS) * (particles // SHARE + 1), dtype=wp.int32, device=device)


def total(counts: Readback) -> np.ndarray:
    summed: np.ndarray = counts().reshape(-1, int(COUNTS)).sum(axis=0)
    return summed


@wp.func
def count_one(counts: wp.array(dtype=wp.int32), what: wp.int32, first: wp.int32):
    """Threads count apart: `first` is where the range of this one begins."""
    wp.atomic_add(counts, COUNTS * (first // BLOCK) + what, 1)


@wp.func
def slot_of(contacts: SolidContactArrays, i: wp.int32, solid: wp.int32) -> wp.int32:
    """The slot of a particle's contact with a solid, or -1."""
    found = wp.int32(-1)
    for k in range(contacts.count[i]):
        if contacts.solid[MAX_CONTACTS * i + k] == solid:
            found = MAX_CONTACTS * i + k
    return found


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
    exchange(contacts.lasting, a, b)
    exchange(contacts.target, a, b)
    exchange(contacts.mu, a, b)
    exchange(contacts.load, a, b)


@wp.func
def drop(contacts: SolidContactArrays, i: wp.int32, k: wp.int32):
    """Forgets slot k of particle i; later ones move up."""
    last = contacts.count[i] - 1
    for j in range(k, last):
        exchange_slots(contacts, MAX_CONTACTS * i + j, MAX_CONTACTS * i + j + 1)
    contacts.count[i] = last
