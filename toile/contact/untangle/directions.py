"""Directions in which surfaces that intersect move apart: one motion D of A relative to B for a whole contour.

The first of these rules applies (contours.py defines contours, A, B and pieces).

By side. Without the intersected edges the sheets fall into pieces. The largest piece of a sheet is its body; a piece
that is cut off from it has come through the other surface and has to go back. If the contour cuts a piece f of A off
from a piece b nearer to the body, and N is the normal of B,

    D = mean of sign(N . (b - f)) N           and the opposite, with the normal of A, if it cuts a piece off B

Where surfaces intersect at an angle theta and move by d along such a normal, the contour moves by d / sin(theta) within
the surface that was cut, so that the area cut off shrinks. The surface moves back whose normals agree along the contour
and whose distance is smaller: the one with the larger (length of the mean) / (area cut off). A contour that ends close
to a border counts as one that reaches it.

By length. A contour that cuts nothing off, as one from the border of A to the border of B, has to become shorter. Let P
be its point on an edge of direction E that intersects a triangle of normal N, and R the sum of the directions (unit) in
which it leaves P, into the one or two triangles at the edge. The length is that of a polygon: it changes by the sum of
-R . dP over all such points. P stays on the edge and in the plane, so that with motions d_E of the edge and d_T of the
triangle dP = d_E - (N . (d_E - d_T)) / (N . E) E, and when all of A moves by d relative to B, which rests,

    dL = - sum over edges of A of (R - (E.R)/(E.N) N) . d  -  sum over edges of B of (E.R)/(E.N) N . d

Every segment of the contour has two ends and gives +R to one and -R to the other, so that R adds up to zero; half of
that sum taken from both makes the two alike, with + for edges of A and - for edges of B:

    dL = - 1/2 sum +-G . d,    G = R - 2 (E.R)/(E.N) N,    D = sum +-G / |sum +-G|

Inside the contour G depends on the wrinkles there, and changes from step to step; what remains is at the ends. So a
contour from the border of A to the border of B moves along its chord, D from the one to the other.

Where the directions along a contour do not agree, as around a tube in a narrower tube, every intersection has its own
direction.

Coplanar surfaces that overlap have no contour and move apart along their normal.

Source      Volino and Magnenat-Thalmann 2006, "Resolving surface collisions through intersection contour minimization",
            for G; Baraff, Witkin and Kass 2003, "Untangling cloth", for the pieces
Symbols     N, M  unit normals of the triangle and of the surface at the edge     E, R  unit directions
            d  motion [m]     L  length of the contour [m]
Deviations  One direction for a whole contour, where the first paper has one for each intersection: cloth moves as a
            whole, and is not crumpled. The second paper lets the vertices inside a contour attract each other.
"""

import numpy as np

from toile.contact.untangle.contours import Tangle
from toile.contact.untangle.surface import dot, unit

# The mean of unit directions is a direction if it is this long; the mean of random ones is short.
AGREEMENT = 0.3


def wanted_motion(tangle: Tangle) -> np.ndarray:
    """The motion of the edge relative to the triangle that each intersection wants: of length one at most."""
    contour, side = tangle.contours
    count = int(contour.max()) + 1
    edge_back, edge_area = direction_back(tangle, tangle.ends, tangle.N)
    triangle_back, triangle_area = direction_back(tangle, tangle.corners, tangle.M)
    triangle_back = -triangle_back
    # The direction of an intersection by itself: by side if it has one, else by length, else apart.
    alone = unit(edge_back + triangle_back)
    for other in (unit(tangle.G), separating_direction(tangle)):
        alone = np.where(np.any(alone != 0.0, axis=1, keepdims=True), alone, other)

    # For each contour: A goes back, B goes back, or it gets shorter; as motions of A relative to B.
    best, direction = np.zeros(count), np.zeros((count, 3))
    for surface in (1, -1):
        of_edge = side == surface
        back = np.where(of_edge[:, None], edge_back, triangle_back) * side[:, None]
        area = np.where(of_edge, edge_area, triangle_area)
        mean, agreement, members = mean_direction(contour, back, count)
        area = np.where(np.any(back != 0.0, axis=1), area, 0.0)
        mean_area = np.bincount(contour, area, count) / np.maximum(members, 1)
        score = np.where(agreement > AGREEMENT, agreement / np.maximum(mean_area, 1e-30), 0.0)
        better = score > best
        best[better], direction[better] = score[better], mean[better]
    cuts = np.bincount(contour, np.any((edge_back != 0.0) | (triangle_back != 0.0), axis=1), count) > 0
    shortest = unit(np.stack([np.bincount(contour, side * G, count) for G in tangle.G.T], axis=1))
    chord = unit(border_end(tangle, -1) - border_end(tangle, 1))
    shortest = np.where(np.isnan(chord), shortest, chord)
    direction[~cuts] = shortest[~cuts]
    together = (side != 0) & np.any(direction[contour] != 0.0, axis=1)
    return np.where(together[:, None], side[:, None] * direction[contour], alone)


def border_end(tangle: Tangle, surface: int) -> np.ndarray:
    """The mean position at which each contour ends at the border of A (1) or B (-1); NaN if it does not."""
    contour, side = tangle.contours
    ends = (side == surface) & (tangle.beside[:, 1] < 0)
    count = int(contour.max()) + 1
    total = np.stack([np.bincount(contour[ends], p, count) for p in tangle.position[ends].T], axis=1)
    number = np.bincount(contour[ends], minlength=count)[:, None]
    return np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)


def direction_back(tangle: Tangle, vertices: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The direction along +-normal from vertices that are cut off to those nearer to the body; zero where none is cut
    off.

    Also returns the area of the piece cut off.
    """
    piece, rank, area = tangle.pieces
    order = rank[piece[vertices]]
    low, high = order.min(axis=1, keepdims=True), order.max(axis=1, keepdims=True)

    def center(chosen: np.ndarray) -> np.ndarray:
        return (tangle.x[vertices] * chosen[:, :, None]).sum(axis=1) / chosen.sum(axis=1, keepdims=True)

    sign = np.sign(dot(normal, center(order == low) - center(order == high)))
    sign[(low == high)[:, 0] | tangle.flat] = 0.0
    cut_off = piece[vertices[np.arange(len(vertices)), order.argmax(axis=1)]]
    return sign[:, None] * normal, area[cut_off]


def separating_direction(tangle: Tangle) -> np.ndarray:
    """Directions for coplanar surfaces: along the normal of the one that comes first, so that all agree."""
    first, second = tangle.surface.sheet[tangle.ends[:, 0]], tangle.surface.sheet[tangle.corners[:, 0]]
    edge_later = np.where(first == second, tangle.ends.min(axis=1) > tangle.corners.min(axis=1), first > second)
    return np.where(edge_later[:, None], tangle.N, -tangle.M)


def mean_direction(contour: np.ndarray, d: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each contour the direction of the sum of d, its length over the number of terms, and that number."""
    total = np.stack([np.bincount(contour, d[:, k], count) for k in range(3)], axis=1)
    members = np.bincount(contour, np.any(d != 0.0, axis=1), count)
    return unit(total), np.linalg.norm(total, axis=1) / np.maximum(members, 1), members
