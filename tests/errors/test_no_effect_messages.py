"""Settings of a scene without effect: warnings that name the cloth, the setting, and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from toile.energies.bend_mode import BendMode
from toile.errors import SceneError
from toile.scene.load import meshes
from toile.scene.no_effect import settings_without_effect
from toile.scene.schema import Scene

GRID = {"type": "grid", "resolution": [4, 4]}
DISC = {"type": "disc", "rings": 3}


def messages(
    shape: dict[str, Any], filters: list[Any] | None = None, preset: str = "default", **cloth: Any
) -> list[str]:
    more = {} if filters is None else {"filters": filters}
    scene = Scene(preset=preset, cloth=[{"name": "cuff", "shape": shape, **cloth}], **more)
    found = settings_without_effect(scene, meshes(scene))
    assert all(line.startswith('cloth "cuff": ') for line in found)
    return [line.removeprefix('cloth "cuff": ') for line in found]


NARROW = [{"warp": 0.8}]
KEYED = [{"weft": [[0.0, 1.0], [1.0, 1.2]]}]
TO_SPRINGS = "rest_stretch has no effect on spring, which keeps the lengths of the mesh. Use stretch instead."


@pytest.mark.parametrize("rest_stretch", [NARROW, KEYED])
def test_rest_stretch_of_springs(rest_stretch: list[Any]) -> None:
    assert messages(GRID, rest_stretch=rest_stretch, energies=["spring", "bend_mode"]) == [TO_SPRINGS]
    assert messages(GRID, rest_stretch=rest_stretch, energies=["spring", "stretch"]) == [TO_SPRINGS]
    assert messages(GRID, rest_stretch=rest_stretch, energies=["bend_mode"]) == [
        "rest_stretch has no effect, because stretch is not among the energies. Add it there."
    ]
    assert messages(GRID, rest_stretch=rest_stretch) == []
    assert messages(GRID, rest_stretch=[{"warp": 1.0}], energies=["spring"]) == []


@pytest.mark.parametrize("type_name", ["strain_impulse", "strain_velocity", "strain_deformation_rate"])
def test_rest_stretch_and_limits_of_lengths(type_name: str) -> None:
    (line,) = messages(GRID, [type_name, "self_contact"], rest_stretch=NARROW)
    assert line == (
        f"{type_name} limits lengths without regard to rest_stretch, and works against it. Remove that filter, or "
        "widen its limits by the same amount."
    )
    assert messages(GRID, [type_name]) == []
    assert messages(GRID, ["self_contact"], rest_stretch=NARROW) == []


@pytest.mark.parametrize(("key", "type_name", "name"), [
    ("energies", "spring", "shear"),
    ("filters", "strain_deformation_rate", "shear"),
    ("filters", "strain_velocity", "shear_extension"),
    ("filters", "strain_velocity", "shear_compression"),
])  # fmt: skip
def test_shear_springs_of_a_mesh_without_cells(key: str, type_name: str, name: str) -> None:
    def with_value(shape: dict[str, Any], value: float | None) -> list[str]:
        return messages(shape, **{key: [{"type": type_name, name: value}]})

    assert with_value(GRID, 0.2) == []
    assert with_value(DISC, None) == []
    assert messages(DISC, **{key: [type_name]}) == []  # its default
    (line,) = with_value(DISC, 0.2)
    assert line == (
        f"{name} = 0.2 of {type_name} has no effect: the mesh has no rows and columns of threads, so there are no "
        "springs across its cells. Remove it; edges act as threads there."
    )
    assert len(with_value(DISC, 0.0)) == (
        type_name != "spring"
    )  # K = 0 means no springs; a limit of 0 is the strictest one


@pytest.mark.parametrize("preset", ["pro95", "bmf03", "ye08"])
def test_presets_do_not_warn_for_any_mesh(preset: str) -> None:
    assert messages(DISC, preset=preset) == []


def test_buckling_needs_a_stiffness() -> None:
    """Its springs take the stiffness of the fabric; where that is 0, there would be no bending resistance."""

    def scene(thread: str, **settings: float) -> Scene:
        energies = ["stretch", {"type": "bend_buckling", **settings}]
        return Scene(name="cuff", cloth=[{"shape": GRID, "fabric": {f"stretch_{thread}": 0.0}, "energies": energies}])

    for thread in ("warp", "weft"):
        with pytest.raises(SceneError) as caught:
            meshes(scene(thread))
        assert str(caught.value) == (
            "cuff  cloth[0].energies[1]: does not resist bending: its springs take their stiffness from the fabric, "
            f"whose stretch_{thread} is 0. Give it a stiffness > 0 [N/m]."
        )
        meshes(scene(thread, stiffness=10.0))
        meshes(scene(thread, rigidity=0.0))  # a rigidity of 0 needs no springs


@pytest.mark.parametrize("value", [True, False])
def test_a_rest_angle_is_not_true_or_false(value: bool) -> None:
    with pytest.raises(ValidationError, match='must be "flat", "shape", a number of degrees'):
        BendMode(rest_angle=value)
