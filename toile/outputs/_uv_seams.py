"""Vertices for formats that store one uv per vertex: where uv is discontinuous, as on a seam, vertices are copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class UvSplit:
    """The original vertices in their order, followed by the copies."""

    origin: np.ndarray  # (vertices and copies,)  the original vertex of each
    triangles: np.ndarray  # (triangles, 3) int32
    uv: np.ndarray  # [m]  (vertices and copies, 2) float32; zero where there is no triangle


def split_by_uv(triangles: np.ndarray, uv: np.ndarray, vertex_count: int) -> UvSplit:
    """Copies vertices so that each has one uv. `uv` holds the coordinates of each corner of each triangle."""
    corners = np.column_stack([triangles.ravel(), uv.reshape(-1, 2).astype(np.float32)])
    pairs, which = np.unique(corners, axis=0, return_inverse=True)
    vertex = pairs[:, 0].astype(np.int64)
    first = np.ones(len(pairs), bool)
    first[1:] = vertex[1:] != vertex[:-1]
    number = np.where(first, vertex, vertex_count - 1 + np.cumsum(~first))
    origin = np.concatenate([np.arange(vertex_count), vertex[~first]])
    chosen = np.zeros((len(origin), 2), np.float32)
    chosen[number] = pairs[:, 1:]
    return UvSplit(origin, number[which.ravel()].reshape(-1, 3).astype(np.int32), chosen)
