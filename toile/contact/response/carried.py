"""Cloth that moving solids carry along where its paths are shortened.

    c = R (x - o) + o_end - x    displacement of a carried vertex, as if it were part of the solid; 0 of all others

Where all paths of a pair end where they began, a solid that moves runs over it: cloth that stays behind is no safe end
of the step. So the cloth of such pairs is carried, and only what it moves relative to the solid is shortened: what
moves as one body does not collide. What collides with carried cloth, and cannot be shortened either, is carried by the
same solid, so that it takes layers along. Cloth that one solid carries into another, or into a pin, is stuck.

Source      none
Symbols     R, o, o_end  rotation of the solid in the step, its origin at the two ends [m]     x  start of the step [m]
Deviations  Solids that deform carry with the motion of their frame.
"""

import numpy as np
import warp as wp

from toile.contact.collision_mesh import CollisionMesh
from toile.contact.narrow_phase.contact_set import ContactSet, NearPair, time_of_impact
from toile.contact.narrow_phase.impact_time import NEVER
from toile.math.types import mat33, real, vec3

# Layers that a solid carries at once.
MAX_LAYERS = 8
# Layers in contact move with a solid if their displacement differs from its own by less than this fraction of it.
ALONG = wp.constant(real(0.5))


@wp.struct
class SolidMotion:
    """The motion of a solid in a step."""

    moves: wp.int32
    R: mat33
    o: vec3
    o_end: vec3


class CarriedCloth:
    """The solid that carries each vertex in a step, and the displacement that it gives the vertex."""

    def __init__(self, mesh: CollisionMesh, contact_set: ContactSet):
        self._mesh, self._contact_set = mesh, contact_set
        self._by, self._found = (wp.full(mesh.count, -1, dtype=wp.int32, device=mesh.device) for _ in range(2))
        self._count = wp.zeros(1, dtype=wp.int32, device=mesh.device)
        self._motions: wp.array | None = None  # of the solids in this step; None if none moves
        self.displacement = wp.zeros(mesh.count, dtype=vec3, device=mesh.device)

    def begin(self) -> None:
        """Starts a step, in which nothing is carried yet."""
        self._motions = self._find_motions()
        if self._motions is not None:
            self._by.fill_(-1)
            self.displacement.zero_()

    def add(self, stuck: wp.array, x_full: wp.array) -> bool:
        """Adds the cloth of pairs that collide and are `stuck`, and the layers on it that move with the solid on their
        full paths, to `x_full`; returns whether there is any that was not carried."""
        if self._motions is None:
            return False
        mesh, near_pairs = self._mesh, self._contact_set.near_pairs
        inputs = [near_pairs.values, mesh.x, mesh.x_end, stuck, mesh.inverse_mass, mesh.pinching.solid, self._motions]
        wp.copy(self._found, self._by)
        wp.launch(find_stuck, near_pairs.count, [*inputs, self._by, self._found], device=mesh.device)
        self._count.zero_()
        self._carry_found()
        if not self._count.numpy()[0]:
            return False
        self._carry_layers(x_full)
        return True

    def _carry_layers(self, x_full: wp.array) -> None:
        """Has solids carry the layers in contact with what they carry."""
        mesh, near_pairs = self._mesh, self._contact_set.near_pairs
        inputs = [near_pairs.values, mesh.x, x_full, mesh.inverse_mass, mesh.pinching.solid, self._motions]
        for _ in range(MAX_LAYERS):
            wp.launch(find_layers, near_pairs.count, [*inputs, self._by, self._found], device=mesh.device)
            self._carry_found()

    def _carry_found(self) -> None:
        """Gives what has just been found its displacement."""
        mesh = self._mesh
        outputs = [self._by, self.displacement, self._count]
        wp.launch(carry, mesh.count, [mesh.x, self._found, self._motions, *outputs], device=mesh.device)

    def _find_motions(self) -> wp.array | None:
        """The motion of every solid in this step; None if none moves."""
        solids = [solid for solid, _ in self._mesh.of_solids() if solid.moves]
        if not solids:
            return None
        motions = np.zeros(1 + max(solid.index for solid in solids), SolidMotion.numpy_dtype())
        for solid in solids:
            (R, o, _, _), (R_end, o_end, _, _) = (solid.frame(time) for time in self._mesh.times)
            record = motions[solid.index]
            record["moves"], record["R"], record["o"], record["o_end"] = 1, R_end @ R.T, o, o_end
        return wp.array(motions, dtype=SolidMotion, device=self._mesh.device)


