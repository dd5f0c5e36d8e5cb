"""The figures of one vertex: what a page tells of the place that someone points at."""

from __future__ import annotations

import numpy as np

from toile.viewer.live.live import View


def values(view: View, vertex: int, strains: np.ndarray) -> list[tuple[str, str]]:
    """Names and values. `strains` are those of the triangles along warp and weft."""
    assert view.surface is not None
    surface = view.surface
    part = next(part for part in surface.parts if part.vertices.start <= vertex < part.vertices.stop)
    around = np.flatnonzero((surface.triangles == vertex).any(axis=1))
    force = view.forces[vertex]
    found = [
        ("vertex", f"{vertex - part.vertices.start} of {part.name} ({part.fabric})"),
        ("position", f"{_vector(view.positions[vertex], 4)} m"),
        ("velocity", f"{_vector(view.velocities[vertex], 3)}, {np.linalg.norm(view.velocities[vertex]):.3f} m/s"),
    ]
    for axis, name in enumerate(("warp", "weft")):
        of_triangles = 100.0 * strains[around, axis]
        low, high = (f"{limit:+.2f}" for limit in (of_triangles.min(initial=0.0), of_triangles.max(initial=0.0)))
        found.append((f"strain, {name}", f"{low} to {high} % in {len(around)} triangles"))
    touches = [
        name
        for name, vertices in (
            ("held", view.pinned),
            ("on a solid", view.vertices_on_solids),
            ("on cloth", view.vertices_on_cloth),
        )
        if vertex in vertices
    ]
    found.append(("contact", ", ".join(touches) or "none"))
    found.append(("force that holds it", f"{_vector(force, 4)}, {np.linalg.norm(force):.4f} N"))
    return found


def _vector(vector: np.ndarray, digits: int) -> str:
    return "(" + ", ".join(f"{component:.{digits}f}" for component in vector) + ")"
