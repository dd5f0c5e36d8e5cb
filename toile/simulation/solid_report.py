"""The certificate's entry for each solid: contacts, force, and how deep cloth is inside it.

Particles that solids pinch are where these leave no room for them; they are counted, and have no part in the depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from toile.model.state import State

if TYPE_CHECKING:
    from toile.simulation.build import Parts


def measure_solids(parts: Parts, state: State, reaction: np.ndarray | None) -> dict[str, dict[str, Any]]:
    """Measures for each solid the number of particles in contact, the force on it in the last step [N], and the depth
    of the cloth inside it [m], where solids do not pinch it.

    Depth is measured from positions alone, at the frame; what the contacts report does not enter. `reaction` is the
    part of the constraint forces that filters account for.
    """
    solids = parts.solids
    if not solids or not parts.model.particle_count:
        return {}
    # What nobody measured is null, not zero.
    measured = parts.contacts.measure_solids(reaction)
    counts, forces = measured if measured is not None else ([None] * len(solids), [None] * len(solids))
    pinched = parts.contacts.pinched_vertices()
    distances = [found["distance"] for found in solids.closest_points(state.x, state.t)]
    for distance in distances:
        distance[[] if pinched is None else pinched] = np.inf
    return {
        solid.name: {"contacts": counts[s], "force": forces[s], "depth": max(0.0, -float(distances[s].min()))}
        for s, solid in enumerate(solids)
    }
