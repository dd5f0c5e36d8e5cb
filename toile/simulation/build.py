"""From a scene to what a simulation is made of: energies, forces, solids, velocities to start with; and its hashes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from toile.energies.gravity import Gravity
from toile.energies.stretch import Stretch
from toile.scene.schema import solid_names
from toile.system.assembly import PenaltyForce, Term, make_term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toile.colliders.base import Solid
    from toile.colliders.solids import Solids
    from toile.energies.base import Energy
    from toile.model.frame import Surface
    from toile.model.mesh import Mesh
    from toile.model.model import Model
    from toile.scene.schema import Cloth, Scene


def build_energies(scene: Scene, meshes: list[Mesh]) -> list[tuple[Energy, int]]:
    """Each cloth's own energies, with what is in their files, and the number of the cloth."""
    return [
        (energy.read(mesh, scene._folder, scene._allow_outside), number)
        for number, (cloth, mesh) in enumerate(zip(scene.cloth, meshes, strict=True))
        for energy in cloth.energies
    ]


def build_terms(
    scene: Scene, energies: list[tuple[Energy, int]], model: Model, device: str, forces: Sequence[Energy] = ()
) -> list[Term | PenaltyForce]:
    """Everything that acts on the cloth: each cloth's own energies, gravity, the scene's forces, and further ones."""
    if not scene.cloth:
        return []
    acting: list[tuple[Energy, int | None]] = list(energies)
    acting += [(Gravity(acceleration=scene.gravity), None), *((force, None) for force in (*scene.forces, *forces))]
    return [make_term(energy, model, part, device, scene.seed) for energy, part in acting]


def build_solids(scene: Scene, device: str) -> list[Solid]:
    """The scene's solids, each with a name of its own."""
    solids = [settings.build(scene._folder, scene._allow_outside, device) for settings in scene.solids]
    for solid, name in zip(solids, solid_names(scene.solids), strict=True):
        solid.name = name
        warnings = [*solid.warnings, *solid.teleports(1.0 / scene.time.fps)]
        solid.warnings = tuple(f'solid "{solid.name}": {warning}' for warning in warnings)
    return solids


def start_velocities(scene: Scene, model: Model, positions: np.ndarray) -> np.ndarray:
    velocities = np.zeros_like(positions)
    for cloth, part in zip(scene.cloth, model.parts, strict=True):
        x = positions[part.particles]
        velocities[part.particles] = np.array(cloth.velocity) + np.cross(cloth.spin, x - x.mean(axis=0))
    return velocities


def is_limited(cloth: Cloth) -> bool:
    """Whether its stretch keeps inside the extension of its fabric."""
    return any(isinstance(energy, Stretch) and energy.limit_stiffness > 0.0 for energy in cloth.energies)


def hashes(surface: Surface, solids: Solids, energies: list[tuple[Energy, int]]) -> dict[str, str]:
    """Of what came from files or was made: two runs with the same scene and the same hashes had the same input."""
    arrays = {"cloth": [surface.rest, surface.triangles, surface.uv]}
    arrays |= {f'solid "{solid.name}"': solid.content() for solid in solids}
    arrays["energies"] = [array for energy, _ in energies for array in energy.content()]
    return {name: hash_of(*(np.ascontiguousarray(a).tobytes() for a in each)) for name, each in arrays.items()}


def hash_of(*pieces: bytes) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
