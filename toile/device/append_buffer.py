"""Lists that all indices of a launch append to, also when threads share it.

Each range of the launch appends to a part of the list that is its own, and the parts are joined in their order: what
is found, and in which order, does not depend on the number of threads. What finds no room is counted all the same, and
the launch repeated with more of it: nothing is lost.

On a GPU there is one part, in an order that changes from run to run. Where the order matters each entry has a key, and
is taken in the order of the keys, which depends on nothing else.
"""

from typing import Any

import numpy as np
import warp as wp

from toile.device import threads
from toile.device.launcher import SHARE, Launcher, shares
from toile.device.readback import Readback


@wp.struct
class BufferRanges:
    """Where the ranges of a launch append. A range is known by the block of indices that it begins with."""

    block: wp.int32  # indices in a block
    begin: wp.array(dtype=wp.int32)
    capacity: wp.array(dtype=wp.int32)
    count: wp.array(dtype=wp.int32)
    keys: wp.array(dtype=wp.int64)  # of the entries; empty if they have none


@wp.func
def next_slot(ranges: BufferRanges, first: wp.int32) -> wp.int32:
    """The place of one more entry, or -1 if there is no room for it. `first` is where the range begins."""
    part = first // ranges.block
    n = wp.atomic_add(ranges.count, part, 1)
    if n < 0 or n >= ranges.capacity[part]:
        return -1
    return ranges.begin[part] + n


@wp.func
def pair_key(kind: wp.int32, pair: wp.vec2i) -> wp.int64:
    """A number that no other pair of elements has; the kind is 0 or 1."""
    return (wp.int64(kind) << wp.int64(62)) | (wp.int64(pair[0]) << wp.int64(31)) | wp.int64(pair[1])


class AppendBuffer:
    """Entries of one kind: the first `count` of `values`."""

    def __init__(self, kind: Any, capacity: int, device: str, keyed: bool = False):
        self.values, self.count, self.device = wp.empty(capacity, dtype=kind, device=device), 0, device
        self._on_cpu, self._keyed = wp.get_device(device).is_cpu, keyed
        self._keys = self._make_keys()
        self._order = wp.empty(0, dtype=wp.int32, device=device)
        self._known: tuple[int, int]  # where a GPU was told to append, and how much room it has there
        self._make_ranges(1, SHARE)

    def open(self, dim: int, block: int, kept: int) -> None:
        """Before a launch of `dim` indices in blocks: each range gets a part behind the first `kept` entries."""
        ranges = shares(dim, threads.count() if self._on_cpu else 1, block)
        blocks = ranges[-1][0] // block + 1
        if len(self.ranges.count) < blocks or int(self.ranges.block) != block:
            self._make_ranges(2 * blocks - 1, block)
        self._kept, self._capacity = kept, (len(self.values) - kept) // len(ranges)
        self._starts = [begin // block for begin, _ in ranges]
        self._begins = [kept + self._capacity * k for k in range(len(ranges))]
        if self._on_cpu:
            self.ranges.begin.numpy()[self._starts] = self._begins
            self.ranges.capacity.numpy()[self._starts] = self._capacity
            self.ranges.count.numpy()[self._starts] = 0
        else:
            if self._known != (kept, self._capacity):
                self.ranges.begin.fill_(kept)
                self.ranges.capacity.fill_(self._capacity)
                self._known = (kept, self._capacity)
            self.ranges.count.zero_()

    def close(self) -> bool:
        """After it: the parts become one. False if there was too little room; now there is more."""
        counts = self._readback()[self._starts].tolist()
        if min(counts) < 0:
            raise OverflowError("more than 2,147,483,647 pairs of elements are near each other: too many to count.")
        if max(counts) > self._capacity:  # by half at least, so that growing ends soon
            self._grow(self._kept + len(counts) * max(*counts, self._capacity * 3 // 2))
            return False
        self.count = self._kept + counts[0]
        for begin, count in zip(self._begins[1:], counts[1:], strict=True):
            for array in (self.values, self._keys) if self._keyed else (self.values,):
                entries = array.numpy()
                entries[self.count : self.count + count] = entries[begin : begin + count]
            self.count += count
        return True

    def order(self) -> wp.array:
        """The entries in the order of their keys."""
        n = self.count
        if len(self._order) < 2 * n:  # twice: sorting needs that on a GPU
            self._order = wp.empty(4 * n, dtype=wp.int32, device=self.device)
            self._sorted = wp.empty(0 if self._on_cpu else 4 * n, dtype=wp.int64, device=self.device)
            self._numbers = wp.array(np.arange(2 * n, dtype=np.int32), dtype=wp.int32, device=self.device)
        if self._on_cpu:
            self._order.numpy()[:n] = np.argsort(self._keys.numpy()[:n], kind="stable")
        elif n:
            wp.copy(self._order, self._numbers, count=n)
            wp.copy(self._sorted, self._keys, count=n)
            wp.utils.radix_sort_pairs(self._sorted, self._order, n)
        return self._order

    def _grow(self, capacity: int) -> None:
        values, keys = self.values, self._keys
        self.values = wp.empty(capacity, dtype=values.dtype, device=self.device)
        self._keys = self._make_keys()
        if self._kept:
            wp.copy(self.values, values, count=self._kept)
            wp.copy(self._keys, keys, count=min(self._kept, len(keys)))
        self._make_ranges(len(self.ranges.count), int(self.ranges.block))

    def _make_keys(self) -> wp.array:
        return wp.empty(len(self.values) if self._keyed else 0, dtype=wp.int64, device=self.device)

    def _make_ranges(self, count: int, block: int) -> None:
        # A new structure each time, because recorded launches know it by its identity.
        self.ranges, self._known = BufferRanges(), (-1, -1)
        self.ranges.block, self.ranges.keys = block, self._keys
        for name in ("begin", "capacity", "count"):
            setattr(self.ranges, name, wp.zeros(count if self._on_cpu else 1, dtype=wp.int32, device=self.device))
        self._readback = Readback(self.ranges.count)


def fill(
    lists: list[AppendBuffer], launch: Launcher, kernel: wp.Kernel, dim: int, inputs: list[Any], block: int = SHARE,
    kept: int = 0,
) -> None:  # fmt: skip
    """Fills lists behind the first `kept` entries. The last arguments of the kernel are parts and values of each."""
    if not dim:
        for one in lists:
            one.count = kept
        return
    done = False
    while not done:
        for one in lists:
            one.open(dim, block, kept)
        launch.split(kernel, dim, [*inputs, *(item for one in lists for item in (one.ranges, one.values))], block, 1)
        closed = [one.close() for one in lists]
        done = all(closed)