@wp.func
def displacement_by(motion: SolidMotion, x: vec3) -> vec3:
    """The displacement of a point of a solid."""
    return motion.R * (x - motion.o) + motion.o_end - x


@wp.func
def carrier_of(
    at: wp.vec4i, solid: wp.array(dtype=wp.int32), motions: wp.array(dtype=SolidMotion), by: wp.array(dtype=wp.int32)
) -> wp.int32:
    """The solid of a pair, if it moves, or the one that carries a vertex of it; -1 for none, the last of several."""
    carrier = int(-1)
    for q in range(4):
        s = solid[at[q]]
        if s >= 0 and s < motions.shape[0]:
            carrier = wp.max(carrier, wp.where(motions[s].moves != 0, s, -1))
        carrier = wp.max(carrier, by[at[q]])
    return carrier


@wp.kernel
def find_stuck(
    # in
    near_pairs: wp.array(dtype=NearPair), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    stuck: wp.array(dtype=wp.int32), inverse_mass: wp.array(dtype=mat33), solid: wp.array(dtype=wp.int32),
    motions: wp.array(dtype=SolidMotion), by: wp.array(dtype=wp.int32),
    # out
    by_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Passes a solid that moves, or that carries a vertex of a pair that is stuck, to the others of the pair."""
    k = wp.tid()
    at = near_pairs[k].vertices
    if wp.min(wp.min(stuck[at[0]], stuck[at[1]]), wp.min(stuck[at[2]], stuck[at[3]])) == 0:
        return
    carrier = carrier_of(at, solid, motions, by)
    if carrier < 0:
        return
    if time_of_impact(near_pairs[k], x, x_end) >= NEVER:
        return
    for q in range(4):
        if solid[at[q]] < 0 and by[at[q]] < 0 and wp.trace(inverse_mass[at[q]]) > real(0.0):
            wp.atomic_max(by_out, at[q], carrier)


@wp.kernel
def find_layers(
    # in
    near_pairs: wp.array(dtype=NearPair), x: wp.array(dtype=vec3), x_full: wp.array(dtype=vec3),
    inverse_mass: wp.array(dtype=mat33), solid: wp.array(dtype=wp.int32), motions: wp.array(dtype=SolidMotion),
    by: wp.array(dtype=wp.int32),
    # out
    by_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Passes a solid that moves, or that carries a vertex, to the vertices in contact that move with this solid."""
    k = wp.tid()
    at = near_pairs[k].vertices
    if near_pairs[k].distance > near_pairs[k].close:
        return
    carrier = carrier_of(at, solid, motions, by)
    if carrier < 0:
        return
    for q in range(4):
        i = at[q]
        if solid[i] < 0 and by[i] < 0 and wp.trace(inverse_mass[i]) > real(0.0):
            c = displacement_by(motions[carrier], x[i])
            if wp.length(x_full[i] - x[i] - c) < ALONG * wp.length(c):
                wp.atomic_max(by_out, i, carrier)


@wp.kernel
def carry(
    # in
    x: wp.array(dtype=vec3), found: wp.array(dtype=wp.int32), motions: wp.array(dtype=SolidMotion),
    # in and out
    by_out: wp.array(dtype=wp.int32), displacement_out: wp.array(dtype=vec3), count_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Gives the vertices that are carried from now on the displacement of the solid, and counts them."""
    i = wp.tid()
    if found[i] != by_out[i]:
        by_out[i] = found[i]
        displacement_out[i] = displacement_by(motions[found[i]], x[i])
        wp.atomic_add(count_out, 0, 1)
