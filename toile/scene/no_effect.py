"""Warnings about settings of a scene that have no effect, or that another setting works against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toile.model.mesh import Mesh

if TYPE_CHECKING:
    from toile.energies.base import Energy
    from toile.filters.base import Filter
    from toile.scene.schema import Cloth, Scene

NO_CELLS = "has no effect: the mesh has no rows and columns of threads, so there are no springs across its cells"


def settings_without_effect(scene: Scene, meshes: Sequence[Mesh]) -> list[str]:
    """Returns one warning for each such setting; those of presets, which serve any scene, are left out."""
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
            f"rest_stretch has no effect on {ignoring[0].type_name()}, which keeps the lengths of the mesh. "
            "Use stretch instead."
        )
    elif not any(energy.applies_rest_stretch for energy in cloth.energies):
        yield "rest_stretch has no effect, because stretch is not among the energies. Add it there."
    for item in scene.filters:
        if item.limits_lengths:
            yield (
                f"{item.type_name()} limits lengths without regard to rest_stretch, and works against it. Remove that "
                "filter, or widen its limits by the same amount."
            )


def _shear(items: Sequence[Energy] | Sequence[Filter], off: tuple[float | None, ...]) -> Iterator[str]:
    """Warns of springs across cells on a mesh without cells; values in `off` turn them off."""
    for item in items:
        for name in item.shear_fields:
            value = getattr(item, name)
            if name in item.model_fields_set and value not in off:
                yield f"{name} = {value:g} of {item.type_name()} {NO_CELLS}. Remove it; edges act as threads there."
