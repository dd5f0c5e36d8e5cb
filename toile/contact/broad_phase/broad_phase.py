"""Broad phase: pairs of a vertex and a triangle, or of two edges, whose boxes overlap at some instant of a step.

Boxes move with their elements (boxes.py). Hulls of the whole motion would overlap far more often: in cloth that falls
ten edge lengths in a step, each element would be paired with ten neighbors that fall with it.

The mesh is divided into patches of about four vertices, twelve edges and eight triangles (patches.py). A bounding
volume hierarchy holds the hulls of the motion of the patches of cloth; each patch queries it once, for itself and the
patches before it, which is a tenth of the queries that vertices and edges would make one by one. Pairs of patches whose
moving boxes overlap are listed, and then their elements are compared. Patches of solids query the tree but are not in
it, so solids are never paired with solids.

Source      [BFA02] sec. 6: boxes over the motion of a step, grown by the thickness
Symbols     x, x_end  positions at the start and end of a step [m]     reach  margin of a vertex around its motion [m]
Deviations  Boxes move, where the paper has hulls of the motion.

The tree is in single precision: hulls of patches are rounded outwards, and boxes of elements are compared exactly. It
is refitted for every search, in a fiftieth of the time that the boxes take, and rebuilt now and then, which takes a
third of it: queries of a tree that was built for a flat sheet and refitted until the sheet hung in folds took 3 %
longer. When a few vertices have moved too far since a search, only their pairs are searched again.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import warp as wp

from toile.contact.broad_phase import pairs_gpu
from toile.contact.broad_phase.boxes import MovingBox, hull, inflated, overlap, point_box
from toile.contact.broad_phase.patches import Patches, partition
from toile.device.append_buffer import AppendBuffer, BufferRanges, fill, next_slot
from toile.device.launcher import Launcher
from toile.math.types import real, vec3

# Relative and absolute margin for rounding to single precision: more than half a unit in the last place, and more than
# the smallest normal number.
RELATIVE, ABSOLUTE = wp.constant(real(2.0**-23)), wp.constant(real(1e-37))

# Patches in a leaf of the tree: with one each, building takes twice as long, and queries take as long as now.
LEAF_SIZE = 4
# Initial capacity per vertex: pairs of patches, vertex-triangle pairs, edge-edge pairs.
CAPACITY_PER_VERTEX = 2, 8, 16
# The tree is rebuilt once in this many searches.
REBUILD_INTERVAL = 32
# Patches, or pairs of patches, that a thread takes at least.
BLOCK = 64


@dataclass
class OverlappingPairs:
    """Pairs of elements, each once. The arrays may be longer than the counts; the next search overwrites them."""

    vertex_triangle: wp.array  # vec2i: vertex, triangle
    edge_edge: wp.array  # vec2i: edge, edge; the first is the smaller
    vertex_triangle_count: int
    edge_edge_count: int


class BroadPhase:
    """Finds pairs of elements. Vertices from `moving_count` on belong to solids, which are not paired with solids."""

    def __init__(
        self, edges: np.ndarray, triangles: np.ndarray, vertex_count: int, moving_count: int, device: str,
        capacity: int | None = None,
    ):  # fmt: skip
        self.device, self.vertex_count, self.moving_count = device, vertex_count, moving_count
        edges, triangles = edges.reshape(-1, 2), triangles.reshape(-1, 3)
        self.edges = wp.array(edges.astype(np.int32), dtype=wp.vec2i, device=device)
        self.triangles = wp.array(triangles.astype(np.int32), dtype=wp.vec3i, device=device)
        of_vertex = partition(edges, vertex_count, moving_count)
        self._patch_count = int(of_vertex.max(initial=-1)) + 1
        self._patches = _patches(of_vertex, edges, triangles, self._patch_count, device)
        # Boxes of patches; boxes of vertices, edges and triangles are three ranges of one array.
        self._patch_boxes = wp.empty(self._patch_count, dtype=MovingBox, device=device)
        self._ends = np.cumsum([0, vertex_count, len(edges), len(triangles)]).tolist()
        self._element_boxes = wp.empty(self._ends[-1], dtype=MovingBox, device=device)
        none = wp.empty(0, dtype=MovingBox, device=device)
        ranges = [self._element_boxes[begin:end] if end > begin else none for begin, end in pairwise(self._ends)]
        self._boxes = [self._patch_boxes, *ranges]
        self._corners = [wp.zeros(self._patch_count, dtype=wp.vec3f, device=device) for _ in range(2)]
        self._active = wp.zeros(self._patch_count, dtype=wp.int32, device=device)  # patches to be searched
        self._all_selected = wp.full(vertex_count, 1, dtype=wp.int32, device=device)
        moving = int(of_vertex[:moving_count].max(initial=-1)) + 1
        self._moving_patches = moving
        self._tree = wp.Bvh(*(corner[:moving] for corner in self._corners), leaf_size=LEAF_SIZE) if moving else None
        self._searches = 0
        # The id is kept as one object: packed launches are keyed by identity.
        self._tree_id = 0 if self._tree is None else self._tree.id
        capacities = [each * vertex_count if capacity is None else capacity for each in CAPACITY_PER_VERTEX]
        self._patch_pairs, *self._pairs = (AppendBuffer(wp.vec2i, each, device) for each in capacities)
        self._on_gpu = self.runs_on_gpu(device)
        self._launch = Launcher(device)

    def find(
        self, x: wp.array, x_end: wp.array, reach: wp.array, only: wp.array | None = None,
        reach_end: wp.array | None = None,
    ) -> OverlappingPairs:  # fmt: skip
        """Returns all pairs without a common vertex whose boxes overlap.

        With `only`, returns just the pairs with a vertex where it is not 0; only these vertices may have other boxes
        than in the search before. `reach` holds at the end of the step too, unless `reach_end` is given.
        """
        if self._tree is None:
            return OverlappingPairs(self._pairs[0].values, self._pairs[1].values, 0, 0)
        mesh = [self._patches, self.edges, self.triangles]
        selected = self._all_selected if only is None else only
        at = [selected, x, x_end, reach, reach if reach_end is None else reach_end]
        out = [self._active, *self._boxes, *self._corners]
        self._launch.split(make_boxes, self._patch_count, [*mesh, *at, *out], BLOCK)
        if self._searches % REBUILD_INTERVAL == 0:
            self._tree.rebuild()
        else:
            self._tree.refit()
        self._searches += 1
        inputs = [self._tree_id, self._active, self._moving_patches, self._boxes[0], *self._corners]
        fill([self._patch_pairs], self._launch, find_patches, self._patch_count, inputs, BLOCK)
        self._find_element_pairs([*mesh, selected, self._patch_pairs.values], self._patch_pairs.count)
        vertices, edges = self._pairs
        return OverlappingPairs(vertices.values, edges.values, vertices.count, edges.count)

    @staticmethod
    def runs_on_gpu(device: str) -> bool:
        """Whether several threads compare the elements of two patches."""
        return wp.get_device(device).is_cuda

    def _find_element_pairs(self, inputs: list[Any], count: int) -> None:
        """Compares the elements of `count` pairs of patches."""
        if self._on_gpu:
            lanes = pairs_gpu.LANES
            inputs = [*inputs, lanes, *self._ends[1:3], self._element_boxes]
            fill(self._pairs, self._launch, pairs_gpu.find_pairs, lanes * count, inputs, BLOCK)
        else:
            fill(self._pairs, self._launch, find_pairs, count, [*inputs, *self._boxes], BLOCK)


def _patches(of_vertex: np.ndarray, edges: np.ndarray, triangles: np.ndarray, count: int, device: str) -> Patches:
    """The elements of each patch. One that lies between patches goes to the first, so to cloth if it has any vertex of
    cloth."""
    patches = Patches()
    patches.vertex_start, patches.vertex = _listed(of_vertex, count, device)
    patches.edge_start, patches.edge = _listed(of_vertex[edges].min(axis=1), count, device)
    patches.triangle_start, patches.triangle = _listed(of_vertex[triangles].min(axis=1), count, device)
    return patches


def _listed(patch: np.ndarray, count: int, device: str) -> list[wp.array]:
    order = np.argsort(patch, kind="stable")
    start = np.searchsorted(patch[order], np.arange(count + 1))
    return [wp.array(values.astype(np.int32), dtype=wp.int32, device=device) for values in (start, order)]


@wp.func
def rounded_down(p: vec3) -> wp.vec3f:
    return wp.vec3f(p - RELATIVE * wp.abs(p) - vec3(ABSOLUTE, ABSOLUTE, ABSOLUTE))


@wp.func
def rounded_up(p: vec3) -> wp.vec3f:
    return wp.vec3f(p + RELATIVE * wp.abs(p) + vec3(ABSOLUTE, ABSOLUTE, ABSOLUTE))


@wp.kernel
def make_boxes(
    # model
    first: wp.int32, patches: Patches, edges: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
    # in
    selected: wp.array(dtype=wp.int32), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real),
    reach_end: wp.array(dtype=real),
    # out
    active_out: wp.array(dtype=wp.int32), patch_out: wp.array(dtype=MovingBox), vertex_out: wp.array(dtype=MovingBox),
    edge_out: wp.array(dtype=MovingBox), triangle_out: wp.array(dtype=MovingBox),
    lower_out: wp.array(dtype=wp.vec3f), upper_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Updates the boxes of patches with selected vertices, and of the elements in them."""
    p = first + wp.tid()
    active = int(0)
    for entry in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        active += selected[patches.vertex[entry]]
    for entry in range(patches.edge_start[p], patches.edge_start[p + 1]):
        e = edges[patches.edge[entry]]
        active += selected[e[0]] + selected[e[1]]
    for entry in range(patches.triangle_start[p], patches.triangle_start[p + 1]):
        t = triangles[patches.triangle[entry]]
        active += selected[t[0]] + selected[t[1]] + selected[t[2]]
    active_out[p] = active
    if active == 0:
        return
    inside = patches.vertex[patches.vertex_start[p]]
    patch = point_box(x[inside], x_end[inside])
    for entry in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        i = patches.vertex[entry]
        box = inflated(point_box(x[i], x_end[i]), reach[i], reach_end[i])
        vertex_out[entry] = box
        patch = hull(patch, box)
    for entry in range(patches.edge_start[p], patches.edge_start[p + 1]):
        e = edges[patches.edge[entry]]
        i, j = e[0], e[1]
        ends = hull(point_box(x[i], x_end[i]), point_box(x[j], x_end[j]))
        box = inflated(ends, wp.max(reach[i], reach[j]), wp.max(reach_end[i], reach_end[j]))
        edge_out[entry] = box
        patch = hull(patch, box)
    for entry in range(patches.triangle_start[p], patches.triangle_start[p + 1]):
        t = triangles[patches.triangle[entry]]
        i, j, k = t[0], t[1], t[2]
        corners = hull(point_box(x[i], x_end[i]), hull(point_box(x[j], x_end[j]), point_box(x[k], x_end[k])))
        box = inflated(
            corners,
            wp.max(reach[i], wp.max(reach[j], reach[k])),
            wp.max(reach_end[i], wp.max(reach_end[j], reach_end[k])),
        )
        triangle_out[entry] = box
        patch = hull(patch, box)
    patch_out[p] = patch
    lower_out[p] = rounded_down(wp.min(patch.lower, patch.lower_end))
    upper_out[p] = rounded_up(wp.max(patch.upper, patch.upper_end))


