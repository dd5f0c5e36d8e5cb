"""Reductions: sums over the indices of a launch.

On a GPU atomic additions to one number wait for each other, and thousands of them take longer than all else in a small
kernel, so the 32 threads of a warp first sum theirs. On the CPU the indices of a range are added one after the other.
"""

import warp as wp

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
