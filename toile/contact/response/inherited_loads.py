"""Loads of contacts from one step to the next: a pair in contact starts with the load and friction that it ended with.

Pairs are matched in a hash table with linear probing, keyed by the vertices of a pair. Of a pair with several contacts
the largest load counts, and the friction that belongs to it. Pairs without a load are known, too: a spring that a solve
released stays released.

Source      none
Deviations  none
"""

import numpy as np
import warp as wp

from toile.contact.narrow_phase.contact_set import ContactArrays
from toile.device.launcher import Launcher
from toile.math.types import numpy_real, real, vec3
from toile.model.state_dict import StateDict

# Slots of the table, at least, per contact: collisions are rare.
SLOTS_PER_CONTACT = 2
# Odd, and without a pattern.
HASH_MULTIPLIER = wp.constant(wp.uint32(0x9E3779B1))


@wp.struct
class LoadTable:
    """Pairs and loads of a step, and a table of indices into them; -1 is an empty slot."""

    mask: wp.int32  # slots less one
    slots: wp.array(dtype=wp.int32)
    vertices: wp.array(dtype=wp.vec4i)
    kind: wp.array(dtype=wp.int32)
    load: wp.array(dtype=real)  # [N]
    friction: wp.array(dtype=vec3)  # [N]


TABLE_FIELDS = (("vertices", wp.vec4i), ("kind", wp.int32), ("load", real), ("friction", vec3))


class InheritedLoads:
    """Keeps the loads of the contacts of a step."""

    def __init__(self, device: str):
        self.device, self.count, self._capacity = device, 0, -1
        self._reserve(0)

    def store(self, contacts: ContactArrays, load: wp.array, friction: wp.array, count: int) -> None:
        """Stores the contacts of a step with their loads and friction [N]; those with a negative load are forgotten."""
        self._reserve(count)
        self.count = count
        if count:
            wp.copy(self._table.vertices, contacts.vertices, count=count)
            wp.copy(self._table.kind, contacts.kind, count=count)
            wp.copy(self._table.load, load, count=count)
            wp.copy(self._table.friction, friction, count=count)
        self._fill()

    def look_up(self, contacts: ContactArrays, count: int, load_out: wp.array, friction_out: wp.array) -> None:
        """Finds the load and friction [N] of each contact in the step before; the load of a new one is -1."""
        self._launch.split(look_up, count, [self._table, contacts, load_out, friction_out])

    def state_dict(self) -> StateDict:
        """The pairs that are known, with their loads and friction."""
        arrays = {name: getattr(self._table, name).numpy()[: self.count] for name, _ in TABLE_FIELDS}
        known = arrays["load"] >= 0.0
        return {name: values[known] for name, values in arrays.items()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        load = np.asarray(state_dict["load"], numpy_real)
        self.count = len(load)
        self._reserve(self.count)
        for name, kind in TABLE_FIELDS:
            if self.count:
                given = wp.array(np.asarray(state_dict[name]), dtype=kind, device=self.device)
                wp.copy(getattr(self._table, name), given, count=self.count)
        self._fill()

    def _fill(self) -> None:
        self._table.slots.fill_(-1)
        self._launch(insert, self.count, [self._table])

    def _reserve(self, count: int) -> None:
        if count <= self._capacity:
            return
        self._capacity = 2 * count
        slots = 1 << (SLOTS_PER_CONTACT * max(self._capacity, 1) - 1).bit_length()
        self._table = table = LoadTable()
        table.mask = slots - 1
        table.slots = wp.full(slots, -1, dtype=wp.int32, device=self.device)
        for name, kind in TABLE_FIELDS:
            setattr(table, name, wp.zeros(self._capacity, dtype=kind, device=self.device))
        self._launch = Launcher(self.device)  # the old one keeps launches with the old arrays


@wp.func
def add_to_hash(index: wp.uint32, value: wp.int32) -> wp.uint32:
    """Adds a value to a hash."""
    product = (index ^ wp.uint32(value)) * HASH_MULTIPLIER
    return product ^ (product >> wp.uint32(15))


@wp.func
def first_slot(kind: wp.int32, at: wp.vec4i, mask: wp.int32) -> wp.int32:
    """The slot in which the search for a pair starts."""
    index = add_to_hash(wp.uint32(kind + 1), at[0])
    index = add_to_hash(add_to_hash(add_to_hash(index, at[1]), at[2]), at[3])
    return wp.int32(index & wp.uint32(mask))


@wp.kernel
def insert(table_out: LoadTable):
    """Inserts each contact that is not to be forgotten into the table; equal pairs take several slots."""
    k = wp.tid()
    if table_out.load[k] < real(0.0):
        return
    slot = first_slot(table_out.kind[k], table_out.vertices[k], table_out.mask)
    while wp.atomic_cas(table_out.slots, slot, -1, k) >= 0:
        slot = (slot + 1) & table_out.mask


@wp.kernel
def look_up(
    # in
    first: wp.int32, table: LoadTable, contacts: ContactArrays,
    # out
    load_out: wp.array(dtype=real), friction_out: wp.array(dtype=vec3),
):  # fmt: skip
    """The largest load of the same pair in the table, with its friction; -1 if it is not there."""
    k = first + wp.tid()
    kind, at = contacts.kind[k], contacts.vertices[k]
    best = wp.int32(-1)
    slot = first_slot(kind, at, table.mask)
    entry = table.slots[slot]
    while entry >= 0:
        if table.vertices[entry] == at and table.kind[entry] == kind:
            larger = best < 0
            if best >= 0:
                more = table.load[entry] - table.load[best]
                larger = more > real(0.0) or (more == real(0.0) and entry < best)
            if larger:
                best = entry
        slot = (slot + 1) & table.mask
        entry = table.slots[slot]
    load, friction = real(-1.0), vec3()
    if best >= 0:
        load = real(1.0) * table.load[best]
        friction = real(1.0) * table.friction[best]
    load_out[k] = load
    friction_out[k] = friction
