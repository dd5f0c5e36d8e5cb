"""The contacts of each vertex, in compressed rows: a sum over them is one loop in a fixed order, without atomics.

    entry = 4 contact + corner;    entries offsets[i] to offsets[i + 1] belong to vertex i, in the order of contacts

Entries of vertices that cannot move are left out. The order depends on nothing but the contacts: sums have the same
bits with any number of threads, and in every run on a GPU.

Source      none
Deviations  none
"""

import warp as wp

from toile.contact.narrow_phase.contact_set import ContactArrays
from toile.device.growable import Growable
from toile.device.launcher import Launcher
from toile.math.types import mat33, real


@wp.struct
class VertexContactArrays(Growable):
    """Rows of entries, one for each vertex."""

    offsets: wp.array(dtype=wp.int32)  # one more than there are vertices
    entries: wp.array(dtype=wp.int32)
    weights: wp.array(dtype=real)  # of the entries


class VertexContacts:
    """Sorts the corners of contacts by vertex."""

    def __init__(self, vertex_count: int, device: str):
        self.device, self._vertex_count = device, vertex_count
        self._on_cpu = wp.get_device(device).is_cpu
        self._offsets = wp.zeros(vertex_count + 1, dtype=wp.int32, device=device)
        self.arrays = VertexContactArrays()
        self._capacity = -1
        self._reserve(0)

    def update(self, contacts: ContactArrays, count: int, inverse_mass: wp.array) -> None:
        """Makes the rows of the first `count` contacts."""
        if self._capacity < count:
            self._reserve(2 * count)
        n = self._vertex_count
        if not count:
            self._offsets.zero_()
            return
        if self._on_cpu:
            self._offsets.zero_()
            self._launch(sort_corners, 1, [contacts, count, inverse_mass, self.arrays])
            return
        self._launch(list_corners, 4 * count, [contacts, n, inverse_mass, self._keys, self.arrays.entries])
        wp.utils.radix_sort_pairs(self._keys, self.arrays.entries, 4 * count)
        self._launch(find_offsets, n + 1, [self._keys, 4 * count, self._offsets])
        self._launch(copy_weights, 4 * count, [contacts, self.arrays])

    def _reserve(self, capacity: int) -> None:
        self._capacity = capacity
        # A radix sort on a GPU needs twice the length.
        length = 4 * capacity if self._on_cpu else 8 * capacity
        self.arrays.retire()
        self.arrays = VertexContactArrays()
        self.arrays.offsets = self._offsets
        self.arrays.entries = wp.zeros(length, dtype=wp.int32, device=self.device)
        self.arrays.weights = wp.zeros(4 * capacity, dtype=real, device=self.device)
        self._keys = wp.zeros(0 if self._on_cpu else length, dtype=wp.int32, device=self.device)
        self._launch = Launcher(self.device)  # the old one keeps launches with the old arrays


@wp.func
def can_move(inverse_mass: mat33) -> wp.bool:
    """Whether a vertex with this inverse mass moves at all."""
    return wp.trace(inverse_mass) > real(0.0)


@wp.kernel
def sort_corners(
    # in
    contacts: ContactArrays, count: wp.int32, inverse_mass: wp.array(dtype=mat33),
    # in and out
    rows_out: VertexContactArrays,
):  # fmt: skip
    """Launched with one thread: a counting sort. The offsets are zero at first."""
    n = inverse_mass.shape[0]
    for k in range(count):
        at = contacts.vertices[k]
        for c in range(4):
            if can_move(inverse_mass[at[c]]):
                rows_out.offsets[at[c] + 1] = rows_out.offsets[at[c] + 1] + 1
    for i in range(n):
        rows_out.offsets[i + 1] = rows_out.offsets[i + 1] + rows_out.offsets[i]
    # Each offset is moved up by its entries as these are written, and in the end all are moved back by one vertex.
    for k in range(count):
        at = contacts.vertices[k]
        for c in range(4):
            if can_move(inverse_mass[at[c]]):
                rows_out.entries[rows_out.offsets[at[c]]] = 4 * k + c
                rows_out.weights[rows_out.offsets[at[c]]] = contacts.weights[k][c]
                rows_out.offsets[at[c]] = rows_out.offsets[at[c]] + 1
    for j in range(n):
        i = n - j
        rows_out.offsets[i] = rows_out.offsets[i - 1]
    rows_out.offsets[0] = 0


@wp.kernel
def list_corners(
    # in
    contacts: ContactArrays, vertex_count: wp.int32, inverse_mass: wp.array(dtype=mat33),
    # out
    keys_out: wp.array(dtype=wp.int32), entries_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """The vertex of each corner; those that cannot move are sorted behind all others."""
    t = wp.tid()
    i = contacts.vertices[t // 4][t % 4]
    entries_out[t] = t
    keys_out[t] = wp.where(can_move(inverse_mass[i]), i, vertex_count)


@wp.kernel
def find_offsets(
    # in
    keys: wp.array(dtype=wp.int32), count: wp.int32,
    # out
    offsets_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """The first entry of each vertex: the first key that is not smaller."""
    i = wp.tid()
    low, high = int(0), count + 0
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < i:
            low = middle + 1
        else:
            high = middle
    offsets_out[i] = low


@wp.kernel
def copy_weights(contacts: ContactArrays, rows_out: VertexContactArrays):
    """The weight of each entry."""
    e = wp.tid()
    rows_out.weights[e] = contacts.weights[rows_out.entries[e] // 4][rows_out.entries[e] % 4]
