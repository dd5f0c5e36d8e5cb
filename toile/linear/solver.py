"""The linear solver of a run: modified CG with a preconditioner, which is updated when it no longer serves."""

from dataclasses import replace

import numpy as np
import warp as wp

from toile.device.cuda_graph import CudaGraph
from toile.linear.base import BuiltPreconditioner
from toile.linear.modified_pcg import ModifiedPCG, Solution
from toile.model.state_dict import StateDict, joined, part_of
from toile.step_limits import SOLVES_BEFORE_RETRY


class LinearSolver:
    """Solves A dv = b for the current values of A, b and the constraints."""

    def __init__(self, pcg: ModifiedPCG, preconditioner: BuiltPreconditioner, tolerance: float, max_iterations: int):
        self.pcg, self.preconditioner = pcg, preconditioner
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self._on_cpu = wp.get_device(pcg.A.device).is_cpu
        self._update = CudaGraph(pcg.A.device, preconditioner.update)
        self._usable = False
        self._wait = 0  # solves until a stale preconditioner is tried again

    def solve(self, again: float = 0.0, loosen: float = 1.0) -> Solution:
        """Improves dv in place, until the residual is `tolerance` times that at the start.

        For a system that was changed a little after it had been solved, the limit of the residual is instead `again`
        times the limit of that solve. `loosen` is a multiple of the limit
        that is enough for this solve.
        """
        spent, fallen = 0, 1.0
        if self._usable and self._wait == 0 and self.preconditioner.give_up_after > 0:
            limit = min(self.max_iterations, self.preconditioner.give_up_after)
            solution = self.pcg.solve(self.preconditioner, self.tolerance, limit, again, loosen)
            if solution.converged:
                return replace(solution, solves=1)
            spent, self._wait = solution.iterations, SOLVES_BEFORE_RETRY
            # The next solve starts from this dv, whose residual has already fallen.
            again = again or (1.0 if np.isfinite(solution.residual) else 0.0)
            fallen = min(solution.residual, 1.0) if np.isfinite(solution.residual) else 1.0
        self._wait = max(0, self._wait - 1)
        self._usable = self._renew()
        if not self._usable:
            return Solution(spent, float("nan"), False, 1)
        solution = self.pcg.solve(self.preconditioner, self.tolerance, self.max_iterations, again, loosen)
        return Solution(spent + solution.iterations, fallen * solution.residual, solution.converged, 1)

    def _renew(self) -> bool:
        """Updates the preconditioner to the current matrix; returns whether that was possible. On a GPU there is no
        readback, and the result is True: if it was not possible, the iteration yields no finite numbers."""
        self.preconditioner.prepare()
        if self._on_cpu:
            return self.preconditioner.update()
        self._update(*(couplings.groups for couplings in self.pcg.A.couplings))
        return True

    def state_dict(self) -> StateDict:
        """Returns the stale preconditioner, if one is in use: solutions depend on it by rounding."""
        if self.preconditioner.give_up_after == 0 or not self._usable:
            return {}
        return {"wait": self._wait, **joined({"preconditioner": self.preconditioner.state_dict()})}

    def load_state_dict(self, state_dict: StateDict) -> None:
        stale = part_of(state_dict, "preconditioner")
        if stale:
            self._wait = int(state_dict["wait"])
            self._usable = self.preconditioner.load_state_dict(stale)
