"""The diagonal of the matrix, the preconditioner of the paper.

Source      [BW98] sec. 5.3
Deviations  P_ii = A_ii; the paper prints its inverse.
"""

import warp as wp

from toile.device.launcher import Launcher
from toile.linear.base import BuiltPreconditioner, Preconditioner
from toile.linear.block_matrix import BlockMatrix
from toile.math.types import mat33, real, vec3


@wp.kernel
def invert_diagonal(
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in
    values: wp.array(dtype=mat33),
    # out
    inverse_out: wp.array(dtype=vec3),
):
    i = wp.tid()
    block = values[diagonal[i]]
    inverse_out[i] = vec3(real(1.0) / block[0, 0], real(1.0) / block[1, 1], real(1.0) / block[2, 2])


@wp.kernel
def scale(inverse: wp.array(dtype=vec3), r: wp.array(dtype=vec3), s_out: wp.array(dtype=vec3)):
    i = wp.tid()
    s_out[i] = wp.cw_mul(inverse[i], r[i])


class Diagonal(Preconditioner):
    """Inverse of the diagonal; cheap to make, slow to converge on stiff cloth."""

    def build(self, A: BlockMatrix, S: wp.array) -> BuiltPreconditioner:
        return DiagonalPreconditioner(A)


class DiagonalPreconditioner(BuiltPreconditioner):
    """The inverse of the diagonal of a matrix."""

    give_up_after = 0  # an update costs less than one iteration

    def __init__(self, A: BlockMatrix):
        self.A = A
        self.inverse = wp.zeros(A.row_count, dtype=vec3, device=A.device)
        self._launch = Launcher(A.device)

    def update(self) -> bool:
        A = self.A
        self._launch(invert_diagonal, A.row_count, [A.diagonal, A.values, self.inverse])
        return True

    def apply(self, r: wp.array, s_out: wp.array) -> None:
        self._launch(scale, self.A.row_count, [self.inverse, r, s_out])
