"""Cloth on cloth: nothing passes through anything, in any step, whatever the integrator did.

    springs in the linear system, with friction -> impulses for what they left -> a fail-safe

It changes the candidate of a step: positions and velocities at its end. Held directions do not change. A step whose
contacts cannot be resolved is repeated with half its size.

Cloth that starts tangled is not refused. Intersecting triangles, and their neighbors, may pass through each other until
they have come apart; every step moves them apart a little, and from then on nothing passes there either.

Source      [BFA02]; its parts are in toile/contact
Deviations  see there
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import warp as wp

from toile.contact.collision_mesh import CollisionMesh
from toile.contact.response.contact_springs import ContactSprings
from toile.contact.response.impact_losses import ImpactLosses
from toile.contact.response.resolve import CLOTH_CAUGHT, ContactResolver
from toile.contact.response.stretch_limits import StretchLimits
from toile.contact.untangle.untangle import Untangler
from toile.device.launcher import Launcher
from toile.filters.base import Correction, Filter, FilterContext
from toile.math.types import mat33, numpy_real, real, vec3
from toile.model.model import Model
from toile.model.state import State
from toile.model.state_dict import StateDict
from toile.plugins import quantity
from toile.step_limits import IMPACT

if TYPE_CHECKING:
    from toile.colliders.base import Solid

# Distance by which one step moves tangled cloth apart, in thicknesses
UNTANGLING = 1.0
# Thickness [m] of cloth that has none of its own in a scene that gives none, unless THICK allows less
USUAL_THICKNESS = 1e-3
# Largest thickness by default, as a fraction of the shortest edge of a cloth; given ones that are larger are kept, with
# a warning. Neighbors in one cloth keep half of their rest distance.
THICK = 0.5


class SelfContact(Filter):
    """Contact of cloth with itself and with other cloths; it must be the last filter."""

    resolves_cloth_contact: ClassVar[bool] = True
    must_be_last: ClassVar[bool] = True

    thickness: float | None = quantity(
        None,
        unit="m",
        doc="distance that layers keep; by default 1 mm, at most half the shortest edge; a cloth may have its own",
        gt=0,
    )
    friction: float = quantity(0.3, doc="Coulomb's coefficient between cloths", ge=0)

    def advice(self, model: Model, max_step: float | None) -> list[str]:
        """Warns of cloths that are too thick for their meshes."""
        warnings, thickness = [], self.thicknesses(model)
        for part, shortest in zip(model.parts, shortest_edges(model), strict=True):
            first = part.particles.start
            if thickness[first] > THICK * shortest:
                whose = "the thickness of self_contact" if part.thickness is None else "its thickness"
                warnings.append(
                    f'cloth "{part.name}": {whose}, {thickness[first]:.3g} m, is more than half its shortest edge, '
                    f"{shortest:.3g} m. Its folds cannot close, and contact is slow: choose at most "
                    f"{THICK * shortest:.3g} m, or a coarser mesh."
                )
        return warnings

    def thicknesses(self, model: Model) -> np.ndarray:
        """Returns the thickness of the cloth at each particle [m]."""
        if self.thickness is not None:
            return model.thicknesses(self.thickness)
        found = model.thicknesses(USUAL_THICKNESS)
        for part, shortest in zip(model.parts, shortest_edges(model), strict=True):
            if part.thickness is None:
                found[part.particles] = min(USUAL_THICKNESS, THICK * shortest)
        return found

    def start(self, context: FilterContext) -> Correction:
        return SelfContactCorrection(self, context)


def shortest_edges(model: Model) -> list[float]:
    """Returns the rest length of the shortest edge of each cloth [m]."""
    lengths, own = model.edge_lengths(0.0), model.edges[:, 0]
    return [
        float(np.min(lengths[(own >= part.particles.start) & (own < part.particles.stop)], initial=np.inf))
        for part in model.parts
    ]


class SelfContactCorrection(Correction):
    """Resolves the contacts between cloths of a candidate."""

    stage = "C/C"

    def __init__(self, settings: SelfContact, context: FilterContext):
        self.settings, self.context = settings, context
        model = context.model
        thickness = settings.thicknesses(model)
        device = str(context.masses.device)
        self.collision_mesh = CollisionMesh(model, context.solids.contact_surfaces, thickness, device)
        limits = StretchLimits(model, context.extensions, device)
        self.limits_few = limits.any
        self.resolver = ContactResolver(
            self.collision_mesh, settings.friction, context.max_step, limits, context.solid_contacts
        )
        self.springs = ContactSprings(self.collision_mesh, self.resolver.contact_set, self._find, self._add_impacts)
        self.contact_forces = (self.springs,)
        mesh = self.collision_mesh
        inverse_masses = np.where(mesh.masses > 0.0, 1.0 / np.maximum(mesh.masses, 1e-300), 0.0)  # [1/kg]
        self.untangler: Untangler | None = Untangler(
            mesh.edges, mesh.triangles, mesh.count, mesh.moving_count,
            wp.array(inverse_masses.astype(numpy_real), dtype=real, device=device), device,
        )  # fmt: skip
        self._losses = ImpactLosses(self.collision_mesh, self.springs, self.resolver)
        self._launch = Launcher(device)

    def apply(self, state: State, state_out: State, h: float) -> str | None:
        mesh = self.collision_mesh
        if not mesh.moving_count:
            return None
        mesh.set_candidate(state_out.x, state_out.v)
        self._update_inverse_mass()
        self.resolver.caught.drop_pairs()
        if self.untangler is not None:
            self._move_apart(self.untangler)
        self.springs.allow_rebounds()
        solids = self.context.solid_contacts
        in_contact = self.springs.count > 0 or (solids is not None and solids.any)
        trouble = self.resolver.resolve(self.context.planes, h, in_contact)
        if trouble is None:
            corrections = self.context.corrections
            before, after = [state_out.x, state_out.v], [mesh.x_end, mesh.v_end]
            self.springs.add_impacts_to(state.v, state_out.v, corrections.dx, corrections.dv)
            self._launch(note_changes, mesh.moving_count, [*before, *after, corrections.dx, corrections.dv])
            corrections.impact = self._losses.exceed(IMPACT, state.v)
            mesh.finish(state_out.x, state_out.v)
        return trouble

    def _find(self, x: wp.array, v: wp.array, h: float) -> None:
        """Finds the contacts that a step begins with."""
        mesh = self.collision_mesh
        if not mesh.moving_count:
            return
        mesh.begin(x, v, self.context.constraints, *self.context.step(h))
        self._update_inverse_mass()
        if self.untangler is not None:
            self._exempt(self.untangler)
        self.resolver.detect(h)

    def _add_impacts(self, x: wp.array) -> int:
        """Adds contacts of pairs that collide on the way to x."""
        self.collision_mesh.set_candidate(x)
        return self.resolver.add_impacts()

    def _update_inverse_mass(self) -> None:
        constraints = self.context.constraints
        masses, planes = self.context.masses, self.context.planes
        self.collision_mesh.update_inverse_mass(masses, constraints.S, constraints.S_user, planes)

    def accept(self) -> None:
        self.springs.accept()
        self.resolver.accept()
        solids = self.context.solid_contacts
        self.resolver.caught.end_step(None if solids is None else solids.let_go())

    def state_dict(self) -> StateDict:
        tangled = self.untangler is not None
        known: StateDict = {"tangled": tangled, "hard": self.resolver.hard, "caught": self.resolver.caught.by}
        return {**known, **self.springs.state_dict()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        if not state_dict["tangled"]:
            self.untangler = None
        self.resolver.hard = bool(state_dict["hard"])
        self.resolver.caught.load(np.asarray(state_dict["caught"]))
        self.springs.load_state_dict(state_dict)

    def _exempt(self, untangler: Untangler) -> None:
        """Exempts tangled cloth from contact. Once nothing is tangled, nothing will be."""
        mesh = self.collision_mesh
        tangled = untangler.exempt(mesh.x)
        exempt = np.zeros(mesh.count, np.int32)
        exempt[mesh.triangles[tangled].ravel()] = 1
        self.resolver.contact_set.exempt.assign(exempt)
        if not tangled.any():
            self.untangler = None

    def _move_apart(self, untangler: Untangler) -> None:
        """Moves tangled cloth apart."""
        mesh = self.collision_mesh
        d = untangler.displacements(mesh.x, UNTANGLING * (self.settings.thickness or mesh.thickest))
        inputs = [mesh.inverse_mass, self.context.masses, d, mesh.x_end]
        self._launch(add_displacements, mesh.moving_count, inputs)

    def contact_count(self) -> int:
        return self.resolver.contact_count

    def forces_on_solids(self) -> "list[tuple[Solid, np.ndarray]]":
        solids = self.collision_mesh.of_solids()
        if not solids or not self.springs.in_system:
            return []
        forces = self.springs.forces_on_vertices()
        return [(solid, forces[vertices].sum(axis=0)) for solid, vertices in solids]

    def caught_by(self) -> np.ndarray | None:
        caught = self.resolver.caught
        return caught.by if caught.any else None

    def truncated_count(self) -> int:
        return self.resolver.truncated_count

    def vertices_in_contact(self) -> np.ndarray:
        found = np.unique(self.resolver.contact_set.vertices_of(0))
        return found[found < self.collision_mesh.moving_count]

    def remedy(self, trouble: str, pinned: np.ndarray) -> str | None:
        """Names pins that drive cloth through cloth, and solids that leave it no room, at any step size."""
        mesh, caught = self.collision_mesh, self.resolver.caught_vertices
        solid = caught[caught >= len(pinned)]
        held = caught[np.isin(caught, np.flatnonzero(pinned))]
        way = (mesh.x_end.numpy() - mesh.x.numpy())[[*held, *solid]]
        if trouble != CLOTH_CAUGHT:
            return None
        if not len(held) and len(solid):
            of = (one for one, vertices in mesh.of_solids() if vertices.start <= solid[0] < vertices.stop)
            return (
                f'The faces of solid "{next(of).name}" leave cloth no room at vertex {caught[0]}: change its motion, '
                "or set sharp: false on it."
            )
        if not len(held) or np.ptp(way, axis=0).max() == 0.0:
            return None
        own = {f'cloth "{part.name}"': part.particles for part in self.context.model.parts}
        names = [name for name, of in own.items() if ((caught >= of.start) & (caught < of.stop)).any()]
        names += ["a solid"] if len(solid) else []
        where = next(f"{held[0] - of.start} of {name}" for name, of in own.items() if held[0] < of.stop)
        through = "each other" if len(names) > 1 else "itself"
        return f"Pins move {' and '.join(names)} through {through} at vertex {where}: change their motion."


@wp.kernel
def add_displacements(
    # in
    inverse_mass: wp.array(dtype=mat33), masses: wp.array(dtype=real), displacements: wp.array(dtype=vec3),
    # in and out
    x_end_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    x_end_out[i] = x_end_out[i] + masses[i] * (inverse_mass[i] * displacements[i])


@wp.kernel
def note_changes(
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
    # in and out
    dx_out: wp.array(dtype=vec3), dv_out: wp.array(dtype=vec3),
):  # fmt: skip
    i = wp.tid()
    dx_out[i] = dx_out[i] + (x_end[i] - x[i])
    dv_out[i] = dv_out[i] + (v_end[i] - v[i])
