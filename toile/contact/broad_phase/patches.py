"""Partitions the vertices of a mesh into patches of up to four neighboring vertices.

In each of two passes every vertex or pair in turn joins the unmatched neighbor to which most edges lead. Two pairs side
by side have more edges between them than two end to end, so that patches are blocks rather than strips. The order is
that of the vertices, or a breadth-first order from one of them: whichever cuts fewer edges.

Source      heavy-edge matching: Karypis and Kumar 1998, A fast and high quality multilevel scheme for partitioning
            irregular graphs, sec. 3.1
Symbols     none
Deviations  The order is random in the paper; a regular order leaves no gaps that are too small for a patch.
"""

import numpy as np
import scipy.sparse as sp
import warp as wp
from scipy.sparse.csgraph import reverse_cuthill_mckee

PASSES = 2


@wp.struct
class Patches:
    """A mesh, and the vertices, edges and triangles of its patches: entries start[p] to start[p + 1] for patch p."""

    edges: wp.array(dtype=wp.vec2i)  # vertices of each edge of the mesh
    triangles: wp.array(dtype=wp.vec3i)

    vertex_start: wp.array(dtype=wp.int32)
    vertex: wp.array(dtype=wp.int32)
    edge_start: wp.array(dtype=wp.int32)
    edge: wp.array(dtype=wp.int32)
    triangle_start: wp.array(dtype=wp.int32)
    triangle: wp.array(dtype=wp.int32)


def make_patches(of_vertex: np.ndarray, edges: np.ndarray, triangles: np.ndarray, device: str) -> Patches:
    """The patches of a mesh, from the patch of each vertex.

    An element between patches is assigned to the first of them: a patch of cloth, if any of its vertices is cloth.
    """
    patches, count = Patches(), int(of_vertex.max(initial=-1)) + 1
    patches.edges = wp.array(edges.astype(np.int32), dtype=wp.vec2i, device=device)
    patches.triangles = wp.array(triangles.astype(np.int32), dtype=wp.vec3i, device=device)
    patches.vertex_start, patches.vertex = _listed(of_vertex, count, device)
    patches.edge_start, patches.edge = _listed(of_vertex[edges].min(axis=1), count, device)
    patches.triangle_start, patches.triangle = _listed(of_vertex[triangles].min(axis=1), count, device)
    return patches


def _listed(patch: np.ndarray, count: int, device: str) -> list[wp.array]:
    """The first entry of each patch, and the elements in the order of their patches."""
    order = np.argsort(patch, kind="stable")
    start = np.searchsorted(patch[order], np.arange(count + 1))
    return [wp.array(values.astype(np.int32), dtype=wp.int32, device=device) for values in (start, order)]


def partition(edges: np.ndarray, vertex_count: int, moving_count: int) -> np.ndarray:
    """Returns the patch of each vertex. Patches of vertices before `moving_count` come first and hold no other
    vertices."""
    edges = edges[(edges[:, 0] < moving_count) == (edges[:, 1] < moving_count)]
    if len(edges) == 0:
        return np.arange(vertex_count)
    outwards = np.asarray(reverse_cuthill_mckee(_links(edges, vertex_count), symmetric_mode=True), dtype=int)
    outwards = outwards[np.argsort(outwards >= moving_count, kind="stable")]
    divisions = [_match_in_order(edges, order) for order in (np.arange(vertex_count), outwards)]
    return min(divisions, key=lambda patch: np.count_nonzero(patch[edges[:, 0]] != patch[edges[:, 1]]))


def _match_in_order(edges: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The patch of each vertex, when vertices are matched in this order."""
    patch = np.argsort(order)  # at first, the position of each vertex in the order
    for _ in range(PASSES):
        patch = _match(_links(patch[edges], int(patch.max(initial=-1)) + 1))[patch]
    return patch


def _links(edges: np.ndarray, count: int) -> sp.csr_matrix:
    """The number of edges between any two nodes."""
    edges = edges[edges[:, 0] != edges[:, 1]]
    ones = np.ones(len(edges), dtype=int)
    links = sp.coo_matrix((ones, (edges[:, 0], edges[:, 1])), shape=(count, count)).tocsr()
    return (links + links.T).tocsr()


def _match(links: sp.csr_matrix) -> np.ndarray:
    """The number of each node after one pass of matching."""
    links.sort_indices()  # the first of equally good neighbors is taken
    start, neighbor, weight = links.indptr.tolist(), links.indices.tolist(), links.data.tolist()
    matched, last = [-1] * links.shape[0], -1
    for node in range(links.shape[0]):
        if matched[node] >= 0:
            continue
        last += 1
        matched[node] = last
        best, heaviest = -1, 0
        for entry in range(start[node], start[node + 1]):
            if matched[neighbor[entry]] < 0 and weight[entry] > heaviest:
                best, heaviest = neighbor[entry], weight[entry]
        if best >= 0:
            matched[best] = last
    return np.array(matched, dtype=int)
