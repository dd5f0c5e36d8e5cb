"""Vertices that are held or set free by hand. Whatever selected a held vertex, afterwards only the others are held."""

from __future__ import annotations

import numpy as np

from toile.constraints.base import Constraint
from toile.constraints.pin import Pin
from toile.model.mesh import Mesh
from toile.model.selection import Selection
from toile.scene.load import meshes
from toile.scene.schema import Scene
from toile.viewer.live.changes import changed


def toggled(scene: Scene, vertex: int) -> Scene:
    """A scene in which a vertex, counted over all cloths, is free if something held it, and pinned if nothing did."""
    every = meshes(scene)
    ends = np.cumsum([mesh.vertex_count for mesh in every])
    cloth = int(np.searchsorted(ends, vertex, side="right"))
    mesh, name = every[cloth], scene.cloth[cloth].name
    here = vertex - int(ends[cloth]) + mesh.vertex_count
    left, was_held = [], False
    for constraint in scene.constraints:
        if isinstance(constraint, Constraint) and constraint.cloth in (name, None):
            particles = constraint.where.resolve(mesh)
            if here in particles:
                was_held = True
                others = particles[particles != here]
                if not len(others):
                    continue
                constraint = constraint.model_copy(update={"where": _selection(mesh, others)})
        left.append(constraint)
    if not was_held:
        left.append(Pin(cloth=name, where=_selection(mesh, np.array([here]))))
    return changed(scene, ("constraints",), tuple(left))


def _selection(mesh: Mesh, particles: np.ndarray) -> Selection:
    """These particles, by the numbers of their source."""
    if mesh.numbering is not None:
        source = np.flatnonzero(mesh.numbering >= 0)
        particles = source[np.argsort(mesh.numbering[source])][particles]
    return Selection(indices=tuple(int(i) for i in particles))
