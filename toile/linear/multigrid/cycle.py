"""The V-cycle of the multigrid preconditioner (toile/linear/precondition_multigrid.py)."""

import numpy as np
import scipy.sparse as sparse
import warp as wp

from toile.linear.base import BuiltPreconditioner
from toile.linear.block_matrix import BlockMatrix
from toile.linear.multigrid import uv_hierarchy
from toile.linear.multigrid.chebyshev import BOUND, BOUND_3D, Step, chebyshev, contact_share
from toile.linear.multigrid.coupled_levels import CoupledLevels
from toile.linear.multigrid.cycle_kernels import (
    begin,
    correct,
    filter_vectors,
    restrict,
    smooth,
    smooth_last,
    subtract_product,
)
from toile.linear.multigrid.dense_inverse import dense_inverse
from toile.linear.multigrid.galerkin import Matrix, Product
from toile.linear.multigrid.level import Level


class MultigridPreconditioner(BuiltPreconditioner):
    """One V-cycle over the levels of a hierarchy, the finest first."""

    give_up_after = 0  # an update costs as much as a few iterations

    def __init__(self, A: BlockMatrix, S: wp.array, smoothing: int):
        self.A, self.S, n = A, S, A.row_count
        weights, is_3d = _weights(A)
        self.weights = [P.astype(np.float32) for P in weights]
        pattern = sparse.csr_array((np.ones(len(A.columns), np.float32), A.columns, A.offsets), shape=(n, n))
        matrix = Matrix(pattern, A.device_offsets, A.device_columns, A.values, S)
        self.levels = [Level(matrix, A.device)]
        self.products: list[Product] = []
        for P in self.weights:
            self.products.append(Product(self.levels[-1].matrix, P, A.device))
            self.levels.append(Level(self.products[-1].coarse, A.device))
        self.coarsest = dense_inverse(self.levels[-1].matrix, A.device)
        bounds = [BOUND] + [BOUND_3D if is_3d else BOUND] * len(self.products)
        self._steps = [chebyshev(smoothing, bound) for bound in bounds]
        self._last_step = wp.vec2f(*self._steps[0][-1])
        self._coupled: CoupledLevels | None = None
        if A.couplings:
            shares = [1.0, *(contact_share(*of) for of in zip(self._steps[1:], bounds[1:], strict=True))]
            self._coupled = CoupledLevels(A, S, self.weights)
            for k, K in enumerate(self._coupled.K):
                self.levels[k].couple(K, 0.0 if k else 1.0, shares[k])

    def prepare(self) -> None:
        if self._coupled is not None:
            self._coupled.reserve()

    def update(self) -> bool:
        if self._coupled is not None:
            self._coupled.update()
        for level, product in zip(self.levels, self.products, strict=False):
            product.update(level.filters, level.rounded, level.inverse)
        self.coarsest.fill()
        if self._coupled is not None:
            self._coupled.add_to(self.coarsest.matrix)
        return self.coarsest.invert()

    def apply(self, r: wp.array, s_out: wp.array) -> None:
        finest, last, steps = self.levels[0], self.levels[-1], self._steps
        finest.launch.split(begin, finest.n, [r, finest.inverse, steps[0][0][1], *finest.start])
        for k, product in enumerate(self.products):
            fine, coarse = self.levels[k], self.levels[k + 1]
            at = self._smooth(k, steps[k][1:])
            self._apply_contacts(k, fine.x if k else fine.d[at])
            fine.by_rows(subtract_product, [fine.d[at], fine.r])
            first = [fine.r, coarse.inverse, steps[k + 1][0][1], *coarse.start]
            coarse.launch.split(restrict, coarse.threads, [coarse.lanes.count, *product.down.arrays, *first])
        self.coarsest.multiply(last.r, last.x)
        for k, product in reversed(list(enumerate(self.products))):
            fine, coarse = self.levels[k], self.levels[k + 1]
            fine.launch.split(correct, fine.n, [*product.up.arrays, coarse.x, fine.d[0], fine.x])
            if k:
                self._apply_contacts(k, fine.d[0])
            at = self._smooth(k, steps[k] if k else steps[0][:-1])
        if self.products:
            self._apply_contacts(0, finest.d[at])
            inputs = [finest.inverse, finest.d[at], self._last_step, finest.r, finest.x, self.S, s_out]
            finest.by_rows(smooth_last, inputs)
        else:
            finest.launch.split(filter_vectors, finest.n, [finest.x, self.S, s_out])

    def _smooth(self, k: int, steps: list[Step]) -> int:
        """Smooths from the correction in d[0], which is not yet in the residual; returns the index in d of the last
        correction. Contacts are included on the finest level."""
        level, at = self.levels[k], 0
        for keep, add in steps:
            if k == 0:
                self._apply_contacts(0, level.d[at])
            level.by_rows(smooth, [level.inverse, level.d[at], keep, add, level.r, level.d[1 - at], level.x])
            at = 1 - at
        return at

    def _apply_contacts(self, k: int, d: wp.array) -> None:
        """Subtracts the contribution of contacts in r -= A_k d."""
        if self._coupled is not None:
            self._coupled.subtract_product(k, d, self.levels[k].r)


def _weights(A: BlockMatrix) -> tuple[list[sparse.csr_array], bool]:
    """Returns P of every level, and whether any grid is three-dimensional. Pieces that are not sewn together each have
    a node of the coarsest grid; too many for a direct solve, they are only smoothed, and the last P is empty.
    """
    sites = None if A.sites is None else A.sites()
    found = [] if sites is None else uv_hierarchy.interpolations(sites, A.row_count)
    n = found[-1].shape[1] if found else A.row_count
    is_3d = sites is not None and bool(sites.at[:, 2:].any())
    return found if n <= uv_hierarchy.COARSEST else [*found, sparse.csr_array((n, 0))], is_3d
