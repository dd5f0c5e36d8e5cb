"""Lanes: several threads of a warp that share a row of a matrix on a GPU, and exchange numbers by shuffles.

A row has 4, 8 or 16 of the 32 threads of a warp on a GPU, and one thread on the CPU. The kernels are the same: lane
`lane` of `lanes` starts its loops at `lane` and proceeds by `lanes`, and the sums over lanes, which all lanes of a row
get, are sums over one lane on the CPU. Where the two need different code, `has_lanes` chooses between them. It is a
constant on both devices, and `lane_count` is one on the CPU, so that neither pays for the other.
"""

import warp as wp

from toile.math.types import real, vec3

# From this number of rows on, four threads for each fill the device.
MANY = 20_000


def lanes_for(rows: int, device: str) -> int:
    """Returns the number of threads for each row of a matrix."""
    if wp.get_device(device).is_cpu:
        return 1
    return 4 if rows >= MANY else 16


def thread_count(rows: int, lanes: int) -> int:
    """Returns the number of threads to launch for all rows: on a GPU whole warps of 32."""
    return rows if lanes == 1 else 32 * (-(-rows * lanes // 32))


_HAS_LANES = """
#if defined(__CUDA_ARCH__)
    return true;
#else
    return false;
#endif
"""

_COUNT = """
#if defined(__CUDA_ARCH__)
    return lanes;
#else
    return 1;
#endif
"""

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


@wp.func_native(_HAS_LANES)
def has_lanes() -> wp.bool:
    """Returns whether rows have several lanes: true on a GPU and false on the CPU."""


@wp.func_native(_COUNT)
def lane_count(lanes: int) -> wp.int32:
    """Returns `lanes` on a GPU, and the constant 1 on the CPU."""


@wp.func
def own_row(i: int, rows: int) -> int:
    """Returns row i, or the last one for the lanes that fill up the last warp."""
    if has_lanes():
        return wp.min(i, rows - 1)
    return i


@wp.func
def writes_row(i: int, lane: int, rows: int) -> wp.bool:
    """Returns whether a lane writes the results of row i: the first of each row does."""
    if has_lanes():
        return lane == 0 and i < rows
    return True


@wp.func_native(_SUM)
def sum_of_lanes(value: wp.float32, apart: int, lanes: int) -> wp.float32:
    """Sums over the lanes of a row whose distance is a multiple of `apart`."""


@wp.func_native(_SUM)
def real_sum_of_lanes(value: real, apart: int, lanes: int) -> real:
    """Does the same in the precision of the solver."""


@wp.func
def vector_sum_of_lanes(value: wp.vec3f, lanes: int) -> wp.vec3f:
    """Sums vectors over the lanes of a row."""
    return wp.vec3f(
        sum_of_lanes(value[0], 1, lanes), sum_of_lanes(value[1], 1, lanes), sum_of_lanes(value[2], 1, lanes)
    )


@wp.func_native(_GATHER)
def components(value: wp.float32) -> wp.vec3f:
    """Returns the vector of a row, of which the first three of each four lanes have one component each."""


@wp.func_native(_GATHER)
def real_components(value: real) -> vec3:
    """Does the same in the precision of the solver."""


def rows_of(blocks: wp.array, dtype: type) -> wp.array:
    """Returns a view of the rows of an array of 3x3 blocks, three for each; it does not keep that array alive."""
    return wp.array(ptr=blocks.ptr, shape=3 * len(blocks), dtype=dtype, device=blocks.device)
