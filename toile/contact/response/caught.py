"""Cloth that solids catch between faces and edges although none of its vertices is pinched, or not any more.

Corners of two solids may meet in the middle of a triangle whose vertices they leave enough room, and a triangle whose
vertices have been let go may still be cut by an edge. Nothing can keep such cloth out of these solids: its vertices are
*caught* by them, and what they belong to may pass through them, until it has come free.

    caught        vertices of pairs that collide at any length of their paths, by two solids or more
    still caught  vertices that were caught or pinched, of triangles that intersect one of these solids

Source      none; [BMF03] sec. 5.1 for vertices
Deviations  none
"""

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from toile.contact.collision_mesh import CollisionMesh, Planes
from toile.contact.intersection_audit import Audit

if TYPE_CHECKING:
    from toile.contact.response.truncation import Truncation

MAX_PLANES = 3  # per particle


class CaughtCloth:
    """The solids that catch each particle: two at most, -1 for none."""

    def __init__(self, mesh: CollisionMesh):
        self._mesh = mesh
        self._audit: Audit | None = None
        self.by = np.full((mesh.moving_count, 2), -1, np.int32)
        solid = mesh.pinching.solid.numpy()
        self._solid = solid[mesh.triangles[:, 0]]  # of each triangle; -1 for cloth
        self.any_surfaces = bool((self._solid >= 0).any())

    def end_step(self, pinched_by: np.ndarray | None) -> None:
        """Keeps what is still caught; `pinched_by` (particles, 4) names the solids that pinch particles or did so."""
        if not self.any_surfaces:
            return
        was = self.by
        if pinched_by is not None:
            let_go = (pinched_by[:, 0] < 0) & (pinched_by[:, 2] != -1)
            ids = np.where(pinched_by[:, 2:] < -1, -2 - pinched_by[:, 2:], pinched_by[:, 2:])
            was = np.where(let_go[:, None], ids, was)
        if not (was >= 0).any():
            if (self.by >= 0).any():
                self._assign(was)
            return
        if self._audit is None:
            self._audit = Audit(self._mesh.triangles, self._mesh.moving_count, self._mesh.device)
        pairs = self._audit.pairs(self._mesh.x_end)
        still = np.zeros(len(was), bool)
        of_solid = pairs[self._solid[pairs[:, 1]] >= 0]
        solid = self._solid[of_solid[:, 1]]
        for corner in self._mesh.triangles[of_solid[:, 0]].T:
            still[corner[(was[corner] == solid[:, None]).any(axis=1)]] = True
        self._assign(np.where(still[:, None], was, -1))

    def add(self, truncation: "Truncation", planes: Planes | None) -> bool:
        """Adds the vertices that two solids catch, after the paths of a step could not be shortened. Returns whether
        there are any new ones."""
        if not self.any_surfaces:
            return False
        first, last = truncation.find_catching()
        n = len(self.by)
        first, last = first[:n], last[:n]
        if planes is not None:  # a solid that holds a vertex catches it as well
            held = planes.solid.numpy().reshape(-1, MAX_PLANES)
            for k in range(MAX_PLANES):
                other = np.where(planes.count.numpy() > k, held[:, k], -1)
                one = (last >= 0) & (first == last) & (other >= 0) & (other != last)
                last = np.where(one, other, last)
        caught = (last >= 0) & (first != last)
        found = np.where(caught[:, None], np.stack([first, last], axis=1), self.by)
        new = (np.sort(found, axis=1) != np.sort(self.by, axis=1)).any()
        if new:
            self._assign(found)
        return bool(new)

    def load(self, by: np.ndarray) -> None:
        self._assign(by)

    def _assign(self, by: np.ndarray) -> None:
        self.by = by.astype(np.int32)
        self._mesh.set_caught(self.by)
