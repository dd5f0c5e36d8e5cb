"""Edge-triangle intersections at one instant, over every edge and triangle of the scene.

With the volume |a b c d| = det(a - d, b - d, c - d), the edge p0 p1 intersects the triangle a b c when

    |a b c p0| and |a b c p1|  are of opposite sign              its ends are on the two sides of the plane
    |p0 p1 a b|, |p0 p1 b c| and |p0 p1 c a|  are of one sign    its line goes through the triangle

A sign is certain only where the volume exceeds its rounding error; an uncertain sign counts as either, so that pairs
that touch to the last digit are found as well. For an edge in the plane of the triangle no sign is certain: it does not
intersect if, in projection along the normal, a line along it or along a side of the triangle separates the two.

Two triangles with at most a corner in common intersect if and only if an edge of one so intersects the other.

Source      the volumes and their rounding error: Shewchuk 1997, "Adaptive precision floating-point arithmetic"
Symbols     p0, p1  ends of an edge [m]     a, b, c  corners of a triangle [m]     n  its normal, twice its area long
Deviations  The error is bounded by the sizes of the vectors (sums of the absolute values of their components) and not
            by those of the products, which is coarser by about a digit. No exact arithmetic: uncertain pairs are
            reported.
"""

import numpy as np
import warp as wp

from toile.contact.broad_phase.boxes import rounded_down, rounded_up
from toile.device.append_buffer import AppendBuffer, BufferRanges, fill, next_slot
from toile.device.launcher import Launcher
from toile.math.types import double, vec3

# Error of a volume, or of an area in projection along a normal, over the product of the sizes of its three vectors:
# less than 8 roundings.
ERROR = wp.constant(wp.float64(8.0 * 2.0**-53))
# Entries allocated at first; buffers grow when full.
INITIAL_CAPACITY = 256
# The tree is refitted while cloth moves, and rebuilt once in this many searches, at ten times the cost.
REBUILD_INTERVAL = 256


