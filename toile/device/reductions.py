"""Reductions: sums over the indices of a launch.

On a GPU atomic additions to one number wait for each other, and thousands of them take longer than all else in a small
kernel, so the 32 threads of a warp first sum theirs. On the CPU the indices of a range are added one after the other.
"""

from collections.abc import Sequence

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import real

# Indices of a warp, which add to the same sum.
WARP = wp.constant(32)

_ADD = """
#if defined(__CUDA_ARCH__)
    if (__activemask() == 0xffffffffu) {
        for (int apart = 16; apart > 0; apart /= 2)
            value += __shfl_down_sync(0xffffffffu, value, apart);
        if ((threadIdx.x & 31) == 0)
            wp::atomic_add(sums, slot, value);
        return;
    }
#endif
    wp::atomic_add(sums, slot, value);
"""


@wp.func_native(_ADD)
def add_to_sum(sums: wp.array(dtype=wp.float64), slot: int, value: wp.float64):
    """Adds to sums[slot]; the slot must be the same for every 32 indices that follow a multiple of 32."""


class ArraySums:
    """Sums of several arrays with one readback: kernels write `parts`, and a call returns the sum of each."""

    def __init__(self, lengths: Sequence[int], device: str):
        self._on_cpu = wp.get_device(device).is_cpu
        begins = np.cumsum([0, *(-(-n // int(WARP)) * int(WARP) for n in lengths)]).tolist()
        self._values = wp.zeros(begins[-1], dtype=real, device=device)
        # Warp has no empty slices.
        self.parts = [
            self._values[begin : begin + n] if n else wp.zeros(0, dtype=real, device=device)
            for begin, n in zip(begins[:-1], lengths, strict=True)
        ]
        slots = np.repeat(np.arange(len(lengths), dtype=np.int32), np.diff(begins) // int(WARP))
        self._slots = wp.array(slots, dtype=wp.int32, device=device)
        self._sums = wp.zeros(len(lengths), dtype=wp.float64, device=device)
        self._readback = Readback(self._sums)
        self._launch = Launcher(device)

    def __call__(self) -> list[float]:
        if self._on_cpu:
            return [float(np.sum(part.numpy(), dtype=np.float64)) for part in self.parts]
        self._sums.zero_()
        self._launch(add_arrays, len(self._values), [self._values, self._slots, self._sums])
        return self._readback().tolist()


@wp.kernel
def add_arrays(
    # in
    values: wp.array(dtype=real), slots: wp.array(dtype=wp.int32),
    # in and out
    sums_out: wp.array(dtype=wp.float64),
):  # fmt: skip
    """Adds each value to the sum of its array."""
    i = wp.tid()
    add_to_sum(sums_out, slots[i // WARP], wp.float64(values[i]))
