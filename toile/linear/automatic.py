"""The preconditioner a scene gets when it names none, by what was measured."""

import importlib.util

import warp as wp

from toile.linear.base import Preconditioner
from toile.linear.precondition_block_jacobi import BlockJacobi
from toile.linear.precondition_cholesky import Cholesky

# Without CHOLMOD a factor is made by QDLDL, whose cost grows faster than that of block-Jacobi's iterations. Frames of
# the hanging sheet took 13 against 30 ms at 500 particles, 59 against 68 at 1,225, 209 against 186 at 2,601.
LARGEST_FOR_QDLDL = 1500


def automatic(particle_count: int, device: str) -> Preconditioner:
    """Cholesky where it pays, block-Jacobi elsewhere."""
    if particle_count == 0 or not wp.get_device(device).is_cpu:
        return BlockJacobi()
    if importlib.util.find_spec("cvxopt") is None and particle_count > LARGEST_FOR_QDLDL:
        return BlockJacobi()
    return Cholesky()
