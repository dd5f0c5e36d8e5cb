"""Merges two lists of contacts and drops those without a load.

A pair in both lists becomes one contact, with the geometry of the first and the sum of both loads. Pairs are matched in
a hash table with linear probing, keyed by the vertices of a pair. Merged contacts keep the order in which they were
found, which sweeps depend on.

Source      none
Deviations  none
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from toile.contact.narrow_phase.contact_set import CONTACT_FIELDS, ContactArrays
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import real

# Slots of the table, at least, per contact: collisions are rare.
SLOTS_PER_CONTACT = 2
# Odd, and without a pattern.
HASH_MULTIPLIER = wp.constant(wp.uint32(0x9E3779B1))


class ContactList:
    """Contacts on the device; the arrays may be longer than `count`."""

    def __init__(self, device: str):
        self.device, self.contacts, self.count, self.capacity = device, ContactArrays(), 0, -1
        self.reserve(0)

    def reserve(self, count: int) -> None:
        """Makes the capacity at least `count`; contacts are lost when it grows."""
        if self.capacity < count:
            self.capacity = 2 * count
            self.contacts.retire()
            self.contacts = ContactArrays()
            for name, kind in CONTACT_FIELDS.items():
                setattr(self.contacts, name, wp.zeros(self.capacity, dtype=kind, device=self.device))

    def numpy(self) -> dict[str, np.ndarray]:
        """The arrays by name; empty if there are no contacts."""
        return {name: getattr(self.contacts, name).numpy()[: self.count] for name in CONTACT_FIELDS if self.count}

    def assign(self, values: Mapping[str, Any]) -> None:
        """Takes over the arrays that `numpy` returned."""
        self.count = len(values.get("normal_impulse", ()))
        self.reserve(self.count)
        for name, kind in CONTACT_FIELDS.items():
            if self.count:
                given = wp.array(np.asarray(values[name]), dtype=kind, device=self.device)
                wp.copy(getattr(self.contacts, name), given, count=self.count)


class ContactMerger:
    """Merges two lists of contacts into one."""

    def __init__(self, device: str):
        self.device = device
        self._reserve((0, 0))

    def merge(self, lists: tuple[tuple[ContactArrays, int, wp.array], ...], merged: ContactList) -> None:
        """Merges two lists, each with its count and loads [kg m]; the sum of the loads is the normal impulse found."""
        (first, _, _), (second, _, _) = lists
        lengths = len(first.normal_impulse), len(second.normal_impulse)
        if lengths[0] > self._capacities[0] or lengths[1] > self._capacities[1]:
            self._reserve((max(self._capacities[0], lengths[0]), max(self._capacities[1], lengths[1])))
        self._table.fill_(-1)
        self._load.zero_()
        self._first_entry.fill_(self._size)
        self._slot.fill_(-1)
        table = [self._mask, self._table, self._first_entry, self._load, self._slot]
        for (_, count, load), begin in zip(lists, self._begins, strict=True):
            self._launch(insert_contacts, count, [first, second, self._begins[1], begin, load, *table])
        self._launch(mark_first, self._size, [self._slot, self._first_entry, self._index])
        wp.utils.array_scan(self._index, self._index, inclusive=True)
        merged.count = int(self._readback()[0]) if self._size else 0
        merged.reserve(merged.count)
        table = [self._slot, self._first_entry, self._load, self._index]
        self._launch(write_merged, self._size, [first, second, self._begins[1], *table, merged.contacts])

    def _reserve(self, capacities: tuple[int, int]) -> None:
        """Allocates for these capacities; entries of the second list follow the capacity of the first."""
        self._capacities, self._begins, self._size = capacities, (0, capacities[0]), sum(capacities)
        slots = 1 << (SLOTS_PER_CONTACT * max(self._size, 1) - 1).bit_length()
        self._mask = slots - 1
        self._table, self._first_entry = (wp.zeros(slots, dtype=wp.int32, device=self.device) for _ in range(2))
        self._load = wp.zeros(slots, dtype=real, device=self.device)
        self._slot, self._index = (wp.zeros(self._size, dtype=wp.int32, device=self.device) for _ in range(2))
        self._readback = Readback(self._index[self._size - 1 :] if self._size else self._index)
        self._launch = Launcher(self.device)  # the old one keeps launches with the old arrays


@wp.struct
class PairKey:
    """The key of a contact: its vertices and its kind."""

    at: wp.vec4i
    kind: wp.int32


@wp.func
def key_of(first: ContactArrays, second: ContactArrays, begin: wp.int32, entry: wp.int32) -> PairKey:
    """The key of an entry of the first or the second list."""
    pair = PairKey()
    if entry < begin:
        pair.at = first.vertices[entry]
        pair.kind = first.kind[entry]
    else:
        pair.at = second.vertices[entry - begin]
        pair.kind = second.kind[entry - begin]
    return pair


@wp.func
def add_to_hash(index: wp.uint32, value: wp.int32) -> wp.uint32:
    """Adds a value to a hash."""
    product = (index ^ wp.uint32(value)) * HASH_MULTIPLIER
    return product ^ (product >> wp.uint32(15))


@wp.func
def first_slot(pair: PairKey, mask: wp.int32) -> wp.int32:
    """The slot in which the search for a pair starts."""
    index = add_to_hash(wp.uint32(pair.kind + 1), pair.at[0])
    index = add_to_hash(add_to_hash(add_to_hash(index, pair.at[1]), pair.at[2]), pair.at[3])
    return wp.int32(index & wp.uint32(mask))


@wp.kernel
def insert_contacts(
    # in
    first: ContactArrays, second: ContactArrays, begin: wp.int32, own_begin: wp.int32, load: wp.array(dtype=real),
    mask: wp.int32,
    # in and out
    table_out: wp.array(dtype=wp.int32), first_entry_out: wp.array(dtype=wp.int32), load_out: wp.array(dtype=real),
    # out
    slot_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Inserts each contact with a load into the table, and adds its load there."""
    k = wp.tid()
    if load[k] <= real(0.0):
        return
    entry = own_begin + k
    pair = key_of(first, second, begin, entry)
    slot = first_slot(pair, mask)
    occupant = wp.atomic_cas(table_out, slot, -1, entry)
    while occupant >= 0:
        other = key_of(first, second, begin, occupant)
        if other.at == pair.at and other.kind == pair.kind:
            occupant = -1
        else:
            slot = (slot + 1) & mask
            occupant = wp.atomic_cas(table_out, slot, -1, entry)
    slot_out[entry] = slot
    wp.atomic_min(first_entry_out, slot, entry)
    wp.atomic_add(load_out, slot, load[k])


