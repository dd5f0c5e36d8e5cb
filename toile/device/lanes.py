"""Lanes: several threads of a warp that share a row of a matrix on a GPU, and exchange numbers by shuffles.

A row has 4, 8 or 16 of the 32 threads of a warp. On the CPU a row has one thread, and nothing is exchanged.
"""

import warp as wp

from toile.math.types import real, vec3

# From this number of rows on, four threads for each fill the device.
MANY = 20_000


def lanes_for(rows: int) -> int:
    """Returns the number of threads for each row of a matrix."""
    return 4 if rows >= MANY else 16


def thread_count(rows: int, lanes: int) -> int:
    """Returns the number of threads to launch for all rows: whole warps of 32."""
    return 32 * (-(-rows * lanes // 32))


_SUM = """
#if defined(__CUDA_ARCH__)
    for (; apart < lanes; apart *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
#endif
    return value;
"""

_GATHER = """
#if defined(__CUDA_ARCH__)
    return wp::vec_t<3, decltype(value)>(
        __shfl_sync(0xffffffffu, value, 0, 4), __shfl_sync(0xffffffffu, value, 1, 4),
        __shfl_sync(0xffffffffu, value, 2, 4));
#else
    return wp::vec_t<3, decltype(value)>(value, value, value);
#endif
"""


@wp.func_native(_SUM)
def sum_of_lanes(value: wp.float32, apart: int, lanes: int) -> wp.float32:
    """Sums over the threads of a row whose distance is a multiple of `apart`."""


@wp.func_native(_SUM)
def real_sum_of_lanes(value: real, apart: int, lanes: int) -> real:
    """Does the same in the precision of the solver."""


@wp.func_native(_GATHER)
def components(value: wp.float32) -> wp.vec3f:
    """Returns the vector of a row, of which the first three of each four threads have one component each."""


@wp.func_native(_GATHER)
def real_components(value: real) -> vec3:
    """Does the same in the precision of the solver."""
