"""The fail-safe: the paths of vertices that still collide end before the impact.

    x_end = x + d - (1 - s) P (d - c),    s <- 0.95 t s at an impact at time t,    P = m W projects on free directions

Shortening a path may cause new impacts, so that the pairs of all shortened vertices are tested again. After
MAX_SHORTENINGS rounds the paths of vertices that still collide end where they began, s = 0. If all do, nothing moves,
and nothing collides: so this ends, unless pins or solids lead vertices through each other. Cloth that a moving solid
would run over is carried along by it (carried.py), and all paths are shortened once more; where that is impossible the
step must be shorter.

What is left behind is caught up by later steps. Momentum is lost: a shortened path has the velocity of its length.

Source      none; Chen et al. 2025, "Offset Geometric Contact", truncates displacements by bounds on distances
Symbols     d  displacement [m]     s  fraction of it that is left     t  time of impact     W  inverse mass
            c  displacement of carried vertices, 0 of others [m]
Deviations  Continuous collision detection finds the time: motion that does not collide is not shortened.
"""

import numpy as np
import warp as wp

from toile.contact.collision_mesh import CollisionMesh
from toile.contact.narrow_phase.contact_set import ContactSet, NearPair, time_of_impact
from toile.contact.narrow_phase.impact_time import NEVER
from toile.contact.response.carried import CarriedCloth
from toile.contact.response.search import NearPairSearch
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import mat33, numpy_real, real, vec3
from toile.step_limits import MAX_SHORTENINGS, MAX_TRUNCATIONS

# Fraction of the path up to an impact that is left.
REMAINING = wp.constant(real(0.95))
# Fractions below this are zero.
SHORTEST = wp.constant(real(1e-6))
# Indices of the counters: pairs that collide, and those of them in which no path can be shortened.
HITS, STUCK = wp.constant(0), wp.constant(1)


NO_SOLID = 2**30
# Layers that two solids may catch together.
MAX_LAYERS = 8


class Truncation:
    """Shortens the paths of a step until nothing collides."""

    def __init__(self, mesh: CollisionMesh, contact_set: ContactSet, search: NearPairSearch, carried: CarriedCloth):
        self.mesh, self.contact_set, self.search = mesh, contact_set, search
        n, device = mesh.count, mesh.device
        self._left, self._shortened = (wp.zeros(n, dtype=real, device=device) for _ in range(2))
        self._x_full = wp.zeros(n, dtype=vec3, device=device)
        self._masses = wp.array(mesh.masses.astype(numpy_real), dtype=real, device=device)
        self._counts = wp.zeros(2, dtype=wp.int32, device=device)
        self._readback = Readback(self._counts)
        self._stuck = wp.zeros(n, dtype=wp.int32, device=device)
        self._carried = carried
        self._launch = Launcher(device)

    def apply(self, h: float, shortenings: int = MAX_SHORTENINGS) -> bool:
        """Shortens the paths to x_end; pairs that collide have `changed` vertices. After `shortenings` rounds the paths
        that are left end where they began. Returns whether nothing collides."""
        mesh, launch, n = self.mesh, self._launch, self.mesh.count
        near_pairs, changed = self.contact_set.near_pairs, self.contact_set.changed
        wp.copy(self._x_full, mesh.x_end)
        self._left.fill_(1.0)
        for done in range(MAX_TRUNCATIONS):
            self.search.update()
            self._counts.zero_()
            self._stuck.zero_()
            wp.copy(self._shortened, self._left)
            paths = [mesh.x, mesh.x_end, changed, mesh.inverse_mass, self._left, done >= shortenings]
            out = [self._shortened, self._stuck, self._counts]
            launch(find_shortest_paths, near_pairs.count, [near_pairs.values, *paths, *out])
            hits, stuck = self._readback().tolist()
            if not hits:
                launch(slow_down, n, [self._x_full, mesh.x_end, h, mesh.v_end])
                return True
            if stuck:
                break
            ends = [self._x_full, self._masses, mesh.inverse_mass, self._shortened]
            launch(shorten, n, [mesh.x, self._carried.displacement, *ends, self._left, mesh.x_end, changed])
        return False

    def undo(self) -> None:
        """After a call that failed: the paths have their full lengths again, and all are tested in the next one."""
        wp.copy(self.mesh.x_end, self._x_full)
        self.contact_set.changed.fill_(1)

    def carry(self) -> bool:
        """After a call that failed: has moving solids carry the cloth that they would run over. Returns whether there
        is any that was not carried."""
        return self._carried.add(self._stuck, self._x_full)

    def find_catching(self) -> tuple[np.ndarray, np.ndarray]:
        """After a call that failed: the first and the last of the solids that collide with each stuck vertex or are
        close to it; the last is -1 where there is none."""
        mesh, near_pairs = self.mesh, self.contact_set.near_pairs
        first = wp.full(mesh.count, NO_SOLID, dtype=wp.int32, device=mesh.device)
        last = wp.full(mesh.count, -1, dtype=wp.int32, device=mesh.device)
        paths = [mesh.x, mesh.x_end, self._stuck, mesh.pinching.solid]
        wp.launch(find_catching_solids, near_pairs.count, [near_pairs.values, *paths, first, last], device=mesh.device)
        for _ in range(MAX_LAYERS):  # solids catch layers together
            inputs = [near_pairs.values, self._stuck, mesh.pinching.solid, first, last]
            wp.launch(pass_to_layers, near_pairs.count, inputs, device=mesh.device)
        return first.numpy(), last.numpy()

    def count(self) -> int:
        """Number of vertices whose paths were shortened in the last call."""
        return int(np.count_nonzero(self._left.numpy() < 1.0))

    def stuck(self) -> np.ndarray:
        """The vertices of pairs that collide, none of whose paths can be shortened."""
        return np.flatnonzero(self._stuck.numpy())


