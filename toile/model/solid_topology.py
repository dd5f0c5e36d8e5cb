"""Topology of a triangle surface: its edges, its pieces, their winding, and repeated faces.

Everything works on whole arrays, because a body has tens of thousands of triangles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True)
class SurfaceEdges:
    """Every edge once, with the number of its triangles: one at an open edge, more than two at a non-manifold one."""

    ends: np.ndarray  # (edges, 2) vertices, the smaller first
    uses: np.ndarray  # (edges,)
    of_side: np.ndarray  # (triangles, 3): edge from each corner to the next


@dataclass(frozen=True)
class Winding:
    """The connected pieces of a surface, and which triangles must be flipped for each piece to be consistent."""

    piece: np.ndarray  # (triangles,) numbered from 0
    flip: np.ndarray  # (triangles,) bool: the fewest that make each piece consistent
    one_sided: np.ndarray  # (pieces,) bool: a Moebius strip or a Klein bottle, which cannot be consistent


def find_edges(triangles: np.ndarray) -> SurfaceEdges:
    start, end = triangles.astype(np.int64), np.roll(triangles, -1, axis=1).astype(np.int64)
    count = int(triangles.max()) + 1
    key, of_side, uses = np.unique(
        np.minimum(start, end) * count + np.maximum(start, end), return_inverse=True, return_counts=True
    )
    return SurfaceEdges(np.stack([key // count, key % count], axis=1), uses, of_side.reshape(-1, 3))


def join_open_edges(positions: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Returns (vertices,) the first vertex at exactly the same position, for vertices on open edges; others themselves.

    A file in which every face has its own vertices appears open though it is not. Vertices that are not on an open edge
    stay separate: two closed bodies in contact are still two.
    """
    representatives = np.arange(len(positions))
    edges = find_edges(triangles)
    rim = np.unique(edges.ends[edges.uses == 1])
    if len(rim):
        _, first, same = np.unique(positions[rim] + 0.0, axis=0, return_index=True, return_inverse=True)
        representatives[rim] = rim[first[same.ravel()]]
    return representatives


def find_winding(triangles: np.ndarray, edges: SurfaceEdges) -> Winding:
    """Finds pieces and their winding.

    Two copies of every triangle, as it is and flipped, are connected where neighbors are consistent, which gives two
    components per piece. A piece with a single component is one-sided.
    """
    m = len(triangles)
    sides = np.argsort(edges.of_side.ravel(), kind="stable")
    pairs = (edges.uses == 2)[edges.of_side.ravel()[sides]].nonzero()[0].reshape(-1, 2)
    one, two = sides[pairs].T
    same_way = triangles.ravel()[one] == triangles.ravel()[two]
    a, b = one // 3, two // 3
    rows, columns = np.concatenate([a, a + m]), np.concatenate([b + m * same_way, b + m * ~same_way])
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(2 * m, 2 * m))
    _, label = connected_components(graph, directed=False)
    as_is, turned = label[:m], label[m:]
    names, first, piece = np.unique(np.minimum(as_is, turned), return_index=True, return_inverse=True)
    other = as_is > turned  # the component without the piece's first triangle
    mostly_other = 2 * np.bincount(piece, other, len(names)) > np.bincount(piece, minlength=len(names))
    return Winding(piece, other ^ mostly_other[piece], (as_is == turned)[first])


def signed_volumes(positions: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Returns the volume of the tetrahedron of each triangle and the centroid; a closed piece's volume is their sum."""
    x = positions[triangles]
    x = x - x.mean(axis=(0, 1))
    return np.einsum("ti,ti->t", x[:, 0], np.cross(x[:, 1], x[:, 2])) / 6.0


def repeated_faces(positions: np.ndarray, triangles: np.ndarray, representatives: np.ndarray) -> np.ndarray:
    """Returns (pairs, 2): triangles that repeat an earlier one, after the first of their kind.

    The same three vertices are the same face in either orientation. The same three positions are the same face only in
    the same orientation: two bodies may be in contact face to face.
    """
    _, same = np.unique(positions + 0.0, axis=0, return_inverse=True)
    at = same.ravel()[triangles]
    smallest_first = (np.argmin(at, axis=1)[:, None] + np.arange(3)) % 3
    keys = np.sort(representatives[triangles], axis=1), np.take_along_axis(at, smallest_first, axis=1)
    pairs = []
    for key in keys:
        _, first, kind = np.unique(key, axis=0, return_index=True, return_inverse=True)
        original = first[kind.ravel()]
        again = np.flatnonzero(original != np.arange(len(triangles)))
        pairs.append(np.stack([original[again], again], axis=1))
    found = np.concatenate(pairs)
    _, once = np.unique(found[:, 1], return_index=True)
    return found[once]
