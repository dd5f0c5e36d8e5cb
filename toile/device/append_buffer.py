"""Append buffers: lists that all indices of a launch append to, also when several threads share the launch.

Each range of the launch appends to a range of the buffer that is its own, and these are joined in their order: neither
the entries nor their order depend on the number of threads. Entries beyond the capacity are counted all the same, and
the launch is repeated with a larger capacity: nothing is lost.

On a GPU there is one range, and the order of its entries changes from run to run. Where the order matters each entry
has a key, and the entries are read in the order of their keys, which depends on nothing else.
"""

from collections.abc import Sequence

import numpy as np
import warp as wp

from toile.device import threads
from toile.device.growable import Growable
from toile.device.launcher import SHARE, Launcher, shares
from toile.device.readback import Readback


@wp.struct
class BufferRanges(Growable):
    """Ranges of a buffer, one for each range of a launch; the range is found by the first block of indices in it."""

    block: wp.int32  # indices in a block
    begin: wp.array(dtype=wp.int32)  # first slot of each range
    capacity: wp.array(dtype=wp.int32)
    count: wp.array(dtype=wp.int32)
    keys: wp.array(dtype=wp.int64)  # of the entries; empty if they have none


@wp.func
def next_slot(ranges: BufferRanges, first: wp.int32) -> wp.int32:
    """Returns the slot of one more entry, or -1 beyond the capacity; the range of the launch begins at `first`."""
    k = first // ranges.block
    n = wp.atomic_add(ranges.count, k, 1)
    if n < 0 or n >= ranges.capacity[k]:
        return -1
    return ranges.begin[k] + n


@wp.func
def pair_key(kind: wp.int32, pair: wp.vec2i) -> wp.int64:
    """Returns a key that is unique to a pair of elements; the kind is 0 or 1."""
    return (wp.int64(kind) << wp.int64(62)) | (wp.int64(pair[0]) << wp.int64(31)) | wp.int64(pair[1])


class AppendBuffer:
    """Entries of one type: the first `count` of `values`."""

    def __init__(self, dtype: type, capacity: int, device: str, keyed: bool = False):
        self.values, self.count, self.device = wp.empty(capacity, dtype=dtype, device=device), 0, device
        self._on_cpu, self._keyed = wp.get_device(device).is_cpu, keyed
        self._keys = self._make_keys()
        self._order = wp.empty(0, dtype=wp.int32, device=device)
        self.ranges = BufferRanges()
        self._range_on_gpu: tuple[int, int]  # first slot and capacity that the GPU has, so that neither is sent twice
        self._make_ranges(1, SHARE)

    def open(self, dim: int, block: int, kept: int) -> None:
        """Prepares a launch of `dim` indices in blocks: its ranges append behind the first `kept` entries."""
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
            if self._range_on_gpu != (kept, self._capacity):
                self.ranges.begin.fill_(kept)
                self.ranges.capacity.fill_(self._capacity)
                self._range_on_gpu = (kept, self._capacity)
            self.ranges.count.zero_()

    def close(self) -> bool:
        """Joins the ranges after the launch. Returns False if the capacity was too small; it is larger then."""
        counts = self._readback()[self._starts].tolist()
        if min(counts) < 0:
            raise OverflowError("more than 2,147,483,647 pairs of elements are near each other: too many to count.")
        if max(counts) > self._capacity:  # it grows by half at least, so that few launches are repeated
            self._grow(max(self._kept + len(counts) * max(*counts, self._capacity * 3 // 2), len(self.values) * 3 // 2))
            return False
        self.count = self._kept + counts[0]
        for begin, count in zip(self._begins[1:], counts[1:], strict=True):
            for array in (self.values, self._keys) if self._keyed else (self.values,):
                entries = array.numpy()
                entries[self.count : self.count + count] = entries[begin : begin + count]
            self.count += count
        return True

    def order(self) -> wp.array:
        """Returns the indices of the entries in the order of their keys."""
        n = self.count
        if len(self._order) < 2 * n:  # a radix sort on a GPU needs twice the length
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
        self.ranges.retire()
        self.ranges, self._range_on_gpu = BufferRanges(), (-1, -1)
        self.ranges.block, self.ranges.keys = block, self._keys
        for name in ("begin", "capacity", "count"):
            setattr(self.ranges, name, wp.zeros(count if self._on_cpu else 1, dtype=wp.int32, device=self.device))
        self._readback = Readback(self.ranges.count)


def fill(
    buffers: list[AppendBuffer], launch: Launcher, kernel: wp.Kernel, dim: int, inputs: Sequence[object],
    block: int = SHARE, kept: int = 0,
) -> None:  # fmt: skip
    """Fills buffers behind their first `kept` entries. The kernel's last arguments are ranges and values of each."""
    if not dim:
        for buffer in buffers:
            buffer.count = kept
        return
    done = False
    while not done:
        for buffer in buffers:
            buffer.open(dim, block, kept)
        outputs = [output for buffer in buffers for output in (buffer.ranges, buffer.values)]
        launch.split(kernel, dim, [*inputs, *outputs], block, 1)
        closed = [buffer.close() for buffer in buffers]
        done = all(closed)
