"""The contract of preconditioners: their settings in a scene, and what is built from them for a matrix."""

from abc import abstractmethod
from typing import Protocol

import warp as wp

from toile.linear.block_matrix import BlockMatrix
from toile.model.state_dict import StateDict
from toile.plugins import Plugin


class BuiltPreconditioner(Protocol):
    """An approximate inverse of one matrix A, restricted to its free directions S.

    On a GPU `update` and `apply` are captured in CUDA graphs (toile/device/cuda_graph.py), `update` by LinearSolver and
    `apply` in the loop of iterations of ModifiedPCG, which the device itself ends. Except in the first call of each,
    which is not captured, both consist of launches alone:

    * They read nothing back, and the host does not branch on values that are on the device.
    * They allocate nothing and launch the same kernels with the same arrays each time. Only the arrays of `A.couplings`
      may be replaced by longer ones: the graphs are then captured anew.
    * The result of `update` is not used. If A is not positive definite, `apply` must yield NaN, which ends the loop.
    """

    # Iterations with a stale preconditioner after which it is updated; 0 to update it before every solve.
    give_up_after: int

    def prepare(self) -> None:
        """Makes room for the contacts of the matrix before every `update`; not captured."""
        return

    @abstractmethod
    def update(self) -> bool:
        """Computes P from the current values of A and S; returns False when A is found not to be positive definite."""

    @abstractmethod
    def apply(self, r: wp.array, s_out: wp.array) -> None:
        """s = P^-1 r."""

    def state_dict(self) -> StateDict:
        """Returns the values from which P was computed, if a stale P may be used again."""
        return {}

    def load_state_dict(self, state_dict: StateDict) -> bool:
        """Computes the same P from these values; returns whether it can be used."""
        return False


class Preconditioner(Plugin):
    """Settings of a preconditioner; `build` makes the preconditioner of a matrix."""

    def build(self, A: BlockMatrix, S: wp.array) -> BuiltPreconditioner:
        """Allocates all arrays for the pattern of A. The values of A and S are read later, by `update`."""
        raise NotImplementedError
