"""Springs of a mass-spring cloth: pairs of particles and their rest lengths.

    structural    along the threads: the sides of the cells        o---o
    shear         across the cells: both diagonals                 | x |
    flexion       along the threads, skipping one particle         o---o---o

On a mesh without rows and columns of threads, edges replace the first two kinds, and springs between the far corners
of two neighboring triangles replace the last. The same holds for triangles that belong to no cell, as at the pole of a
closed shape: its spokes are structural springs, and threads continue along them and through the pole.

Source      [Pro95] sec. 2.1; [BW98]'s triangles for other meshes
Symbols     lengths are those in the flat cloth; pairs of triangles are unfolded into one plane
Deviations  rest_stretch does not change them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toile.model.mesh import Edges, Mesh, edge_keys, face_sides, find_edges

if TYPE_CHECKING:
    from toile.model.model import ClothPart

STRUCTURAL, SHEAR, FLEXION = 0, 1, 2


@dataclass(frozen=True)
class ClothSprings:
    """Springs of one cloth, structural ones first."""

    particles: np.ndarray  # (springs, 2) int32, numbered in the whole model
    lengths: np.ndarray  # [m]  rest lengths
    kind: np.ndarray  # (springs,) STRUCTURAL, SHEAR or FLEXION
    # (springs, 2) int32: the particle that a flexion spring skips, twice, or the two ends of the edge that it crosses;
    # -1 for other kinds
    skipped: np.ndarray

    def of(self, *kinds: int) -> ClothSprings:
        """Selects the springs of some kinds."""
        chosen = np.isin(self.kind, kinds)
        return ClothSprings(self.particles[chosen], self.lengths[chosen], self.kind[chosen], self.skipped[chosen])

    def bending_shares(self) -> np.ndarray:
        """Returns the share of the bending at the skipped particle that each flexion spring takes: 1 for two threads.

        If m > 2 springs cross at a pole, bending in one direction acts on them by the mean of cos^4 of their angles.
        """
        shares = np.ones(len(self.kind))
        middle = self.skipped[:, 0] == self.skipped[:, 1]
        chosen = middle & (self.kind == FLEXION)
        count = np.bincount(self.skipped[chosen, 0])[self.skipped[chosen, 0]]
        shares[chosen] = np.where(count > 2, 8.0 / (3.0 * count), 1.0)
        return shares


def springs_of(part: ClothPart) -> ClothSprings:
    """Returns all springs of a cloth."""
    mesh, topology = part.mesh, find_edges(part.mesh.triangles)
    sides, across = _uv_edge_lengths(mesh, topology), _unfolded_distances(mesh, topology)
    if mesh.quads is None:
        none = (np.zeros((0, 2), np.int32), np.zeros(0))
        lists, past = [(topology.edges, sides), none, (topology.hinges[:, :2], across)], topology.hinges[:, 2:]
    else:
        lists, middle = _cell_springs(mesh, mesh.quads, topology, sides, across)
        past = np.stack([middle, middle], axis=1)
    kinds = np.repeat([STRUCTURAL, SHEAR, FLEXION], [len(pairs) for pairs, _ in lists])
    first = part.particles.start
    particles = np.concatenate([pairs for pairs, _ in lists]) + first
    passed = np.concatenate([np.full((len(kinds) - len(past), 2), -1), past + first])
    lengths = np.concatenate([lengths for _, lengths in lists])
    return ClothSprings(particles.astype(np.int32), lengths, kinds, passed.astype(np.int32))


def warp_shares(mesh: Mesh, edges: np.ndarray) -> np.ndarray:
    """Returns cos^2 of the angle between edges of a mesh and its warp: 1 along u, 0 along v; the mean over triangles.

    The uv of triangle corners is used, because vertices on a seam or on a curved surface have no unique uv.
    """
    d = (np.roll(mesh.uv, -1, axis=1) - mesh.uv).reshape(-1, 2)
    known, where = np.unique(edge_keys(face_sides(mesh.triangles), mesh.vertex_count), return_inverse=True)
    shares = np.bincount(where, d[:, 0] ** 2 / np.sum(d**2, axis=1)) / np.bincount(where)
    return shares[np.searchsorted(known, edge_keys(edges, mesh.vertex_count))]


def flexion_warp_shares(mesh: Mesh, springs: ClothSprings, first: int) -> np.ndarray:
    """Returns the warp share of flexion springs: the mean of their two edges, or that across a shared edge.

    `first` is the number of the mesh's first particle in the model.
    """
    ends, past = springs.particles - first, springs.skipped - first
    if mesh.quads is None:
        return 1.0 - warp_shares(mesh, past)
    one, other = (warp_shares(mesh, np.column_stack([end, past[:, 0]])) for end in ends.T)
    return 0.5 * (one + other)


def _cell_springs(
    mesh: Mesh, quads: np.ndarray, topology: Edges, sides: np.ndarray, across: np.ndarray
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Returns structural, shear and flexion springs with their lengths, and the particles that flexion springs skip."""
    n, loose = mesh.vertex_count, _outside_cells(quads, mesh.triangles)
    structural = _unique(np.concatenate([face_sides(quads), face_sides(loose)]))
    diagonals = _unique(quads[:, [[0, 2], [1, 3]]].reshape(-1, 2))
    # One of the two diagonals is an edge, the other joins the far corners of the hinge there.
    pairs = np.concatenate([topology.edges, topology.hinges[:, :2]])
    lengths = np.concatenate([sides, across])
    known, first = np.unique(edge_keys(pairs, n), return_index=True)

    def length(wanted: np.ndarray) -> np.ndarray:
        return lengths[first[np.searchsorted(known, edge_keys(wanted, n))]]

    middle, one, other = _thread_triples(quads, loose, structural, n)
    past = length(np.stack([middle, one], axis=1)) + length(np.stack([middle, other], axis=1))
    flexion = np.stack([one, other], axis=1)
    return [(structural, length(structural)), (diagonals, length(diagonals)), (flexion, past)], middle


