"""Contours: the curves in which two surfaces intersect, and the pieces that they cut the surfaces into.

Where edges intersect triangles, two surfaces intersect in a curve, their contour. It is drawn on both of them: call the
surface whose edge is intersected first A and the other B. Two intersections of one pair of triangles are the ends of a
segment of it. Without the intersected edges the sheets fall into pieces, the largest of which is the body of a sheet.

    G = R - 2 (E.R)/(E.N) N    the direction that shortens the contour (directions.py)

Source      Volino and Magnenat-Thalmann 2006, "Resolving surface collisions through intersection contour minimization",
            for G; Baraff, Witkin and Kass 2003, "Untangling cloth", for the pieces
Symbols     N, M  unit normals of the triangle and of the surface at the edge     E, R  unit directions
Deviations  The second paper compares the areas that each contour encloses; here the pieces are found for all contours
            together.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import dijkstra, shortest_path

from toile.contact.untangle.surface import ConnectedSurface, components, dot, unit

# Lower limit of the sine of the angle between the surfaces. A contour at a flat angle moves far for the least motion,
# out on one side and back on the other: with the true sines stiff cloth oscillates and stays tangled.
MIN_SINE = 0.5
# A contour that ends this close to a border, as a fraction of its extent, counts as one that reaches it.
BORDER_TOLERANCE = 0.25
# Two surfaces whose normals have a smaller sine between them are coplanar: their line of intersection is not reliable.
COPLANAR = 1e-6


@dataclass
class Tangle:
    """The edge-triangle intersections of one instant, a row each: edge, triangle and position."""

    surface: ConnectedSurface
    x: np.ndarray
    edge: np.ndarray
    triangle: np.ndarray
    position: np.ndarray

    @cached_property
    def ends(self) -> np.ndarray:
        """Vertices of the edges."""
        return self.surface.edges[self.edge]

    @cached_property
    def corners(self) -> np.ndarray:
        """Vertices of the triangles."""
        return self.surface.triangles[self.triangle]

    def weights(self) -> csr_array:
        """Weights of the vertices in the motion of the edge, positive, relative to the triangle, negative."""
        p, q = self.x[self.ends[:, 0]], self.x[self.ends[:, 1]]
        length_sq = dot(q - p, q - p)
        s = np.clip(dot(self.position - p, q - p) / np.where(length_sq > 0.0, length_sq, 1.0), 0.0, 1.0)
        a, b, c = (self.x[self.corners[:, k]] for k in range(3))
        n = np.cross(b - a, c - a)
        cut = [dot(n, np.cross(v - u, self.position - u)) for u, v in ((b, c), (c, a), (a, b))]
        w = np.clip(np.stack(cut, axis=1), 0.0, None)
        whole = w.sum(axis=1, keepdims=True)
        w = np.divide(w, whole, out=np.full_like(w, 1.0 / 3.0), where=whole > 0.0)
        values = np.column_stack([1.0 - s, s, -w])
        rows = np.repeat(np.arange(len(values)), 5)
        columns = np.column_stack([self.ends, self.corners])
        return csr_array((values.ravel(), (rows, columns.ravel())), shape=(len(values), self.surface.vertex_count))

    def normals(self, triangles: np.ndarray) -> np.ndarray:
        """Unit normals of triangles; 0 for -1."""
        a, b, c = (self.x[self.surface.triangles[triangles, k]] for k in range(3))
        return np.where(triangles[:, None] >= 0, unit(np.cross(b - a, c - a)), 0.0)

    @cached_property
    def N(self) -> np.ndarray:
        """Normal of the intersected triangle."""
        return self.normals(self.triangle)

    @cached_property
    def beside(self) -> np.ndarray:
        """The triangles at the edge; -1 where there is none."""
        return self.surface.beside[self.edge]

    @cached_property
    def M(self) -> np.ndarray:
        """Normal of the surface at the edge; of one of its triangles where the two are folded onto each other."""
        first, second = self.normals(self.beside[:, 0]), self.normals(self.beside[:, 1])
        mean = unit(first + second)
        return np.where(np.linalg.norm(mean, axis=1, keepdims=True) > 0.5, mean, first)

    @cached_property
    def flat(self) -> np.ndarray:
        """Whether the edge lies in the plane of the triangle: then there is no contour, and nothing is cut."""
        return np.abs(dot(unit(self.x[self.ends[:, 1]] - self.x[self.ends[:, 0]]), self.N)) < COPLANAR

    @cached_property
    def G(self) -> np.ndarray:
        """The motion of the edge relative to the triangle that shortens the contour."""
        p, q = self.x[self.ends[:, 0]], self.x[self.ends[:, 1]]
        E = unit(q - p)
        R = np.zeros_like(E)
        for beside in self.beside.T:
            line = np.cross(self.normals(beside), self.N)
            line = np.where(np.linalg.norm(line, axis=1, keepdims=True) > COPLANAR, unit(line), 0.0)
            center = self.x[self.surface.triangles[beside]].mean(axis=1) - p
            inwards = center - dot(center, E)[:, None] * E
            R += np.where(dot(line, inwards) < 0.0, -1.0, 1.0)[:, None] * line
        sine = dot(E, self.N)
        sine = np.where(np.abs(sine) < MIN_SINE, np.copysign(MIN_SINE, sine), sine)
        return np.where(self.flat[:, None], 0.0, R - (2.0 * dot(E, R) / sine)[:, None] * self.N)

    @cached_property
    def contours(self) -> tuple[np.ndarray, np.ndarray]:
        """The contour of each intersection, and +1 if its edge is on surface A, -1 if on B, 0 if the two are one."""
        n = len(self.edge)
        intersection = np.tile(np.arange(n), 2)
        own, other = self.beside.T.ravel(), np.tile(self.triangle, 2)
        intersection, own, other = intersection[own >= 0], own[own >= 0], other[own >= 0]
        # Two intersections of one pair of triangles are the ends of a segment of a contour.
        pair = np.minimum(own, other).astype(np.int64) * len(self.surface.triangles) + np.maximum(own, other)
        order = np.argsort(pair, kind="stable")
        joined = np.flatnonzero(pair[order[1:]] == pair[order[:-1]])
        i, j = order[joined], order[joined + 1]
        # Every intersection is two nodes, one for each naming of its surfaces; a link keeps the names or swaps them.
        swap = own[i] != own[j]
        one, two = intersection[i], intersection[j]
        links = [(one, two + n * swap), (one + n, two + n * ~swap)]
        node = components(np.concatenate([np.column_stack(link) for link in links]), 2 * n)
        contour = np.minimum(node[:n], node[n:])
        side = np.where((node[:n] == node[n:]) | self.flat, 0, np.where(node[:n] == contour, 1, -1))
        return np.unique(contour, return_inverse=True)[1], side

    def almost_cut(self) -> list[int]:
        """Edges between the end of a contour, at the border of the other sheet, and a border close to it."""
        contour, side = self.contours
        ends = np.flatnonzero((side != 0) & (self.beside[:, 1] < 0))
        if len(ends) == 0:
            return []
        surface, x, outside = self.surface, self.x, len(self.surface.triangles)
        # The graph leads from triangle to triangle, and from those at a border to the outside.
        middle = np.concatenate([x[surface.triangles].mean(axis=1), np.zeros((1, 3))])
        linked = np.flatnonzero(surface.beside[:, 0] >= 0)
        one, two = surface.beside[linked].T
        across = np.where((two < 0)[:, None], x[surface.edges[linked]].mean(axis=1), middle[two])
        two = np.where(two < 0, outside, two)
        gap = np.linalg.norm(middle[one] - across, axis=1)
        graph = csr_array((gap, (one, two)), shape=(outside + 1, outside + 1))
        distance, towards = dijkstra(graph, directed=False, indices=outside, return_predecessors=True)
        between = dict(zip(zip(one.tolist(), two.tolist(), strict=True), linked.tolist(), strict=True))
        cut = []
        for c in ends:
            of_contour = self.position[contour == contour[c]]
            k = int(self.triangle[c])
            if distance[k] < BORDER_TOLERANCE * np.linalg.norm(np.ptp(of_contour, axis=0)):
                while k != outside:
                    following = int(towards[k])
                    cut.append(between[(k, following) if (k, following) in between else (following, k)])
                    k = following
        return cut

    @cached_property
    def pieces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The piece of each vertex; for each piece its rank, lower if it is nearer to the body, and its area."""
        surface = self.surface
        cut = np.zeros(len(surface.edges), dtype=bool)
        cut[self.edge[~self.flat]] = True
        cut[self.almost_cut()] = True
        piece = components(surface.edges[~cut], surface.vertex_count)
        count = int(piece.max()) + 1
        a, b, c = (self.x[surface.triangles[:, k]] for k in range(3))
        thirds = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 6.0
        area = np.bincount(piece[surface.triangles].ravel(), np.repeat(thirds, 3), count)
        sheet = np.zeros(count, dtype=int)
        sheet[piece] = surface.sheet
        by_size = np.lexsort((-area, sheet))
        body = by_size[np.unique(sheet[by_size], return_index=True)[1]]
        # Steps from the bodies, all of which are one step from a root.
        links = np.concatenate([piece[surface.edges[cut]], np.column_stack([np.full(len(body), count), body])])
        graph = coo_array((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(count + 1, count + 1))
        steps = shortest_path(graph.tocsr(), directed=False, unweighted=True, indices=count)[:count]
        rank = np.empty(count, dtype=int)
        rank[np.lexsort((-area, steps))] = np.arange(count)
        return piece, rank, area
