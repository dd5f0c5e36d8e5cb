"""The linear solver of a run: modified CG, its preconditioner, and when to make the preconditioner anew."""

from typing import Any

from toile.linear.modified_pcg import ModifiedPCG, Solution


class Solver:
    """Solves A dv = b for the present values of A, b and the constraints."""

    def __init__(self, pcg: ModifiedPCG, preconditioner: Any, tolerance: float, max_iterations: int):
        """`preconditioner` is a working one, made by `Preconditioner.build`."""
        self.pcg, self.preconditioner = pcg, preconditioner
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self._last_iterations = 0
        self._usable = False

    def solve(self) -> Solution:
        """Improves dv in place."""
        if self._usable and self._last_iterations < self.preconditioner.worth_keeping_up_to:
            limit = min(self.max_iterations, self.preconditioner.give_up_after)
            solution = self.pcg.solve(self.preconditioner, self.tolerance, limit)
            if solution.converged:
                self._last_iterations = solution.iterations
                return solution
        self._usable = self.preconditioner.update()
        if not self._usable:
            return Solution(0, float("nan"), False)
        solution = self.pcg.solve(self.preconditioner, self.tolerance, self.max_iterations)
        self._last_iterations = solution.iterations
        return solution
