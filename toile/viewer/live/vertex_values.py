"""Values of one vertex, which the page shows after a click: position, velocity, strain, contacts, force."""

from __future__ import annotations

import numpy as np

from toile.viewer.live.snapshot import Snapshot


def vertex_values(snapshot: Snapshot, vertex: int, strains: np.ndarray) -> list[tuple[str, str]]:
    """Returns names and values as text. `strains` are those of the triangles along warp and weft."""
    assert snapshot.surface is not None
    surface = snapshot.surface
    part = next(part for part in surface.parts if part.vertices.start <= vertex < part.vertices.stop)
    around = np.flatnonzero((surface.triangles == vertex).any(axis=1))
    velocity, force = snapshot.velocities[vertex], snapshot.forces[vertex]
    found = [
        ("vertex", f"{vertex - part.vertices.start} of {part.name} ({part.fabric})"),
        ("position", f"{_vector(snapshot.positions[vertex], 4)} m"),
        ("velocity", f"{_vector(velocity, 3)}, {np.linalg.norm(velocity):.3f} m/s"),
    ]
    for axis, name in enumerate(("warp", "weft")):
        of_triangles = 100.0 * strains[around, axis]
        low, high = (f"{limit:+.2f}" for limit in (of_triangles.min(initial=0.0), of_triangles.max(initial=0.0)))
        found.append((f"strain, {name}", f"{low} to {high} % in {len(around)} triangles"))
    contacts = [
        name
        for name, vertices in (
            ("held", snapshot.pinned),
            ("on a solid", snapshot.vertices_on_solids),
            ("on cloth", snapshot.vertices_on_cloth),
        )
        if vertex in vertices
    ]
    found.append(("contact", ", ".join(contacts) or "none"))
    found.append(("reaction force", f"{_vector(force, 4)}, {np.linalg.norm(force):.4f} N"))
    return found


def _vector(vector: np.ndarray, digits: int) -> str:
    return "(" + ", ".join(f"{component:.{digits}f}" for component in vector) + ")"
