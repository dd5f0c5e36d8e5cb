"""Untangling: moves cloth that starts with intersections apart, by a displacement of every particle near them.

    edge-triangle intersections -> contours and pieces -> one direction per contour -> displacements of the particles
    (intersections.py)             (contours.py)          (directions.py)

Intersections share the particles between them. Particle i has the weight w_i in the edge (positive) or the triangle
(negative) of an intersection, diffused over a few rings so that cloth is moved and not stretched. The intersection
moves it by w_i D / (m_i s), with s the largest of sum |w_i| / m_i over its particles, each summed over all
intersections. So none moves by more than is allowed, and every intersection conserves momentum.

Source      Volino and Magnenat-Thalmann 2006, "Resolving surface collisions through intersection contour minimization";
            Baraff, Witkin and Kass 2003, "Untangling cloth"
Symbols     D  direction of an intersection [-]     w  barycentric weights     m  masses [kg]
Deviations  Only particles near the contour are moved. Other deviations are listed in the files of the parts.
"""

import numpy as np
import warp as wp
from scipy.sparse import diags_array

from toile.contact.untangle.contours import Tangle
from toile.contact.untangle.directions import wanted_motion
from toile.contact.untangle.intersections import EdgeTriangleIntersections
from toile.contact.untangle.surface import ConnectedSurface
from toile.math.types import numpy_real, vec3

# Rings of vertices that move with an intersection: cloth that hardly stretches would pull single vertices back.
SPREAD_RINGS = 8


class Untangler:
    """Moves surfaces that intersect apart.

    edges, triangles    (m, 2) and (k, 3) vertices
    moving_count        vertices from this one on belong to solids
    inverse_masses      [1/kg], 0 for vertices that do not move
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