class EdgeTriangleIntersections:
    """Finds edges that intersect triangles they share no vertex with. Pairs of two elements of solids are left out.

    edges, triangles    (m, 2) and (k, 3) vertices
    moving_count        vertices from this one on belong to solids
    """

    def __init__(
        self, edges: np.ndarray, triangles: np.ndarray, vertex_count: int, moving_count: int, device: str
    ) -> None:
        self.vertex_count, self.moving_count, self.device = vertex_count, moving_count, device
        # One query for every vertex and not for every edge: there are a third as many, with boxes hardly larger.
        by_first = np.argsort(edges[:, 0], kind="stable")
        fans = np.searchsorted(edges[by_first, 0], np.arange(vertex_count + 1))
        self._fans = wp.array(fans.astype(np.int32), dtype=wp.int32, device=device)
        self._fan_edges = wp.array(by_first.astype(np.int32), dtype=wp.int32, device=device)
        self._far_ends = wp.array(edges[by_first, 1].astype(np.int32), dtype=wp.int32, device=device)
        self.triangles = wp.array(np.ascontiguousarray(triangles, dtype=np.int32), dtype=wp.vec3i, device=device)
        self._launch = Launcher(device)
        self._lowers = wp.zeros(len(triangles), dtype=wp.vec3, device=device)
        self._uppers = wp.zeros(len(triangles), dtype=wp.vec3, device=device)
        self._tree: wp.Bvh | None = None
        self._searches = 0
        self._intersections = AppendBuffer(EdgeTriangleIntersection, INITIAL_CAPACITY, device)

    def find(self, x: wp.array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Edge and triangle of every intersection, ordered by edge and then triangle, and its position [m]."""
        if len(self._far_ends) and len(self.triangles):
            self._update_tree(x)
            model = [self._tree_id, self._fans, self._far_ends, self._fan_edges, self.triangles, self.moving_count]
            inputs = [*model, self._lowers, self._uppers, x]
            fill([self._intersections], self._launch, find_intersections, self.vertex_count, inputs)
        found = self._intersections.values.numpy()[: self._intersections.count]
        pairs = found["pair"]
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))  # the same on every device
        return pairs[order, 0], pairs[order, 1], found["position"][order]

    def _update_tree(self, x: wp.array) -> None:
        self._launch.split(triangle_boxes, len(self.triangles), [self.triangles, x, self._lowers, self._uppers])
        if self._tree is None:
            self._tree = wp.Bvh(self._lowers, self._uppers, leaf_size=2)
            self._tree_id = self._tree.id  # one object: packed launches are keyed by identity
        elif self._searches % REBUILD_INTERVAL == 0:
            self._tree.rebuild()
        else:
            self._tree.refit()
        self._searches += 1


@wp.struct
class EdgeTriangleIntersection:
    """An edge, the triangle that it intersects, and the position."""

    pair: wp.vec2i  # edge and triangle
    position: wp.vec3d  # [m]


@wp.kernel
def triangle_boxes(
    # model
    first: wp.int32, triangles: wp.array(dtype=wp.vec3i),
    # in
    x: wp.array(dtype=vec3),
    # out
    lowers_out: wp.array(dtype=wp.vec3), uppers_out: wp.array(dtype=wp.vec3),
):  # fmt: skip
    """Bounding boxes of the triangles."""
    i = first + wp.tid()
    triangle = triangles[i]
    a, b, c = x[triangle[0]], x[triangle[1]], x[triangle[2]]
    lowers_out[i] = rounded_down(wp.min(wp.min(a, b), c))
    uppers_out[i] = rounded_up(wp.max(wp.max(a, b), c))


@wp.func
def size(u: wp.vec3d) -> wp.float64:
    """The sum of absolute values: at least the length, and without a root."""
    return wp.abs(u[0]) + wp.abs(u[1]) + wp.abs(u[2])


@wp.func
def sign_of(value: wp.float64, error: wp.float64) -> wp.int32:
    """-1 or 1 where the sign is certain, 0 where it is not or the value is not a number."""
    if value > error:
        return 1
    if value < -error:
        return -1
    return 0


@wp.func
def side_in_plane(p: wp.vec3d, q: wp.vec3d, r: wp.vec3d, n: wp.vec3d) -> wp.int32:
    """The side of the line p q that the point r is on, in projection along n."""
    u, v = q - p, r - p
    error = ERROR * size(n) * size(u) * (size(v) + size(u))
    return sign_of(wp.dot(n, wp.cross(u, v)), error)


@wp.func
def beyond_side(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, p0: wp.vec3d, p1: wp.vec3d, n: wp.vec3d) -> wp.bool:
    """Whether p0 and p1 are certainly on the other side of the line a b than c."""
    inside = side_in_plane(a, b, c, n)
    return inside != 0 and side_in_plane(a, b, p0, n) == -inside and side_in_plane(a, b, p1, n) == -inside


@wp.func
def apart_in_plane(p0: wp.vec3d, p1: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, n: wp.vec3d) -> wp.bool:
    """Whether, in projection along n, a line along the edge or a side of the triangle certainly separates the two."""
    if beyond_side(a, b, c, p0, p1, n) or beyond_side(b, c, a, p0, p1, n) or beyond_side(c, a, b, p0, p1, n):
        return True
    sides = side_in_plane(p0, p1, a, n) + side_in_plane(p0, p1, b, n) + side_in_plane(p0, p1, c, n)
    return wp.abs(sides) == 3


@wp.func
def line_side(u: wp.vec3d, reach: wp.float64, a: wp.vec3d, b: wp.vec3d) -> wp.int32:
    """Sign of |p0 p1 a b|, with u = p1 - p0 of size `reach`, and a, b relative to p0."""
    error = ERROR * reach * (size(a) + reach) * (size(b) + reach)
    return sign_of(wp.dot(u, wp.cross(a, b)), error)


@wp.func
def through_inside(p0: wp.vec3d, p1: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.bool:
    """Whether the line p0 p1 may go through the triangle."""
    u, reach = p1 - p0, size(p1 - p0)
    s_ab = line_side(u, reach, a - p0, b - p0)
    s_bc = line_side(u, reach, b - p0, c - p0)
    if s_ab * s_bc < 0:
        return False
    s_ca = line_side(u, reach, c - p0, a - p0)
    return s_ca * s_ab >= 0 and s_ca * s_bc >= 0


@wp.func
def outside(p0: wp.vec3d, p1: wp.vec3d, lower: wp.vec3, upper: wp.vec3) -> wp.bool:
    """Whether an edge does not reach a box: the query was for all edges of a vertex."""
    for k in range(3):
        low, up = wp.float64(lower[k]), wp.float64(upper[k])
        if (p0[k] < low and p1[k] < low) or (p0[k] > up and p1[k] > up):
            return True
    return False


@wp.kernel
def find_intersections(
    # model
    first: wp.int32, tree: wp.uint64, fans: wp.array(dtype=wp.int32), far_ends: wp.array(dtype=wp.int32),
    fan_edges: wp.array(dtype=wp.int32), triangles: wp.array(dtype=wp.vec3i), moving_count: wp.int32,
    # in
    lowers: wp.array(dtype=wp.vec3), uppers: wp.array(dtype=wp.vec3), x: wp.array(dtype=vec3),
    # out
    ranges_out: BufferRanges, intersections_out: wp.array(dtype=EdgeTriangleIntersection),
):  # fmt: skip
    """Tests all edges that start at one vertex."""
    v = first + wp.tid()
    begin, end = fans[v], fans[v + 1]
    if begin == end:
        return
    lower, upper = vec3(x[v]), vec3(x[v])
    for e in range(begin, end):
        lower, upper = wp.min(lower, x[far_ends[e]]), wp.max(upper, x[far_ends[e]])
    p0 = double(x[v])
    query = wp.bvh_query_aabb(tree, rounded_down(lower), rounded_up(upper))
    j = int(0)
    while wp.bvh_query_next(query, j):
        triangle = triangles[j]
        k0, k1, k2 = triangle[0], triangle[1], triangle[2]
        if k0 == v or k1 == v or k2 == v or (v >= moving_count and k0 >= moving_count):
            continue
        a, b, c = double(x[k0]), double(x[k1]), double(x[k2])
        lower_j, upper_j = lowers[j], uppers[j]
        n = wp.cross(b - a, c - a)
        error = ERROR * size(b - a) * size(c - a)
        h0 = wp.dot(n, p0 - a)
        s0 = sign_of(h0, error * size(p0 - a))
        for e in range(begin, end):
            w = far_ends[e]
            if k0 == w or k1 == w or k2 == w:
                continue
            p1 = double(x[w])
            if outside(p0, p1, lower_j, upper_j):
                continue
            h1 = wp.dot(n, p1 - a)
            s1 = sign_of(h1, error * size(p1 - a))
            if s0 * s1 <= 0 and through_inside(p0, p1, a, b, c) and not apart_in_plane(p0, p1, a, b, c, n):
                share = wp.float64(0.5)
                if h0 != h1:
                    share = wp.clamp(h0 / (h0 - h1), wp.float64(0.0), wp.float64(1.0))
                slot = next_slot(ranges_out, first)
                if slot >= 0:
                    intersection = EdgeTriangleIntersection()
                    intersection.pair = wp.vec2i(fan_edges[e], j)
                    intersection.position = p0 + share * (p1 - p0)
                    intersections_out[slot] = intersection
