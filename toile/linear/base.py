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
        give_up_after          iterations with an old one after which a new one is made; 0 to make a new one always

        and, where an old one may serve again,

        made_from() -> array   the numbers that it was made from
        make_again(array)      the same one from these
        """
        raise NotImplementedError
