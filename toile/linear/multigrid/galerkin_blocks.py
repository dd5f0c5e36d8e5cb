"""Blocks of a matrix as a multigrid cycle uses them: filtered to the free directions, and inverted on the diagonal.

Source      none
Symbols     S  free directions     D  a block on the diagonal     eps  stiffness in held directions
            K  contribution of contacts to D, beside the elastic part
Deviations  none
"""

import numpy as np
import warp as wp

from toile.math.types import identity, mat33, numpy_real, real
from toile.model.constraint_state import is_held

# Share of their mean that is added to diagonal blocks. They would be singular at nodes that only held particles reach,
# and where two nodes are reached by the same particles only.
REGULARIZATION = wp.constant(real(1e-6))
# eps, relative to the mean of the particle's block. Nothing may move in held directions, so it only has to be far from
# rounding; as large as the block itself it would keep a grid node from moving the free ones among its particles.
HELD = wp.constant(real(1e-3))
TINY_BLOCK = wp.constant(real(1e-30))
# [kg]  Entries below this are negligible beside any mass. In single precision their products would be denormal numbers,
# which take processors many times as long. Adding and subtracting ROUNDER makes them zero.
FAINT = 1e-16
ROUNDER = wp.constant(mat33(*(9 * [FAINT / float(np.finfo(numpy_real).eps)])))


@wp.func
def filtered(block: mat33, S_i: mat33, S_j: mat33) -> mat33:
    """Returns S_i A_ij S_j."""
    found = real(1.0) * block
    if is_held(S_j):
        found = found * S_j
    if is_held(S_i):
        found = S_i * found
    return found


@wp.func
def held_part(block: mat33, S: mat33) -> mat33:
    """Returns eps (I - S) for a block on the diagonal."""
    return HELD * wp.trace(block) / real(3.0) * (identity() - S)


@wp.struct
class BlockFilter:
    """The free directions of a matrix, and the contacts on its diagonal."""

    S: wp.array(dtype=mat33)
    K: wp.array(dtype=mat33)  # empty without contacts
    in_value: real  # factor of K in the blocks of the matrix
    in_D: real  # factor of K in D


@wp.struct
class OnDiagonal:
    block: mat33  # without the contacts
    D: mat33  # the block that the smoother inverts


@wp.func
def on_diagonal(value: mat33, filters: BlockFilter, i: int) -> OnDiagonal:
    """Returns block i of the diagonal, without the contribution K of contacts, and D."""
    found = OnDiagonal()
    S = filters.S[i]
    found.block = filtered(value, S, S) + held_part(value, S)
    found.D = found.block
    if filters.K.shape[0] > 0:
        contact = filtered(filters.K[i], S, S)
        found.block = found.block - filters.in_value * contact
        found.D = found.block + filters.in_D * contact
    return found


@wp.func
def inverse_of(D: mat33) -> wp.mat33f:
    mean = wp.trace(D) / real(3.0)
    inverse = wp.mat33f()  # zero where no direction is free
    if mean > TINY_BLOCK:
        inverse = wp.mat33f(wp.inverse(D + REGULARIZATION * mean * identity()))
    return inverse
