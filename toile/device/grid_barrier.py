"""Kernels whose threads wait for each other: one block of them on a GPU, or several where there is much to do.

What is done in many small steps, each of which needs the one before, is one kernel. The threads of a block wait for
each other in a tenth of a microsecond, those of several blocks in one and a half; a launch takes longer, and has to be
decided on by the host. Such a kernel is launched with as many threads as `lanes` says and is told that number; thread
`lane` takes every so manyth item from `lane` on. On the CPU the crew is one thread, and nothing waits.

Source      none
Symbols     arrived  how often a block has come to a place where all wait, since the beginning
Deviations  none
"""

import warp as wp

# Threads of a block: Warp's own number. The colors of a few thousand touches are about as large.
LANES = 256
# Items for each further block. On an H200 two blocks color 21,559 touches in half the time of one, and sweep them in a
# third more, because their 162 colors are small.
ITEMS = 16_384


class CooperativeBlocks:
    """The threads on a device."""

    def __init__(self, device: str):
        self._device, on = device, wp.get_device(device)
        self._block = self.block(device)
        # All of them must run at a time: with a quarter of the device they do, whatever else does.
        self._max_blocks = max(1, on.sm_count // 4) if on.is_cuda else 1
        self._made: dict[int, tuple] = {}  # the same numbers each time, because launches are known by them

    @staticmethod
    def block(device: str) -> int:
        """Threads of a block."""
        return LANES if wp.get_device(device).is_cuda else 1

    def of(self, items: int) -> tuple[int, int, wp.array]:
        """For so many items: threads, blocks, and what they wait with, for kernels."""
        blocks = min(1 + items // ITEMS, self._max_blocks)
        if blocks not in self._made:
            # A count of its own for each number of blocks: it must be a multiple of that.
            arrived = wp.zeros(1, dtype=wp.uint64, device=self._device)
            self._made[blocks] = (blocks * self._block, blocks, arrived)
        return self._made[blocks]


_WAIT = """
    WP_TILE_SYNC();
#if defined(__CUDA_ARCH__)
    if (blocks > 1) {
        if (threadIdx.x == 0) {
            unsigned long long* at = (unsigned long long*)arrived.data;
            __threadfence();
            unsigned long long all = (atomicAdd(at, 1ull) / blocks + 1ull) * blocks;
            while (*(volatile unsigned long long*)at < all) { }
            __threadfence();
        }
        WP_TILE_SYNC();
    }
#endif
"""


@wp.func_native(_WAIT)
def grid_barrier(blocks: int, arrived: wp.array(dtype=wp.uint64)):
    """All threads come here before one goes on, and see what the others wrote."""
