"""What a scene asks for and nothing in it heeds, or works against: told before the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toile.model.mesh import Mesh
from toile.plugins import Plugin

if TYPE_CHECKING:
    from toile.scene.schema import Cloth, Scene

# Fields about springs across the cells of a cloth, which only rows and columns of threads have.
OF_SHEAR = {
    "spring": ("shear",),
    "strain_deformation_rate": ("shear",),
    "strain_velocity": ("shear_extension", "shear_compression"),
}
NO_CELLS = "has nothing to do: its mesh has no rows and columns of threads, and so no springs across cells"


def unheeded(scene: Scene, meshes: Sequence[Mesh]) -> list[str]:
    """One line for each such thing; what a preset has set for any scene is none."""
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
        yield "rest_stretch does nothing to spring, which keeps to the lengths of the mesh. Use stretch in its place."
    elif "stretch" not in type_names:
        yield "rest_stretch does nothing, because stretch is not among its energies. Add it there."
    for item in scene.filters:
        if item.type_name().startswith("strain_"):
            yield (
                f"{item.type_name()} limits lengths without rest_stretch, and works against it. Leave that filter out, "
                "or make its limits wider by as much."
            )


def _shear(items: Sequence[Plugin]) -> Iterator[str]:
    for item in items:
        for name in OF_SHEAR.get(item.type_name(), ()):
            value = getattr(item, name)
            off = value is None or (item.type_name() == "spring" and value == 0.0)
            if name in item.model_fields_set and not off:
                yield f"{name} = {value:g} of {item.type_name()} {NO_CELLS}. Leave it out; edges count as threads there."
