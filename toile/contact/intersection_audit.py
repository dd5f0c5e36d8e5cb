"""Audit of intersections: pairs of intersecting triangles from positions alone, exact, without code of the contacts.

    T and T' intersect  <=>  an edge of one of them intersects the other

An edge ab intersects a triangle pqr when a and b are not on one side of its plane and the line ab does not miss it:
signs of the determinants |a - d, b - d, c - d| of four points. Signs are computed in double precision with a bound of
their rounding error; a pair that this leaves open is decided in integers: one triangle is clipped by half-spaces to its
intersection with the other. So the verdict is exact for the positions as they are given.

Triangles are closed: two that touch in a single point intersect, and so do two that overlap in one plane. Two with a
common vertex intersect when they have another point in common: then the edge opposite that vertex in one of them
intersects the other. Two with a common edge are taken not to intersect: they could only when folded flat onto each
other. A triangle without area is the segment or the point that it degenerates to.

Source      J. R. Shewchuk, Adaptive precision floating-point arithmetic and fast robust geometric predicates, 1997:
            bounds 7 eps and 3 eps of the determinants' rounding, relative to the sum of the sizes of their terms
Symbols     a, b  an edge     p, q, r  corners of a triangle     v  a common vertex
Deviations  Integers in place of adaptive expansions: pairs that are left open are rare.
"""

import itertools

import numpy as np
import warp as wp

from toile.device.launcher import Launcher
from toile.math.types import precision

# Largest rounding error of a determinant, as a fraction of the sum of its terms' sizes: 7 eps for three dimensions, 3
# eps for two, with some margin; and an absolute bound for terms that underflow.
ROUNDING = wp.constant(wp.float64(1e-15))
UNDERFLOW = wp.constant(wp.float64(1e-290))
# Relative rounding error of a coordinate in single precision, with some margin.
SINGLE_ROUNDING = wp.constant(wp.float64(1.2e-7))

NO, UNSURE, YES = wp.constant(-1), wp.constant(0), wp.constant(1)

IntVector = tuple[int, ...]  # a vector of integers


