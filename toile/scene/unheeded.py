"""What a scene asks for and nothing in it heeds, or works against: told before the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toile.model.mesh import Mesh

if TYPE_CHECKING:
    from toile.energies.base import Energy
    from toile.filters.base import Filter
    from toile.scene.schema import Cloth, Scene

NO_CELLS = "has nothing to do: its mesh has no rows and columns of threads, and so no springs across cells"


def unheeded(scene: Scene, meshes: Sequence[Mesh]) -> list[str]:
    """One line for each such thing; what a preset has set for any scene is none."""
    found = []
    for i, (cloth, mesh) in enumerate(zip(scene.cloth, meshes, strict=True)):
        warnings = list(_rest_stretch(cloth, scene))
        if mesh.quads is None:
            warnings += _shear(cloth.energies if ("cloth", i, "energies") not in scene._of_preset else (), (None, 0.0))
            warnings += _shear(scene.filters if ("filters",) not in scene._of_preset else (), (None,))
        found += [f'cloth "{cloth.name}": {line}' for line in warnings]
    return found


def _rest_stretch(cloth: Cloth, scene: Scene) -> Iterator[str]:
    if all(entry.warp == entry.weft == 1.0 for entry in cloth.rest_stretch):
        return
    ignoring = [energy for energy in cloth.energies if energy.resists_stretch and not energy.applies_rest_stretch]
    if ignoring:
        yield (
            f"rest_stretch does nothing to {ignoring[0].type_name()}, which keeps to the lengths of the mesh. "
            "Use stretch in its place."
        )
    elif not any(energy.applies_rest_stretch for energy in cloth.energies):
        yield "rest_stretch does nothing, because stretch is not among its energies. Add it there."
    for item in scene.filters:
        if item.type_name().startswith("strain_"):
            yield (
                f"{item.type_name()} limits lengths without rest_stretch, and works against it. Leave that filter out, "
                "or make its limits wider by as much."
            )


def _shear(items: Sequence[Energy] | Sequence[Filter], off: tuple[float | None, ...]) -> Iterator[str]:
    """Warns of springs across cells on a mesh without cells; values in `off` turn them off."""
    for item in items:
        for name in item.shear_fields:
            value = getattr(item, name)
            if name in item.model_fields_set and value not in off:
                yield f"{name} = {value:g} of {item.type_name()} {NO_CELLS}. Leave it out; edges count as threads there."
