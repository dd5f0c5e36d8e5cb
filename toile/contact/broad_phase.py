"""Which vertices and triangles, and which edges, may meet during a step: pairs of boxes that overlap.

    box of an element = hull of x and x_end of its vertices, grown by the largest reach of these

The mesh is divided into patches of about four vertices, twelve edges and eight triangles (toile/contact/patches.py). A
tree of boxes holds the patches of cloth, and each patch asks it once for itself and those before it: a tenth of the
questions that vertices and edges would ask one by one. Patches of solids ask, but are not asked: so solids never meet
each other.

Source      [BFA02] sec. 6: boxes over the motion of a step, grown by the thickness
Symbols     x, x_end  positions at the start and end of a step [m]     reach  of a vertex, beyond its motion [m]
Deviations  none

The tree holds single precision: boxes of patches are rounded outwards, those of their elements are compared exactly.
It is built anew for every step, in a third of the time that the boxes take; refitted instead, it would take up to a
sixth longer to search once cloth has folded. When a few vertices have gone astray within a step, it is refitted and
only they are searched again.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp

from toile.contact.patches import divide
from toile.launcher import Launcher
from toile.math.types import real, vec3

# More than half a unit in the last place of a number in single precision, and more than the smallest such number.
RELATIVE, ABSOLUTE = wp.constant(real(2.0**-23)), wp.constant(real(1e-37))

# Patches in a leaf of the tree: with one each, building takes twice as long, and searching as long.
LEAF = 4
# Pairs of each kind that there is room for at first, per vertex.
ROOM = 16


@dataclass
class Pairs:
    """What may meet, each pair once. The arrays may be longer than the counts; the next search fills them."""

    vertex_triangle: wp.array  # vec2i: vertex, triangle
    edge_edge: wp.array  # vec2i: edge, edge; the first is the smaller
    vertex_triangle_count: int
    edge_edge_count: int


class BroadPhase:
    """Finds pairs. Vertices from `moving_count` on belong to solids; pairs of two elements of solids are left out."""

    def __init__(
        self, edges: np.ndarray, triangles: np.ndarray, vertex_count: int, moving_count: int, device: str,
        capacity: int | None = None,
    ):  # fmt: skip
        self.device, self.vertex_count, self.moving_count = device, vertex_count, moving_count
        edges, triangles = edges.reshape(-1, 2), triangles.reshape(-1, 3)
        self.edges = wp.array(edges.astype(np.int32), dtype=wp.vec2i, device=device)
        self.triangles = wp.array(triangles.astype(np.int32), dtype=wp.vec3i, device=device)
        of_vertex = divide(edges, vertex_count, moving_count)
        self._patch_count = int(of_vertex.max(initial=-1)) + 1
        self._patches = _patches(of_vertex, edges, triangles, self._patch_count, device)
        self._boxes = [
            wp.empty(count, dtype=Box, device=device) for count in (vertex_count, len(edges), len(triangles))
        ]
        self._corners = [wp.zeros(self._patch_count, dtype=wp.vec3f, device=device) for _ in range(2)]
        self._again = wp.zeros(self._patch_count, dtype=wp.int32, device=device)  # patches to be searched
        self._everything = wp.full(vertex_count, 1, dtype=wp.int32, device=device)
        moving = int(of_vertex[:moving_count].max(initial=-1)) + 1
        self._moving_patches = moving
        self._tree = wp.Bvh(*(corner[:moving] for corner in self._corners), leaf_size=LEAF) if moving else None
        capacity = ROOM * vertex_count if capacity is None else capacity
        self._counts = wp.zeros(2, dtype=wp.int32, device=device)
        self._pairs = [wp.empty(capacity, dtype=wp.vec2i, device=device) for _ in range(2)]
        self._launch = Launcher(device)

    def find(self, x: wp.array, x_end: wp.array, reach: wp.array, only: wp.array | None = None) -> Pairs:
        """All pairs without a common vertex whose boxes overlap; or only those with one of the vertices where `only` is
        not 0, which alone have other boxes than in the search before."""
        if self._tree is None:
            return Pairs(self._pairs[0], self._pairs[1], 0, 0)
        mesh = [self._patches, self.edges, self.triangles]
        chosen = self._everything if only is None else only
        at = [chosen, x, x_end, reach]
        self._launch(make_boxes, self._patch_count, [*mesh, *at, self._again, *self._boxes, *self._corners])
        if only is None:
            self._tree.rebuild()
        else:
            self._tree.refit()
        while True:
            self._counts.zero_()
            inputs = [self._tree.id, *mesh, chosen, self._again, self._moving_patches, *self._boxes, *self._corners]
            self._launch(find_pairs, self._patch_count, [*inputs, self._counts, *self._pairs])
            counts = [int(count) for count in self._counts.numpy()]
            if min(counts) < 0:
                raise OverflowError("more than 2,147,483,647 pairs of elements are near each other: too many to count.")
            short = [k for k in range(2) if counts[k] > len(self._pairs[k])]
            if not short:
                break
            for k in short:  # by half at least, so that growing ends soon
                room = max(counts[k], len(self._pairs[k]) * 3 // 2)
                self._pairs[k] = wp.empty(room, dtype=wp.vec2i, device=self.device)
        return Pairs(self._pairs[0], self._pairs[1], counts[0], counts[1])


@wp.struct
class Patches:
    """The vertices, edges and triangles of patch p are those listed at places start[p] to start[p + 1]."""

    vertex_start: wp.array(dtype=wp.int32)
    vertex: wp.array(dtype=wp.int32)
    edge_start: wp.array(dtype=wp.int32)
    edge: wp.array(dtype=wp.int32)
    triangle_start: wp.array(dtype=wp.int32)
    triangle: wp.array(dtype=wp.int32)


def _patches(of_vertex: np.ndarray, edges: np.ndarray, triangles: np.ndarray, count: int, device: str) -> Patches:
    """What lies between patches goes to the first: to cloth, if one of them is cloth."""
    patches = Patches()
    patches.vertex_start, patches.vertex = _listed(of_vertex, count, device)
    patches.edge_start, patches.edge = _listed(of_vertex[edges].min(axis=1), count, device)
    patches.triangle_start, patches.triangle = _listed(of_vertex[triangles].min(axis=1), count, device)
    return patches


def _listed(patch: np.ndarray, count: int, device: str) -> list[wp.array]:
    order = np.argsort(patch, kind="stable")
    start = np.searchsorted(patch[order], np.arange(count + 1))
    return [wp.array(values.astype(np.int32), dtype=wp.int32, device=device) for values in (start, order)]


@wp.struct
class Box:
    lower: vec3
    upper: vec3


@wp.func
def box_around(lower: vec3, upper: vec3, reach: real) -> Box:
    box = Box()
    grown = vec3(reach, reach, reach)
    box.lower = lower - grown
    box.upper = upper + grown
    return box


@wp.func
def overlap(a: Box, b: Box) -> bool:
    return (
        a.lower[0] <= b.upper[0] and b.lower[0] <= a.upper[0]
        and a.lower[1] <= b.upper[1] and b.lower[1] <= a.upper[1]
        and a.lower[2] <= b.upper[2] and b.lower[2] <= a.upper[2]
    )  # fmt: skip


@wp.func
def rounded_down(p: vec3) -> wp.vec3f:
    return wp.vec3f(p - RELATIVE * wp.abs(p) - vec3(ABSOLUTE, ABSOLUTE, ABSOLUTE))


@wp.func
def rounded_up(p: vec3) -> wp.vec3f:
    return wp.vec3f(p + RELATIVE * wp.abs(p) + vec3(ABSOLUTE, ABSOLUTE, ABSOLUTE))


@wp.kernel
def make_boxes(
    # model
    patches: Patches, edges: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
    # in
    chosen: wp.array(dtype=wp.int32), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real),
    # out
    again_out: wp.array(dtype=wp.int32),
    vertex_out: wp.array(dtype=Box), edge_out: wp.array(dtype=Box), triangle_out: wp.array(dtype=Box),
    lower_out: wp.array(dtype=wp.vec3f), upper_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Of the patches that have to do with the chosen vertices."""
    p = wp.tid()
    again = int(0)
    for place in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        again += chosen[patches.vertex[place]]
    for place in range(patches.edge_start[p], patches.edge_start[p + 1]):
        e = edges[patches.edge[place]]
        again += chosen[e[0]] + chosen[e[1]]
    for place in range(patches.triangle_start[p], patches.triangle_start[p + 1]):
        t = triangles[patches.triangle[place]]
        again += chosen[t[0]] + chosen[t[1]] + chosen[t[2]]
    again_out[p] = again
    if again == 0:
        return
    inside = x[patches.vertex[patches.vertex_start[p]]]
    patch = box_around(inside, inside, real(0.0))
    for place in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        i = patches.vertex[place]
        box = box_around(wp.min(x[i], x_end[i]), wp.max(x[i], x_end[i]), reach[i])
        vertex_out[place] = box
        patch.lower = wp.min(patch.lower, box.lower)
        patch.upper = wp.max(patch.upper, box.upper)
    for place in range(patches.edge_start[p], patches.edge_start[p + 1]):
        e = edges[patches.edge[place]]
        i, j = e[0], e[1]
        box = box_around(
            wp.min(wp.min(x[i], x_end[i]), wp.min(x[j], x_end[j])),
            wp.max(wp.max(x[i], x_end[i]), wp.max(x[j], x_end[j])),
            wp.max(reach[i], reach[j]),
        )
        edge_out[place] = box
        patch.lower = wp.min(patch.lower, box.lower)
        patch.upper = wp.max(patch.upper, box.upper)
    for place in range(patches.triangle_start[p], patches.triangle_start[p + 1]):
        t = triangles[patches.triangle[place]]
        i, j, k = t[0], t[1], t[2]
        box = box_around(
            wp.min(wp.min(wp.min(x[i], x_end[i]), wp.min(x[j], x_end[j])), wp.min(x[k], x_end[k])),
            wp.max(wp.max(wp.max(x[i], x_end[i]), wp.max(x[j], x_end[j])), wp.max(x[k], x_end[k])),
            wp.max(wp.max(reach[i], reach[j]), reach[k]),
        )
        triangle_out[place] = box
        patch.lower = wp.min(patch.lower, box.lower)
        patch.upper = wp.max(patch.upper, box.upper)
    lower_out[p] = rounded_down(patch.lower)
    upper_out[p] = rounded_up(patch.upper)