class Audit:
    """Finds the intersecting triangles of a mesh, anew for every set of positions."""

    def __init__(self, triangles: np.ndarray, particle_count: int, device: str):
        """Vertices from `particle_count` on belong to solids: pairs of two triangles of solids are left out."""
        self.device = device
        self.host_triangles = np.asarray(triangles, np.int32).reshape(-1, 3)
        self.particle_count = particle_count
        self._triangles = wp.array(self.host_triangles, dtype=wp.vec3i, device=device)
        count = len(self.host_triangles)
        self._lower, self._upper = (wp.zeros(count, dtype=wp.vec3f, device=device) for _ in range(2))
        self._tree: wp.Bvh | None = None
        self._counts, self._ends = (wp.zeros(count, dtype=wp.int32, device=device) for _ in range(2))
        self._x = wp.zeros(0, dtype=wp.vec3d, device=device)
        self._launch = Launcher(device)

    def count(self, x: wp.array | np.ndarray) -> int:
        """The number of intersecting pairs."""
        return len(self.pairs(x))

    def pairs(self, x: wp.array | np.ndarray) -> np.ndarray:
        """(pairs, 2) triangles that intersect, the smaller index first, in order; ValueError if x is not finite."""
        host = _on_host(x)
        if not len(self.host_triangles):
            return np.zeros((0, 2), np.int64)
        if not np.isfinite(host).all():
            raise ValueError("positions that are not finite numbers cannot be audited")
        self._set_positions(x, host)
        found = self._candidates()
        unsure = [k for k in np.flatnonzero(found[:, 2] == UNSURE) if not self._common(host, found[k, :2])]
        pairs = np.delete(found[:, :2], unsure, axis=0)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    def points(self, x: wp.array | np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """A point of each intersection [m]: the mean of the corners of the polygon that both triangles share."""
        host = _on_host(x)
        points = [np.mean(self._common(host, pair), axis=0) for pair in pairs]
        return np.array(points, float).reshape(-1, 3)

    def _candidates(self) -> np.ndarray:
        """(pairs, 3): two triangles and YES or UNSURE."""
        count = len(self.host_triangles)
        boxes = [self._lower, self._upper]
        self._launch.split(bound_triangles, count, [self._triangles, self._x, *boxes])
        if self._tree is None:
            self._tree = wp.Bvh(*boxes, leaf_size=2)  # a quarter faster than 1, and than larger ones
            self._tree_id = self._tree.id
        else:
            self._tree.refit()  # neighbors on a cloth stay close, so the tree stays good
        inputs = [self._triangles, self.particle_count, self._tree_id, self._x, *boxes]
        self._launch.split(count_pairs, count, [*inputs, self._counts])
        wp.utils.array_scan(self._counts, self._ends)
        total = int(self._ends[count - 1 :].numpy()[0])
        found = wp.empty(total, dtype=wp.vec3i, device=self.device)
        if total:  # intersections are rare: pairs are listed only if there are any
            self._launch.split(list_pairs, count, [*inputs, self._counts, self._ends, found])
        return found.numpy().reshape(-1, 3).astype(np.int64)

    def _set_positions(self, x: wp.array | np.ndarray, host: np.ndarray) -> None:
        """Copies positions in double precision to an array that packed launches keep."""
        if len(self._x) != len(host):
            self._x = wp.empty(len(host), dtype=wp.vec3d, device=self.device)
        if precision == "double" and isinstance(x, wp.array):
            wp.copy(self._x, x)
        else:
            self._x.assign(host)

    def _common(self, host: np.ndarray, pair: np.ndarray) -> list[tuple[float, ...]]:
        """Corners of the intersection of two triangles, except a common vertex."""
        first, second = self.host_triangles[pair]
        shared = set(first.tolist()) & set(second.tolist())
        points, unit = _to_integers(host[[*first, *second, *shared]])
        common = common_points(points[:3], points[3:6])
        others = [corner for corner in common if not any(_same(corner, vertex) for vertex in points[6:])]
        return [tuple(c / (corner[3] * unit) for c in corner[:3]) for corner in others]


def common_points(first: list[IntVector], second: list[IntVector]) -> list[IntVector]:
    """Corners of the intersection of two triangles, as (x, y, z, w) for the point (x, y, z)/w, all in integers."""
    corners = [(*point, 1) for point in first]
    for normal, offset in half_spaces(second):
        corners = clip(corners, (*normal, -offset))
    return corners


def clip(corners: list[IntVector], plane: IntVector) -> list[IntVector]:
    """The part of a convex polygon where plane . corner >= 0; polygons may be degenerate, or a single point."""
    heights = [dot(plane, corner) for corner in corners]
    kept: list[IntVector] = []
    for k, (corner, height) in enumerate(zip(corners, heights, strict=True)):
        before, height_before = corners[k - 1], heights[k - 1]
        if (height > 0 and height_before < 0) or (height < 0 and height_before > 0):
            # A combination with positive weights, so that w stays positive.
            s, t = abs(height_before), abs(height)
            kept.append(tuple(s * c + t * b for c, b in zip(corner, before, strict=True)))
        if height >= 0:
            kept.append(corner)
    return kept


def half_spaces(triangle: list[IntVector]) -> list[tuple[IntVector, int]]:
    """Normals and offsets of half-spaces n . x >= offset whose intersection is the triangle."""
    p, q, r = triangle
    n = cross(minus(q, p), minus(r, p))
    if any(n):
        inward = [(cross(n, minus(end, start)), start) for start, end in ((p, q), (q, r), (r, p))]
        return [*_plane(n, p), *((m, dot(m, start)) for m, start in inward)]
    # A triangle without area is its longest side.
    ends = itertools.combinations(triangle, 2)
    p, q = max(ends, key=lambda side: dot(minus(side[1], side[0]), minus(side[1], side[0])))
    d = minus(q, p)
    if not any(d):
        return [half for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1)) for half in _plane(axis, p)]
    least = min(range(3), key=lambda k: abs(d[k]))
    across = cross(d, tuple(int(k == least) for k in range(3)))
    back = minus(p, q)
    return [*_plane(across, p), *_plane(cross(d, across), p), (d, dot(d, p)), (back, dot(back, q))]


