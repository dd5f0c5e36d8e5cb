"""Merges two lists of contacts: each pair with a load once, as it was found first, with the sum of its loads.

Pairs are matched in a hash table with linear probing, keyed by the vertices of a pair. Merged contacts keep the order
in which they were found, which sweeps depend on.

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
MIXER = wp.constant(wp.uint32(0x9E3779B1))


class ContactList:
    """Contacts on the device; the arrays may be longer than `count`."""

    def __init__(self, device: str):
        self.device, self.contacts, self.count, self.capacity = device, ContactArrays(), 0, -1
        self.reserve(0)

    def reserve(self, count: int) -> None:
        """Makes the capacity at least `count`; contacts are lost when it grows."""
        if self.capacity < count:
            self.capacity = 2 * count
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

    def merge(self, lists: tuple[tuple[ContactArrays, int, wp.array], ...], found: ContactList) -> None:
        """Merges two lists, each with its count and loads [kg m]; the sum of the loads is the normal impulse found."""
        (first, _, _), (second, _, _) = lists
        capacities = max(self._capacities[0], len(first.normal_impulse)), max(self._capacities[1], len(second.normal_impulse))
        if self._capacities != capacities:
            self._reserve(capacities)
        self._table.fill_(-1)
        self._load.zero_()
        self._leader.fill_(self._size)
        self._place_of.fill_(-1)
        table = [self._mask, self._table, self._leader, self._load, self._place_of]
        for (_, count, load), begin in zip(lists, self._begins, strict=True):
            self._launch(enter, count, [first, second, self._begins[1], begin, load, *table])
        self._launch(choose, self._size, [self._place_of, self._leader, self._number])
        wp.utils.array_scan(self._number, self._number, inclusive=True)
        found.count = int(self._readback()[0]) if self._size else 0
        found.reserve(found.count)
        chosen = [self._place_of, self._leader, self._load, self._number]
        self._launch(collect, self._size, [first, second, self._begins[1], *chosen, found.contacts])

    def _reserve(self, capacities: tuple[int, int]) -> None:
        """Allocates for these capacities; entries of the second list follow the capacity of the first."""
        self._capacities, self._begins, self._size = capacities, (0, capacities[0]), sum(capacities)
        places = 1 << (SLOTS_PER_CONTACT * max(self._size, 1) - 1).bit_length()
        self._mask = places - 1
        self._table, self._leader = (wp.zeros(places, dtype=wp.int32, device=self.device) for _ in range(2))
        self._load = wp.zeros(places, dtype=real, device=self.device)
        self._place_of, self._number = (wp.zeros(self._size, dtype=wp.int32, device=self.device) for _ in range(2))
        self._readback = Readback(self._number[self._size - 1 :] if self._size else self._number)
        self._launch = Launcher(self.device)  # the old one keeps launches with the old arrays


@wp.struct
class Pair:
    """The key of a contact: its vertices and its kind."""

    at: wp.vec4i
    kind: wp.int32


@wp.func
def pair_of(first: ContactArrays, second: ContactArrays, begin: wp.int32, entry: wp.int32) -> Pair:
    """The key of an entry of the first or the second list."""
    pair = Pair()
    if entry < begin:
        pair.at = first.vertices[entry]
        pair.kind = first.kind[entry]
    else:
        pair.at = second.vertices[entry - begin]
        pair.kind = second.kind[entry - begin]
    return pair


@wp.func
def mixed(number: wp.uint32, value: wp.int32) -> wp.uint32:
    """Adds a value to a hash."""
    product = (number ^ wp.uint32(value)) * MIXER
    return product ^ (product >> wp.uint32(15))


@wp.func
def first_place(pair: Pair, mask: wp.int32) -> wp.int32:
    """The slot in which the search for a pair starts."""
    number = mixed(wp.uint32(pair.kind + 1), pair.at[0])
    number = mixed(mixed(mixed(number, pair.at[1]), pair.at[2]), pair.at[3])
    return wp.int32(number & wp.uint32(mask))


@wp.kernel
def enter(
    # in
    first: ContactArrays, second: ContactArrays, begin: wp.int32, own_begin: wp.int32, load: wp.array(dtype=real), mask: wp.int32,
    # in and out
    table_out: wp.array(dtype=wp.int32), leader_out: wp.array(dtype=wp.int32), load_out: wp.array(dtype=real),
    # out
    place_out: wp.array(dtype=wp.int32),
):
    """Inserts each contact with a load into the table, and adds its load there."""
    k = wp.tid()
    if load[k] <= real(0.0):
        return
    entry = own_begin + k
    pair = pair_of(first, second, begin, entry)
    place = first_place(pair, mask)
    there = wp.atomic_cas(table_out, place, -1, entry)
    while there >= 0:
        other = pair_of(first, second, begin, there)
        if other.at == pair.at and other.kind == pair.kind:
            there = -1
        else:
            place = (place + 1) & mask
            there = wp.atomic_cas(table_out, place, -1, entry)
    place_out[entry] = place
    wp.atomic_min(leader_out, place, entry)
    wp.atomic_add(load_out, place, load[k])


@wp.kernel
def choose(
    # in
    place: wp.array(dtype=wp.int32), leader: wp.array(dtype=wp.int32),
    # out
    chosen_out: wp.array(dtype=wp.int32),
):
    """Marks the first contact of each pair."""
    entry = wp.tid()
    chosen_out[entry] = 0
    if place[entry] >= 0 and leader[place[entry]] == entry:
        chosen_out[entry] = 1


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
def collect(
    # in
    first: ContactArrays, second: ContactArrays, begin: wp.int32, place: wp.array(dtype=wp.int32),
    leader: wp.array(dtype=wp.int32), load: wp.array(dtype=real), number: wp.array(dtype=wp.int32),
    # out
    contacts_out: ContactArrays,
):
    """Writes the first contact of each pair with the sum of its loads."""
    entry = wp.tid()
    if place[entry] < 0 or leader[place[entry]] != entry:
        return
    to = number[entry] - 1
    if entry < begin:
        copy_contact(first, entry, contacts_out, to)
    else:
        copy_contact(second, entry - begin, contacts_out, to)
    contacts_out.normal_impulse[to] = load[place[entry]]
