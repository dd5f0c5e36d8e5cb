"""The mesh that contact is detected on: all particles of the cloths, and the vertices of solids whose faces take part.

Particles come first, then the vertices of solids, which impulses do not move. Positions are those at the two ends of
the step; in between every vertex moves along a straight line.

    W = S / m    inverse mass of a particle; directions that a constraint holds have none

A particle that rests on a solid may leave that solid but not enter it: its inverse mass includes the normal of the
contact, and `planes` keep it out.

Source      [BW98] sec. 5.1 for S, [BFA02] sec. 5
Symbols     S  free directions     m  mass [kg]     x, x_end  positions at the ends of the step [m]
Deviations  none
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from toile.contact.narrow_phase.thickness import make_rest_geometry
from toile.device.launcher import Launcher
from toile.math.types import mat33, numpy_real, real, vec3
from toile.model.constraint_state import ConstraintState
from toile.model.mesh import find_edges
from toile.model.model import Model

if TYPE_CHECKING:
    from toile.colliders.base import ContactSurface, Solid

MAX_PLANES = wp.constant(3)  # per particle


@dataclass(frozen=True)
class Planes:
    """Planes of solids that particles in contact must not cross; plane k of particle i is entry 3 i + k.

    Those of a pinched particle, whose count is -1, do not keep it out. It moves across them, so that layers caught
    between two solids keep their order.
    """

    count: wp.array  # per particle
    normal: wp.array
    slack: wp.array  # [m]  per particle: by which it may cross its planes, between two solids
    pinched_by: wp.array  # per particle: the solids that pinch it (solid/contact_arrays.py)
    solid: wp.array  # the solid of each plane


@wp.struct
class Pinching:
    """Which vertices are pinched by which solids."""

    solid: wp.array(dtype=wp.int32)  # per vertex: the solid that it belongs to; -1 for particles
    by: wp.array(dtype=wp.vec4i)  # per vertex: the solids that pinch it (solid/contact_arrays.py)
    caught: wp.array(dtype=wp.vec2i)  # per vertex: the solids that catch it (response/caught.py); -1 for none


@wp.func
def is_pinched(pinching: Pinching, at: wp.vec4i) -> wp.bool:
    """Whether a pair of elements is of a solid, and of cloth with a vertex that this solid pinches, or has just let go:
    its edges may still cross a face, but it has left."""
    # The first vertex of a pair or the last is of the solid, if any is.
    solid = wp.max(pinching.solid[at[0]], pinching.solid[at[3]])
    found = bool(False)
    if solid >= 0:
        for c in range(4):
            by = pinching.by[at[c]]
            found = found or by[0] == solid or by[1] == solid
            found = found or by[2] == solid or by[3] == solid
            caught = pinching.caught[at[c]]
            found = found or caught[0] == solid or caught[1] == solid
            if pinching.solid[at[1]] < 0 or pinching.solid[at[0]] >= 0:  # more of the cloth than a vertex
                found = found or by[2] == -2 - solid or by[3] == -2 - solid
    return found


class CollisionMesh:
    """Positions at both ends of a step, and the inverse mass of every vertex."""

    def __init__(self, model: Model, surfaces: "Sequence[ContactSurface]", thickness: np.ndarray, device: str):
        """`surfaces` are those of solids that take part; `thickness` [m] is that of the cloth at each particle."""
        self.device, self.moving_count = device, model.particle_count
        starts = [surface.vertices(0.0) for surface in surfaces]
        first = np.cumsum([self.moving_count, *map(len, starts)])
        self.count = int(first[-1])
        self._surfaces = list(zip(surfaces, first[:-1].tolist(), strict=True))
        triangles = [model.triangles, *(surface.triangles + start for surface, start in self._surfaces)]
        edges = [model.edges, *(find_edges(surface.triangles).edges + start for surface, start in self._surfaces)]
        self.triangles = np.concatenate(triangles).astype(np.int32).reshape(-1, 3)
        self.edges = np.concatenate(edges).astype(np.int32).reshape(-1, 2)
        frictions = [
            np.full(len(x), surface.solid.settings.friction) for surface, x in zip(surfaces, starts, strict=True)
        ]
        # A pair closer than twice its thickness must be a candidate, whatever the thickness of the cloth.
        thinnest = float(np.min(thickness, initial=np.inf))
        of_solids = [
            np.full(len(x), min(surface.thickness, thinnest)) for surface, x in zip(surfaces, starts, strict=True)
        ]
        self.rest = make_rest_geometry(model, np.concatenate([thickness, *of_solids]), device)
        # Margin of each vertex in searches [m]: for two cloths the sum is twice their thickness, for cloth and solid
        # at least twice that of the solid. That of a solid may be negative.
        reach = np.concatenate([thickness, *(2.0 * each - thinnest for each in of_solids)])
        self.reach = wp.array(reach.astype(numpy_real), dtype=real, device=device)
        self.thickest = float(np.max(thickness, initial=0.0))
        self.times = (0.0, 0.0)  # of the two ends of the step [s]
        self.edge_length = float(np.median(model.edge_lengths(0.0))) if len(model.edges) else 0.0
        # Friction of solids; -1 stands for cloth, whose friction is one value for all cloths.
        friction = np.concatenate([np.full(self.moving_count, -1.0), *frictions])
        self.solid_friction = wp.array(friction.astype(numpy_real), dtype=real, device=device)
        self.masses = np.concatenate([model.masses, np.zeros(self.count - self.moving_count)])
        self.x, self.x_end, self.v_end = (wp.zeros(self.count, dtype=vec3, device=device) for _ in range(3))
        # For impulses, which may move particles off solids, and for the linear system, which holds them.
        self.inverse_mass, self.inverse_mass_in_system = (
            wp.zeros(self.count, dtype=mat33, device=device) for _ in range(2)
        )
        # Faces of solids cannot keep out the particles that these solids pinch.
        self.pinching = Pinching()
        self.pinching.by = wp.full(self.count, wp.vec4i(-1, -1, -1, -1), dtype=wp.vec4i, device=device)
        self.pinching.caught = wp.full(self.count, wp.vec2i(-1, -1), dtype=wp.vec2i, device=device)
        owner = [np.full(self.moving_count, -1)]
        owner += [np.full(len(x), surface.solid.index) for surface, x in zip(surfaces, starts, strict=True)]
        self.pinching.solid = wp.array(np.concatenate(owner).astype(np.int32), dtype=wp.int32, device=device)
        for x, start in zip(starts, first[:-1].tolist(), strict=True):
            for to in (self.x, self.x_end):
                self._upload(x, start, to)
        self._launch = Launcher(device)

    def begin(self, x: wp.array, v: wp.array, constraints: ConstraintState, begin: float, end: float) -> None:
        """Starts a step from `begin` to `end` [s]: the motion of solids, and that to which velocities lead."""
        self.times = (begin, end)
        wp.copy(self.x, x, count=self.moving_count)
        self._launch(predict, self.moving_count, [x, v, end - begin, constraints, self.x_end])
        for surface, first in self._surfaces:
            if surface.solid.moves:  # others are where they were at the start
                x_start, x_stop = surface.vertices(begin), surface.vertices(end)
                self._upload(x_start, first, self.x)
                self._upload(x_stop, first, self.x_end)
                self._upload((x_stop - x_start) / (end - begin), first, self.v_end)

    def set_caught(self, by: np.ndarray) -> None:
        """Sets the solids that catch each particle."""
        wp.copy(self.pinching.caught, wp.array(by, dtype=wp.vec2i, device=self.device), count=self.moving_count)

    def _upload(self, values: np.ndarray, first: int, to: wp.array) -> None:
        """Copies values of vertices from `first` on to the device."""
        wp.copy(to, wp.array(values.astype(numpy_real), dtype=vec3, device=self.device), dest_offset=first)

    def of_solids(self) -> list[tuple["Solid", slice]]:
        """The solids that take part, and their vertices."""
        counts = [len(surface.vertices(0.0)) for surface, _ in self._surfaces]
        return [
            (surface.solid, slice(first, first + n)) for (surface, first), n in zip(self._surfaces, counts, strict=True)
        ]

    def set_candidate(self, x_end: wp.array, v_end: wp.array | None = None) -> None:
        """Copies the end of a candidate step."""
        wp.copy(self.x_end, x_end, count=self.moving_count)
        if v_end is not None:
            wp.copy(self.v_end, v_end, count=self.moving_count)

    def update_inverse_mass(self, masses: wp.array, S: wp.array, S_user: wp.array, planes: "Planes | None") -> None:
        """Sets the inverse masses of this step; `planes` are those of contacts with solids."""
        self._launch(update_inverse_mass, self.moving_count, [masses, S, self.inverse_mass_in_system])
        if planes is None:
            wp.copy(self.inverse_mass, self.inverse_mass_in_system, count=self.moving_count)
        else:
            inputs = [masses, S, S_user, planes.count, planes.normal, self.inverse_mass]
            self._launch(update_inverse_mass_on_solids, self.moving_count, inputs)
            wp.copy(self.pinching.by, planes.pinched_by, count=self.moving_count)

    def finish(self, x_out: wp.array, v_out: wp.array) -> None:
        """Copies the corrected step back."""
        wp.copy(x_out, self.x_end, count=self.moving_count)
        wp.copy(v_out, self.v_end, count=self.moving_count)


@wp.kernel
def predict(
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, constraints: ConstraintState,
    # out
    x_end_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Where the velocities lead, with the constraints of the end of the step."""
    i = wp.tid()
    x_end_out[i] = constraints.S[i] * (x[i] + h * v[i]) + constraints.x_held[i]


