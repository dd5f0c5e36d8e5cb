"""Dense stiffness matrices of springs, and the growth of explicit steps."""

from __future__ import annotations

import numpy as np


def spring_matrix(x: np.ndarray, pairs: np.ndarray, K: np.ndarray) -> np.ndarray:
    """-df/dx of springs at their rest lengths."""
    matrix = np.zeros((len(x), 3, len(x), 3))
    for (i, j), k in zip(pairs, K, strict=True):
        n = (x[j] - x[i]) / np.linalg.norm(x[j] - x[i])
        block = k * np.outer(n, n)
        for a, b, sign in ((i, i, 1.0), (j, j, 1.0), (i, j, -1.0), (j, i, -1.0)):
            matrix[a, :, b, :] += sign * block
    return matrix.reshape(3 * len(x), 3 * len(x))


def by_mass(matrix: np.ndarray, masses: np.ndarray, pinned: list[int]) -> np.ndarray:
    """M^-1/2 A M^-1/2 without the particles that do not move."""
    root = np.repeat(np.sqrt(masses), 3)
    free = np.setdiff1d(np.arange(len(matrix)), [3 * p + axis for p in pinned for axis in range(3)])
    return (matrix / root[:, None] / root[None, :])[np.ix_(free, free)]


def growth_of_symplectic_euler(K: np.ndarray, D: np.ndarray, h: float) -> float:
    """Largest |eigenvalue| of v1 = v - h (K x + D v), x1 = x + h v1."""
    one = np.eye(len(K))
    velocity = np.hstack([-h * K, one - h * D])
    step = np.vstack([np.hstack([one, 0.0 * one]) + h * velocity, velocity])
    return float(np.abs(np.linalg.eigvals(step)).max())


def grid_springs(rows: int, flexion: bool) -> np.ndarray:
    """[Pro95] fig. 1: masses [i, j] with [i+1, j], [i, j+1]; with [i+1, j+1]; with [i+2, j], [i, j+2]."""
    number = np.arange(rows * rows).reshape(rows, rows)
    steps = [(1, 0), (0, 1)] + ([(1, 1), (1, -1), (2, 0), (0, 2)] if flexion else [])
    pairs = []
    for di, dj in steps:
        for i in range(rows - di):
            for j in range(max(0, -dj), rows - max(0, dj)):
                pairs.append((number[i, j], number[i + di, j + dj]))
    return np.array(pairs)
