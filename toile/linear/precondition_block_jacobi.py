"""Block-Jacobi: the inverse of each particle's own 3x3 block. It runs everywhere and is the reference for the others.

Source      [BW98] sec. 5.3 with blocks for the diagonal
Deviations  The block of the free directions is inverted, S A_ii S + (I - S), so that it exists for held particles too.
"""

import warp as wp

from toile.device.launcher import Launcher
from toile.linear.base import BuiltPreconditioner, Preconditioner
from toile.linear.block_matrix import BlockMatrix
from toile.math.types import identity, mat33, vec3


@wp.kernel
def invert_blocks(
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33), S: wp.array(dtype=mat33),
    # out
    inverse_out: wp.array(dtype=mat33),
):  # fmt: skip
    i = wp.tid()
    inverse_out[i] = wp.inverse(S[i] * values[diagonal[i]] * S[i] + identity() - S[i])


@wp.kernel
def apply_blocks(inverse: wp.array(dtype=mat33), r: wp.array(dtype=vec3), s_out: wp.array(dtype=vec3)):
    i = wp.tid()
    s_out[i] = inverse[i] * r[i]


class BlockJacobi(Preconditioner):
    """One 3x3 inverse per particle."""

    def build(self, A: BlockMatrix, S: wp.array) -> BuiltPreconditioner:
        return BlockJacobiPreconditioner(A, S)


class BlockJacobiPreconditioner(BuiltPreconditioner):
    """The inverses of the diagonal blocks of a matrix."""

    give_up_after = 0  # an update costs less than one iteration

    def __init__(self, A: BlockMatrix, S: wp.array):
        self.A, self.S = A, S
        self.inverse = wp.zeros(A.row_count, dtype=mat33, device=A.device)
        self._launch = Launcher(A.device)

    def update(self) -> bool:
        A = self.A
        self._launch(invert_blocks, A.row_count, [A.diagonal, A.values, self.S, self.inverse])
        return True

    def apply(self, r: wp.array, s_out: wp.array) -> None:
        self._launch(apply_blocks, self.A.row_count, [self.inverse, r, s_out])
