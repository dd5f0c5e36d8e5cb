"""Random positive-definite block systems with random constraints, for the tests of the linear solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from toile.linear.block_matrix import BlockMatrix
from toile.linear.modified_pcg import ModifiedPCG
from toile.linear.multigrid.uv_hierarchy import Sites
from toile.math.types import mat33, vec3


@dataclass
class LinearSystem:
    """A dv = b with S and z, dense for the reference and on the device for the solver."""

    A: np.ndarray  # (3 n, 3 n)
    b: np.ndarray  # (n, 3)
    S: np.ndarray  # (n, 3, 3)
    z: np.ndarray  # (n, 3)
    freedom: np.ndarray  # (n,)  ndof of each particle
    matrix: BlockMatrix
    device_S: Any

    def start(self) -> ModifiedPCG:
        """A solver that starts from dv = z; its solution will be in `dv`."""
        device = self.matrix.device
        self.dv = wp.array(self.z, dtype=vec3, device=device)
        return ModifiedPCG(self.matrix, wp.array(self.b, dtype=vec3, device=device), self.device_S, self.dv)

    def fill(self, A: np.ndarray) -> None:
        """Sets other values on the same pattern."""
        n = len(self.b)
        blocks = A.reshape(n, 3, n, 3).transpose(0, 2, 1, 3)[self.matrix.rows, self.matrix.columns]
        self.matrix.values.assign(wp.array(np.ascontiguousarray(blocks), dtype=mat33, device=self.matrix.device))
        self.A = A


def random_matrix(stencils: np.ndarray, n: int, rng: np.random.Generator, contrast: float = 1.0) -> np.ndarray:
    """Masses and, on each stencil, G G^T; stiffness varies by up to `contrast` between stencils."""
    A = np.diag(np.repeat(rng.uniform(0.5, 2.0, n), 3))
    for stencil in stencils:
        rows = (3 * stencil[:, None] + np.arange(3)).ravel()
        G = rng.normal(size=(len(rows), 2))
        A[np.ix_(rows, rows)] += contrast ** rng.uniform() * G @ G.T
    return A


def random_system(n: int, device: str, seed: int, contrast: float = 1.0, held: float = 1.0) -> LinearSystem:
    """Random triangles among neighbors; a share `held` of the particles has ndof 0 to 3, in equal parts."""
    rng = np.random.default_rng(seed)
    first = np.arange(n - 4)
    stencils = np.stack([first, first + rng.integers(1, 3, n - 4), first + rng.integers(3, 5, n - 4)], axis=1)
    A = random_matrix(stencils, n, rng, contrast)
    freedom = np.where(rng.uniform(size=n) < held, np.arange(n) % 4, 3)
    S, z = np.zeros((n, 3, 3)), np.zeros((n, 3))
    for i in range(n):
        Q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        free, fixed = Q[:, : freedom[i]], Q[:, freedom[i] :]
        S[i] = free @ free.T
        z[i] = fixed @ rng.normal(size=3 - freedom[i])
    S[freedom == 3] = np.eye(3)
    matrix = BlockMatrix.from_stencils(n, [stencils.astype(np.int32)], device)
    # Neighbors in uv couple; one particle is on a seam and has two rest positions.
    places, panels = np.append(np.arange(n), n // 2), np.append(np.arange(n) < n // 2, True).astype(int)
    plane = np.column_stack([places, places % 3]).astype(float)
    matrix.sites = lambda: Sites(places, panels, plane, 1.0)
    device_S = wp.array(S, dtype=mat33, device=device)
    system = LinearSystem(A, rng.normal(size=(n, 3)), S, z, freedom, matrix, device_S)
    system.fill(A)
    return system