def _outside_cells(quads: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Returns the triangles that are not half of a cell."""
    halves = np.concatenate([np.delete(quads, corner, axis=1) for corner in range(4)])
    known = {tuple(corners) for corners in np.sort(halves, axis=1).tolist()}
    return triangles[[tuple(corners) not in known for corners in np.sort(triangles, axis=1).tolist()]]


def _thread_triples(
    quads: np.ndarray, loose: np.ndarray, structural: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns triples (middle, a, b) along a thread: the two sides at the middle particle share no cell."""
    count = np.bincount(structural.ravel(), minlength=n)
    # At the center of a fan more than two threads end: each continues to the opposite one.
    pole = (count > 4) & (np.bincount(loose.ravel(), minlength=n) == count)
    begin = np.concatenate([structural[:, 0], structural[:, 1]])
    end = np.concatenate([structural[:, 1], structural[:, 0]])
    order = np.lexsort((end, begin))
    order = order[~pole[begin[order]]]
    begin, end = begin[order], end[order]
    first, shared = np.searchsorted(begin, begin), count[begin]
    one = np.repeat(np.arange(len(begin)), shared)
    place = np.arange(len(one)) - np.repeat(np.cumsum(shared) - shared, shared)
    other = first[one] + place
    chosen = one < other
    middle, a, b = begin[one[chosen]], end[one[chosen]], end[other[chosen]]
    corners = [
        np.stack([cells[:, k], cells[:, k - 1], cells[:, (k + 1) % size]], axis=1)
        for cells, size in ((quads, 4), (loose, 3))
        for k in range(size)
    ]
    cornered = np.concatenate(corners).astype(np.int64)
    cornered[:, 1:].sort(axis=1)
    together = (cornered[:, 0] * n + cornered[:, 1]) * n + cornered[:, 2]
    apart = ~np.isin((middle.astype(np.int64) * n + a) * n + b, together)
    through_poles = [_threads_through_pole(at, loose) for at in np.flatnonzero(pole)]
    middle, a, b = np.concatenate([np.stack([middle[apart], a[apart], b[apart]]), *through_poles], axis=1)
    return middle, a, b


def _threads_through_pole(pole: np.intp, loose: np.ndarray) -> np.ndarray:
    """Returns threads through the center of a closed fan: from each spoke to the opposite or nearly opposite one."""
    where, corner = np.nonzero(loose == pole)
    fan = loose[where]
    rows = np.arange(len(fan))
    follows = dict(zip(fan[rows, (corner + 1) % 3].tolist(), fan[rows, (corner + 2) % 3].tolist(), strict=True))
    ring = [min(follows)]
    while (spoke := follows[ring[-1]]) != ring[0]:
        ring.append(spoke)
    half = len(ring) // 2
    spokes = range(half if len(ring) % 2 == 0 else len(ring))
    pairs = [sorted((ring[k], ring[(k + half) % len(ring)])) for k in spokes]
    return np.array([[pole, *pair] for pair in pairs]).T


def _uv_edge_lengths(mesh: Mesh, topology: Edges) -> np.ndarray:
    """Returns the length of each edge in uv: the mean over its triangles."""
    long = np.linalg.norm(np.roll(mesh.uv, -1, axis=1) - mesh.uv, axis=2).ravel()
    sides = edge_keys(face_sides(mesh.triangles), mesh.vertex_count)
    where = np.searchsorted(edge_keys(topology.edges, mesh.vertex_count), sides)
    return np.bincount(where, long, len(topology.edges)) / np.bincount(where, minlength=len(topology.edges))


def _unfolded_distances(mesh: Mesh, topology: Edges) -> np.ndarray:
    """Returns the distance between the far corners of two triangles unfolded into one plane."""
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
