"""Impulses along springs, densely and as [Ye08] writes them: one row per spring, fully held springs deleted."""

from __future__ import annotations

import numpy as np


def grid_springs(columns: int, rows: int) -> np.ndarray:
    """Structural springs of a sheet of quadrilaterals, row by row."""
    number = np.arange(columns * rows).reshape(rows, columns)
    along = np.stack([number[:, :-1], number[:, 1:]], axis=2).reshape(-1, 2)
    across = np.stack([number[:-1], number[1:]], axis=2).reshape(-1, 2)
    return np.concatenate([along, across])


def flat_grid(columns: int, rows: int) -> np.ndarray:
    u, v = np.meshgrid(np.linspace(0.0, 1.0, columns), np.linspace(0.0, 1.0, rows))
    return np.column_stack([u.ravel(), v.ravel(), np.zeros(columns * rows)])


def jacobian(x: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """J: (springs, 3 n), the rate of each length from velocities."""
    d = x[pairs[:, 1]] - x[pairs[:, 0]]
    d /= np.linalg.norm(d, axis=1)[:, None]
    J = np.zeros((len(pairs), len(x), 3))
    each = np.arange(len(pairs))
    J[each, pairs[:, 0]], J[each, pairs[:, 1]] = -d, d
    return J.reshape(len(pairs), -1)


def weights(masses: np.ndarray, C: np.ndarray) -> np.ndarray:
    """W = C/m of all particles as one matrix (3 n, 3 n)."""
    n = len(masses)
    W = np.zeros((n, 3, n, 3))
    W[np.arange(n), :, np.arange(n)] = C / masses[:, None, None]
    return W.reshape(3 * n, 3 * n)


def limited(
    x: np.ndarray, v: np.ndarray, h: float, pairs: np.ndarray, low: np.ndarray, high: np.ndarray, W: np.ndarray
) -> np.ndarray:
    """Velocities after impulses: eq. (5) for all springs, with z of the four cases."""
    J = jacobian(x, pairs)
    L, ahead = (np.linalg.norm(at[pairs[:, 1]] - at[pairs[:, 0]], axis=1) for at in (x, x + h * v))
    rate = J @ v.ravel()
    z = np.where((ahead > high) | (ahead < low), np.clip(L, low, high) - L, h * rate)
    A = J @ W @ J.T
    kept = np.flatnonzero(np.diag(A) > 1e-12 * np.diag(A).max())
    s = np.zeros(len(pairs))
    s[kept] = np.linalg.solve(A[np.ix_(kept, kept)], (rate - z / h)[kept])
    return v - (W @ J.T @ s).reshape(v.shape)