@wp.func
def add_pair(
    one: wp.int32, other: wp.int32, kind: wp.int32, counts: wp.array(dtype=wp.int32), pairs: wp.array(dtype=wp.vec2i)
):  # fmt: skip
    """What finds no room is counted all the same."""
    n = wp.atomic_add(counts, kind, 1)
    if n >= 0 and n < pairs.shape[0]:
        pairs[n] = wp.vec2i(one, other)


@wp.func
def add_vertex_triangle(
    p: wp.int32, q: wp.int32, q_box: Box,
    patches: Patches, triangles: wp.array(dtype=wp.vec3i), chosen: wp.array(dtype=wp.int32),
    vertex_boxes: wp.array(dtype=Box), triangle_boxes: wp.array(dtype=Box),
    counts: wp.array(dtype=wp.int32), pairs: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """The vertices of one patch and the triangles of another."""
    for p_place in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        box = vertex_boxes[p_place]
        if overlap(box, q_box):
            v = patches.vertex[p_place]
            for q_place in range(patches.triangle_start[q], patches.triangle_start[q + 1]):
                if overlap(box, triangle_boxes[q_place]):
                    t = patches.triangle[q_place]
                    c = triangles[t]
                    wanted = chosen[v] + chosen[c[0]] + chosen[c[1]] + chosen[c[2]] > 0
                    if wanted and c[0] != v and c[1] != v and c[2] != v:
                        add_pair(v, t, 0, counts, pairs)


@wp.func
def add_edge_edge(
    p: wp.int32, q: wp.int32, q_box: Box,
    patches: Patches, edges: wp.array(dtype=wp.vec2i), chosen: wp.array(dtype=wp.int32),
    edge_boxes: wp.array(dtype=Box),
    counts: wp.array(dtype=wp.int32), pairs: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """The edges of one patch and those of another before it, or of itself."""
    for p_place in range(patches.edge_start[p], patches.edge_start[p + 1]):
        box = edge_boxes[p_place]
        if overlap(box, q_box):
            d = patches.edge[p_place]
            a = edges[d]
            # Within one patch, those at places before: each pair once.
            for q_place in range(patches.edge_start[q], wp.min(patches.edge_start[q + 1], p_place)):
                if overlap(box, edge_boxes[q_place]):
                    e = patches.edge[q_place]
                    b = edges[e]
                    wanted = chosen[a[0]] + chosen[a[1]] + chosen[b[0]] + chosen[b[1]] > 0
                    if wanted and a[0] != b[0] and a[0] != b[1] and a[1] != b[0] and a[1] != b[1]:
                        add_pair(wp.min(d, e), wp.max(d, e), 1, counts, pairs)


@wp.kernel
def find_pairs(
    # model
    tree: wp.uint64, patches: Patches, edges: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
    # in
    chosen: wp.array(dtype=wp.int32), again: wp.array(dtype=wp.int32), moving_patches: wp.int32,
    vertex_boxes: wp.array(dtype=Box), edge_boxes: wp.array(dtype=Box), triangle_boxes: wp.array(dtype=Box),
    lower: wp.array(dtype=wp.vec3f), upper: wp.array(dtype=wp.vec3f),
    # out
    counts_out: wp.array(dtype=wp.int32), vertices_out: wp.array(dtype=wp.vec2i), edges_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    p = wp.tid()
    if again[p] == 0 and p < moving_patches:
        return  # whatever is searched again asks for itself; but nobody can ask for solids
    p_box = box_around(vec3(lower[p]), vec3(upper[p]), real(0.0))
    near = wp.bvh_query_aabb(tree, lower[p], upper[p])
    q = int(0)
    while wp.bvh_query_next(near, q):
        if q <= p or again[q] == 0:
            q_box = box_around(vec3(lower[q]), vec3(upper[q]), real(0.0))
            add_vertex_triangle(
                p, q, q_box, patches, triangles, chosen, vertex_boxes, triangle_boxes, counts_out, vertices_out
            )
            if q != p:
                add_vertex_triangle(
                    q, p, p_box, patches, triangles, chosen, vertex_boxes, triangle_boxes, counts_out, vertices_out
                )
            # Each pair once: the places of the later patch come after those of the other.
            if q <= p:
                add_edge_edge(p, q, q_box, patches, edges, chosen, edge_boxes, counts_out, edges_out)
            else:
                add_edge_edge(q, p, p_box, patches, edges, chosen, edge_boxes, counts_out, edges_out)
