"""Pairs of elements whose boxes overlap, by comparing all with all."""

from __future__ import annotations

import numpy as np


def pairs_by_hand(
    edges: np.ndarray, triangles: np.ndarray, moving_count: int, x: np.ndarray, x_end: np.ndarray, reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Vertex and triangle (n, 2), edge and edge (m, 2) with the first smaller; each sorted by its columns."""
    vertices = np.arange(len(x)).reshape(-1, 1)
    vertex_triangle = _meeting(vertices, triangles, moving_count, x, x_end, reach)
    edge_edge = _meeting(edges, edges, moving_count, x, x_end, reach)
    return vertex_triangle, edge_edge[edge_edge[:, 0] < edge_edge[:, 1]]


def _meeting(
    some: np.ndarray, others: np.ndarray, moving_count: int, x: np.ndarray, x_end: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    if len(some) == 0 or len(others) == 0:
        return np.zeros((0, 2), dtype=int)
    (lower, upper), (other_lower, other_upper) = (_boxes(e, x, x_end, reach) for e in (some, others))
    meet = np.all(lower[:, None] <= other_upper[None], axis=2) & np.all(other_lower[None] <= upper[:, None], axis=2)
    common = np.any(some[:, None, :, None] == others[None, :, None, :], axis=(2, 3))
    solid = np.all(some >= moving_count, axis=1)[:, None] & np.all(others >= moving_count, axis=1)[None]
    return np.argwhere(meet & ~common & ~solid)


def _boxes(elements: np.ndarray, x: np.ndarray, x_end: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    grown = reach[elements].max(axis=1)[:, None]
    both = np.concatenate([x[elements], x_end[elements]], axis=1)
    return both.min(axis=1) - grown, both.max(axis=1) + grown
