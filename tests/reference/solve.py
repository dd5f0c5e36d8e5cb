"""A dense solve with constraints, in coordinates of the free directions only."""

from __future__ import annotations

import numpy as np


def constrained_solve(A: np.ndarray, b: np.ndarray, S: np.ndarray, z: np.ndarray) -> np.ndarray:
    """dv (n, 3) with (I - S_i) dv_i = z_i for every particle and Q^T (A dv - b) = 0, Q a basis of the free
    directions."""
    n = len(b)
    columns = []
    for i in range(n):
        values, vectors = np.linalg.eigh(S[i])
        for value, vector in zip(values, vectors.T, strict=True):
            if value > 0.5:  # S is a projection: its eigenvalues are 0 and 1
                column = np.zeros(3 * n)
                column[3 * i : 3 * i + 3] = vector
                columns.append(column)
    if not columns:
        return z.copy()
    Q = np.array(columns).T
    held = z.ravel()
    free = np.linalg.solve(Q.T @ A @ Q, Q.T @ (b.ravel() - A @ held))
    return (held + Q @ free).reshape(n, 3)