@wp.kernel
def update_inverse_mass(masses: wp.array(dtype=real), S: wp.array(dtype=mat33), W_out: wp.array(dtype=mat33)):
    """W = S / m."""
    i = wp.tid()
    W_out[i] = S[i] / masses[i]


@wp.kernel
def update_inverse_mass_on_solids(
    # in
    masses: wp.array(dtype=real), S: wp.array(dtype=mat33), S_user: wp.array(dtype=mat33),
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3),
    # out
    W_out: wp.array(dtype=mat33),
):  # fmt: skip
    """Inverse mass of particles on solids, which may move away from the solid as well; those that the last solve held
    and its forces released have no plane any more."""
    i = wp.tid()
    free = real(1.0) * S[i]
    if plane_count[i] == 0:
        free = real(1.0) * S_user[i]
    elif plane_count[i] == 1:
        n = S_user[i] * plane_normal[MAX_PLANES * i]
        if wp.length_sq(n) > real(0.0):
            n = wp.normalize(n)
            n = n - free * n  # only the part that is not free already
            free += wp.outer(n, n)
    elif plane_count[i] > 1:
        free = real(1.0) * S_user[i]
    else:
        n = S_user[i] * (plane_normal[MAX_PLANES * i] - plane_normal[MAX_PLANES * i + 1])
        if wp.length_sq(n) > real(0.0):
            n = wp.normalize(n)
            n = n - free * n
            free += wp.outer(n, n)
    W_out[i] = free / masses[i]
