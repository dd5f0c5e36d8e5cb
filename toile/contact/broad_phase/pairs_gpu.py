"""The elements of two patches compared by 32 threads, for a GPU.

On the CPU elements that are away from the whole other patch are left out first
(toile/contact/broad_phase/broad_phase.py). Threads that run in step would wait for those that are not: here all
vertices are compared with all triangles, and all edges with all edges, 32 at a time. Which pairs are found is the same.
Boxes are read number by number, because most pairs are apart along the first axis, and because a thread has room for
little: with whole boxes only an eighth of the threads of a multiprocessor were at work.

Source      none
Symbols     as in toile/contact/broad_phase/broad_phase.py
Deviations  none
"""

import warp as wp

from toile.contact.broad_phase.boxes import INSTANT, MovingBox
from toile.contact.broad_phase.patches import Patches
from toile.device.append_buffer import BufferRanges, next_slot
from toile.math.types import real

# Threads for each pair of patches.
LANES = 32


@wp.func
def overlap(boxes: wp.array(dtype=MovingBox), i: wp.int32, j: wp.int32) -> bool:
    """As in toile/contact/broad_phase/boxes.py."""
    zero = real(0.0)
    from_t, to_t = real(0.0), real(1.0)
    k = int(0)
    while k < 6:  # along both directions of each axis
        axis = k >> 1
        a, b = wp.where(k & 1 == 0, i, j), wp.where(k & 1 == 0, j, i)
        apart = boxes[a].lower[axis] - boxes[b].upper[axis]
        apart_end = boxes[a].lower_end[axis] - boxes[b].upper_end[axis]
        if apart > zero:
            if apart_end > zero:
                return False
            from_t = wp.max(from_t, apart / (apart - apart_end))
        elif apart_end > zero:
            to_t = wp.min(to_t, apart / (apart - apart_end))
        k += 1
    return from_t <= to_t + INSTANT


@wp.kernel
def find_pairs(
    # model
    first: wp.int32, patches: Patches, edges: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
    # in
    chosen: wp.array(dtype=wp.int32), patch_pairs: wp.array(dtype=wp.vec2i), lanes: wp.int32, first_edge: wp.int32,
    first_triangle: wp.int32, boxes: wp.array(dtype=MovingBox),
    # out
    vertex_ranges: BufferRanges, vertices_out: wp.array(dtype=wp.vec2i),
    edge_ranges: BufferRanges, edges_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """`boxes` are those of vertices, then edges, then triangles."""
    t = first + wp.tid()
    patch_pair = patch_pairs[t // lanes]
    p, q = wp.max(patch_pair[0], patch_pair[1]), wp.min(patch_pair[0], patch_pair[1])
    vertices_p, vertices_q = patches.vertex_start[p], patches.vertex_start[q]
    edges_p, edges_q = patches.edge_start[p], patches.edge_start[q]
    triangles_p, triangles_q = patches.triangle_start[p], patches.triangle_start[q]
    triangle_count_p = patches.triangle_start[p + 1] - triangles_p
    triangle_count_q = patches.triangle_start[q + 1] - triangles_q
    edge_count_q = patches.edge_start[q + 1] - edges_q
    # Combinations of vertices of p with triangles of q, of those of q with those of p, and of edges.
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
        # Of edges, each pair once: within one patch the first comes after the other.
        if (k < of_p + of_q or j < i) and overlap(boxes, i, j):
            if k < of_p + of_q:
                v, c = patches.vertex[i], triangles[patches.triangle[j - first_triangle]]
                wanted = chosen[v] + chosen[c[0]] + chosen[c[1]] + chosen[c[2]] > 0
                if wanted and c[0] != v and c[1] != v and c[2] != v:
                    n = next_slot(vertex_ranges, first)
                    if n >= 0:
                        vertices_out[n] = wp.vec2i(v, patches.triangle[j - first_triangle])
            else:
                d, e = patches.edge[i - first_edge], patches.edge[j - first_edge]
                a, b = edges[d], edges[e]
                wanted = chosen[a[0]] + chosen[a[1]] + chosen[b[0]] + chosen[b[1]] > 0
                if wanted and a[0] != b[0] and a[0] != b[1] and a[1] != b[0] and a[1] != b[1]:
                    n = next_slot(edge_ranges, first)
                    if n >= 0:
                        edges_out[n] = wp.vec2i(wp.min(d, e), wp.max(d, e))
        k += lanes