@wp.kernel
def find_patches(
    # model
    first: wp.int32, tree: wp.uint64,
    # in
    active: wp.array(dtype=wp.int32), moving_patches: wp.int32, boxes: wp.array(dtype=MovingBox),
    lower: wp.array(dtype=wp.vec3f), upper: wp.array(dtype=wp.vec3f),
    # out
    ranges: BufferRanges, pairs_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Lists the pairs of patches whose moving boxes overlap."""
    p = first + wp.tid()
    if active[p] == 0 and p < moving_patches:
        return  # a patch that is searched queries for itself; solids must query, because they are not in the tree
    near = wp.bvh_query_aabb(tree, lower[p], upper[p])
    q = int(0)
    while wp.bvh_query_next(near, q):
        if q > p and active[q] != 0:
            continue  # the other patch queries for this pair
        if overlap(boxes[p], boxes[q]):
            n = next_slot(ranges, first)
            if n >= 0:
                pairs_out[n] = wp.vec2i(p, q)


@wp.func
def add_vertex_triangle(
    first: wp.int32, p: wp.int32, q: wp.int32, q_box: MovingBox,
    patches: Patches, triangles: wp.array(dtype=wp.vec3i), selected: wp.array(dtype=wp.int32),
    vertex_boxes: wp.array(dtype=MovingBox), triangle_boxes: wp.array(dtype=MovingBox),
    ranges: BufferRanges, pairs: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Appends the pairs of a vertex of patch p and a triangle of patch q."""
    for p_entry in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        box = vertex_boxes[p_entry]
        if overlap(box, q_box):
            v = patches.vertex[p_entry]
            for q_entry in range(patches.triangle_start[q], patches.triangle_start[q + 1]):
                if overlap(box, triangle_boxes[q_entry]):
                    t = patches.triangle[q_entry]
                    c = triangles[t]
                    wanted = selected[v] + selected[c[0]] + selected[c[1]] + selected[c[2]] > 0
                    if wanted and c[0] != v and c[1] != v and c[2] != v:
                        n = next_slot(ranges, first)
                        if n >= 0:
                            pairs[n] = wp.vec2i(v, t)


@wp.func
def add_edge_edge(
    first: wp.int32, p: wp.int32, q: wp.int32, q_box: MovingBox,
    patches: Patches, edges: wp.array(dtype=wp.vec2i), selected: wp.array(dtype=wp.int32),
    edge_boxes: wp.array(dtype=MovingBox),
    ranges: BufferRanges, pairs: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Appends the pairs of an edge of patch p and an edge of patch q, which comes before p or is p."""
    for p_entry in range(patches.edge_start[p], patches.edge_start[p + 1]):
        box = edge_boxes[p_entry]
        if overlap(box, q_box):
            d = patches.edge[p_entry]
            a = edges[d]
            # Within one patch only entries before this one: each pair is listed once.
            for q_entry in range(patches.edge_start[q], wp.min(patches.edge_start[q + 1], p_entry)):
                if overlap(box, edge_boxes[q_entry]):
                    e = patches.edge[q_entry]
                    b = edges[e]
                    wanted = selected[a[0]] + selected[a[1]] + selected[b[0]] + selected[b[1]] > 0
                    if wanted and a[0] != b[0] and a[0] != b[1] and a[1] != b[0] and a[1] != b[1]:
                        n = next_slot(ranges, first)
                        if n >= 0:
                            pairs[n] = wp.vec2i(wp.min(d, e), wp.max(d, e))


@wp.kernel
def find_pairs(
    # model
    first: wp.int32, patches: Patches, edges: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
    # in
    selected: wp.array(dtype=wp.int32), patch_pairs: wp.array(dtype=wp.vec2i),
    patch_boxes: wp.array(dtype=MovingBox), vertex_boxes: wp.array(dtype=MovingBox), edge_boxes: wp.array(dtype=MovingBox),
    triangle_boxes: wp.array(dtype=MovingBox),
    # out
    vertex_ranges: BufferRanges, vertices_out: wp.array(dtype=wp.vec2i),
    edge_ranges: BufferRanges, edges_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Compares the elements of one pair of patches, on the CPU."""
    patch_pair = patch_pairs[first + wp.tid()]
    p, q = patch_pair[0], patch_pair[1]
    add_vertex_triangle(
        first, p, q, patch_boxes[q], patches, triangles, selected, vertex_boxes, triangle_boxes,
        vertex_ranges, vertices_out,
    )  # fmt: skip
    if q != p:
        add_vertex_triangle(
            first, q, p, patch_boxes[p], patches, triangles, selected, vertex_boxes, triangle_boxes,
            vertex_ranges, vertices_out,
        )  # fmt: skip
    # Each pair is listed once: the entries of the later patch come after those of the other.
    later, other = wp.max(p, q), wp.min(p, q)
    add_edge_edge(
        first, later, other, patch_boxes[other], patches, edges, selected, edge_boxes, edge_ranges, edges_out
    )
