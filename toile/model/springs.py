"""Pairs of particles that springs join, and how far apart they are at rest.

    structural    along the threads: the sides of the cells        o---o
    shear         across the cells: both diagonals                 | x |
    flexion       along the threads, past one particle             o---o---o

A mesh without rows and columns of threads has its edges in place of the first two, and the far corners of every two
neighbouring triangles in place of the last.

Source      [Pro95] sec. 2.1; [BW98]'s triangles for other meshes
Symbols     lengths are those in the flat cloth, unfolded where two triangles meet
Deviations  rest_stretch does not change them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toile.model.mesh import Edges, Mesh, find_edges

if TYPE_CHECKING:
    from toile.model.model import ClothPart

STRUCTURAL, SHEAR, FLEXION = 0, 1, 2


@dataclass(frozen=True)
class Springs:
    """Springs of one cloth, structural ones first."""

    particles: np.ndarray  # (springs, 2) int32, numbered in the whole model
    lengths: np.ndarray  # [m]  at rest
    kind: np.ndarray  # (springs,) STRUCTURAL, SHEAR or FLEXION

    def of(self, *kinds: int) -> Springs:
        """Those of some kinds."""
        chosen = np.isin(self.kind, kinds)
        return Springs(self.particles[chosen], self.lengths[chosen], self.kind[chosen])


def springs_of(part: ClothPart) -> Springs:
    """All springs of a cloth."""
    mesh, topology = part.mesh, find_edges(part.mesh.triangles)
    sides, across = _edge_lengths(mesh, topology), _unfolded(mesh, topology)
    if mesh.quads is None:
        none = (np.zeros((0, 2), np.int32), np.zeros(0))
        lists = [(topology.edges, sides), none, (topology.hinges[:, :2], across)]
    else:
        lists = _of_quads(mesh.quads, mesh.vertex_count, topology, sides, across)
    kinds = np.repeat([STRUCTURAL, SHEAR, FLEXION], [len(pairs) for pairs, _ in lists])
    particles = np.concatenate([pairs for pairs, _ in lists]).astype(np.int32) + part.particles.start
    return Springs(particles.astype(np.int32), np.concatenate([lengths for _, lengths in lists]), kinds)


def warp_shares(mesh: Mesh, edges: np.ndarray) -> np.ndarray:
    """cos^2 of the angle between edges of a mesh and its warp: 1 along u, 0 along v; the mean of what triangles see.

    From the triangles' own uv, which a seam or a figure that cannot be laid flat leaves without a uv of its vertices.
    """
    sides = np.sort(np.stack([mesh.triangles, np.roll(mesh.triangles, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    d = (np.roll(mesh.uv, -1, axis=1) - mesh.uv).reshape(-1, 2)
    known, where = np.unique(_keys(sides, mesh.vertex_count), return_inverse=True)
    shares = np.bincount(where, d[:, 0] ** 2 / np.sum(d**2, axis=1)) / np.bincount(where)
    return shares[np.searchsorted(known, _keys(np.sort(edges, axis=1), mesh.vertex_count))]


def _of_quads(
    quads: np.ndarray, n: int, topology: Edges, sides: np.ndarray, across: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Structural, shear and flexion springs, each with their lengths."""
    structural = _unique(np.stack([quads, np.roll(quads, -1, axis=1)], axis=2).reshape(-1, 2))
    diagonals = _unique(quads[:, [[0, 2], [1, 3]]].reshape(-1, 2))
    # Of the two diagonals one is an edge, the other joins the far corners of the hinge there.
    pairs = np.concatenate([topology.edges, np.sort(topology.hinges[:, :2], axis=1)])
    lengths = np.concatenate([sides, across])
    known, first = np.unique(_keys(pairs, n), return_index=True)

    def length(wanted: np.ndarray) -> np.ndarray:
        return lengths[first[np.searchsorted(known, _keys(wanted, n))]]

    middle, one, other = _straight_on(quads, structural, n)
    past = length(np.sort(np.stack([middle, one], 1), axis=1)) + length(np.sort(np.stack([middle, other], 1), axis=1))
    return [(structural, length(structural)), (diagonals, length(diagonals)), (np.stack([one, other], axis=1), past)]


def _straight_on(quads: np.ndarray, structural: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every particle between two others on a thread: the two sides that meet there belong to no common cell."""
    begin = np.concatenate([structural[:, 0], structural[:, 1]])
    end = np.concatenate([structural[:, 1], structural[:, 0]])
    order = np.lexsort((end, begin))
    begin, end = begin[order], end[order]
    first, count = np.searchsorted(begin, begin), np.bincount(begin, minlength=n)[begin]
    one = np.repeat(np.arange(len(begin)), count)
    place = np.arange(len(one)) - np.repeat(np.cumsum(count) - count, count)
    other = first[one] + place
    chosen = one < other
    middle, a, b = begin[one[chosen]], end[one[chosen]], end[other[chosen]]
    corners = [np.stack([quads[:, k], quads[:, k - 1], quads[:, (k + 1) % 4]], axis=1) for k in range(4)]
    at = np.concatenate(corners).astype(np.int64)
    at[:, 1:].sort(axis=1)
    together = (at[:, 0] * n + at[:, 1]) * n + at[:, 2]
    apart = ~np.isin((middle.astype(np.int64) * n + a) * n + b, together)
    return middle[apart], a[apart], b[apart]


def _edge_lengths(mesh: Mesh, topology: Edges) -> np.ndarray:
    """In uv; the mean of what its triangles see."""
    sides = np.stack([mesh.triangles, np.roll(mesh.triangles, -1, axis=1)], axis=2).reshape(-1, 2)
    long = np.linalg.norm(np.roll(mesh.uv, -1, axis=1) - mesh.uv, axis=2).ravel()
    where = np.searchsorted(_keys(topology.edges, mesh.vertex_count), _keys(np.sort(sides, axis=1), mesh.vertex_count))
    return np.bincount(where, long, len(topology.edges)) / np.bincount(where, minlength=len(topology.edges))


def _unfolded(mesh: Mesh, topology: Edges) -> np.ndarray:
    """How far apart the far corners of two triangles are when both lie in one plane."""
    places = []
    for side, sign in ((0, 1.0), (1, -1.0)):
        corners, rows = topology.hinge_edges[:, side], topology.hinge_triangles[:, side]
        start, end = mesh.uv[rows, corners[:, 0]], mesh.uv[rows, corners[:, 1]]
        flap = mesh.uv[rows, 3 - corners.sum(axis=1)] - start
        edge = end - start
        length = np.linalg.norm(edge, axis=1)
        along = np.sum(flap * edge, axis=1) / length
        height = np.sqrt(np.maximum(np.sum(flap**2, axis=1) - along**2, 0.0))
        places.append(np.stack([along, sign * height], axis=1))
    return np.linalg.norm(places[0] - places[1], axis=1)


def _unique(pairs: np.ndarray) -> np.ndarray:
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _keys(pairs: np.ndarray, n: int) -> np.ndarray:
    return pairs[:, 0].astype(np.int64) * n + pairs[:, 1]
