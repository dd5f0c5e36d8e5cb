"""The certificate's entry for each solid: contacts, force, and how deep cloth is inside it.

    depth = max over samples of -phi(sample),    samples: corners, middles of edges, centers of triangles

phi has slope one, so that a sample is outside if a corner is farther from the solid than from the sample. Only the
others are evaluated: middles of edges with both ends nearer than half their length, and centers of triangles with all
corners nearer than the longest edge.

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

from toile.math.types import numpy_real, vec3
from toile.model.state import State

if TYPE_CHECKING:
    from toile.model.model import Model
    from toile.simulation.build import Parts


def measure_solids(parts: Parts, state: State, reaction: np.ndarray | None) -> dict[str, dict[str, Any]]:
    """Measures for each solid the number of particles in contact, the force on it in the last step [N], the depth of
    the cloth inside it [m], where solids do not pinch it, and where it is deepest.

    Depth is measured from positions alone, at the frame; what the contacts report does not enter. `reaction` is the
    part of the constraint forces that filters account for.
    """
    solids, model = parts.solids, parts.model
    if not solids or not model.particle_count:
        return {}
    # What nobody measured is null, not zero.
    measured = parts.contacts.measure_solids(reaction)
    counts, forces = measured if measured is not None else ([None] * len(solids), [None] * len(solids))
    pinched = parts.contacts.pinched_vertices()
    x = state.x.numpy().astype(float)
    entries = {}
    for s, (solid, found) in enumerate(zip(solids, solids.closest_points(state.x, state.t), strict=True)):
        phi = found["distance"].astype(float)
        phi[[] if pinched is None else pinched] = np.inf
        depth, where = _deepest(parts, s, x, phi, state.t)
        entries[solid.name] = {"contacts": counts[s], "force": forces[s], "depth": depth, "deepest": where}
    return entries


def _deepest(parts: Parts, s: int, x: np.ndarray, phi: np.ndarray, time: float) -> tuple[float, dict[str, Any] | None]:
    """Returns the largest depth of a sample inside solid s, and the vertex or triangle that it is on."""
    model = parts.model
    edges, triangles = model.edges, model.triangles
    along = np.linalg.norm(x[edges[:, 1]] - x[edges[:, 0]], axis=1)
    longest = along[model.edge_triangles].max(axis=1)
    cut = np.flatnonzero(phi[edges].max(axis=1) < 0.5 * along)
    near = np.flatnonzero(phi[triangles].max(axis=1) < longest)
    samples = np.concatenate([x[edges[cut]].mean(axis=1), x[triangles[near]].mean(axis=1)])
    if len(samples):
        points = wp.array(samples.astype(numpy_real), dtype=vec3, device=parts.device)
        phi = np.concatenate([phi, parts.solids.closest_points_of(s, points, time)["distance"].astype(float)])
    worst = int(np.argmin(phi))
    if phi[worst] >= 0.0:
        return 0.0, None
    return -float(phi[worst]), _place(model, worst, cut, near)


def _place(model: Model, sample: int, cut: np.ndarray, near: np.ndarray) -> dict[str, Any]:
    """Names the vertex of a sample, or the first of its triangles, counted from 0 in their cloth."""
    if sample < model.particle_count:
        part = next(part for part in model.parts if sample < part.particles.stop)
        return {"cloth": part.name, "vertex": sample - part.particles.start}
    number = sample - model.particle_count
    if number < len(cut):
        triangle = int(np.flatnonzero((model.edge_triangles == cut[number]).any(axis=1))[0])
    else:
        triangle = int(near[number - len(cut)])
    part = next(part for part in model.parts if triangle < part.triangles.stop)
    return {"cloth": part.name, "triangle": triangle - part.triangles.start}
