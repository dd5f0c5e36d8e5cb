"""Messages for the person who runs a simulation: warnings before the first step, and remedies for a failed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from toile.colliders.solids import SolidContactSettings, inside_at_start
from toile.constraints.scene_constraints import SceneConstraints
from toile.errors import SMALLER_STEP
from toile.math.types import numpy_real
from toile.model.state import State

if TYPE_CHECKING:
    from toile.simulation.build import Parts

# Positions rounded to more than this fraction of an edge give a warning: strains have errors as large.
COARSE = 1e-3
# Two triangles with a common edge cannot pass through each other.
FEWEST_IN_CONTACT = 3


def at_start(parts: Parts) -> list[str]:
    """Returns warnings; raises an InputError for what cannot go well."""
    filters = [warning for item in parts.scene.filters for warning in item.advice(parts.model, _steps(parts))]
    return [
        *_unstable(parts),
        *_inside_at_start(parts),
        *filters,
        *_no_effect(parts),
        *_passes_through(parts),
        *_coarse_positions(parts),
    ]


def remedy(parts: Parts, state: State, trouble: str) -> str:
    """Returns what helps against a failure at any step size: cloth deep inside a solid is stretched on its way out."""
    pinned = _pinned(parts, state.t)
    for correction in parts.filters:
        if (message := correction.remedy(trouble, pinned)) is not None:
            return message
    settings = _keeps_out(parts)
    for solid, found in zip(parts.solids, parts.solids.closest_points(state.x, state.t), strict=True):
        worst = int(np.argmin(found["distance"]))
        if settings is not None and (depth := -float(found["distance"][worst])) > settings.thickness:
            held, move = ("pinned ", "Move the pin") if pinned[worst] else ("", "Start the cloth")
            return f'Vertex {worst} is {held}{depth:.3g} m inside solid "{solid.name}". {move} out of it.'
    return SMALLER_STEP


def _steps(parts: Parts) -> float | None:
    """The largest step [s] in which cloth may hit a solid; None without solids."""
    return parts.control.max_step if parts.solids else None


def _unstable(parts: Parts) -> list[str]:
    """Warns of steps above the largest stable one; an error if the scene does not insist on them."""
    scene, settings = parts.scene, parts.scene.integrator
    if settings.stable_at_any_step:
        return []
    # Particles that are released, or not held yet, have to be stable as well: only constraints of the whole run count.
    last = scene.time.frames / scene.time.fps
    lasting = [found for found in parts.constraints.constraints if found[0].end is None or found[0].end >= last]
    constraints = SceneConstraints(lasting, parts.model.particle_count, parts.device)
    constraints.move(0.0, 0.0, parts.state.x)
    limit = parts.integrator.largest_step(parts.state, constraints.state.S)
    return settings.judge(parts.control.max_step, limit)


def _coarse_positions(parts: Parts) -> list[str]:
    """Warns of cloth so far from the origin that few digits are left for its shape."""
    model = parts.model
    if not len(model.edges):
        return []
    farthest = float(np.abs(model.start).max())
    spacing, edge = farthest * float(np.finfo(numpy_real).eps), float(np.median(model.edge_lengths(0.0)))
    if spacing <= COARSE * edge:
        return []
    kind = "double" if numpy_real is np.float64 else "single"
    better = "Move the scene nearer to the origin" + (", or use double precision." if kind == "single" else ".")
    return [
        f"{farthest:.3g} m from the origin positions in {kind} precision are multiples of {spacing:.2g} m, which is "
        f"{100.0 * spacing / edge:.2g} % of an edge. {better}"
    ]


def _inside_at_start(parts: Parts) -> list[str]:
    """Warns of cloth that starts inside solids; too deep is an error."""
    settings = _keeps_out(parts)
    if settings is None:
        return []
    pinned, surveyed = _pinned(parts, 0.0), parts.solids.closest_points(parts.state.x, 0.0)
    return [
        warning
        for solid, found in zip(parts.solids, surveyed, strict=True)
        for warning in inside_at_start(solid, found["distance"], pinned, settings)
    ]


def _no_effect(parts: Parts) -> list[str]:
    """Warns of plug-ins that have nothing to act on."""
    scene = parts.scene
    if parts.solids:
        return []
    listed = {"constraints": scene.constraints, "filters": scene.filters, "post": scene.post}
    return [
        f"{key}: {item.type_name()} has nothing to do, because the scene has no solids."
        for key, items in listed.items()
        if (key,) not in scene._of_preset  # a preset is for any scene
        for item in items
        if item.needs_solids
    ]


def _passes_through(parts: Parts) -> list[str]:
    """Warns, in one line, of a scene without self_contact whose cloth may pass through itself and others."""
    scene, model = parts.scene, parts.model
    if any(item.resolves_cloth_contact for item in scene.filters) or model.triangle_count < FEWEST_IN_CONTACT:
        return []
    cloth = "itself" if len(model.parts) == 1 else "itself and other cloth"
    if any(energy.acts_between_cloths for energy in (*scene.forces, *(energy for energy, _ in parts.energies))):
        cloth += " where it is pressed or thrown hard"
    solids = [surface.solid for surface in parts.solids.contact_surfaces]
    if not solids:
        return [f"Cloth may pass through {cloth}. End `filters` with self_contact to prevent this."]
    also = {1: "", 2: " and one other"}.get(len(solids), f" and {len(solids) - 1} others")
    return [
        f'Cloth may pass through {cloth}, and through faces and edges of solid "{solids[0].name}"{also}. End `filters` '
        "with self_contact to prevent this, or set sharp: false if held vertices are enough on solids."
    ]


def _keeps_out(parts: Parts) -> SolidContactSettings | None:
    """The settings of what keeps cloth out of solids."""
    if not parts.solids or not parts.model.particle_count:
        return None
    if parts.contacts.solid is not None:
        return parts.contacts.solid.settings
    filters: tuple[Any, ...] = parts.scene.filters
    return next(item for item in filters if item.keeps_out_of_solids)


def _pinned(parts: Parts, time: float) -> np.ndarray:
    """Whether a pin holds each particle at a time."""
    pinned = np.zeros(parts.model.particle_count, bool)
    for constraint, particles in parts.constraints.constraints:
        pinned[particles] |= constraint.holds_all_directions and constraint.active(time)
    return pinned
