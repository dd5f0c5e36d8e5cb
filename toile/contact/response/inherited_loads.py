"""Loads of contacts from one step to the next: a pair in contact starts with the load that it ended with.

Pairs are matched in a hash table with linear probing, keyed by the vertices of a pair. Of a pair with several contacts
the largest load counts. Pairs without a load are known, too: a spring that a solve released stays released.

Source      none
Deviations  none
"""

import numpy as np
import warp as wp

from toile.contact.narrow_phase.contact_set import ContactArrays
from toile.device.launcher import Launcher
from toile.math.types import numpy_real, real
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


class InheritedLoads:
    """Keeps the loads of the contacts of a step."""

    def __init__(self, device: str):
        self.device, self.count, self._capacity = device, 0, -1
        self._reserve(0)

    def store(self, contacts: ContactArrays, load: wp.array, count: int) -> None:
        """Stores the contacts of a step with their loads [N]; those with a negative one are forgotten."""
        self._reserve(count)
        self.count = count
        if count:
            wp.copy(self._table.vertices, contacts.vertices, count=count)
            wp.copy(self._table.kind, contacts.kind, count=count)
            wp.copy(self._table.load, load, count=count)
        self._fill()

    def look_up(self, contacts: ContactArrays, count: int, load_out: wp.array) -> None:
        """Finds the load [N] of each contact in the step before; -1 for a new one."""
        self._launch.split(look_up, count, [self._table, contacts, load_out])

    def state_dict(self) -> StateDict:
        """The pairs that are known, with their loads."""
        table = self._table
        vertices, kind, load = (a.numpy()[: self.count] for a in (table.vertices, table.kind, table.load))
        known = load >= 0.0
        return {"vertices": vertices[known], "kind": kind[known], "load": load[known]}

    def load_state_dict(self, state_dict: StateDict) -> None:
        load = np.asarray(state_dict["load"], numpy_real)
        self.count = len(load)
        self._reserve(self.count)
        values = (("vertices", wp.vec4i), ("kind", wp.int32), ("load", real))
        for name, kind in values:
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
        table.vertices = wp.zeros(self._capacity, dtype=wp.vec4i, device=self.device)
        table.kind = wp.zeros(self._capacity, dtype=wp.int32, device=self.device)
        table.load = wp.zeros(self._capacity, dtype=real, device=self.device)
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
def look_up(first: wp.int32, table: LoadTable, contacts: ContactArrays, load_out: wp.array(dtype=real)):
    """The largest load of the same pair in the table; -1 if it is not there."""
    k = first + wp.tid()
    kind, at = contacts.kind[k], contacts.vertices[k]
    load = real(-1.0)
    slot = first_slot(kind, at, table.mask)
    entry = table.slots[slot]
    while entry >= 0:
        if table.vertices[entry] == at and table.kind[entry] == kind:
            load = wp.where(load == real(0.0), table.load[entry], wp.max(load, table.load[entry]))
        slot = (slot + 1) & table.mask
        entry = table.slots[slot]
    load_out[k] = load
