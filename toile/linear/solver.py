"""The linear solver of a run: modified CG, its preconditioner, and when to make the preconditioner anew."""

from typing import Any

import numpy as np
import warp as wp

from toile.device.cuda_graph import CudaGraph
from toile.linear.modified_pcg import ModifiedPCG, Solution
from toile.model.state_dict import StateDict

# After an old preconditioner failed to serve, so many solves get a new one before an old one is tried again.
SOLVES_BEFORE_RETRY = 8


class LinearSolver:
    """Solves A dv = b for the present values of A, b and the constraints."""

    def __init__(self, pcg: ModifiedPCG, preconditioner: Any, tolerance: float, max_iterations: int):
        """`preconditioner` is a working one, made by `Preconditioner.build`."""
        self.pcg, self.preconditioner = pcg, preconditioner
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self._on_cpu = wp.get_device(pcg.A.device).is_cpu
        self._update = CudaGraph(pcg.A.device, preconditioner.update)
        self._usable = False
        self._wait = 0  # solves until an old preconditioner is tried again

    def solve(self, again: float = 0.0) -> Solution:
        """Improves dv in place, until the residual is `tolerance` times what it was at the start. For a system that was
        changed a little after it had been solved, `again` is the share of that residual to go to now."""
        spent, fallen = 0, 1.0
        if self._usable and self._wait == 0 and self.preconditioner.give_up_after > 0:
            limit = min(self.max_iterations, self.preconditioner.give_up_after)
            solution = self.pcg.solve(self.preconditioner, self.tolerance, limit, again)
            if solution.converged:
                return solution
            spent, self._wait = solution.iterations, SOLVES_BEFORE_RETRY
            # The next solve goes on from here, so that part of the way has been made.
            again = again or (1.0 if np.isfinite(solution.residual) else 0.0)
            fallen = min(solution.residual, 1.0) if np.isfinite(solution.residual) else 1.0
        self._wait = max(0, self._wait - 1)
        self._usable = self._renew()
        if not self._usable:
            return Solution(spent, float("nan"), False)
        solution = self.pcg.solve(self.preconditioner, self.tolerance, self.max_iterations, again)
        return Solution(spent + solution.iterations, fallen * solution.residual, solution.converged)

    def _renew(self) -> bool:
        """Takes in the matrix as it is now; whether that was possible. On a GPU nobody looks: if it was not, the
        iteration has no finite numbers."""
        if self._on_cpu:
            return self.preconditioner.update()
        self._update(*(array for couplings in self.pcg.A.couplings for array in couplings.arrays))
        return True

    def state_dict(self) -> StateDict:
        """The preconditioner that is kept, if one is: what was solved with it depends on it by rounding."""
        if self.preconditioner.give_up_after == 0 or not self._usable:
            return {}
        return {"wait": self._wait, "preconditioner": self.preconditioner.made_from()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        if "preconditioner" in state_dict:
            self._wait = int(state_dict["wait"])
            self._usable = self.preconditioner.make_again(state_dict["preconditioner"])
