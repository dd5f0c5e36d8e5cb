"""Pairs of elements whose boxes overlap at some time, by comparing all with all."""

from __future__ import annotations

import numpy as np

from toile.contact.broad_phase.boxes import TIME_TOLERANCE


def pairs_by_hand(
    edges: np.ndarray, triangles: np.ndarray, moving_count: int, x: np.ndarray, x_end: np.ndarray, reach: np.ndarray,
    reach_end: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Vertex and triangle (n, 2), edge and edge (m, 2) with the first smaller; each sorted by its columns."""
    motion = ((x, reach), (x_end, reach if reach_end is None else reach_end))
    vertices = np.arange(len(x)).reshape(-1, 1)
    vertex_triangle = _patch_pairs(vertices, triangles, moving_count, motion)
    edge_edge = _patch_pairs(edges, edges, moving_count, motion)
    return vertex_triangle, edge_edge[edge_edge[:, 0] < edge_edge[:, 1]]


def _patch_pairs(some: np.ndarray, others: np.ndarray, moving_count: int, motion: tuple) -> np.ndarray:
    if len(some) == 0 or len(others) == 0:
        return np.zeros((0, 2), dtype=int)
    gaps = []  # at the start and at the end: (n, m, 6); boxes overlap where all are 0 or less
    for x, reach in motion:
        (lower, upper), (other_lower, other_upper) = (_boxes(e, x, reach) for e in (some, others))
        gaps.append(np.concatenate([lower[:, None] - other_upper[None], other_lower[None] - upper[:, None]], axis=2))
    common = np.any(some[:, None, :, None] == others[None, :, None, :], axis=(2, 3))
    solid = np.all(some >= moving_count, axis=1)[:, None] & np.all(others >= moving_count, axis=1)[None]
    return np.argwhere(_overlap(*gaps) & ~common & ~solid)


def _overlap(gap: np.ndarray, gap_end: np.ndarray) -> np.ndarray:
    """Whether there is a time in 0..1 at which all of these linear functions are 0 or less, to rounding."""
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = gap / (gap - gap_end)
    begin = np.where((gap > 0) & (gap_end <= 0), crossing, 0).max(axis=2)
    end = np.where((gap <= 0) & (gap_end > 0), crossing, 1).min(axis=2)
    return ~np.any((gap > 0) & (gap_end > 0), axis=2) & (begin <= end + gap.dtype.type(TIME_TOLERANCE))


def _boxes(elements: np.ndarray, x: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    grown = reach[elements].max(axis=1)[:, None]
    return x[elements].min(axis=1) - grown, x[elements].max(axis=1) + grown
