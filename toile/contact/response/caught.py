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

from toile.contact.collision_mesh import CollisionMesh, Pinching, Planes, is_pinched
from toile.contact.intersection_audit import Audit
from toile.contact.narrow_phase.contact_set import ContactArrays, ContactSet, NearPair
from toile.contact.narrow_phase.thickness import INFINITE
from toile.device.launcher import Launcher
from toile.math.types import real, vec4

if TYPE_CHECKING:
    from toile.contact.response.truncation import Truncation

MAX_PLANES = 3  # per particle


class CaughtCloth:
    """The solids that catch each particle: two at most, -1 for none."""

    def __init__(self, mesh: CollisionMesh, contact_set: ContactSet):
        self._mesh, self._contact_set = mesh, contact_set
        self._launch = Launcher(mesh.device)
        self._audit: Audit | None = None
        self.by = np.full((mesh.moving_count, 2), -1, np.int32)
        self.any = False  # whether any particle is caught
        solid = mesh.pinching.solid.numpy()
        self._solid = solid[mesh.triangles[:, 0]]  # of each triangle; -1 for cloth
        self.any_surfaces = bool((self._solid >= 0).any())

    def end_step(self, pinched_by: np.ndarray | None) -> None:
        """Keeps what is still caught; `pinched_by` (particles, 4) names the solids that pinch particles or did so."""
        if not self.any_surfaces:
            return
        if pinched_by is None and not self.any:
            return
        was = self.by
        if pinched_by is not None:
            let_go = (pinched_by[:, 0] < 0) & (pinched_by[:, 2] != -1)
            ids = np.where(pinched_by[:, 2:] < -1, -2 - pinched_by[:, 2:], pinched_by[:, 2:])
            was = np.where(let_go[:, None], ids, was)
        if not (was >= 0).any():
            if self.any:
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

    def drop_pairs(self) -> None:
        """Disables near pairs and contacts with solids that have pinched or caught the cloth since then."""
        pinching, found = self._mesh.pinching, self._contact_set
        self._launch.split(drop_pinched_pairs, found.near_pairs.count, [pinching, found.near_pairs.values])
        self._launch.split(drop_pinched_contacts, found.contact_count, [pinching, found.contacts])

    def load(self, by: np.ndarray) -> None:
        self._assign(by)

    def _assign(self, by: np.ndarray) -> None:
        self.by = by.astype(np.int32)
        self.any = bool((self.by >= 0).any())
        self._mesh.set_caught(self.by)


@wp.kernel
def drop_pinched_pairs(
    # in
    first: wp.int32, pinching: Pinching,
    # in and out
    near_pairs_out: wp.array(dtype=NearPair),
):  # fmt: skip
    """Disables the near pairs of pinched cloth and the solids that pinch it."""
    k = first + wp.tid()
    if is_pinched(pinching, near_pairs_out[k].vertices):
        near_pairs_out[k].distance = INFINITE


@wp.kernel
def drop_pinched_contacts(
    # in
    first: wp.int32, pinching: Pinching,
    # in and out
    contacts_out: ContactArrays,
):  # fmt: skip
    """Contacts of pinched cloth and the solids that pinch it get no weights, so that nothing can move them."""
    k = first + wp.tid()
    if is_pinched(pinching, contacts_out.vertices[k]):
        contacts_out.weights[k] = vec4()
        contacts_out.effective_inverse_mass[k] = real(0.0)
