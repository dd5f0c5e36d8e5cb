"""Kernels of one block of threads that wait for each other.

What is done in many small steps, each of which needs the one before, is done by one block of a GPU: it waits for its
threads in less than a microsecond, while a launch takes several. Such a kernel is launched with as many threads as
`lanes` says and is told that number; thread `lane` takes every so manyth item from `lane` on. On the CPU the block is
one thread, and nothing waits.
"""

import warp as wp

# Threads of the block on a GPU: Warp's own number. The colours of touches are about as large.
LANES = 256


def lanes(device: str) -> int:
    """Threads in a block of this device."""
    return LANES if wp.get_device(device).is_cuda else 1


@wp.func_native("WP_TILE_SYNC();")
def wait_for_all():
    """All threads of the block come here before one goes on, and see what the others wrote."""
