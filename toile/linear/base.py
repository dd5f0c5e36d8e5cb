"""What every preconditioner does: take in a new matrix, and apply its approximate inverse."""

from typing import Any

import warp as wp

from toile.linear.block_matrix import BlockMatrix
from toile.plugins import Plugin


class Preconditioner(Plugin):
    """Settings of a preconditioner; `build` makes the working one for a matrix pattern."""

    def build(self, A: BlockMatrix, S: wp.array) -> Any:
        """An object with

        update() -> bool       takes in the present values of A and S; False when A is not positive definite
        apply(r, s_out)        s = P^-1 r
        worth_keeping_up_to    an old one is kept for the next step while solves take fewer iterations than this
        give_up_after          with an old one, iterations after which a new one is made
        """
        raise NotImplementedError
