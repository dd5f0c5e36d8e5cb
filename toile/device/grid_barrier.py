"""Cooperative blocks and the grid barrier: kernels whose threads wait for each other, within a block or across several.

Work in many small steps, each of which needs the one before, is one kernel. The threads of a block wait for each other
in a tenth of a microsecond, those of several blocks in one and a half; a launch takes longer, and the host has to
decide on it. Such a kernel is launched with `lanes` threads and gets that number as an argument; thread `lane` takes
the items lane, lane + lanes, lane + 2 lanes, ... On the CPU there is one thread, and the barrier does nothing.

Source      none
Symbols     arrived  number of arrivals of blocks at the barrier, since the beginning
Deviations  none
"""

import warp as wp

# Threads of a block: Warp's default. The colors of a few thousand contacts are about as large.
LANES = 256
# Items for each further block. On an H200 two blocks color 21,559 contacts in half the time of one, and sweep them in a
# third more, because their 162 colors are small.
ITEMS = 16_384


class CooperativeBlocks:
    """Numbers of threads and blocks for cooperative kernels on a device, with the counters of their barriers."""

    def __init__(self, device: str):
        self._device, on = device, wp.get_device(device)
        self._block = self.block(device)
        # All blocks must run at the same time: on a quarter of the device they do, whatever else runs there.
        self._max_blocks = max(1, on.sm_count // 4) if on.is_cuda else 1
        # The same tuples each time, because packed launches are found by the identity of their arguments.
        self._made: dict[int, tuple[int, int, wp.array]] = {}

    @staticmethod
    def block(device: str) -> int:
        """Returns the number of threads of a block."""
        return LANES if wp.get_device(device).is_cuda else 1

    def of(self, items: int) -> tuple[int, int, wp.array]:
        """Returns threads, blocks and the counter of the barrier for a number of items."""
        blocks = min(1 + items // ITEMS, self._max_blocks)
        if blocks not in self._made:
            # Each number of blocks has a counter of its own, which must be a multiple of that number.
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
    """Waits until all threads have arrived; each then sees what the others wrote before."""
