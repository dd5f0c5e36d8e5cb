"""One block of a matrix on its way into a multigrid cycle: its free directions, and its inverse.

Source      none
Symbols     S  free directions     D  a block on the diagonal     eps  what resists in held directions
            K  what contacts add to D beside the elastic part
Deviations  none
"""

import numpy as np
import warp as wp

from toile.math.types import identity, mat33, numpy_real, real

# Added to diagonal blocks, of their mean: nodes that only held particles reach, or two that the same ones do, would
# make them singular.
REGULARISED = wp.constant(real(1e-6))
# What resists in held directions, of the mean of the particle's block. Nothing may move there, so it only has to be
# far from rounding; as large as the block itself it would keep a grid node from moving the free among its particles.
HELD = wp.constant(real(1e-3))
TINY_BLOCK = wp.constant(real(1e-30))
# [kg]  Entries below this are nothing beside any mass. In single precision their products would leave the range of
# normal numbers, which takes processors many times as long. Adding and subtracting ROUNDER makes them zero.
FAINT = 1e-16
ROUNDER = wp.constant(mat33(*(9 * [FAINT / float(np.finfo(numpy_real).eps)])))


@wp.func
def is_held(S: mat33) -> bool:
    """Whether a direction is."""
    return wp.trace(S) < real(2.5)


@wp.func
def filtered(block: mat33, S_i: mat33, S_j: mat33) -> mat33:
    """S_i A_ij S_j."""
    found = real(1.0) * block
    if is_held(S_j):
        found = found * S_j
    if is_held(S_i):
        found = S_i * found
    return found


@wp.func
def held_part(block: mat33, S: mat33) -> mat33:
    """eps (I - S), of a block on the diagonal."""
    return HELD * wp.trace(block) / real(3.0) * (identity() - S)


@wp.struct
class OnDiagonal:
    block: mat33  # of the matrix that is multiplied
    D: mat33  # what smoothing divides by


@wp.func
def on_diagonal(value: mat33, S: mat33, K: wp.array(dtype=mat33), i: int, in_value: real, in_D: real) -> OnDiagonal:
    """Block i on the diagonal. Of what contacts add, K, the block has nothing: `in_value` is how much of it `value`
    has, and `in_D` how much D is to have."""
    found = OnDiagonal()
    found.block = filtered(value, S, S) + held_part(value, S)
    found.D = found.block
    if K.shape[0] > 0:
        contact = filtered(K[i], S, S)
        found.block = found.block - in_value * contact
        found.D = found.block + in_D * contact
    return found


@wp.func
def inverse_of(D: mat33) -> wp.mat33f:
    mean = wp.trace(D) / real(3.0)
    inverse = wp.mat33f()  # where nothing is free
    if mean > TINY_BLOCK:
        inverse = wp.mat33f(wp.inverse(D + REGULARISED * mean * identity()))
    return inverse
