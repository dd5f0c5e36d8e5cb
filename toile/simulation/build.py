"""Builds everything that a simulation consists of, in one order, so that each constructor gets finished objects.

    meshes -> model -> solids -> terms -> constraints -> solid contacts -> filters -> system -> contacts -> integrator
"""  # fmt: skip

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import warp as wp

from toile.colliders.features import held_distance, largest_covering_radius, takes_part
from toile.colliders.solids import Solids
from toile.constraints.base import Constraint
from toile.constraints.scene_constraints import SceneConstraints
from toile.constraints.solid_contact import SolidContact
from toile.contact.solid.easing import Easing
from toile.contact.solid.solid_contacts import SolidContacts
from toile.device.timers import Timers
from toile.energies.gravity import Gravity
from toile.filters.base import Correction, FilterContext, VelocityLimit
from toile.integrators.base import IntegratorContext, Stepper
from toile.math.types import real
from toile.model.corrections import Corrections
from toile.model.frame import Part, SolidSurface, Surface
from toile.model.model import Model, build_model
from toile.model.state import State
from toile.scene.load import meshes as load_meshes
from toile.scene.schema import solid_names
from toile.simulation.energy_balance import EnergyBalance
from toile.simulation.step_control import StepControl
from toile.simulation.strain import Strain
from toile.step_limits import MAX_IMPROVEMENTS
from toile.system.contacts import Contacts
from toile.system.system import System
from toile.system.terms import ForceTerm, Term, make_term

if TYPE_CHECKING:
    from toile.energies.base import Energy
    from toile.model.mesh import Mesh
    from toile.post.base import FrameProcessor
    from toile.scene.schema import Cloth, Scene


@dataclass(frozen=True)
class Parts:
    """The finished parts of a simulation."""

    scene: Scene
    device: str
    meshes: list[Mesh]
    model: Model
    surface: Surface
    solids: Solids
    energies: list[tuple[Energy, int]]  # of each cloth, with the number of the cloth
    system: System
    constraints: SceneConstraints
    corrections: Corrections
    contacts: Contacts
    filters: list[Correction]
    integrator: Stepper
    post: list[FrameProcessor]
    control: StepControl
    strain: Strain
    timers: Timers
    state: State


def build(scene: Scene, device: str, forces: Sequence[Energy] = ()) -> Parts:
    """Builds the parts of a scene; `forces` act besides those that the scene names."""
    meshes = load_meshes(scene)
    model = _build_model(scene, meshes)
    positions = np.concatenate([mesh.positions for mesh in meshes]) if meshes else np.zeros((0, 3))
    state = State.of(positions, _start_velocities(scene, model, positions), device)
    solids = _build_solids(scene, model, device)
    timers = Timers(device)
    control = StepControl(min(scene.time.max_step, 1.0 / scene.time.fps), scene.time.min_step)
    energies = _build_energies(scene, meshes)
    terms = _build_terms(scene, energies, model, device, forces)
    masses = wp.array(model.masses, dtype=real, device=device)
    corrections = Corrections(model.particle_count, device)
    settings = _solid_contact(scene) if solids and model.particle_count else None
    constraints = SceneConstraints(
        constrained_particles(scene, model), model.particle_count, device, with_contacts=settings is not None
    )
    solid_contacts = None
    if settings is not None:
        layers = any(item.resolves_cloth_contact for item in scene.filters)
        easing = Easing(model.edges, model.edge_lengths(0.0), model.particle_count, device)
        solid_contacts = SolidContacts(
            settings, solids, constraints.state, corrections, masses, scene.gravity, control.max_step, layers, easing
        )
        solid_contacts.start(state.x, 0.0)
    extensions = np.min([item.extensions(model) for item in scene.filters], axis=0, initial=np.inf)
    context = FilterContext(
        model, masses, constraints.state, corrections, solids, solid_contacts, control.max_step, extensions
    )
    filters = [item.start(context) for item in scene.filters]
    system = System(model, terms, device, [force for item in filters for force in item.contact_forces], masses)
    contacts = Contacts(system, solid_contacts, filters, timers, scene.integrator.applies_limits)
    limited = [_keeps_inside_extension(cloth) for cloth in scene.cloth]
    limits_few = any(correction.limits_few for correction in filters)
    strain = Strain(model, device, limited, scene.time.max_excess is not None, limits_few)
    limits = [cast(VelocityLimit, correction) for correction in filters if correction.limits_velocity]
    needs = _judge(strain, EnergyBalance(system), contacts)
    integrator = scene.integrator.start(
        IntegratorContext(system, constraints, corrections, contacts, limits, scene.solver, timers, needs)
    )
    return Parts(
        scene=scene,
        device=device,
        meshes=meshes,
        model=model,
        surface=_build_surface(scene, model, positions, solids),
        solids=solids,
        energies=energies,
        system=system,
        constraints=constraints,
        corrections=corrections,
        contacts=contacts,
        filters=filters,
        integrator=integrator,
        post=[item.start(solids, device) for item in scene.post],
        control=control,
        strain=strain,
        timers=timers,
        state=state,
    )


