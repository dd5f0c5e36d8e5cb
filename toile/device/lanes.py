"""Several threads of a GPU for one row: they run in step and hand each other what they have.

A row has 4, 8 or 16 of the 32 threads that run so. On the CPU a row has one, and nothing is handed over.
"""

import warp as wp

from toile.math.types import real, vec3

# Rows from which four threads each fill the device.
MANY = 20_000


def lanes_for(rows: int) -> int:
    """Threads for each row of a matrix with so many."""
    return 4 if rows >= MANY else 16


def thread_count(rows: int, lanes: int) -> int:
    """Threads to launch for so many rows: whole groups of 32."""
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
    """Over those threads of a row that are multiples of `apart` from each other."""


@wp.func_native(_SUM)
def real_sum_of_lanes(value: real, apart: int, lanes: int) -> real:
    """The same, in the precision of the solver."""


@wp.func_native(_GATHER)
def components(value: wp.float32) -> wp.vec3f:
    """Of a row, from the first three of each four threads, which have one each."""


@wp.func_native(_GATHER)
def real_components(value: real) -> vec3:
    """The same, in the precision of the solver."""
