"""The linear solver of a run: modified CG, its preconditioner, and when to make the preconditioner anew."""

from typing import Any

import warp as wp

from toile.linear.base import Preconditioner
from toile.linear.block_matrix import BlockMatrix
from toile.linear.modified_pcg import ModifiedPCG, Solution


class Solver:
    """Solves A dv = b for the present values of A, b and the constraints."""

    def __init__(self, preconditioner: Preconditioner, A: BlockMatrix, b: wp.array, S: wp.array, dv: wp.array, tolerance: float, max_iterations: int):
        self.pcg = ModifiedPCG(A, b, S, dv)
        self.preconditioner: Any = preconditioner.build(A, S)
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self._last_iterations = 0
        self._usable = False

    def solve(self, same_step: bool = False) -> Solution:
        """Improves dv in place. `same_step` says that A changed little since the last solve: keep the factor."""
        keep = same_step or self._last_iterations < self.preconditioner.worth_keeping_up_to
        if self._usable and keep and self.preconditioner.give_up_after > 0:
            solution = self.pcg.solve(self.preconditioner, self.tolerance, min(self.max_iterations, self.preconditioner.give_up_after))
            if solution.converged:
                self._last_iterations = solution.iterations
                return solution
        self._usable = self.preconditioner.update()
        if not self._usable:
            return Solution(0, float("nan"), False)
        solution = self.pcg.solve(self.preconditioner, self.tolerance, self.max_iterations)
        self._last_iterations = solution.iterations
        return solution

    def forget(self) -> None:
        """The constraints changed: an old factor no longer fits."""
        self._usable = False