def _plane(n: IntVector, p: IntVector) -> list[tuple[IntVector, int]]:
    """The two half-spaces whose intersection is the plane through p."""
    return [(n, dot(n, p)), (tuple(-c for c in n), -dot(n, p))]


def dot(a: IntVector, b: IntVector) -> int:
    return sum(i * j for i, j in zip(a, b, strict=True))


def cross(a: IntVector, b: IntVector) -> IntVector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def minus(a: IntVector, b: IntVector) -> IntVector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def _to_integers(points: np.ndarray) -> tuple[list[IntVector], int]:
    """The same points as integer multiples of a small unit, and how many units make a meter: no digit is lost."""
    ratios = [[coordinate.as_integer_ratio() for coordinate in point] for point in points.tolist()]
    unit = max(below for point in ratios for _, below in point)  # all of them are powers of two
    return [tuple(above * (unit // below) for above, below in point) for point in ratios], unit


def _same(corner: IntVector, point: IntVector) -> bool:
    """Whether a homogeneous corner is this point."""
    return all(c == corner[3] * p for c, p in zip(corner[:3], point, strict=True))


def _on_host(x: wp.array | np.ndarray) -> np.ndarray:
    """Positions as (n, 3) doubles on the host."""
    return np.asarray(x.numpy() if isinstance(x, wp.array) else x, np.float64).reshape(-1, 3)


# `and` and `or` in kernels evaluate both sides: expensive tests are statements of their own.


@wp.kernel
def bound_triangles(
    # model
    first: wp.int32, triangles: wp.array(dtype=wp.vec3i),
    # in
    x: wp.array(dtype=wp.vec3d),
    # out
    lower_out: wp.array(dtype=wp.vec3f), upper_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Bounding boxes of the triangles."""
    t = first + wp.tid()
    p, q, r = x[triangles[t][0]], x[triangles[t][1]], x[triangles[t][2]]
    low, high = wp.min(wp.min(p, q), r), wp.max(wp.max(p, q), r)
    # Rounded outwards, so that boxes in single precision contain those in double.
    low -= SINGLE_ROUNDING * wp.vec3d(wp.abs(low[0]), wp.abs(low[1]), wp.abs(low[2]))
    high += SINGLE_ROUNDING * wp.vec3d(wp.abs(high[0]), wp.abs(high[1]), wp.abs(high[2]))
    smallest = wp.vec3f(wp.float32(1e-30))
    lower_out[t] = wp.vec3f(low) - smallest
    upper_out[t] = wp.vec3f(high) + smallest


@wp.kernel
def count_pairs(
    # model
    first: wp.int32, triangles: wp.array(dtype=wp.vec3i), particle_count: wp.int32, tree: wp.uint64,
    # in
    x: wp.array(dtype=wp.vec3d), lower: wp.array(dtype=wp.vec3f), upper: wp.array(dtype=wp.vec3f),
    # out
    counts_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Counts the later triangles that each triangle intersects, or may intersect."""
    i = first + wp.tid()
    count = int(0)
    query = wp.bvh_query_aabb(tree, lower[i], upper[i])
    j = int(0)
    while wp.bvh_query_next(query, j):
        if j > i:
            verdict = verdict_of(i, j, triangles, particle_count, x)
            count += wp.where(verdict == NO, 0, 1)
    counts_out[i] = count


@wp.kernel
def list_pairs(
    # model
    first: wp.int32, triangles: wp.array(dtype=wp.vec3i), particle_count: wp.int32, tree: wp.uint64,
    # in
    x: wp.array(dtype=wp.vec3d), lower: wp.array(dtype=wp.vec3f), upper: wp.array(dtype=wp.vec3f),
    counts: wp.array(dtype=wp.int32), ends: wp.array(dtype=wp.int32),
    # out
    found_out: wp.array(dtype=wp.vec3i),
):  # fmt: skip
    """Lists the pairs that `count_pairs` counted."""
    i = first + wp.tid()
    if counts[i] == 0:
        return
    entry = ends[i] - counts[i]
    query = wp.bvh_query_aabb(tree, lower[i], upper[i])
    j = int(0)
    while wp.bvh_query_next(query, j):
        if j > i:
            verdict = verdict_of(i, j, triangles, particle_count, x)
            if verdict != NO:
                found_out[entry] = wp.vec3i(i, j, verdict)
                entry += 1


@wp.func
def verdict_of(
    i: int, j: int, triangles: wp.array(dtype=wp.vec3i), particle_count: wp.int32, x: wp.array(dtype=wp.vec3d)
) -> int:
    """NO, YES or UNSURE for a pair of triangles; NO for two triangles of solids."""
    if is_cloth(triangles[i], particle_count) or is_cloth(triangles[j], particle_count):
        return intersect(triangles[i], triangles[j], x)
    return NO


@wp.func
def is_cloth(triangle: wp.vec3i, particle_count: wp.int32) -> bool:
    """Whether a triangle is of cloth."""
    return wp.min(triangle) < particle_count


@wp.func
def intersect(first: wp.vec3i, second: wp.vec3i, x: wp.array(dtype=wp.vec3d)) -> int:
    """NO or YES if that is certain, else UNSURE."""
    shared = int(0)
    at_first, at_second = int(0), int(0)
    for k in range(3):
        for m in range(3):
            if first[k] == second[m]:
                shared += 1
                at_first = k
                at_second = m
    if shared > 1:
        return NO
    # Rotated so that a common vertex comes first.
    p, q, r = x[first[at_first]], x[first[(at_first + 1) % 3]], x[first[(at_first + 2) % 3]]
    a, b, c = x[second[at_second]], x[second[(at_second + 1) % 3]], x[second[(at_second + 2) % 3]]
    if shared == 1:
        # Separated if one triangle, except for the common vertex, is on one side of the plane of the other.
        if side(p, q, r, b) * side(p, q, r, c) > 0:
            return NO
        if side(a, b, c, q) * side(a, b, c, r) > 0:
            return NO
        return wp.max(edge_intersects_triangle(q, r, a, b, c), edge_intersects_triangle(b, c, p, q, r))
    if on_one_side(p, q, r, a, b, c):
        return NO
    if on_one_side(a, b, c, p, q, r):
        return NO
    # YES if one of the edges intersects the other triangle; UNSURE before NO.
    return wp.max(edges_intersect_triangle(p, q, r, a, b, c), edges_intersect_triangle(a, b, c, p, q, r))


@wp.func
def on_one_side(p: wp.vec3d, q: wp.vec3d, r: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> bool:
    """Whether a, b and c are certainly on one side of the plane pqr."""
    of_a = side(p, q, r, a)
    if of_a == UNSURE:
        return False
    if side(p, q, r, b) != of_a:
        return False
    return side(p, q, r, c) == of_a


@wp.func
def edges_intersect_triangle(p: wp.vec3d, q: wp.vec3d, r: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> int:
    """Whether an edge of the triangle pqr intersects the triangle abc: YES before UNSURE before NO."""
    pq, qr = edge_intersects_triangle(p, q, a, b, c), edge_intersects_triangle(q, r, a, b, c)
    return wp.max(wp.max(pq, qr), edge_intersects_triangle(r, p, a, b, c))


@wp.func
def edge_intersects_triangle(a: wp.vec3d, b: wp.vec3d, p: wp.vec3d, q: wp.vec3d, r: wp.vec3d) -> int:
    """Whether the edge ab intersects the triangle pqr: NO, YES or UNSURE."""
    for k in range(3):
        beneath = wp.max(a[k], b[k]) < wp.min(wp.min(p[k], q[k]), r[k])
        above = wp.min(a[k], b[k]) > wp.max(wp.max(p[k], q[k]), r[k])
        if beneath or above:
            return NO
    of_a, of_b = side(p, q, r, a), side(p, q, r, b)
    if of_a * of_b > 0:
        return NO
    if of_a != UNSURE or of_b != UNSURE:
        # Orientation of the three edges around the line ab: all in one sense, or it misses the triangle.
        s, t, u = side(a, b, p, q), side(a, b, q, r), side(a, b, r, p)
        least, most = wp.min(wp.min(s, t), u), wp.max(wp.max(s, t), u)
        if least < 0 and most > 0:
            return NO
        if of_a * of_b < 0 and least * most > 0:
            return YES
    # Neighbors on a flat cloth end up here. In projection along the axis with the largest area they are separated.
    n = wp.cross(q - p, r - p)
    axis = int(0)
    if wp.abs(n[1]) > wp.abs(n[axis]):
        axis = int(1)
    if wp.abs(n[2]) > wp.abs(n[axis]):
        axis = int(2)
    if separated_in_projection(axis, a, b, p, q, r):
        return NO
    return UNSURE


@wp.func
def separated_in_projection(axis: int, a: wp.vec3d, b: wp.vec3d, p: wp.vec3d, q: wp.vec3d, r: wp.vec3d) -> bool:
    """Whether a line through two of the points certainly separates ab and pqr in projection along an axis."""
    of_p = projected_side(axis, a, b, p)
    if of_p != UNSURE and of_p == projected_side(axis, a, b, q) and of_p == projected_side(axis, a, b, r):
        return True
    if separates(axis, p, q, r, a, b):
        return True
    if separates(axis, q, r, p, a, b):
        return True
    return separates(axis, r, p, q, a, b)


@wp.func
def separates(axis: int, p: wp.vec3d, q: wp.vec3d, r: wp.vec3d, a: wp.vec3d, b: wp.vec3d) -> bool:
    """Whether the line pq certainly has r on one side, and a and b on the other."""
    of_r = projected_side(axis, p, q, r)
    return of_r != UNSURE and projected_side(axis, p, q, a) == -of_r and projected_side(axis, p, q, b) == -of_r


@wp.func
def side(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> int:
    """The sign of |a - d, b - d, c - d|."""
    u, v, w = a - d, b - d, c - d
    x1, x2 = v[1] * w[2], v[2] * w[1]
    y1, y2 = v[2] * w[0], v[0] * w[2]
    z1, z2 = v[0] * w[1], v[1] * w[0]
    value = u[0] * (x1 - x2) + u[1] * (y1 - y2) + u[2] * (z1 - z2)
    size = wp.abs(u[0]) * (wp.abs(x1) + wp.abs(x2))
    size += wp.abs(u[1]) * (wp.abs(y1) + wp.abs(y2))
    size += wp.abs(u[2]) * (wp.abs(z1) + wp.abs(z2))
    return certain_sign(value, size)


@wp.func
def projected_side(axis: int, a: wp.vec3d, b: wp.vec3d, p: wp.vec3d) -> int:
    """The side of the line ab that the point p is on, in projection along a coordinate axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    s, t = (a[i] - p[i]) * (b[j] - p[j]), (a[j] - p[j]) * (b[i] - p[i])
    return certain_sign(s - t, wp.abs(s) + wp.abs(t))


@wp.func
def certain_sign(value: wp.float64, size: wp.float64) -> int:
    """The sign of a sum, or UNSURE if rounding could have changed it. `size` is the sum of its terms' sizes."""
    error = ROUNDING * size + UNDERFLOW
    if value > error:
        return 1
    if value < -error:
        return -1
    return UNSURE
