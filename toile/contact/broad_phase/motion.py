"""Mean displacement of a step, and the largest displacement relative to it: free fall has no relative motion.

    mean = (1/n) sum of (x_end - x) over the particles,    max |x_end - x - mean| over all vertices

One block of threads reduces both (toile/device/grid_barrier.py), with the same bits in every run.

Source      none
Symbols     x, x_end  positions at the ends of the step [m]
Deviations  none
"""

import warp as wp

from toile.device.grid_barrier import CooperativeBlocks, grid_barrier
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import real, vec3


class RelativeMotion:
    """The motion of a step; vertices from `moving_count` on, those of solids, are not part of the mean."""

    def __init__(self, moving_count: int, device: str):
        self._moving_count = moving_count
        self._blocks = CooperativeBlocks(device).of(0)
        lanes = self._blocks[0]
        self.mean = wp.zeros(1, dtype=vec3, device=device)
        self._max = wp.zeros(1, dtype=real, device=device)
        self._readback = Readback(self._max)
        self._sums = wp.zeros(lanes, dtype=vec3, device=device)
        self._farthest = wp.zeros(lanes, dtype=real, device=device)
        self._launch = Launcher(device)

    def find(self, x: wp.array, x_end: wp.array) -> float:
        """Returns the largest displacement relative to the mean [m]; `mean` then holds the mean of this motion."""
        lanes, blocks, arrived = self._blocks
        inputs, partial = [lanes, blocks, self._moving_count, x, x_end], [self._sums, self._farthest]
        self._launch(find_motion, lanes, [*inputs, arrived, *partial, self.mean, self._max])
        return float(self._readback()[0])


@wp.kernel
def find_motion(
    # in
    lanes: wp.int32, blocks: wp.int32, moving_count: wp.int32, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    # in and out
    arrived_out: wp.array(dtype=wp.uint64),
    # out
    sums_out: wp.array(dtype=vec3), farthest_out: wp.array(dtype=real), mean_out: wp.array(dtype=vec3),
    max_out: wp.array(dtype=real),
):  # fmt: skip
    lane = wp.tid()
    own = vec3()
    for i in range(lane, moving_count, lanes):
        own += x_end[i] - x[i]
    sums_out[lane] = own
    grid_barrier(blocks, arrived_out)
    mean = vec3()
    for k in range(lanes):
        mean += sums_out[k]
    mean = mean / real(moving_count)
    farthest = real(0.0)
    for i in range(lane, x.shape[0], lanes):
        farthest = wp.max(farthest, wp.length_sq(x_end[i] - x[i] - mean))
    farthest_out[lane] = farthest
    grid_barrier(blocks, arrived_out)
    if lane == 0:
        for k in range(lanes):
            farthest = wp.max(farthest, farthest_out[k])
        mean_out[0] = mean
        max_out[0] = wp.sqrt(farthest)
