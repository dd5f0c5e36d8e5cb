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

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sparse
import warp as wp

from toile.device.lanes import lanes_for, rows_of, thread_count
from toile.device.launcher import Launcher
from toile.linear.base import BuiltPreconditioner, Preconditioner
from toile.linear.block_matrix import BlockMatrix
from toile.linear.multigrid import uv_hierarchy
from toile.linear.multigrid.coupled_levels import CoupledLevels
from toile.linear.multigrid.cycle_kernels import (
    BlockLanes,
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
from toile.math.types import mat33
from toile.plugins import quantity

# Smoothing reduces the errors with eigenvalues above lambda / SMOOTHED. Those below are smooth on the next grid.
SMOOTHED = 20.0
# D^-1 A of elements with p points has no eigenvalue above p, because x A_e x <= p (sum of x_i A_e,ii x_i) for each of
# them. Hinges have 4. On coarser grids elements reach more nodes, but as smooth functions: the largest eigenvalue found
# in the plane was 2.9. The cloth passes through three-dimensional grids in all directions; there it was 5.5.
BOUND, BOUND_3D = 4.0, 8.0


class Multigrid(Preconditioner):
    """V-cycle over grids in uv; for large meshes and for the GPU."""

    smoothing: int = quantity(3, doc="terms of the smoother before and after each coarse correction", ge=1, le=10)

    def build(self, A: BlockMatrix, S: wp.array) -> BuiltPreconditioner:
        return MultigridPreconditioner(A, S, self.smoothing)


class MultigridPreconditioner(BuiltPreconditioner):
    give_up_after = 0  # an update costs as much as a few iterations

    def __init__(self, A: BlockMatrix, S: wp.array, smoothing: int):
        self.A, self.S, n = A, S, A.row_count
        weights, is_3d = _weights(A)
        self.weights = [P.astype(np.float32) for P in weights]
        pattern = sparse.csr_array((np.ones(len(A.columns), np.float32), A.columns, A.offsets), shape=(n, n))
        matrix = Matrix(pattern, A.device_offsets, A.device_columns, A.values, S)
        self.levels = [_Level(matrix, A.device)]
        self.products: list[Product] = []
        for P in self.weights:
            self.products.append(Product(self.levels[-1].matrix, P, A.device))
            self.levels.append(_Level(self.products[-1].coarse, A.device))
        self.coarsest = dense_inverse(self.levels[-1].matrix, A.device)
        self._coupled: CoupledLevels | None = None
        bounds = [BOUND] + [BOUND_3D if is_3d else BOUND] * len(self.products)
        self._steps = [_chebyshev(smoothing, bound) for bound in bounds]
        self._last_step = wp.vec2f(*self._steps[0][-1])
        self._contact_shares = [1.0] + [_contact_share(*of) for of in zip(self._steps[1:], bounds[1:], strict=True)]

    def update(self) -> bool:
        self._couple()
        for k, product in enumerate(self.products):
            level = self.levels[k]
            shares = (0.0 if k else 1.0, self._contact_shares[k])
            product.update(level.contact, shares, level.rounded, level.inverse)
        self.coarsest.fill()
        if self._coupled is not None:
            self._coupled.add_to(self.coarsest.matrix)
        return self.coarsest.invert()

    def _couple(self) -> None:
        """Updates the contributions of the current contacts."""
        if self._coupled is None and self.A.couplings:
            self._coupled = CoupledLevels(self.A, self.S, self.weights)
            for level, K in zip(self.levels, self._coupled.K, strict=True):
                level.contact = K
        if self._coupled is not None:
            self._coupled.update()

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

    def _smooth(self, k: int, steps: list[tuple[float, float]]) -> int:
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


class _Level:
    """A matrix of the hierarchy, its rounded copy for cycles, and the vectors of a cycle."""

    def __init__(self, matrix: Matrix, device: str):
        self.matrix, n = matrix, matrix.pattern.shape[0]
        self.n, self.launch = n, Launcher(device)
        self.rounded = wp.zeros(len(matrix.values), dtype=wp.mat33f, device=device)
        self.lanes = BlockLanes()
        self.lanes.count, self.lanes.rows = lanes_for(n, device), rows_of(self.rounded, wp.vec3f)
        self.threads = thread_count(n, self.lanes.count)
        self._in_cycles = [self.lanes, matrix.offsets, matrix.columns, self.rounded]
        self.inverse = wp.zeros(n, dtype=wp.mat33f, device=device)  # of D
        self.contact = wp.zeros(0, dtype=mat33, device=device)  # contribution of contacts to D; empty without contacts
        self.x, self.r = (wp.zeros(n, dtype=wp.vec3f, device=device) for _ in range(2))
        self.d = [wp.zeros(n, dtype=wp.vec3f, device=device) for _ in range(2)]
        self.start = [self.r, self.d[0], self.x]

    def by_rows(self, kernel: wp.Kernel, inputs: Sequence[object]) -> None:
        """Launches a kernel that multiplies by the matrix."""
        self.launch.split(kernel, self.threads, [*self._in_cycles, *inputs])


def _chebyshev(terms: int, high: float) -> list[tuple[float, float]]:
    """Returns the two factors of each step d = keep d + add (D^-1 r), for eigenvalues up to `high`."""
    low = high / SMOOTHED
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    rho = half / middle
    found = [(0.0, 1.0 / middle)]
    for _ in range(terms - 1):
        next_rho = 1.0 / (2.0 * middle / half - rho)
        found.append((next_rho * rho, 2.0 * next_rho / half))
        rho = next_rho
    return found


def _contact_share(steps: list[tuple[float, float]], bound: float) -> float:
    """Returns the factor of K in D where smoothing leaves out contacts. It multiplies by q(D^-1 A) D^-1, with A without
    C, and stays a contraction while q(l) (l + C/D) < 2 for every eigenvalue l. C is at most 4 K, as for elements with
    four points."""
    eigenvalues = np.linspace(0.0, bound, 2001)
    q, d, left = np.zeros(2001), np.zeros(2001), np.ones(2001)  # `left` is 1 - l q
    for keep, add in steps:
        d = keep * d + add * left
        q, left = q + d, left - eigenvalues * d
    return float(1.1 * np.max(4.0 * q / (1.0 + left)))