def _judge(
    strain: Strain, balance: EnergyBalance, contacts: Contacts
) -> Callable[[State, wp.array, wp.array, wp.array, int], bool]:
    """Returns the function that says whether a step is linearized once more, after `added` others."""

    def needs_linearization(state: State, x: wp.array, u: wp.array, force: wp.array, added: int) -> bool:
        if added == 0:
            balance.begin_step()
        changes = strain.changes(state.x, x)
        if strain.needs_linearization(changes, added, contacts.found):
            return True
        if strain.few_too_long(changes, contacts.found):  # with their energy
            return False
        return added < MAX_IMPROVEMENTS and contacts.between_cloths and balance.gains(state, x, u, force)

    return needs_linearization


def constrained_particles(scene: Scene, model: Model) -> list[tuple[Constraint, np.ndarray]]:
    """Returns the constraints of a scene with the particles that they hold, numbered in the whole model."""
    found = []
    for constraint in scene.constraints:
        if isinstance(constraint, Constraint):
            part = model.part_named(constraint.cloth)
            found.append((constraint, constraint.where.resolve(part.mesh) + part.particles.start))
    return found


def _build_model(scene: Scene, meshes: list[Mesh]) -> Model:
    cloths = scene.cloth
    return build_model(
        [cloth.name for cloth in cloths],
        meshes,
        [cloth.fabric for cloth in cloths],
        [cloth.rest_stretch for cloth in cloths],
        [cloth.thickness for cloth in cloths],
    )


def _build_surface(scene: Scene, model: Model, positions: np.ndarray, solids: Solids) -> Surface:
    return Surface(
        model.triangles,
        model.uv,
        positions,
        tuple(Part(p.name, p.particles, p.triangles, p.fabric.name, p.fabric.properties()) for p in model.parts),
        scene.time.fps,
        tuple(SolidSurface(s.name, s.triangles, s.vertices(0.0), s.moves) for s in solids),
    )


def _build_energies(scene: Scene, meshes: list[Mesh]) -> list[tuple[Energy, int]]:
    """Each cloth's own energies, with the contents of their files, and the number of the cloth."""
    return [
        (energy.read(mesh, scene._folder, scene._allow_outside), number)
        for number, (cloth, mesh) in enumerate(zip(scene.cloth, meshes, strict=True))
        for energy in cloth.energies
    ]


def _build_terms(
    scene: Scene, energies: list[tuple[Energy, int]], model: Model, device: str, forces: Sequence[Energy]
) -> list[Term | ForceTerm]:
    """Everything that acts on the cloth: each cloth's own energies, gravity, the scene's forces, and further ones."""
    if not scene.cloth:
        return []
    acting: list[tuple[Energy, int | None]] = list(energies)
    acting += [(Gravity(acceleration=scene.gravity), None), *((force, None) for force in (*scene.forces, *forces))]
    return [make_term(energy, model, part, device, scene.seed) for energy, part in acting]


def _build_solids(scene: Scene, model: Model, device: str) -> Solids:
    """The scene's solids, each with a name of its own, and those of them whose faces and edges take part."""
    solids = [settings.build(scene._folder, scene._allow_outside, device) for settings in scene.solids]
    for index, (solid, name) in enumerate(zip(solids, solid_names(scene.solids), strict=True)):
        solid.name, solid.index = name, index
        warnings = [*solid.warnings, *solid.teleports(1.0 / scene.time.fps)]
        solid.warnings = tuple(f'solid "{solid.name}": {warning}' for warning in warnings)
    rho, contact = largest_covering_radius(model.uv * model.largest_rest_stretch()), _solid_contact(scene)
    if contact is None:  # a filter in its place holds vertices at its own distance
        gaps = [min(getattr(item, "thickness", 0.0) for item in scene.filters if item.keeps_out_of_solids)] * len(
            solids
        )
    else:
        gaps = [held_distance(solid.settings, rho, contact.thickness) for solid in solids]
    surfaces = [
        solid.contact_surface(gap or SolidContact().thickness)
        for solid, gap in zip(solids, gaps, strict=True)
        if takes_part(solid.settings, rho, gap)
    ]
    return Solids(solids, device, surfaces, gaps)


def _solid_contact(scene: Scene) -> SolidContact | None:
    """Returns the settings of contact with solids: the scene's own, or the default unless a filter replaces it."""
    given = [cast(SolidContact, item) for item in scene.constraints if item.keeps_out_of_solids]
    if given:
        return given[0]
    return None if any(item.keeps_out_of_solids for item in scene.filters) else SolidContact()


def _keeps_inside_extension(cloth: Cloth) -> bool:
    return any(energy.keeps_inside_extension for energy in cloth.energies)


def _start_velocities(scene: Scene, model: Model, positions: np.ndarray) -> np.ndarray:
    velocities = np.zeros_like(positions)
    for cloth, part in zip(scene.cloth, model.parts, strict=True):
        x = positions[part.particles]
        velocities[part.particles] = np.array(cloth.velocity) + np.cross(cloth.spin, x - x.mean(axis=0))
    return velocities
