"""The preconditioner a scene gets when it names none, by what was measured."""

import importlib.util

import warp as wp

from toile.linear.base import Preconditioner
from toile.linear.precondition_block_jacobi import BlockJacobi
from toile.linear.precondition_cholesky import Cholesky
from toile.linear.precondition_multigrid import Multigrid

# Frames of the hanging sheet, multigrid against CHOLMOD: 34 and 32 ms at 2,601 particles, 64 and 71 at 5,041, 94 and
# 113 at 7,396; with twice the stiffness 39 and 36 at 4,225, 78 and 98 at 10,201. Contacts with solids hold many
# particles, and need more iterations: `ball` takes 456 and 376 ms at 6,561.
LARGEST_FOR_CHOLMOD = 8000
# Without CHOLMOD a factor is made by QDLDL: multigrid 10 and QDLDL 12 ms at 500 particles, 17 and 49 at 1,225
# (block-Jacobi 16 and 40).
LARGEST_FOR_QDLDL = 500


def automatic(particle_count: int, device: str) -> Preconditioner:
    """Cholesky for small meshes, multigrid for large ones; block-Jacobi on a GPU."""
    if particle_count == 0 or not wp.get_device(device).is_cpu:
        return BlockJacobi()
    has_cholmod = importlib.util.find_spec("cvxopt") is not None
    return Cholesky() if particle_count <= (LARGEST_FOR_CHOLMOD if has_cholmod else LARGEST_FOR_QDLDL) else Multigrid()
