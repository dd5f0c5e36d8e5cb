"""The certificate's entry for each solid: contacts, force, and how deep cloth is inside it.

    depth = max over samples of -phi(sample),    samples: corners, middles of edges, centers of triangles

phi has slope one, so that a sample is outside if a corner is farther from the solid than from the sample. Only the
others are evaluated: middles of edges with both ends nearer than half their length, and centers of triangles with all
corners nearer than the longest edge. The device lists them.

Particles that solids pinch are where these leave no room for them; they are counted. They, and edges and triangles that
they belong to, have no part in the depth.

Source      none
Symbols     phi  distance from a solid, negative inside [m]
Deviations  none
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from toile.device.append_buffer import AppendBuffer, BufferRanges, fill, next_slot
from toile.device.launcher import Launcher
from toile.math.solid import Closest
from toile.math.types import numpy_real, real, vec3
from toile.model.state import State

if TYPE_CHECKING:
    from toile.simulation.build import Parts

INFINITE = wp.constant(real(np.inf))


class SolidReport:
    """Measures the solids of a simulation and the cloth on them."""

    def __init__(self, parts: Parts):
        self._parts, model, device = parts, parts.model, parts.device
        self._edges = wp.array(model.edges, dtype=wp.vec2i, device=device)
        self._triangles = wp.array(model.triangles, dtype=wp.vec3i, device=device)
        n = model.particle_count
        self._found = wp.zeros(n, dtype=Closest, device=device)
        self._phi = wp.zeros(n, dtype=real, device=device)
        self._excluded = wp.zeros(n, dtype=wp.int32, device=device)
        self._samples = AppendBuffer(wp.int32, 1024, device)
        self._launch = Launcher(device)

    def measure(self, state: State, reaction: np.ndarray | None) -> dict[str, dict[str, Any]]:
        """Measures for each solid the number of particles in contact, the force on it in the last step [N], the depth
        of the cloth inside it [m], where solids do not pinch it, and where it is deepest.

        Depth is measured from positions alone, at the frame; what the contacts report does not enter. `reaction` is the
        part of the constraint forces that filters account for.
        """
        parts = self._parts
        solids = parts.solids
        if not solids or not parts.model.particle_count:
            return {}
        # What nobody measured is null, not zero.
        measured = parts.contacts.measure_solids(reaction)
        counts, forces = measured if measured is not None else ([None] * len(solids), [None] * len(solids))
        self._exclude(parts.contacts.pinched_vertices())
        entries = {}
        for s, solid in enumerate(solids):
            depth, where = self._deepest(s, state.x, state.t)
            entries[solid.name] = {"contacts": counts[s], "force": forces[s], "depth": depth, "deepest": where}
        return entries

    def _exclude(self, pinched: np.ndarray | None) -> None:
        """Excludes the particles that solids pinch."""
        self._excluded.zero_()
        if pinched is not None and len(pinched):
            marked = np.zeros(len(self._excluded), np.int32)
            marked[pinched] = 1
            self._excluded.assign(marked)

    def _deepest(self, s: int, x: wp.array, time: float) -> tuple[float, dict[str, Any] | None]:
        """Returns the largest depth of a sample inside solid s, and the vertex or triangle that it is on."""
        self._parts.solids.find_closest_points(s, x, time, self._found)
        self._launch(take_distances, len(x), [self._found, self._excluded, self._phi])
        edge_count = len(self._edges)
        inputs = [self._edges, self._triangles, x, self._phi]
        fill([self._samples], self._launch, list_samples, edge_count + len(self._triangles), inputs)
        phi, of = self._phi.numpy().astype(float), np.zeros(0, int)
        if self._samples.count:
            of = np.sort(self._samples.values[: self._samples.count].numpy())
            cut, near = of[of < edge_count], of[of >= edge_count] - edge_count
            model, at = self._parts.model, x.numpy().astype(float)
            samples = np.concatenate([at[model.edges[cut]].mean(axis=1), at[model.triangles[near]].mean(axis=1)])
            points = wp.array(samples.astype(numpy_real), dtype=vec3, device=self._parts.device)
            found = self._parts.solids.closest_points_of(s, points, time)["distance"].astype(float)
            phi = np.concatenate([phi, found])
        worst = int(np.argmin(phi))
        if phi[worst] >= 0.0:
            return 0.0, None
        return -float(phi[worst]), self._place(worst, of)

    def _place(self, sample: int, of: np.ndarray) -> dict[str, Any]:
        """Names the vertex of a sample, or the first of its triangles, counted from 0 in their cloth. `of` lists the
        edges of the samples behind the vertices, and their triangles behind all edges."""
        model = self._parts.model
        if sample < model.particle_count:
            part = next(part for part in model.parts if sample < part.particles.stop)
            return {"cloth": part.name, "vertex": sample - part.particles.start}
        element = int(of[sample - model.particle_count])
        triangle = element - len(self._edges)
        if triangle < 0:
            triangle = int(np.flatnonzero((model.edge_triangles == element).any(axis=1))[0])
        part = next(part for part in model.parts if triangle < part.triangles.stop)
        return {"cloth": part.name, "triangle": triangle - part.triangles.start}


@wp.kernel
def take_distances(
    # in
    found: wp.array(dtype=Closest), excluded: wp.array(dtype=wp.int32),
    # out
    phi_out: wp.array(dtype=real),
):  # fmt: skip
    """phi of each vertex; infinite for those that are excluded."""
    i = wp.tid()
    phi_out[i] = wp.where(excluded[i] != 0, INFINITE, found[i].distance)


@wp.kernel
def list_samples(
    # model
    first: wp.int32, edges: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
    # in
    x: wp.array(dtype=vec3), phi: wp.array(dtype=real),
    # out
    ranges_out: BufferRanges, samples_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Lists the edges, and behind all of them the triangles, whose middle may be inside."""
    k = first + wp.tid()
    near = bool(False)
    if k < edges.shape[0]:
        a, b = edges[k][0], edges[k][1]
        near = wp.max(phi[a], phi[b]) < real(0.5) * wp.length(x[b] - x[a])
    else:
        t = triangles[k - edges.shape[0]]
        a, b, c = t[0], t[1], t[2]
        longest = wp.max(wp.max(wp.length(x[b] - x[a]), wp.length(x[c] - x[b])), wp.length(x[a] - x[c]))
        near = wp.max(wp.max(phi[a], phi[b]), phi[c]) < longest
    if near:
        n = next_slot(ranges_out, first)
        if n >= 0:
            samples_out[n] = k