@wp.kernel
def mark_first(
    # in
    slot: wp.array(dtype=wp.int32), first_entry: wp.array(dtype=wp.int32),
    # out
    is_first_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Marks the first contact of each pair."""
    entry = wp.tid()
    is_first_out[entry] = 0
    if slot[entry] >= 0 and first_entry[slot[entry]] == entry:
        is_first_out[entry] = 1


@wp.func
def copy_contact(contacts: ContactArrays, k: wp.int32, contacts_out: ContactArrays, to: wp.int32):
    """Copies contact k to entry `to` of another list."""
    contacts_out.vertices[to] = contacts.vertices[k]
    contacts_out.kind[to] = contacts.kind[k]
    contacts_out.weights[to] = contacts.weights[k]
    contacts_out.normal[to] = contacts.normal[k]
    contacts_out.target[to] = contacts.target[k]
    contacts_out.mu[to] = contacts.mu[k]
    contacts_out.effective_inverse_mass[to] = contacts.effective_inverse_mass[k]
    contacts_out.normal_impulse[to] = contacts.normal_impulse[k]
    contacts_out.friction_impulse[to] = contacts.friction_impulse[k]
    contacts_out.thickness[to] = contacts.thickness[k]


@wp.kernel
def write_merged(
    # in
    first: ContactArrays, second: ContactArrays, begin: wp.int32, slot: wp.array(dtype=wp.int32),
    first_entry: wp.array(dtype=wp.int32), load: wp.array(dtype=real), index: wp.array(dtype=wp.int32),
    # out
    contacts_out: ContactArrays,
):  # fmt: skip
    """Writes the first contact of each pair with the sum of its loads."""
    entry = wp.tid()
    if slot[entry] < 0 or first_entry[slot[entry]] != entry:
        return
    to = index[entry] - 1
    if entry < begin:
        copy_contact(first, entry, contacts_out, to)
    else:
        copy_contact(second, entry - begin, contacts_out, to)
    contacts_out.normal_impulse[to] = load[slot[entry]]
