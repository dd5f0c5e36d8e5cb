"""Common part of shapes along a curve through given points: ribbon and revolved."""

from __future__ import annotations

import numpy as np


def segment_lengths(points: np.ndarray) -> np.ndarray:
    """Returns the distances between successive points (points, dimensions)."""
    return np.linalg.norm(np.diff(points, axis=0), axis=1)


def arc_lengths(points: np.ndarray) -> np.ndarray:
    """Returns the length along a polyline from its first point to each of its points."""
    return np.concatenate([[0.0], np.cumsum(segment_lengths(points))])


def require_curve(points: np.ndarray, name: str) -> None:
    """Raises ValueError for fewer than two points, or for two successive points that are the same."""
    if len(points) < 2:
        raise ValueError(f"{name}: {len(points)} given; a curve needs at least two points.")
    lengths = segment_lengths(points)
    if not lengths.min() > 1e-9 * lengths.max():
        i = int(np.argmin(lengths))
        raise ValueError(f"{name}: points {i} and {i + 1} are the same. Remove one of them.")
