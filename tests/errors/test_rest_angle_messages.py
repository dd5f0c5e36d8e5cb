"""Messages for rest angles that cannot be used, and files of rest shapes that can, whatever their faces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toile.energies.bend_mode import BendMode
from toile.errors import SceneError
from toile.model.rest_shape import REMEDY, read_rest_shape
from toile.scene.load import load
from toile.shapes.grid import Grid
from toile.shapes.mesh import Mesh as MeshShape

SHEET = Grid(size=(2.0, 2.0), resolution=(3, 3)).mesh(Path())
FACES = [[int(corner) + 1 for corner in face] for face in SHEET.triangles]


def obj(folder: Path, positions: np.ndarray = SHEET.positions, faces: list[list[int]] = FACES) -> None:
    lines = [f"v {x} {y} {z}" for x, y, z in positions.tolist()] + [f"f {' '.join(map(str, face))}" for face in faces]
    (folder / "sculpted.obj").write_text("\n".join(lines) + "\n", encoding="utf-8")


def problem(folder: Path, rest_angle: str) -> str:
    """The only problem of a scene, without the file's name and line."""
    (folder / "scene.yaml").write_text(
        "version: 1\ncloth:\n  - shape: {type: grid, size: [2, 2], resolution: [3, 3]}\n"
        f"    energies: [stretch, {{type: bend_mode, rest_angle: {rest_angle}}}]\n",
        encoding="utf-8",
    )
    with pytest.raises(SceneError) as caught:
        load(folder / "scene.yaml")
    (found,) = caught.value.problems
    place, text = found.split("  ", 1)
    assert place.endswith("scene.yaml:4")
    return text


KEY = "cloth[0].energies[1].rest_angle"


@pytest.mark.parametrize(("value", "text"), [
    ("flt", f'{KEY} = "flt": must be "flat", "shape", a number of degrees, or the path of a mesh file.'),
    ("[30, 40]", f'{KEY}: must be "flat", "shape", a number of degrees, or the path of a mesh file.'),
    ("180", f"{KEY}: 180 must be between -180 and 180 [deg]."),
    ("-200.5", f"{KEY}: -200.5 must be between -180 and 180 [deg]."),
    (".nan", f"{KEY}: nan must be between -180 and 180 [deg]."),
    ("yes", f"{KEY} = true: must be a number."),
    ("shape.txt", f'{KEY} = "shape.txt": cannot read "shape.txt": not a mesh format that Toile knows.'),
    ("../fold.obj", f'{KEY} = "../fold.obj": leads out of the scene\'s folder.'),
    ("http://x.org/a.obj", f'{KEY} = "http://x.org/a.obj": is a URL; only local files are read.'),
])  # fmt: skip
def test_invalid_values_are_reported(value: str, text: str, tmp_path: Path) -> None:
    assert problem(tmp_path, value).startswith(text)


def test_a_missing_file(tmp_path: Path) -> None:
    obj(tmp_path)
    found = problem(tmp_path, "sculpt.obj")
    assert found.startswith(f'{KEY} = "sculpt.obj": no such file: ')
    assert found.endswith('Did you mean "sculpted.obj"?')


def test_another_number_of_vertices(tmp_path: Path) -> None:
    obj(tmp_path, np.concatenate([SHEET.positions, [[0.0, 0.0, 1.0]]]))
    assert problem(tmp_path, "sculpted.obj") == (
        f'{KEY} = "sculpted.obj": has 10 vertices, but the cloth has 9. {REMEDY}'
    )


def test_other_triangles(tmp_path: Path) -> None:
    """Two triangles differ, as when a tool has flipped a diagonal."""
    a, b, c = FACES[0]
    d = next(corner for corner in FACES[1] if corner not in FACES[0])
    other = next(corner for corner in FACES[0] if corner not in FACES[1])
    shared = [corner for corner in (a, b, c) if corner != other]
    obj(tmp_path, faces=[[other, shared[0], d], [other, d, shared[1]], *FACES[2:]])
    corners = ", ".join(str(corner - 1) for corner in FACES[0])
    assert problem(tmp_path, "sculpted.obj") == (
        f'{KEY} = "sculpted.obj": triangle 0 (vertices {corners}) of the cloth is not in the file (2 such). {REMEDY}'
    )


def test_a_triangle_without_area(tmp_path: Path) -> None:
    flat = SHEET.positions.copy()
    flat[SHEET.triangles[0][0]] = flat[SHEET.triangles[0][1:]].mean(axis=0)
    obj(tmp_path, flat)
    found = problem(tmp_path, "sculpted.obj")
    assert "has no area in the file, so its angles are undefined." in found


def test_positions_that_are_not_finite(tmp_path: Path) -> None:
    broken = SHEET.positions.copy()
    broken[4, 2] = np.inf
    obj(tmp_path, broken)
    assert "vertex 4" in problem(tmp_path, "sculpted.obj")


def test_faces_may_be_quads_in_any_order(tmp_path: Path) -> None:
    """Only positions are read: the diagonals of quads and the winding of faces are those of the cloth."""
    assert SHEET.quads is not None
    quads = [[int(corner) + 1 for corner in quad][::-1] for quad in SHEET.quads[::-1]]
    moved = SHEET.positions + np.array([1.0, 2.0, 3.0])
    obj(tmp_path, moved, quads)
    np.testing.assert_allclose(read_rest_shape(tmp_path / "sculpted.obj", SHEET), moved)


def test_vertices_keep_the_numbers_of_the_cloths_own_file(tmp_path: Path) -> None:
    """A file with welded or unused vertices, for the cloth and again for its rest angles."""
    positions = np.concatenate([SHEET.positions, SHEET.positions[[4]]])
    faces = [[10 if corner == 5 and k % 2 else corner for corner in face] for k, face in enumerate(FACES)]
    obj(tmp_path, positions, faces)
    mesh = MeshShape(file="sculpted.obj", weld=True).mesh(tmp_path)
    assert mesh.vertex_count == 9
    np.testing.assert_allclose(read_rest_shape(tmp_path / "sculpted.obj", mesh), SHEET.positions)


def test_numbers_may_be_written_as_text() -> None:
    assert BendMode(rest_angle="3e1").rest_angle == 30.0
    assert BendMode(rest_angle=-30).rest_angle == -30.0
