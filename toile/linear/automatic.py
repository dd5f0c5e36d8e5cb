"""The preconditioner of a scene that names none, chosen by measurements."""

import importlib.util

import warp as wp

from toile.linear.base import Preconditioner
from toile.linear.precondition_block_jacobi import BlockJacobi
from toile.linear.precondition_cholesky import Cholesky
from toile.linear.precondition_multigrid import Multigrid

# Processor time of a frame with multigrid and with CHOLMOD [ms] (benchmarks/multigrid.py): `hang` 15 and 14 at 1,296
# particles, 30 and 33 at 2,601, 56 and 74 at 5,041, 113 and 180 at 10,201; `drape` 57 and 40 at 1,296, 104 and 120 at
# 2,601, 187 and 449 at 5,041; `twist` 39 and 32 at 1,653, `layers` 298 and 432 at 3,125, `ball` 121 and 203 at 6,561.
# Only multigrid runs on several threads. The sheet of `swing` has the same error with both: 2.4 cm.
LARGEST_FOR_CHOLMOD = 2000
# Without CHOLMOD, QDLDL makes the factor. `hang` takes with multigrid and with QDLDL 5.2 and 5.1 ms at 256 particles,
# 8.4 and 14 at 529, 16 and 50 at 1,296 (block-Jacobi 11, 20 and 50).
LARGEST_FOR_QDLDL = 250


def automatic(particle_count: int, device: str) -> Preconditioner:
    """Returns Cholesky for small meshes on the CPU, multigrid for large ones and on a GPU."""
    if particle_count == 0:
        return BlockJacobi()
    has_cholmod = importlib.util.find_spec("cvxopt") is not None
    largest = LARGEST_FOR_CHOLMOD if has_cholmod else LARGEST_FOR_QDLDL
    return Cholesky() if wp.get_device(device).is_cpu and particle_count <= largest else Multigrid()
