"""Readback of a few numbers from the device to the host.

`wp.array.numpy` makes a new array on the host and changes to another stream and back: on a GPU that is a tenth of a
millisecond for eight bytes, a hundred times in a frame. Here the array on the host is made once, in pinned memory to
which the device writes directly. On the CPU it is the array itself.
"""

import numpy as np
import warp as wp


class Readback:
    """Readback of one array; the values returned are valid until the next call."""

    def __init__(self, array: wp.array):
        self._array, self._on_cpu = array, array.device.is_cpu
        self._host = array if self._on_cpu else wp.empty(array.shape, array.dtype, device="cpu", pinned=True)
        self._values: np.ndarray = self._host.numpy()

    def __call__(self) -> np.ndarray:
        if not self._on_cpu:
            wp.copy(self._host, self._array)
            wp.synchronize_stream(self._array.device.stream)
        return self._values
