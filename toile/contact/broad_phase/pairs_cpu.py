"""Element comparison of the broad phase on the CPU: one thread for each pair of patches.

Elements outside the box of the whole other patch are skipped first, which saves most comparisons.

Source      none
Symbols     as in broad_phase.py
Deviations  none
"""

import warp as wp

from toile.contact.broad_phase.boxes import overlap
from toile.contact.broad_phase.patch_boxes import PatchBoxes
from toile.contact.broad_phase.patches import Patches
from toile.device.append_buffer import BufferRanges, next_slot


@wp.func
def add_vertex_triangle(
    first: wp.int32, p: wp.int32, q: wp.int32, patches: Patches, selected: wp.array(dtype=wp.int32), boxes: PatchBoxes,
    ranges: BufferRanges, pairs: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Appends the pairs of a vertex of patch p and a triangle of patch q."""
    q_box = boxes.patch[q]
    for p_entry in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        box = boxes.vertex[p_entry]
        if overlap(box, q_box):
            v = patches.vertex[p_entry]
            for q_entry in range(patches.triangle_start[q], patches.triangle_start[q + 1]):
                if overlap(box, boxes.triangle[q_entry]):
                    t = patches.triangle[q_entry]
                    c = patches.triangles[t]
                    wanted = selected[v] + selected[c[0]] + selected[c[1]] + selected[c[2]] > 0
                    if wanted and c[0] != v and c[1] != v and c[2] != v:
                        n = next_slot(ranges, first)
                        if n >= 0:
                            pairs[n] = wp.vec2i(v, t)


@wp.func
def add_edge_edge(
    first: wp.int32, p: wp.int32, q: wp.int32, patches: Patches, selected: wp.array(dtype=wp.int32), boxes: PatchBoxes,
    ranges: BufferRanges, pairs: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Appends the pairs of an edge of patch p and an edge of patch q, which comes before p or is p."""
    q_box = boxes.patch[q]
    for p_entry in range(patches.edge_start[p], patches.edge_start[p + 1]):
        box = boxes.edge[p_entry]
        if overlap(box, q_box):
            d = patches.edge[p_entry]
            a = patches.edges[d]
            # Within one patch only entries before this one: each pair is listed once.
            for q_entry in range(patches.edge_start[q], wp.min(patches.edge_start[q + 1], p_entry)):
                if overlap(box, boxes.edge[q_entry]):
                    e = patches.edge[q_entry]
                    b = patches.edges[e]
                    wanted = selected[a[0]] + selected[a[1]] + selected[b[0]] + selected[b[1]] > 0
                    if wanted and a[0] != b[0] and a[0] != b[1] and a[1] != b[0] and a[1] != b[1]:
                        n = next_slot(ranges, first)
                        if n >= 0:
                            pairs[n] = wp.vec2i(wp.min(d, e), wp.max(d, e))


@wp.kernel
def find_pairs(
    # model
    first: wp.int32, patches: Patches,
    # in
    selected: wp.array(dtype=wp.int32), patch_pairs: wp.array(dtype=wp.vec2i), boxes: PatchBoxes,
    # out
    vertex_ranges_out: BufferRanges, vertices_out: wp.array(dtype=wp.vec2i),
    edge_ranges_out: BufferRanges, edges_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Compares the elements of one pair of patches."""
    patch_pair = patch_pairs[first + wp.tid()]
    p, q = patch_pair[0], patch_pair[1]
    add_vertex_triangle(first, p, q, patches, selected, boxes, vertex_ranges_out, vertices_out)
    if q != p:
        add_vertex_triangle(first, q, p, patches, selected, boxes, vertex_ranges_out, vertices_out)
    # Each pair is listed once: the entries of the later patch come after those of the other.
    later, other = wp.max(p, q), wp.min(p, q)
    add_edge_edge(first, later, other, patches, selected, boxes, edge_ranges_out, edges_out)
