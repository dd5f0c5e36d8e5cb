"""Untangling: moves cloth that starts with intersections apart, by a displacement of every particle near them.

Where edges intersect triangles, two surfaces intersect in a curve, their contour. It is drawn on both of them: call the
surface whose edge is intersected first A and the other B. A contour has one wanted motion D of A relative to B, by the
first rule that applies.

By side. Without the intersected edges the sheets fall into pieces. The largest piece of a sheet is its body; a piece
that is cut off from it has come through the other surface and has to go back. If the contour cuts a piece f of A off
from a piece b nearer to the body, and N is the normal of B,

    D = mean of sign(N . (b - f)) N           and the opposite, with the normal of A, if it cuts a piece off B

Where surfaces intersect at an angle theta and move by d along such a normal, the contour moves by d / sin(theta) within
the surface that was cut, so that the area cut off shrinks. Of A and B that one goes back for which the normals agree
along the contour, and which has less to go: by (length of the mean) / (area cut off). A contour that ends close to a
border counts as one that reaches it.

By length. A contour that cuts nothing off, as one from the border of A to the border of B, has to become shorter. Let P
be its point on an edge of direction E that intersects a triangle of normal N, and R the sum of the directions (unit) in
which it leaves P, into the one or two triangles at the edge. The length is that of a polygon, its change the sum of -R
. dP over all such points. P stays on the edge and in the plane, so that with motions d_E of the edge and d_T of the
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

Intersections share the particles between them. Particle i has the weight w_i in the edge (positive) or the triangle
(negative) of an intersection, diffused over a few rings so that cloth is moved and not stretched. The intersection
moves it by w_i D / (m_i s), with s the largest of sum |w_i| / m_i over its particles, each summed over all
intersections. So none moves by more than is allowed, and every intersection conserves momentum.

Source      Volino and Magnenat-Thalmann 2006, "Resolving surface collisions through intersection contour minimization",
            for G; Baraff, Witkin and Kass 2003, "Untangling cloth", for the pieces
Symbols     N, M  unit normals of the triangle and of the surface at the edge     E, R  unit directions
            d  motion [m]     L  length of the contour [m]     w  barycentric weights     m  masses [kg]
Deviations  One direction for a whole contour, where the first paper has one for each intersection: cloth moves as a
            whole, and is not crumpled. The second paper compares the areas that each contour encloses and lets the
            vertices inside attract each other; here the pieces are found for all contours together, and only particles
            near the contour are moved.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import warp as wp
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components, dijkstra, shortest_path

from toile.contact.untangle.intersections import EdgeTriangleIntersections
from toile.math.types import numpy_real, vec3

# Smaller sines are replaced by it. A contour at a flat angle moves far for the least motion, out on one side and back
# on the other: with the true sines stiff cloth oscillates and stays tangled.
MIN_SINE = 0.5
# The mean of unit directions is a direction if it is this long; the mean of random ones is short.
AGREEMENT = 0.3
# A contour that ends this close to a border, as a fraction of its extent, counts as one that reaches it.
BORDER_TOLERANCE = 0.25
# Two surfaces whose normals have a smaller sine between them are coplanar: their line of intersection is not reliable.
COPLANAR = 1e-6
# Rings of vertices that move with an intersection: cloth that hardly stretches would pull single vertices back.
SPREAD_RINGS = 8


class Untangler:
    """Moves surfaces that intersect apart.

    edges, triangles    (m, 2) and (k, 3) vertices
    moving_count        vertices from this one on belong to solids
    masses              inverse masses [1/kg], 0 for vertices that do not move
    """

    def __init__(
        self,
        edges: np.ndarray,
        triangles: np.ndarray,
        vertex_count: int,
        moving_count: int,
        inverse_masses: wp.array,
        device: str,
    ) -> None:
        self.intersections = EdgeTriangleIntersections(edges, triangles, vertex_count, moving_count, device)
        self.inverse_masses = inverse_masses
        self._surface = ConnectedSurface.of(edges, triangles, vertex_count)
        self._none = np.zeros(len(triangles), dtype=bool)
        self._displacements = wp.zeros(vertex_count, dtype=vec3, device=device)
        self._is_zero = True  # whether _displacements holds only zeros

    def exempt(self, x: wp.array) -> np.ndarray:
        """Triangles that intersect, and those that share a vertex with them: contact must let these pass."""
        edge, triangle, _ = self.intersections.find(x)
        if len(edge) == 0:
            return self._none.copy()
        surface = self._surface
        beside = surface.beside[edge].ravel()
        ring = np.zeros(surface.vertex_count, dtype=bool)
        ring[surface.triangles[triangle]] = True
        ring[surface.triangles[beside[beside >= 0]]] = True
        ring[surface.edges[edge]] = True
        return ring[surface.triangles].any(axis=1)

    def displacements(self, x: wp.array, max_displacement: float) -> wp.array:
        """Returns the displacement to add to each vertex [m], at most `max_displacement`. The next call overwrites the
        array."""
        edge, triangle, position = self.intersections.find(x)
        if len(edge) == 0:
            if not self._is_zero:
                self._displacements.zero_()
                self._is_zero = True
            return self._displacements
        tangle = Tangle(self._surface, x.numpy().astype(float), edge, triangle, position)
        moves = distribute(tangle, wanted_motion(tangle), self.inverse_masses.numpy().astype(float), max_displacement)
        self._displacements.assign(moves.astype(numpy_real))
        self._is_zero = False
        return self._displacements


@dataclass(frozen=True)
class ConnectedSurface:
    """Connectivity of the mesh: the triangles at each edge (at most two, else -1) and the connected sheets."""

    edges: np.ndarray
    triangles: np.ndarray
    vertex_count: int
    beside: np.ndarray  # (m, 2) triangles at each edge
    sheet: np.ndarray  # connected component of each vertex

    @staticmethod
    def of(edges: np.ndarray, triangles: np.ndarray, vertex_count: int) -> "ConnectedSurface":
        """Finds the connectivity of a mesh."""
        n = vertex_count
        sides = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
        owners = np.tile(np.arange(len(triangles)), 3)
        keys = sides[:, 0].astype(np.int64) * n + sides[:, 1]
        order = np.argsort(keys, kind="stable")
        keys, owners = keys[order], owners[order]
        wanted_keys = np.min(edges, axis=1).astype(np.int64) * n + np.max(edges, axis=1)
        first, end = np.searchsorted(keys, wanted_keys), np.searchsorted(keys, wanted_keys, side="right")
        beside = np.full((len(edges), 2), -1)
        for k in (0, 1):
            there = first + k < end
            beside[there, k] = owners[first[there] + k]
        return ConnectedSurface(edges, triangles, n, beside, components(edges, n))


    def diffusion(self, inverse_masses: np.ndarray) -> csr_array:
        """One step of diffusion, from rows to columns: a uniform motion of a sheet stays uniform, whatever its mesh.

        The flow along an edge is the same either way for equal motions, so that it is symmetric in the masses.
        """
        i, j = self.edges.T
        mass = 1.0 / np.maximum(inverse_masses, 1e-30)
        neighbors = np.bincount(self.edges.ravel(), minlength=self.vertex_count)
        capacity = mass / (neighbors + 1)
        flow = np.minimum(capacity[i], capacity[j])
        there, back = flow / mass[i], flow / mass[j]
        kept = 1.0 - np.bincount(i, there, self.vertex_count) - np.bincount(j, back, self.vertex_count)
        every = np.arange(self.vertex_count)
        rows, columns = np.concatenate([i, j, every]), np.concatenate([j, i, every])
        return csr_array((np.concatenate([there, back, kept]), (rows, columns)), shape=(self.vertex_count,) * 2)


def components(links: np.ndarray, count: int) -> np.ndarray:
    """The connected component of each of `count` nodes."""
    graph = coo_array((np.ones(len(links), dtype=np.int8), (links[:, 0], links[:, 1])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1])


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Dot products along the last axis."""
    return np.einsum("...i,...i->...", a, b)


def unit(a: np.ndarray) -> np.ndarray:
    """Unit vectors, or zero where there is no direction."""
    length = np.linalg.norm(a, axis=-1, keepdims=True)
    return np.divide(a, length, out=np.zeros_like(a), where=length != 0.0)


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


def distribute(tangle: Tangle, D: np.ndarray, inverse_masses: np.ndarray, max_displacement: float) -> np.ndarray:
    """The motion of all vertices when every intersection moves its particles by D, at most `max_displacement` each."""
    weights, diffusion = tangle.weights(), tangle.surface.diffusion(inverse_masses)
    for _ in range(SPREAD_RINGS):
        weights = weights @ diffusion
    give = weights @ diags_array(inverse_masses)
    asked = abs(give).sum(axis=0)
    largest = (abs(give).sign() @ diags_array(asked)).max(axis=1).toarray().ravel()
    share = np.divide(max_displacement, largest, out=np.zeros_like(largest), where=largest > 0.0)
    return np.asarray(give.T @ (share[:, None] * D))
