"""Small scenes of several sheets in contact, for tests against laws and closed forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ipctk
import numpy as np
from analytic.sheets import G, positions
from analytic.solids import CLOTH

from toile.contact.intersection_audit import Audit
from toile.filters.self_contact import SelfContact
from toile.model.mesh import find_edges
from toile.scene.schema import Scene
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

THICKNESS = 1e-3  # [m]
PIN_ALL = {"type": "pin", "cloth": "0", "where": {"all": True}}  # the first sheet


def grid(size: float, count: int) -> dict[str, Any]:
    return {"type": "grid", "size": (size, size), "resolution": (count, count)}


def cloths(
    device: str,
    sheets: Sequence[dict[str, Any]],
    *,
    h: float = 1.0 / 60.0,
    gravity: tuple[float, float, float] = (0.0, 0.0, -G),
    integrator: str | dict[str, Any] = "implicit_bdf2",
    tolerance: float = 1e-6,
    contact: dict[str, float] | None = None,
    audit: str | None = "none",
    filtered: bool = True,
    **scene: Any,
) -> Simulation:
    """Sheets in contact, named by their numbers; `density` may differ between them. Only `filtered` scenes have the
    filter self_contact."""
    filters = [{"type": "self_contact", "thickness": THICKNESS, **(contact or {})}] if filtered else []
    listed = [
        {"name": str(k), "fabric": {**CLOTH, "density": sheet.get("density", CLOTH["density"])}}
        | {key: value for key, value in sheet.items() if key != "density"}
        for k, sheet in enumerate(sheets)
    ]
    return Simulation(
        Scene(
            time={"frames": 1, "fps": 1.0 / h, "max_step": h, "min_step": min(h, 1e-5)},
            gravity=gravity,
            cloth=listed,
            filters=filters,
            integrator=integrator,
            solver={"tolerance": tolerance},
            **scene,
        ),
        device,
        audit,
    )


class Judge:
    """Checks steps for intersections and tunneling, by two methods that share no code with toile.contact."""

    def __init__(self, simulation: Simulation):
        self.simulation = simulation
        self.surfaces = simulation.solids.contact_surfaces
        model = simulation.model
        first = np.cumsum([model.particle_count, *(len(surface.vertices(0.0)) for surface in self.surfaces)])
        of_solids = [surface.triangles + start for surface, start in zip(self.surfaces, first[:-1], strict=True)]
        triangles = np.concatenate([model.triangles, *of_solids]).astype(np.int32)
        self.audit = Audit(triangles, model.particle_count, simulation.device)
        self.x = self.places()
        # As in reference.impact; by default ipctk reports a collision where the distance falls below a fifth of the
        # first.
        self.impacts = ipctk.AdditiveCCD(max_iterations=10_000, conservative_rescaling=0.99999)
        self.mesh = ipctk.CollisionMesh(self.x, find_edges(triangles).edges.astype(np.int32), triangles)

    def places(self) -> np.ndarray:
        time = self.simulation.state.t
        return np.concatenate([positions(self.simulation), *(surface.vertices(time) for surface in self.surfaces)])

    def passed(self, on_the_way: bool) -> str | None:
        """Returns what was wrong with the last step: intersections at its end, or collisions on the straight paths."""
        before, self.x = self.x, self.places()
        if count := self.audit.count(self.x):
            return f"{count} pairs of triangles intersect"
        end = self.x - (self.x - before).mean(axis=0)
        if on_the_way and not ipctk.is_step_collision_free(self.mesh, before, end, narrow_phase_ccd=self.impacts):
            return "something passed through something"
        return None


def steps(simulation: Simulation, seconds: float, on_the_way: bool = True) -> Iterator[FrameTally]:
    """Takes steps until a time, one at a time, and asserts that nothing passes through anything.

    The check of the paths can be left out: for layers at rest it takes longer than the simulation.
    """
    judge = Judge(simulation)
    tally, end = FrameTally(), simulation.state.t + seconds
    while simulation.state.t < end - 1e-9:
        simulation.step(simulation.control.fit(end - simulation.state.t), tally)
        assert judge.passed(on_the_way) is None
        yield tally


def walk_on(simulation: Simulation, seconds: float, on_the_way: bool = True) -> None:
    for _ in steps(simulation, seconds, on_the_way):
        pass


def part(simulation: Simulation, number: int, values: np.ndarray) -> np.ndarray:
    """The particles of one sheet."""
    return values[simulation.model.parts[number].particles]


def mean(simulation: Simulation, number: int, values: np.ndarray) -> np.ndarray:
    """The mean over particles, weighted by mass."""
    return np.average(
        part(simulation, number, values), axis=0, weights=part(simulation, number, simulation.model.masses)
    )


def contact_of(simulation: Simulation) -> Any:
    """The running filter self_contact."""
    assert isinstance(simulation.scene.filters[0], SelfContact)
    return simulation.filters[0]


def kinetic_energy(simulation: Simulation) -> float:
    return 0.5 * float(simulation.model.masses @ (simulation.state.v.numpy().astype(float) ** 2).sum(axis=1))
