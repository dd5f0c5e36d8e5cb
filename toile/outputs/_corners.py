"""Vertices for formats in which a vertex has one uv: where uv jumps, as on a seam, there is a copy for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Split:
    """The vertices as they were, in their order, and copies after them."""

    origin: np.ndarray  # (vertices and copies,)  the vertex that each is
    triangles: np.ndarray  # (triangles, 3) int32
    uv: np.ndarray  # [m]  (vertices and copies, 2) float32; zero where there is no triangle


def split_by_uv(triangles: np.ndarray, uv: np.ndarray, vertex_count: int) -> Split:
    """`uv` is of each corner of each triangle. All of this is of one cloth, or of several one after another."""
    corners = np.column_stack([triangles.ravel(), uv.reshape(-1, 2).astype(np.float32)])
    pairs, which = np.unique(corners, axis=0, return_inverse=True)
    vertex = pairs[:, 0].astype(np.int64)
    first = np.ones(len(pairs), bool)
    first[1:] = vertex[1:] != vertex[:-1]
    number = np.where(first, vertex, vertex_count - 1 + np.cumsum(~first))
    origin = np.concatenate([np.arange(vertex_count), vertex[~first]])
    chosen = np.zeros((len(origin), 2), np.float32)
    chosen[number] = pairs[:, 1:]
    return Split(origin, number[which.ravel()].reshape(-1, 3).astype(np.int32), chosen)
