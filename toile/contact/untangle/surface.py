"""Connectivity of the surfaces that are untangled, and small functions for arrays of vectors.

Source      none
Deviations  none
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True)
class ConnectedSurface:
    """Connectivity of the mesh: the triangles at each edge (at most two, else -1) and the connected sheets."""

    edges: np.ndarray
    triangles: np.ndarray
    vertex_count: int
    beside: np.ndarray  # (m, 2) triangles at each edge
    sheet: np.ndarray  # connected component of each vertex

    @staticmethod
    def of(edges: np.ndarray, triangles: np.ndarray, vertex_count: int) -> "ConnectedSurface":
        """Finds the connectivity of a mesh."""
        n = vertex_count
        sides = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
        owners = np.tile(np.arange(len(triangles)), 3)
        keys = sides[:, 0].astype(np.int64) * n + sides[:, 1]
        order = np.argsort(keys, kind="stable")
        keys, owners = keys[order], owners[order]
        wanted_keys = np.min(edges, axis=1).astype(np.int64) * n + np.max(edges, axis=1)
        first, end = np.searchsorted(keys, wanted_keys), np.searchsorted(keys, wanted_keys, side="right")
        beside = np.full((len(edges), 2), -1)
        for k in (0, 1):
            there = first + k < end
            beside[there, k] = owners[first[there] + k]
        return ConnectedSurface(edges, triangles, n, beside, components(edges, n))

    def diffusion(self, inverse_masses: np.ndarray) -> csr_array:
        """One step of diffusion, from rows to columns: a uniform motion of a sheet stays uniform, whatever its mesh.

        The flow along an edge is the same either way for equal motions, so that it is symmetric in the masses.
        """
        i, j = self.edges.T
        mass = 1.0 / np.maximum(inverse_masses, 1e-30)
        neighbors = np.bincount(self.edges.ravel(), minlength=self.vertex_count)
        capacity = mass / (neighbors + 1)
        flow = np.minimum(capacity[i], capacity[j])
        there, back = flow / mass[i], flow / mass[j]
        kept = 1.0 - np.bincount(i, there, self.vertex_count) - np.bincount(j, back, self.vertex_count)
        every = np.arange(self.vertex_count)
        rows, columns = np.concatenate([i, j, every]), np.concatenate([j, i, every])
        return csr_array((np.concatenate([there, back, kept]), (rows, columns)), shape=(self.vertex_count,) * 2)


def components(links: np.ndarray, count: int) -> np.ndarray:
    """The connected component of each of `count` nodes."""
    graph = coo_array((np.ones(len(links), dtype=np.int8), (links[:, 0], links[:, 1])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1])


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Dot products along the last axis."""
    return np.einsum("...i,...i->...", a, b)


def unit(a: np.ndarray) -> np.ndarray:
    """Unit vectors, or zero where there is no direction."""
    length = np.linalg.norm(a, axis=-1, keepdims=True)
    return np.divide(a, length, out=np.zeros_like(a), where=length != 0.0)
