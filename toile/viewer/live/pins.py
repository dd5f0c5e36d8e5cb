"""Pinning and unpinning of single vertices in a scene, whatever selection holds them."""

from __future__ import annotations

import numpy as np

from toile.constraints.base import Constraint
from toile.constraints.pin import Pin
from toile.model.mesh import Mesh
from toile.model.selection import Selection
from toile.scene.load import meshes
from toile.scene.schema import Scene
from toile.viewer.live.scene_edits import with_value


def with_toggled_pin(scene: Scene, vertex: int) -> Scene:
    """Returns a scene in which a held vertex is free, or a free one is pinned; `vertex` counts over all cloths."""
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
    return with_value(scene, ("constraints",), tuple(left))


def _selection(mesh: Mesh, particles: np.ndarray) -> Selection:
    """A selection of particles by their numbers in the source mesh."""
    if mesh.numbering is not None:
        source = np.flatnonzero(mesh.numbering >= 0)
        particles = source[np.argsort(mesh.numbering[source])][particles]
    return Selection(indices=tuple(int(i) for i in particles))
