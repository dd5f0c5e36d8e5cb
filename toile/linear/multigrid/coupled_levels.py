"""The blocks of contacts outside the pattern of a matrix, on the levels of a multigrid cycle.

    C_l = Q^T S C S Q,    Q = P_0 P_1 ... P_(l-1)

C is the sum over groups of four particles of the blocks w_a w_b B (toile/linear/block_matrix.py). Two layers in contact
resist only relative motion; with C in D alone, a cycle would treat them as fixed in space. The groups change in every
step, so that no matrix is assembled from them: products go through the particles (coupled_products.py).

Source      [BW98] has no such products
Symbols     w  weights of a group's particles     B  its block     K  contribution of C to D
Deviations  none
"""

import scipy.sparse as sparse
import warp as wp

from toile.device.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, CouplingGroups
from toile.linear.multigrid.coupled_products import CoupledProducts
from toile.linear.multigrid.galerkin import Weights
from toile.math.types import mat33, real
from toile.model.constraint_state import is_held


class CoupledLevels:
    """The couplings of A on every level, the finest first."""

    def __init__(self, A: BlockMatrix, S: wp.array, weights: list[sparse.csr_array]):
        """`weights` are P of every level."""
        self._A, self._S, self._launch = A, S, Launcher(A.device)
        self._products = CoupledProducts(A, S, weights)
        self.K = [wp.zeros(A.row_count, dtype=mat33, device=A.device)]
        self.K += [wp.zeros(P.shape[1], dtype=mat33, device=A.device) for P in weights]
        self._bounds = wp.zeros(A.row_count, dtype=mat33, device=A.device)
        self._down = [Weights(P, A.device) for P in weights]

    def reserve(self) -> None:
        """Makes room for the present groups, before `update`."""
        self._products.reserve()

    def update(self) -> None:
        """Takes over the present groups, and computes K of every level. On the finest it is the contribution of
        contacts to the diagonal of A; on the others it is a bound for the smoother: C <= 4 K, as for elements with four
        points."""
        self._bounds.zero_()
        for K in self.K:
            K.zero_()
        for couplings in self._A.couplings:
            count = couplings.capacity if self._products.on_gpu else int(couplings.count.numpy()[0])
            self._launch(add_squares, count, [couplings.groups, self._S, self.K[0], self._bounds])
        finer = self._bounds
        for P, K in zip(self._down, self.K[1:], strict=True):
            self._launch(add_bounds, len(finer), [finer, *P.arrays, K])
            finer = K
        self._products.update()

    def add_to(self, dense_out: wp.array) -> None:
        """Adds C to the dense matrix of the coarsest level."""
        self._products.add_to(dense_out)

    def subtract_product(self, level: int, d: wp.array, r_out: wp.array) -> None:
        """r -= C_l d."""
        self._products.subtract(level, d, r_out)


@wp.kernel
def add_squares(
    # in
    groups: CouplingGroups, S: wp.array(dtype=mat33),
    # in and out
    K_out: wp.array(dtype=mat33), bounds_out: wp.array(dtype=mat33),
):  # fmt: skip
    """Adds the blocks of a group on the diagonal, and their bounds in the free directions."""
    k = wp.tid()
    if k >= groups.count[0]:
        return
    at, w, block = groups.particles[k], groups.weights[k], real(1.0) * groups.blocks[k]
    # |sum of w_a x_a|^2 <= (sum of |w_a|) (sum of |w_a| |x_a|^2), and likewise for interpolation, whose weights have
    # the sum 1.
    total = wp.abs(w[0]) + wp.abs(w[1]) + wp.abs(w[2]) + wp.abs(w[3])
    for a in range(4):
        i = at[a]
        wp.atomic_add(K_out, i, w[a] * w[a] * block)
        bound = real(0.25) * total * wp.abs(w[a]) * block
        if is_held(S[i]):
            bound = S[i] * bound * S[i]
        wp.atomic_add(bounds_out, i, bound)


@wp.kernel
def add_bounds(
    # in
    finer: wp.array(dtype=mat33),
    # model
    offsets: wp.array(dtype=wp.int32), columns: wp.array(dtype=wp.int32), P: wp.array(dtype=wp.float32),
    # in and out
    K_out: wp.array(dtype=mat33),
):  # fmt: skip
    i = wp.tid()
    block = real(1.0) * finer[i]
    if wp.trace(block) != real(0.0):
        for e in range(offsets[i], offsets[i + 1]):
            wp.atomic_add(K_out, columns[e], real(P[e]) * block)
