"""Which vertices and triangles, and which edges, may meet during a step: pairs of boxes that overlap.

    box of an element = hull of x and x_end of its vertices, grown by the largest reach of these

A tree of boxes over the triangles is asked by vertices, another over the edges by edges. Both are built once and then
refitted: neighbours in a cloth stay neighbours.

Source      [BFA02] sec. 6: boxes over the motion of a step, grown by the thickness
Symbols     x, x_end  positions at the start and end of a step [m]     reach  of a vertex, beyond its motion [m]
Deviations  none

Trees hold single precision: their boxes and those that ask are rounded outwards, and what they find is tested again.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp

from toile.launcher import Launcher
from toile.math.types import real, vec3

# More than half a unit in the last place of a number in single precision, and more than the smallest such number.
RELATIVE, ABSOLUTE = wp.constant(real(2.0**-23)), wp.constant(real(1e-37))

# Pairs that there is room for at first, per vertex.
ROOM = 16


@dataclass
class Pairs:
    """What may meet, each pair once, in order. The arrays may be longer than the counts; the next search fills them."""

    vertex_triangle: wp.array  # vec2i: vertex, triangle
    edge_edge: wp.array  # vec2i: edge, edge; the first is the smaller
    vertex_triangle_count: int
    edge_edge_count: int


class BroadPhase:
    """Finds pairs. Vertices from `moving_count` on belong to solids; what belongs to solids does not meet its like."""

    def __init__(
        self, edges: np.ndarray, triangles: np.ndarray, vertex_count: int, moving_count: int, device: str,
        capacity: int | None = None,
    ):  # fmt: skip
        self.device, self.vertex_count, self.moving_count = device, vertex_count, moving_count
        self.edges = wp.array(edges.reshape(-1, 2).astype(np.int32), dtype=wp.vec2i, device=device)
        self.triangles = wp.array(triangles.reshape(-1, 3).astype(np.int32), dtype=wp.vec3i, device=device)
        self._launch = Launcher(device)
        self._edge_boxes, self._triangle_boxes = (_boxes(len(e), device) for e in (self.edges, self.triangles))
        self._edge_tree: wp.Bvh | None = None
        self._triangle_tree: wp.Bvh | None = None
        capacity = ROOM * vertex_count if capacity is None else capacity
        self._found = [_Buffer(capacity, device), _Buffer(capacity, device)]

    def find(self, x: wp.array, x_end: wp.array, reach: wp.array) -> Pairs:
        """All pairs without a common vertex whose boxes overlap."""
        motion = [x, x_end, reach]
        counts = [0, 0]
        if len(self.triangles):
            self._launch(triangle_boxes, len(self.triangles), [self.triangles, *motion, *self._triangle_boxes])
            self._triangle_tree = _fitted(self._triangle_tree, self._triangle_boxes)
            inputs = [self._triangle_tree.id, self.triangles, self.moving_count, *motion]
            counts[0] = self._found[0].fill(self._launch, find_vertex_triangle, self.vertex_count, inputs)
        if len(self.edges):
            self._launch(edge_boxes, len(self.edges), [self.edges, *motion, *self._edge_boxes])
            self._edge_tree = _fitted(self._edge_tree, self._edge_boxes)
            inputs = [self._edge_tree.id, self.edges, self.moving_count, *motion, *self._edge_boxes]
            counts[1] = self._found[1].fill(self._launch, find_edge_edge, len(self.edges), inputs)
        return Pairs(self._found[0].pairs, self._found[1].pairs, *counts)


class _Buffer:
    """Pairs found, and their count."""

    def __init__(self, capacity: int, device: str):
        self.pairs = wp.empty(capacity, dtype=wp.vec2i, device=device)
        self._count = wp.zeros(1, dtype=wp.int32, device=device)

    def fill(self, launch: Launcher, kernel: wp.Kernel, dim: int, inputs: list) -> int:
        """Search; again with more room if there was too little. The number of pairs."""
        while True:
            self._count.zero_()
            launch(kernel, dim, [*inputs, self._count, self.pairs])
            count = int(self._count.numpy()[0])
            if count <= len(self.pairs):
                break
            self.pairs = wp.empty(max(count, len(self.pairs) * 3 // 2), dtype=wp.vec2i, device=self.pairs.device)
        if count:
            self._sort(count)
        return count

    def _sort(self, count: int) -> None:
        """Into an order that depends neither on the shape of a tree, and so on the past, nor on threads."""
        keys = self.pairs.view(wp.int64)
        if self.pairs.device.is_cpu:
            keys.numpy()[:count].sort()
        else:
            wider = wp.empty(2 * count, dtype=wp.int64, device=keys.device)
            wp.copy(wider, keys, count=count)
            wp.utils.radix_sort_pairs(wider, wp.empty(2 * count, dtype=wp.int32, device=keys.device), count)
            wp.copy(keys, wider, count=count)


def _boxes(count: int, device: str) -> list[wp.array]:
    return [wp.empty(count, dtype=wp.vec3f, device=device) for _ in range(2)]


def _fitted(tree: wp.Bvh | None, boxes: list[wp.array]) -> wp.Bvh:
    if tree is None:
        return wp.Bvh(*boxes)
    tree.refit()
    return tree


@wp.struct
class Box:
    lower: vec3
    upper: vec3


@wp.func
def grown(lower: vec3, upper: vec3, reach: real) -> Box:
    box = Box()
    margin = vec3(reach, reach, reach)
    box.lower = lower - margin
    box.upper = upper + margin
    return box


@wp.func
def vertex_box(i: wp.int32, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real)) -> Box:
    return grown(wp.min(x[i], x_end[i]), wp.max(x[i], x_end[i]), reach[i])


@wp.func
def edge_box(e: wp.vec2i, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real)) -> Box:
    i, j = e[0], e[1]
    lower = wp.min(wp.min(x[i], x_end[i]), wp.min(x[j], x_end[j]))
    upper = wp.max(wp.max(x[i], x_end[i]), wp.max(x[j], x_end[j]))
    return grown(lower, upper, wp.max(reach[i], reach[j]))


@wp.func
def triangle_box(t: wp.vec3i, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real)) -> Box:
    i, j, k = t[0], t[1], t[2]
    lower = wp.min(wp.min(wp.min(x[i], x_end[i]), wp.min(x[j], x_end[j])), wp.min(x[k], x_end[k]))
    upper = wp.max(wp.max(wp.max(x[i], x_end[i]), wp.max(x[j], x_end[j])), wp.max(x[k], x_end[k]))
    return grown(lower, upper, wp.max(wp.max(reach[i], reach[j]), reach[k]))


@wp.func
def rounded_down(p: vec3) -> wp.vec3f:
    return wp.vec3f(p - RELATIVE * wp.abs(p) - vec3(ABSOLUTE, ABSOLUTE, ABSOLUTE))


@wp.func
def rounded_up(p: vec3) -> wp.vec3f:
    return wp.vec3f(p + RELATIVE * wp.abs(p) + vec3(ABSOLUTE, ABSOLUTE, ABSOLUTE))


@wp.func
def overlap(a: Box, b: Box) -> bool:
    return (
        a.lower[0] <= b.upper[0] and b.lower[0] <= a.upper[0]
        and a.lower[1] <= b.upper[1] and b.lower[1] <= a.upper[1]
        and a.lower[2] <= b.upper[2] and b.lower[2] <= a.upper[2]
    )  # fmt: skip


@wp.kernel
def edge_boxes(
    # model
    edges: wp.array(dtype=wp.vec2i),
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real),
    # out
    lower_out: wp.array(dtype=wp.vec3f), upper_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    e = wp.tid()
    box = edge_box(edges[e], x, x_end, reach)
    lower_out[e] = rounded_down(box.lower)
    upper_out[e] = rounded_up(box.upper)


@wp.kernel
def triangle_boxes(
    # model
    triangles: wp.array(dtype=wp.vec3i),
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real),
    # out
    lower_out: wp.array(dtype=wp.vec3f), upper_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    t = wp.tid()
    box = triangle_box(triangles[t], x, x_end, reach)
    lower_out[t] = rounded_down(box.lower)
    upper_out[t] = rounded_up(box.upper)


@wp.kernel
def find_vertex_triangle(
    # model
    tree: wp.uint64, triangles: wp.array(dtype=wp.vec3i), moving_count: wp.int32,
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real),
    # out
    count_out: wp.array(dtype=wp.int32), pairs_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    v = wp.tid()
    box = vertex_box(v, x, x_end, reach)
    near = wp.bvh_query_aabb(tree, rounded_down(box.lower), rounded_up(box.upper))
    t = int(0)
    while wp.bvh_query_next(near, t):
        corners = triangles[t]
        if corners[0] == v or corners[1] == v or corners[2] == v:
            continue
        if v >= moving_count and wp.min(corners) >= moving_count:
            continue
        if overlap(box, triangle_box(corners, x, x_end, reach)):
            n = wp.atomic_add(count_out, 0, 1)
            if n < pairs_out.shape[0]:
                pairs_out[n] = wp.vec2i(v, t)


@wp.kernel
def find_edge_edge(
    # model
    tree: wp.uint64, edges: wp.array(dtype=wp.vec2i), moving_count: wp.int32,
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), reach: wp.array(dtype=real),
    lower: wp.array(dtype=wp.vec3f), upper: wp.array(dtype=wp.vec3f),
    # out
    count_out: wp.array(dtype=wp.int32), pairs_out: wp.array(dtype=wp.vec2i),
):  # fmt: skip
    e = wp.tid()
    ends = edges[e]
    box = edge_box(ends, x, x_end, reach)
    near = wp.bvh_query_aabb(tree, lower[e], upper[e])
    d = int(0)
    while wp.bvh_query_next(near, d):
        if d >= e:
            continue
        others = edges[d]
        if others[0] == ends[0] or others[0] == ends[1] or others[1] == ends[0] or others[1] == ends[1]:
            continue
        if wp.min(ends) >= moving_count and wp.min(others) >= moving_count:
            continue
        if overlap(box, edge_box(others, x, x_end, reach)):
            n = wp.atomic_add(count_out, 0, 1)
            if n < pairs_out.shape[0]:
                pairs_out[n] = wp.vec2i(d, e)