@wp.kernel
def find_shortest_paths(
    # in
    near_pairs: wp.array(dtype=NearPair), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    changed: wp.array(dtype=wp.int32), inverse_mass: wp.array(dtype=mat33), left: wp.array(dtype=real), stop: wp.bool,
    # out
    shortened_out: wp.array(dtype=real), stuck_out: wp.array(dtype=wp.int32), counts_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """The fraction of each path that the impacts on it leave; with `stop`, nothing."""
    k = wp.tid()
    at = near_pairs[k].vertices
    if changed[at[0]] + changed[at[1]] + changed[at[2]] + changed[at[3]] == 0:
        return
    t = time_of_impact(near_pairs[k], x, x_end)
    if t >= NEVER:
        return
    wp.atomic_add(counts_out, HITS, 1)
    factor = wp.where(stop, real(0.0), REMAINING * t)
    free = int(0)
    for q in range(4):
        i = at[q]
        if left[i] > real(0.0) and wp.trace(inverse_mass[i]) > real(0.0):
            wp.atomic_min(shortened_out, i, factor * left[i])
            free += 1
    if free == 0:
        wp.atomic_add(counts_out, STUCK, 1)
        for q in range(4):
            stuck_out[at[q]] = 1


@wp.kernel
def find_catching_solids(
    # in
    near_pairs: wp.array(dtype=NearPair), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    stuck: wp.array(dtype=wp.int32), solid: wp.array(dtype=wp.int32),
    # out
    first_out: wp.array(dtype=wp.int32), last_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """The first and the last solid that collide with the elements of vertices that are stuck, or are close to them."""
    k = wp.tid()
    at = near_pairs[k].vertices
    s = wp.max(solid[at[0]], solid[at[3]])
    count = int(0)
    for q in range(4):
        if solid[at[q]] < 0 and stuck[at[q]] != 0:
            count += 1
    if s < 0 or count == 0:
        return
    t = time_of_impact(near_pairs[k], x, x_end)
    if near_pairs[k].distance > near_pairs[k].close and t >= NEVER:
        return
    for q in range(4):
        if solid[at[q]] < 0 and stuck[at[q]] != 0:
            wp.atomic_min(first_out, at[q], s)
            wp.atomic_max(last_out, at[q], s)


@wp.kernel
def pass_to_layers(
    # in
    near_pairs: wp.array(dtype=NearPair), stuck: wp.array(dtype=wp.int32), solid: wp.array(dtype=wp.int32),
    # in and out
    first_out: wp.array(dtype=wp.int32), last_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """What collides with a layer that solids catch, and cannot move either, is caught by the same solids."""
    k = wp.tid()
    at = near_pairs[k].vertices
    if wp.max(solid[at[0]], solid[at[3]]) >= 0:
        return
    if wp.min(wp.min(stuck[at[0]], stuck[at[1]]), wp.min(stuck[at[2]], stuck[at[3]])) == 0:
        return
    if near_pairs[k].distance > near_pairs[k].close:
        return
    for q in range(4):
        for r in range(4):
            wp.atomic_min(first_out, at[q], first_out[at[r]])
            wp.atomic_max(last_out, at[q], last_out[at[r]])


@wp.kernel
def shorten(
    # in
    x: wp.array(dtype=vec3), carried: wp.array(dtype=vec3), x_full: wp.array(dtype=vec3), masses: wp.array(dtype=real),
    inverse_mass: wp.array(dtype=mat33), shortened: wp.array(dtype=real),
    # in and out
    left_out: wp.array(dtype=real),
    # out
    x_end_out: wp.array(dtype=vec3), changed_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Shortens the paths, and marks the vertices of those that have become shorter."""
    i = wp.tid()
    changed_out[i] = 0
    if shortened[i] < left_out[i]:
        s = wp.where(shortened[i] < SHORTEST, real(0.0), real(1.0) * shortened[i])
        free = masses[i] * (inverse_mass[i] * (x_full[i] - x[i] - carried[i]))
        x_end_out[i] = x_full[i] - (real(1.0) - s) * free
        left_out[i] = s
        changed_out[i] = 1


@wp.kernel
def slow_down(
    # in
    x_full: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), h: real,
    # in and out
    v_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Takes the displacement that is missing from the velocity."""
    i = wp.tid()
    missing = x_end[i] - x_full[i]
    if wp.length_sq(missing) > real(0.0):
        v_out[i] = v_out[i] + missing / h
