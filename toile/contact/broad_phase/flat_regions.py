"""The patches around each patch of a sheet, where the line in uv between any two points runs through cloth.

The box of a patch in uv is grown by its size. The patches that reach into it are found by walking from one to the next,
so that panels that overlap in uv are kept apart. Around that patch the sheet must be spread out in uv, each of its
points at a place of its own, and its border must leave it convex there: no hole, no notch, no slit.

Source      none
Symbols     none
Deviations  none
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

# Growth of the box of a patch on all sides, in units of its longer side.
GROWTH = 1.25
# Borders of the cloth count as straight or convex up to this height, relative to the size of the region; and angle.
STRAIGHT = 1e-6


@dataclass(frozen=True)
class Boxes:
    """Boxes of all elements of patches in uv, and of their triangles; infinite where there are none [m]."""

    lower: np.ndarray
    upper: np.ndarray
    triangles_lower: np.ndarray
    triangles_upper: np.ndarray

    @classmethod
    def of(cls, count: int, of_vertex: np.ndarray, edges: np.ndarray, triangles: np.ndarray, uv: np.ndarray) -> "Boxes":
        of_corner = np.repeat(of_vertex[triangles].min(axis=1), 3)
        lower, upper = np.full((count, 2), np.inf), np.full((count, 2), -np.inf)
        np.minimum.at(lower, of_corner, uv[triangles.ravel()])
        np.maximum.at(upper, of_corner, uv[triangles.ravel()])
        triangles_lower, triangles_upper = lower.copy(), upper.copy()
        of_end = np.repeat(of_vertex[edges].min(axis=1), 2)  # an edge may hang over from another patch
        for patch, points in ((of_vertex, uv), (of_end, uv[edges.ravel()])):
            np.minimum.at(lower, patch, points)
            np.maximum.at(upper, patch, points)
        return cls(lower, upper, triangles_lower, triangles_upper)


def find_regions(
    boxes: Boxes, of_vertex: np.ndarray, triangles: np.ndarray, uv: np.ndarray, chart: np.ndarray
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Returns, for each patch, the patches that have triangles in its grown box, and those that lie in it as a whole;
    none for patches around which the cloth is not a convex part of one chart."""
    count, of_triangle = len(boxes.lower), of_vertex[triangles].min(axis=1)
    grown = GROWTH * (boxes.upper - boxes.lower).max(axis=1, initial=0.0)[:, None]
    region_lower, region_upper = boxes.lower - grown, boxes.upper + grown
    usable = _is_one_sheet(count, of_vertex, of_triangle, triangles, uv, chart)
    rows = np.r_[of_vertex, np.repeat(of_triangle, 3)]
    columns = np.r_[np.arange(len(uv)), triangles.ravel()]
    holds = sparse.csr_array((np.ones(len(rows), np.int32), (rows, columns)), (count, len(uv)))
    links = sparse.csr_array(holds @ holds.T)  # patches with a common vertex

    def touches(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        low, high = boxes.triangles_lower[q], boxes.triangles_upper[q]
        return np.asarray(((low <= region_upper[p]) & (high >= region_lower[p])).all(axis=1))

    def lies_in(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        return np.asarray(((boxes.lower[q] >= region_lower[p]) & (boxes.upper[q] <= region_upper[p])).all(axis=1))

    nearby = _walk(links, usable, touches)
    p, q = nearby.coords
    usable[p[~usable[q]]] = False
    usable &= _is_convex(count, nearby, of_triangle, triangles, uv, region_lower, region_upper)
    keep = sparse.diags_array(usable.astype(np.int32), dtype=np.int32)
    inside = _walk(links, usable, lies_in)
    return sparse.csr_array(keep @ nearby.tocsr()), sparse.csr_array(keep @ inside.tocsr() @ keep)


def _is_one_sheet(
    count: int, of_vertex: np.ndarray, of_triangle: np.ndarray, triangles: np.ndarray, uv: np.ndarray, chart: np.ndarray
) -> np.ndarray:
    """Whether a patch has triangles, and they are part of one sheet that is spread out in uv: all of one chart, facing
    the same way, at most two at an edge, and once around each vertex."""
    usable = np.zeros(count, bool)
    usable[of_triangle] = True
    first, second = (uv[triangles[:, k]] - uv[triangles[:, 0]] for k in (1, 2))
    twice_area = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    # A chart is connected: its triangles face the way of most of it, or it is folded in uv.
    of_chart = np.maximum(chart[triangles[:, 0]], 0)
    area = np.bincount(of_chart, twice_area, minlength=1) if len(triangles) else np.zeros(1)
    usable[of_triangle[twice_area * np.sign(area[of_chart]) <= 0.0]] = False
    bad = (chart < 0) | (_angles(triangles, uv) > 2.0 * np.pi + STRAIGHT)
    sides, _, _, number = _sides(triangles, len(uv))
    bad[sides[number > 2]] = True
    usable[of_vertex[bad]] = False
    usable[of_triangle[bad[triangles].any(axis=1)]] = False
    return usable


def _angles(triangles: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """The sum of the angles of the triangles at each vertex, in uv."""
    total = np.zeros(len(uv))
    for corner in range(3):
        a, b, c = (uv[triangles[:, (corner + k) % 3]] for k in range(3))
        cross = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
        angle = np.arctan2(np.abs(cross), np.einsum("tc,tc->t", b - a, c - a))
        total += np.bincount(triangles[:, corner], angle, len(uv))
    return total


def _sides(triangles: np.ndarray, vertex_count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The sides of all triangles, each once: its vertices, a triangle that has it, and the vertex opposite there; and
    the number of triangles that have it."""
    sides = triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    keys = np.sort(sides, axis=1) @ np.array([vertex_count, 1])
    _, index, number = np.unique(keys, return_index=True, return_counts=True)
    return sides[index], index // 3, triangles[:, [2, 0, 1]].ravel()[index], number


def _walk(
    links: sparse.csr_array, usable: np.ndarray, belongs: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> sparse.coo_array:
    """The patches q that `belong` to each usable patch p and that are reached from it through such patches."""
    found = sparse.coo_array(sparse.diags_array(usable.astype(np.int32), dtype=np.int32))
    found.eliminate_zeros()
    while True:
        p, q = sparse.csr_array(found.tocsr() @ links).tocoo().coords
        chosen = belongs(p, q)
        p, q, before = p[chosen], q[chosen], found.nnz
        found = sparse.coo_array((np.ones(len(p), np.int32), (p, q)), links.shape)
        if found.nnz == before:
            return found


def _is_convex(
    count: int, nearby: sparse.coo_array, of_triangle: np.ndarray, triangles: np.ndarray, uv: np.ndarray,
    region_lower: np.ndarray, region_upper: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Whether the border of the cloth leaves the region of a patch convex."""
    sides, triangle, opposite, number = _sides(triangles, len(uv))
    border = np.flatnonzero(number == 1)
    middle = uv[triangles[triangle[border]]].mean(axis=1)
    begin, end = uv[sides[border, 0]], uv[sides[border, 1]]
    along = end - begin
    inwards = np.stack([-along[:, 1], along[:, 0]], axis=1)
    inwards *= np.sign(np.einsum("ec,ec->e", inwards, uv[opposite[border]] - begin))[:, None]
    inwards /= np.maximum(np.linalg.norm(along, axis=1), 1e-300)[:, None]
    of_border = sparse.csr_array(
        (np.ones(len(border), np.int32), (of_triangle[triangle[border]], np.arange(len(border)))), (count, len(border))
    )
    p, e = sparse.csr_array(nearby.tocsr() @ of_border).tocoo().coords
    box = np.minimum(begin, end)[e], np.maximum(begin, end)[e]
    meets = ((box[0] <= region_upper[p]) & (box[1] >= region_lower[p])).all(axis=1)
    p, e = p[meets], e[meets]
    convex = np.ones(count, bool)
    order = np.argsort(p, kind="stable")
    p, e = p[order], e[order]
    for group in np.split(np.arange(len(p)), np.flatnonzero(np.diff(p)) + 1):
        if len(group):
            of = e[group]
            points = np.concatenate([begin[of], end[of], middle[of]])
            heights = (
                np.einsum("ec,fc->ef", inwards[of], points) - np.einsum("ec,ec->e", inwards[of], begin[of])[:, None]
            )
            least = STRAIGHT * np.ptp(points, axis=0).max()
            # The triangles at the border tell the two lips of a slit, which are one line in uv, from a straight hem.
            inside = heights[:, 2 * len(of) :].min() > least
            convex[p[group[0]]] = inside and heights.min() >= -least
    return convex
