"""Element comparison of the broad phase on the GPU: 32 threads for each pair of patches.

On the CPU, elements outside the box of the whole other patch are skipped first (pairs_cpu.py). On a GPU the threads
of a warp would wait for each other there, so here all vertices are compared with all triangles, and all edges with all
edges, 32 at a time. The pairs found are the same.

Source      none
Symbols     as in broad_phase.py
Deviations  none
"""

import warp as wp

from toile.contact.broad_phase.boxes import MovingBox, overlap_at
from toile.contact.broad_phase.patches import Patches
from toile.device.append_buffer import BufferRanges, next_slot

# Threads per pair of patches.
LANES = 32


@wp.kernel
def find_pairs(
    # model
    first: wp.int32, patches: Patches, first_edge: wp.int32, first_triangle: wp.int32, lanes: wp.int32,
    # in
    selected: wp.array(dtype=wp.int32), patch_pairs: wp.array(dtype=wp.vec2i), boxes: wp.array(dtype=MovingBox),
    # out
    vertex_ranges_out: BufferRanges, vertices_out: wp.array(dtype=wp.vec2i),
    edge_ranges_out: BufferRanges, edges_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Compares the elements of two patches; `boxes` are those of vertices, then edges, then triangles."""
    t = first + wp.tid()
    patch_pair = patch_pairs[t // lanes]
    p, q = wp.max(patch_pair[0], patch_pair[1]), wp.min(patch_pair[0], patch_pair[1])
    vertices_p, vertices_q = patches.vertex_start[p], patches.vertex_start[q]
    edges_p, edges_q = patches.edge_start[p], patches.edge_start[q]
    triangles_p, triangles_q = patches.triangle_start[p], patches.triangle_start[q]
    triangle_count_p = patches.triangle_start[p + 1] - triangles_p
    triangle_count_q = patches.triangle_start[q + 1] - triangles_q
    edge_count_q = patches.edge_start[q + 1] - edges_q
    # Numbers of combinations: vertices of p with triangles of q, vertices of q with triangles of p, edges with edges.
    of_p = (patches.vertex_start[p + 1] - vertices_p) * triangle_count_q
    of_q = (patches.vertex_start[q + 1] - vertices_q) * triangle_count_p
    if p == q:
        of_q = int(0)
    every = of_p + of_q + (patches.edge_start[p + 1] - edges_p) * edge_count_q
    k = t % lanes
    while k < every:
        i, j = int(0), int(0)
        if k < of_p:
            i = vertices_p + k // triangle_count_q
            j = first_triangle + triangles_q + k % triangle_count_q
        elif k < of_p + of_q:
            i = vertices_q + (k - of_p) // triangle_count_p
            j = first_triangle + triangles_p + (k - of_p) % triangle_count_p
        else:
            i = first_edge + edges_p + (k - of_p - of_q) // edge_count_q
            j = first_edge + edges_q + (k - of_p - of_q) % edge_count_q
        # Each pair of edges is listed once: within one patch the first entry comes after the second.
        if (k < of_p + of_q or j < i) and overlap_at(boxes, i, j):
            if k < of_p + of_q:
                v, c = patches.vertex[i], patches.triangles[patches.triangle[j - first_triangle]]
                wanted = selected[v] + selected[c[0]] + selected[c[1]] + selected[c[2]] > 0
                if wanted and c[0] != v and c[1] != v and c[2] != v:
                    n = next_slot(vertex_ranges_out, first)
                    if n >= 0:
                        vertices_out[n] = wp.vec2i(v, patches.triangle[j - first_triangle])
            else:
                d, e = patches.edge[i - first_edge], patches.edge[j - first_edge]
                a, b = patches.edges[d], patches.edges[e]
                wanted = selected[a[0]] + selected[a[1]] + selected[b[0]] + selected[b[1]] > 0
                if wanted and a[0] != b[0] and a[0] != b[1] and a[1] != b[0] and a[1] != b[1]:
                    n = next_slot(edge_ranges_out, first)
                    if n >= 0:
                        edges_out[n] = wp.vec2i(wp.min(d, e), wp.max(d, e))
        k += lanes
