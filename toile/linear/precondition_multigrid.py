"""Multigrid over grids in uv: the number of iterations hardly grows with the size of the mesh.

    A_0 = S A S + eps (I - S),    A_(l+1) = P^T A_l P

The preconditioner is one V-cycle: smooth on each level from fine to coarse, solve on the coarsest, then correct and
smooth from coarse to fine. The smoother is a Chebyshev polynomial in D^-1 A_l, where D are the blocks on the diagonal;
it is the same before and after the coarse correction, so that the cycle is symmetric.

The hierarchy depends on the mesh alone and is built once (toile/linear/multigrid/uv_hierarchy.py), with the patterns of
its matrices (toile/linear/multigrid/galerkin.py). Contacts between cloths add blocks outside the pattern of A, which
act on all levels too (toile/linear/multigrid/coupled_levels.py): on the finest in every product, on the others in
residuals alone, while smoothing there has their contribution in D. `update` and `apply` consist of launches without
readbacks, so that both can be captured in CUDA graphs.

Cycles are in single precision, whatever that of the solver: they only have to be approximate, and spend most of their
time on reading matrices. The products P^T A P keep the precision of the solver.

Source      [BW98] sec. 5.3 admits any P; Chebyshev smoothing: Adams, Brezina, Hu & Tuminaro 2003
Symbols     P  weights of a level     S  free directions     r  residual     d  correction
            lambda  bound of the eigenvalues of D^-1 A_l
Deviations  none
"""

import warp as wp

from toile.linear.base import BuiltPreconditioner, Preconditioner
from toile.linear.block_matrix import BlockMatrix
from toile.linear.multigrid.cycle import MultigridPreconditioner
from toile.plugins import quantity


class Multigrid(Preconditioner):
    """V-cycle over grids in uv; for large meshes and for the GPU."""

    smoothing: int = quantity(3, doc="terms of the smoother before and after each coarse correction", ge=1, le=10)

    def build(self, A: BlockMatrix, S: wp.array) -> BuiltPreconditioner:
        return MultigridPreconditioner(A, S, self.smoothing)
