"""Second derivatives of stretch and shear over F = (w_u w_v), and the clamping of their negative eigenvalues.

    k dC dC^T + sigma d2C,    sigma = k C + k_d dC/dt

Over f = (w_u; w_v), six numbers per triangle and per unit of area:

    stretch   k w^ w^^T + s (I - w^ w^^T)/|w|         on the half of f that belongs to w = w_u or w_v
    shear     k g g^T + s [[0, I], [I, 0]],           g = (w_v; w_u)

with s = sigma/sqrt(a). All functions take any number of triangles.
"""

from __future__ import annotations

import numpy as np


def stretch_hessian(F: np.ndarray, axis: int, k: float, s: np.ndarray) -> np.ndarray:
    """(..., 6, 6) for F (..., 3, 2)."""
    w = F[..., axis]
    length = np.linalg.norm(w, axis=-1)[..., None, None]
    along = w[..., :, None] * w[..., None, :] / length**2
    H = np.zeros((*F.shape[:-2], 6, 6))
    half = slice(3 * axis, 3 * axis + 3)
    H[..., half, half] = k * along + s[..., None, None] * (np.eye(3) - along) / length
    return H


def shear_hessian(F: np.ndarray, k: float, s: np.ndarray) -> np.ndarray:
    """(..., 6, 6) for F (..., 3, 2)."""
    g = np.concatenate([F[..., 1], F[..., 0]], axis=-1)
    swap = np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(3))
    return k * g[..., :, None] * g[..., None, :] + s[..., None, None] * swap


def clamped(H: np.ndarray) -> np.ndarray:
    """The nearest matrix without negative eigenvalues, by a numeric eigendecomposition."""
    values, vectors = np.linalg.eigh(H)
    return (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def at_corners(H: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """a B^T H B (..., 9, 9), with f = B x for the corners x of triangles with rest coordinates uv (..., 3, 2)."""
    edges = np.stack([uv[..., 1, :] - uv[..., 0, :], uv[..., 2, :] - uv[..., 0, :]], axis=-1)
    inverse = np.linalg.inv(edges)  # (..., edge, axis): F = (x1 - x0, x2 - x0) inverse
    weights = np.concatenate([-inverse.sum(axis=-2, keepdims=True), inverse], axis=-2)  # (..., corner, axis)
    B = np.einsum("...ca,ij->...aicj", weights, np.eye(3)).reshape(*uv.shape[:-2], 6, 9)
    area = 0.5 * np.abs(np.linalg.det(edges))[..., None, None]
    return area * np.swapaxes(B, -1, -2) @ H @ B
