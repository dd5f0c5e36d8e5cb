"""What a simulation says to the person who runs it: warnings before the first step, and what helps a failed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toile.colliders.solids import inside_at_start
from toile.constraints.pin import Pin
from toile.constraints.solid_contact import SolidContact
from toile.constraints.state import ConstraintState
from toile.errors import SMALLER_STEP
from toile.filters.forecast import Forecast
from toile.filters.self_contact import SelfContact
from toile.math.types import numpy_real
from toile.scene.presets import FOR_SOLIDS

if TYPE_CHECKING:
    from toile.simulation.simulation import Simulation

# Positions that are rounded to more than this share of an edge are warned of: strains are as wrong.
COARSE = 1e-3


def at_start(simulation: Simulation) -> list[str]:
    """Warnings; an InputError for what cannot go well."""
    found = [*_unstable(simulation), *_inside_at_start(simulation), *_of_filters(simulation), *_idle(simulation)]
    return [*found, *_coarse(simulation)]


def remedy(simulation: Simulation, trouble: str) -> str:
    """What helps where no step size does: cloth deep inside a solid is stretched by being brought out."""
    pinned = _pinned(simulation)
    for correction in simulation.filters:
        if (warnings := correction.remedy(trouble, pinned)) is not None:
            return warnings
    settings, state = _keeps_out(simulation), simulation.state
    for solid, found in zip(simulation.solids, simulation.solids.survey(state.x, state.t), strict=True):
        worst = int(np.argmin(found["distance"]))
        if settings is not None and (depth := -float(found["distance"][worst])) > settings.thickness:
            constraints, move = ("pinned ", "Move the pin") if pinned[worst] else ("", "Start the cloth")
            return f'Vertex {worst} is {constraints}{depth:.3g} m inside solid "{solid.name}". {move} out of it.'
    return SMALLER_STEP


def _unstable(simulation: Simulation) -> list[str]:
    """Steps above what the integrator can take; an error if the scene does not insist on them."""
    scene, settings = simulation.scene, simulation.scene.integrator
    if settings.stable_at_any_step:
        return []
    # What is let go, or not held yet, has to be stable as well: only what holds in all of the run counts.
    last = scene.time.frames / scene.time.fps
    lasting = [found for found in simulation.constraints.constraints if found[0].end is None or found[0].end >= last]
    constraints = ConstraintState(lasting, simulation.model.particle_count, simulation.device)
    constraints.move(0.0, 0.0, simulation.state.x)
    return settings.judge(simulation.control.max_step, simulation.integrator.largest_step(simulation.state, constraints.S))


def _coarse(simulation: Simulation) -> list[str]:
    """Cloth so far from the origin that few digits are left for its shape."""
    model = simulation.model
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


def _inside_at_start(simulation: Simulation) -> list[str]:
    """Cloth that starts inside solids; too deep is an error."""
    settings = _keeps_out(simulation)
    if settings is None:
        return []
    pinned, surveyed = _pinned(simulation), simulation.solids.survey(simulation.state.x, 0.0)
    return [
        warnings
        for solid, found in zip(simulation.solids, surveyed, strict=True)
        for warnings in inside_at_start(solid, found["distance"], pinned, settings)
    ]


def _of_filters(simulation: Simulation) -> list[str]:
    """About the scene's steps and meshes."""
    scene = simulation.scene
    warnings = [each for item in scene.filters if isinstance(item, SelfContact) for each in item.advice(simulation.model)]
    if simulation.solids:
        forecasts = [item for item in scene.filters if isinstance(item, Forecast)]
        warnings += [each for item in forecasts if (each := item.advice(simulation.control.max_step)) is not None]
    return warnings


def _idle(simulation: Simulation) -> list[str]:
    """What has nothing to do."""
    scene = simulation.scene
    if not simulation.solids:
        listed = {"constraints": scene.constraints, "filters": scene.filters, "post": scene.post}
        return [
            f"{key}: {item.type_name()} has nothing to do, because the scene has no solids."
            for key, items in listed.items()
            if (key,) not in scene._of_preset  # which is for any scene
            for item in items
            if item.type_name() in FOR_SOLIDS
        ]
    if any(isinstance(item, SelfContact) for item in scene.filters):
        return []
    sharp = [solid.name for solid in simulation.solids if solid.settings.sharp]
    return [f'solid "{name}": sharp does nothing without the filter self_contact.' for name in sharp]


def _keeps_out(simulation: Simulation) -> SolidContact | Forecast | None:
    """What keeps cloth out of solids."""
    if not simulation.solids or not simulation.model.particle_count:
        return None
    if simulation.contacts is not None:
        return simulation.contacts.settings
    return next(item for item in simulation.scene.filters if isinstance(item, Forecast))


def _pinned(simulation: Simulation) -> np.ndarray:
    """Whether a pin holds each particle now."""
    pinned = np.zeros(simulation.model.particle_count, bool)
    for constraint, particles in simulation.constraints.constraints:
        pinned[particles] |= isinstance(constraint, Pin) and constraint.active(simulation.state.t)
    return pinned
