"""Broad phase: candidate pairs of a vertex and a triangle, or of two edges, whose boxes overlap at some instant.

Boxes move with their elements (boxes.py, patch_boxes.py). Hulls of the whole motion would overlap far more often: in
cloth that falls ten edge lengths in a step, each element would be paired with ten neighbors that fall with it.

The mesh is divided into patches of about four vertices, twelve edges and eight triangles (patches.py). A bounding
volume hierarchy holds the hulls of the motion of the patches of cloth; each patch queries it once, for itself and the
patches before it, which is a tenth of the queries that vertices and edges would make one by one. Pairs of patches whose
moving boxes overlap are listed, and then their elements are compared (pairs_cpu.py, pairs_gpu.py). Patches of solids
query the tree but are not in it, so solids are never paired with solids.

Source      [BFA02] sec. 6: boxes over the motion of a step, grown by the thickness
Symbols     x, x_end  positions at the start and end of a step [m]     reach  margin of a vertex around its motion [m]
Deviations  Boxes move, where the paper has hulls of the motion.

The tree is in single precision: hulls of patches are rounded outwards, and boxes of elements are compared exactly. It
is refitted for every search, in a fiftieth of the time that the boxes take, and rebuilt now and then, which takes a
third of it: queries of a tree that was built for a flat sheet and refitted until the sheet hung in folds took 3 %
longer. When a few vertices have moved too far since a search, only their pairs are searched again.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp

from toile.contact.broad_phase import pairs_cpu, pairs_gpu
from toile.contact.broad_phase.boxes import overlap
from toile.contact.broad_phase.flat_patches import Flatness, FlatPatches, Regions, leave_out
from toile.contact.broad_phase.patch_boxes import PatchBoxes, allocate_boxes, make_boxes
from toile.contact.broad_phase.patches import make_patches, partition
from toile.device.append_buffer import AppendBuffer, BufferRanges, fill, next_slot
from toile.device.launcher import Launcher

# Patches in a leaf of the tree: with one each, building takes twice as long, and queries take as long as now.
LEAF_SIZE = 4
# Initial capacity per vertex: pairs of patches, vertex-triangle pairs, edge-edge pairs.
CAPACITY_PER_VERTEX = 2, 8, 16
# The tree is rebuilt once in this many searches.
REBUILD_INTERVAL = 32
# Patches, or pairs of patches, that a thread takes at least.
BLOCK = 64


@dataclass
class CandidatePairs:
    """Candidate pairs, each once. The arrays may be longer than the counts; the next search of the same kind, for all
    vertices or for some, overwrites them."""

    vertex_triangle: wp.array  # vec2i: vertex, triangle
    edge_edge: wp.array  # vec2i: edge, edge; the first is the smaller
    vertex_triangle_count: int
    edge_edge_count: int


class BroadPhase:
    """Finds candidate pairs. Vertices from `moving_count` on belong to solids, which are not paired with solids."""

    def __init__(
        self, edges: np.ndarray, triangles: np.ndarray, vertex_count: int, moving_count: int, device: str,
        capacity: int | None = None, rest_uv: tuple[np.ndarray, np.ndarray] | None = None,
    ):  # fmt: skip
        """`rest_uv` are the rest position [m] and chart of each vertex: pairs in flat parts of a chart are left out."""
        self.device, self.vertex_count, self.moving_count = device, vertex_count, moving_count
        edges, triangles = edges.reshape(-1, 2), triangles.reshape(-1, 3)
        of_vertex = partition(edges, vertex_count, moving_count)
        self._patches = make_patches(of_vertex, edges, triangles, device)
        self.edges, self.triangles = self._patches.edges, self._patches.triangles
        self._patch_count = int(of_vertex.max(initial=-1)) + 1
        self._ends = np.cumsum([0, vertex_count, len(edges), len(triangles)]).tolist()
        self._boxes = boxes = allocate_boxes(self._patch_count, self._ends, device)
        uv, chart = rest_uv or (np.zeros((vertex_count, 2)), np.full(vertex_count, -1))
        self._flat = FlatPatches(self._patches, of_vertex, edges, triangles, uv, chart, device)
        self._active = wp.zeros(self._patch_count, dtype=wp.int32, device=device)  # patches to be searched
        self._all_selected = wp.full(vertex_count, 1, dtype=wp.int32, device=device)
        self._all_active = wp.full(self._patch_count, 1, dtype=wp.int32, device=device)
        moving = int(of_vertex[:moving_count].max(initial=-1)) + 1
        self._moving_patches = moving
        self._tree = wp.Bvh(boxes.lower[:moving], boxes.upper[:moving], leaf_size=LEAF_SIZE) if moving else None
        self._searches = 0
        # The id is kept as one object: packed launches are keyed by identity.
        self._tree_id = 0 if self._tree is None else self._tree.id
        capacities = [each * vertex_count if capacity is None else capacity for each in CAPACITY_PER_VERTEX]
        self._patch_pairs, *self._pairs = (AppendBuffer(wp.vec2i, each, device) for each in capacities)
        self._pairs_of_some = [AppendBuffer(wp.vec2i, max(1, each // 8), device) for each in capacities[1:]]
        self._on_gpu = self.runs_on_gpu(device)
        self._launch = Launcher(device)

    def find(
        self, x: wp.array, x_end: wp.array, reach: wp.array, only: wp.array | None = None,
        reach_end: wp.array | None = None, slack: float = 0.0, all_moved: bool = False,
    ) -> CandidatePairs:  # fmt: skip
        """Returns all pairs without a common vertex whose boxes overlap, but those of flat parts of a sheet, which stay
        apart while no end moves farther than `slack` from x_end.

        With `only`, returns just the pairs with a vertex where it is not 0; only these vertices may have other boxes
        than in the search before, unless `all_moved` says that it was in another step. `reach` holds at the end of the
        step too, unless `reach_end` is given.
        """
        if self._tree is None:
            return CandidatePairs(self._pairs[0].values, self._pairs[1].values, 0, 0)
        selected = self._all_selected if only is None else only
        motion = [x, x_end, reach, reach if reach_end is None else reach_end]
        for chosen in (self._all_selected, selected) if all_moved and only is not None else (selected,):
            inputs = [self._patches, chosen, *motion, self._active, self._boxes]
            self._launch.split(make_boxes, self._patch_count, inputs, BLOCK)
        self._flat.measure(self._active, x, x_end, slack, only is None)
        if self._searches % REBUILD_INTERVAL == 0:
            self._tree.rebuild()
        else:
            self._tree.refit()
        self._searches += 1
        model = [self._tree_id, self._moving_patches, self._flat.regions]
        inputs = [*model, self._active, self._boxes, self._flat.flatness]
        fill([self._patch_pairs], self._launch, find_patches, self._patch_count, inputs, BLOCK)
        vertices, edges = found = self._pairs if only is None else self._pairs_of_some
        self._find_element_pairs(selected, found)
        return CandidatePairs(vertices.values, edges.values, vertices.count, edges.count)

    def find_bent(self, x: wp.array, x_end: wp.array, slack: float, bent_out: wp.array) -> int:
        """Marks the vertices of pairs that were left out and are in no flat part any more, in a step that begins at x
        and has the ends that were searched for; returns the number of vertices that it marked."""
        return self._flat.find_bent(self._all_active, x, x_end, slack, bent_out)

    @staticmethod
    def runs_on_gpu(device: str) -> bool:
        """Whether several threads compare the elements of two patches."""
        return wp.get_device(device).is_cuda

    def _find_element_pairs(self, selected: wp.array, pairs_out: list[AppendBuffer]) -> None:
        """Compares the elements of all pairs of patches."""
        found = [selected, self._patch_pairs.values]
        if self._on_gpu:
            lanes = pairs_gpu.LANES
            inputs = [self._patches, *self._ends[1:3], lanes, *found, self._boxes.elements]
            fill(pairs_out, self._launch, pairs_gpu.find_pairs, lanes * self._patch_pairs.count, inputs, BLOCK)
        else:
            inputs = [self._patches, *found, self._boxes]
            fill(pairs_out, self._launch, pairs_cpu.find_pairs, self._patch_pairs.count, inputs, BLOCK)


@wp.kernel
def find_patches(
    # model
    first: wp.int32, tree: wp.uint64, moving_patches: wp.int32, regions: Regions,
    # in
    active: wp.array(dtype=wp.int32), boxes: PatchBoxes,
    # in and out
    flatness_out: Flatness,
    # out
    ranges_out: BufferRanges, pairs_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    """Lists the pairs of patches whose moving boxes overlap."""
    p = first + wp.tid()
    if active[p] == 0 and p < moving_patches:
        return  # a patch that is searched queries for itself; solids must query, because they are not in the tree
    query = wp.bvh_query_aabb(tree, boxes.lower[p], boxes.upper[p])
    q = int(0)
    while wp.bvh_query_next(query, q):
        if q > p and active[q] != 0:
            continue  # the other patch queries for this pair
        if not overlap(boxes.patch[p], boxes.patch[q]):
            continue
        if not leave_out(p, q, regions, flatness_out):
            n = next_slot(ranges_out, first)
            if n >= 0:
                pairs_out[n] = wp.vec2i(p, q)
