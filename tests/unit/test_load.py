"""Loading: placement of cloth, regions, warnings and paths of a scene."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from toile.errors import SceneError
from toile.scene.load import load, meshes, scene_names
from toile.scene.schema import Cloth, Scene


@pytest.mark.parametrize("name", scene_names())
def test_every_shipped_scene_loads_and_has_its_own_name(name: str) -> None:
    scene = load(name)
    assert scene.name == name
    assert [mesh.vertex_count > 0 for mesh in meshes(scene)] == [True] * len(scene.cloth)


def test_rotation_comes_before_translation() -> None:
    cloth = Cloth(shape={"type": "grid", "resolution": (3, 2)}, rotation=(30, -40, 50), translation=(1, 2, 3))
    (mesh,) = meshes(Scene(cloth=(cloth,)))
    (still,) = meshes(Scene(cloth=(Cloth(shape=cloth.shape),)))
    turn = Rotation.from_rotvec([30, -40, 50], degrees=True)
    np.testing.assert_allclose(mesh.positions, turn.apply(still.positions) + np.array([1, 2, 3]), atol=1e-14)
    assert np.array_equal(mesh.uv, still.uv)


def test_regions_are_found_in_the_world_and_may_use_each_other() -> None:
    cloth = Cloth(
        shape={"type": "grid", "resolution": (3, 3)},
        translation=(10, 0, 0),
        regions={
            "hem": {"edges": ["lower"]},
            "right": {"box": [[10.4, -1, -1], [11, 1, 1]]},
            "both": {"region": "hem", "indices": [8]},
        },
    )
    (mesh,) = meshes(Scene(cloth=(cloth,)))
    assert {name: region.tolist() for name, region in mesh.regions.items()} == {
        "hem": [0, 1, 2], "right": [2, 5, 8], "both": [0, 1, 2, 8],
    }  # fmt: skip


def test_warnings_name_their_cloth(tmp_path: Path) -> None:
    (tmp_path / "sheet.obj").write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 9 9 9\nf 1 2 3 4\n")
    path = tmp_path / "scene.yaml"
    path.write_text("cloth:\n  - {name: shirt, shape: {type: mesh, file: sheet.obj}}\n")
    (mesh,) = meshes(load(path))
    assert mesh.warnings == (
        'cloth "shirt": 1 faces with more than 3 corners were cut into triangles.',
        'cloth "shirt": the file has no uv: lengths in space are used as rest lengths.',
        'cloth "shirt": 1 vertices belong to no triangle and were removed, the first of them vertex 4; '
        "selections by index keep the numbers of the source.",
    )


def test_paths_are_relative_to_the_folder_of_the_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beside the scene is read from any working directory, and one above it only if that is allowed."""
    folder = tmp_path / "scenes"
    (folder / "elsewhere").mkdir(parents=True)
    monkeypatch.chdir(folder / "elsewhere")
    for place in (tmp_path, folder):
        (place / "sheet.obj").write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3\n")
    for file in ("sheet.obj", "../sheet.obj"):
        (folder / "scene.yaml").write_text(f"cloth: [{{shape: {{type: mesh, file: {file}}}}}]\n")
        (mesh,) = meshes(load(folder / "scene.yaml", allow_outside=True))
        assert mesh.vertex_count == 3
        if file.startswith(".."):
            with pytest.raises(SceneError, match="leads out of the scene's folder"):
                load(folder / "scene.yaml")
        else:
            load(folder / "scene.yaml")
