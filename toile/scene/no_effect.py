"""Warnings about settings of a scene that have no effect, or that another setting works against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toile.model.mesh import Mesh
from toile.plugins import Plugin

if TYPE_CHECKING:
    from toile.scene.schema import Cloth, Scene

# Fields about shear springs, which cross the cells of a mesh and exist only where it has rows and columns of threads.
OF_SHEAR = {
    "spring": ("shear",),
    "strain_deformation_rate": ("shear",),
    "strain_velocity": ("shear_extension", "shear_compression"),
}
NO_CELLS = "has no effect: the mesh has no rows and columns of threads, so there are no springs across its cells"


def settings_without_effect(scene: Scene, meshes: Sequence[Mesh]) -> list[str]:
    """Returns one warning for each such setting; those of presets, which serve any scene, are left out."""
    found = []
    for i, (cloth, mesh) in enumerate(zip(scene.cloth, meshes, strict=True)):
        warnings = list(_rest_stretch(cloth, scene))
        if mesh.quads is None:
            warnings += _shear(cloth.energies if ("cloth", i, "energies") not in scene._of_preset else ())
            warnings += _shear(scene.filters if ("filters",) not in scene._of_preset else ())
        found += [f'cloth "{cloth.name}": {line}' for line in warnings]
    return found


def _rest_stretch(cloth: Cloth, scene: Scene) -> Iterator[str]:
    if all(entry.warp == entry.weft == 1.0 for entry in cloth.rest_stretch):
        return
    type_names = [energy.type_name() for energy in cloth.energies]
    if "spring" in type_names:
        yield "rest_stretch has no effect on spring, which keeps the lengths of the mesh. Use stretch instead."
    elif "stretch" not in type_names:
        yield "rest_stretch has no effect, because stretch is not among the energies. Add it there."
    for item in scene.filters:
        if item.limits_lengths:
            yield (
                f"{item.type_name()} limits lengths without regard to rest_stretch, and works against it. Remove that "
                "filter, or widen its limits by the same amount."
            )


def _shear(items: Sequence[Plugin]) -> Iterator[str]:
    for item in items:
        for name in OF_SHEAR.get(item.type_name(), ()):
            value = getattr(item, name)
            off = value is None or (item.type_name() == "spring" and value == 0.0)
            if name in item.model_fields_set and not off:
                yield f"{name} = {value:g} of {item.type_name()} {NO_CELLS}. Remove it; edges act as threads there."
