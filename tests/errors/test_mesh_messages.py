"""Messages for meshes that cannot be simulated or had to be repaired, and for paths outside the scene's folder."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from toile.errors import InputError, SceneError
from toile.model.mesh import Mesh
from toile.model.mesh_check import check
from toile.model.mesh_files import scene_path
from toile.scene.load import load, meshes

NEEDS_LINKS = pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")
SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])


def mesh_of(positions: object, triangles: object, uv: object = None) -> Mesh:
    """uv are x and y unless given per vertex."""
    x, t = np.array(positions, float).reshape(-1, 3), np.array(triangles, np.int32).reshape(-1, 3)
    plane = x[:, :2] if uv is None else np.array(uv, float)
    inside_range = np.clip(t, 0, max(len(x) - 1, 0))
    return Mesh(x, t, plane[inside_range] if len(x) else np.zeros((len(t), 3, 2)))


ERRORS = {
    "empty": (mesh_of([], []), "the mesh is empty: it has no vertices. Export it again."),
    "one vertex": (mesh_of([[0, 0, 0]], []), "the mesh has no faces, only 1 vertex. Export it with faces."),
    "no faces": (mesh_of(SQUARE, []), "the mesh has no faces, only 4 vertices. Export it with faces."),
    "index out of range": (
        mesh_of(SQUARE, [[0, 1, 2], [0, 2, 4]]),
        "triangle 1 (vertices 0, 2, 4) refers to a vertex outside of 0 to 3.",
    ),
    "negative index": (
        mesh_of(SQUARE, [[0, -1, 2]]),
        "triangle 0 (vertices 0, -1, 2) refers to a vertex outside of 0 to 3.",
    ),
    "NaN": (
        mesh_of([[0, 0, 0], [1, np.nan, 0], [1, 1, 0], [np.inf, 1, 0]], [[0, 1, 2], [0, 2, 3]], SQUARE[:, :2]),
        "vertex 1 = (1, nan, 0): not finite (2 such vertices).",
    ),
    "NaN in uv": (
        mesh_of(SQUARE, [[0, 1, 2], [0, 2, 3]], [[0, 0], [1, 0], [1, 1], [0, np.inf]]),
        "triangle 1 (vertices 0, 2, 3) has uv that are not finite (1 such).",
    ),
    "far away": (
        mesh_of(SQUARE * 1e7, [[0, 1, 2]], SQUARE[:, :2]),
        "vertex 1 = (1e+07, 0, 0): farther than 1e+06 m from the origin. Set a scale.",
    ),
    "collinear": (
        mesh_of([[0, 0, 0], [1, 1, 1], [3, 3, 3]], [[0, 1, 2]], SQUARE[:3, :2]),
        "triangle 0 (vertices 0, 1, 2) is degenerate: its corners lie on a line or coincide (1 such). "
        "Repair it, or set drop_degenerate: true to leave them out.",
    ),
    "repeated corner": (
        mesh_of(SQUARE, [[0, 1, 2], [2, 3, 2]]),
        "triangle 1 (vertices 2, 3, 2) is degenerate: its corners lie on a line or coincide (1 such). "
        "Repair it, or set drop_degenerate: true to leave them out.",
    ),
    "no area in uv": (
        mesh_of(SQUARE, [[0, 1, 2], [0, 2, 3]], [[0, 0], [1, 0], [2, 0], [0, 1]]),
        "triangle 0 (vertices 0, 1, 2) has no area in uv (1 such). Unwrap it, or set uv: rest to use lengths in space.",
    ),
    "a face twice": (
        mesh_of(SQUARE, [[0, 1, 2], [0, 2, 3], [1, 2, 0], [2, 1, 0]]),
        "triangles 0 and 2 are the same face: vertices 0, 1, 2 (2 repeated). Remove the repeated ones.",
    ),
    "three triangles on an edge": (
        mesh_of([*SQUARE, [0.5, 0.5, 1]], [[0, 1, 2], [0, 2, 3], [0, 2, 4]], [*SQUARE[:, :2], [2, 0]]),
        "edge 0-2 belongs to 3 triangles (0, 1, 2): bending is undefined there (1 such edges). Separate the layers.",
    ),
}


@pytest.mark.parametrize(("mesh", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(mesh: Mesh, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        check(mesh)
    assert str(caught.value) == expected


def test_several_errors_come_at_once() -> None:
    mesh = mesh_of(SQUARE, [[0, 1, 1], [0, 1, 2], [0, 1, 2]])
    with pytest.raises(InputError) as caught:
        check(mesh)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "triangle 0 (vertices 0, 1, 1) is degenerate",
        "triangles 1 and 2 are the same face",
    ]


WARNINGS = {
    "unused vertices": (
        mesh_of([[9, 9, 9], *SQUARE, [8, 8, 8]], [[1, 2, 3], [1, 3, 4]]),
        "2 vertices belong to no triangle and were removed, the first of them vertex 0; "
        "selections by index keep the numbers of the source.",
    ),
    "winding": (
        replace(mesh_of([*SQUARE, [2, 0, 0]], [[0, 1, 2], [0, 3, 2], [1, 4, 2]])),
        "1 triangles faced the opposite way to their neighbors and were flipped, the first of them triangle 1.",
    ),
    "slivers": (
        mesh_of([[0, 0, 0], [1, 0, 0], [0.5, 1e-7, 0]], [[0, 1, 2]], [[0, 0], [1, 0], [0.5, 1e-5]]),
        "1 triangles are slivers; the worst, triangle 0 (vertices 0, 1, 2), has height / longest edge = 1e-07. "
        "Expect stiff spots.",
    ),
    "coincident vertices": (
        mesh_of([*SQUARE, SQUARE[0], SQUARE[2] + 1e-8], [[0, 1, 2], [4, 5, 3]]),
        "4 vertices coincide with others, such as 0 and 4: the cloth is not connected there. "
        "Set weld: true to join them.",
    ),
    "centimeters": (
        mesh_of(SQUARE * 150, [[0, 1, 2], [0, 2, 3]]),
        "the cloth is 212 m across, outside 0.001 to 100 m: is it in meters?",
    ),
    "texture coordinates": (
        mesh_of(SQUARE, [[0, 1, 2], [0, 2, 3]], 0.1 * SQUARE[:, :2]),
        "the cloth in uv has 0.01 times its area in space: uv are rest lengths in meters. "
        "If they are texture coordinates, set uv: scaled or uv: rest.",
    ),
    "mirrored uv": (
        mesh_of(SQUARE, [[0, 1, 2], [0, 2, 3]], SQUARE[:, :2] * (-1, 1)),
        "uv of 2 triangles are mirrored against their winding, the first of them triangle 0; u was "
        "mirrored back there. "
        "Corners and sides still refer to the original uv.",
    ),
}


@pytest.mark.parametrize(("mesh", "expected"), WARNINGS.values(), ids=WARNINGS.keys())
def test_warnings(mesh: Mesh, expected: str) -> None:
    treated = check(mesh)
    assert expected in treated.warnings
    assert (treated.uv_areas() > 0).all()


def test_a_good_mesh_has_no_warnings() -> None:
    assert check(mesh_of(SQUARE, [[0, 1, 2], [0, 2, 3]])).warnings == ()


SHEET = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nf 1/1 2/2 3/3\n"


def scene_with(folder: Path, file: str, **fields: object) -> Path:
    path = folder / "scene.yaml"
    more = "".join(f", {key}: {value}" for key, value in fields.items())
    path.write_text(f"cloth:\n  - {{name: shirt, shape: {{type: mesh, file: {file!r}{more}}}}}\n")
    return path


def problem(path: Path, allow_outside: bool = False) -> str:
    with pytest.raises(SceneError) as caught:
        load(path, allow_outside=allow_outside)
    (line,) = caught.value.problems
    return line.partition("cloth[0].shape.file = ")[2]


def test_a_file_beside_the_scene_is_read(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "sheet.obj").write_text(SHEET)
    for file in ("parts/sheet.obj", "parts\\sheet.obj", "parts/../parts/sheet.obj"):
        (mesh,) = meshes(load(scene_with(tmp_path, file)))
        assert mesh.vertex_count == 3


OUTSIDE = {
    "up": ("../sheet.obj", "leads out of the scene's folder"),
    "up from below": ("a/../../sheet.obj", "leads out of the scene's folder"),
    "up with backslashes": ("..\\sheet.obj", "leads out of the scene's folder"),
    "absolute": ("{outside}/sheet.obj", "is an absolute path; files must lie under the scene's folder"),
    "UNC": ("\\\\server\\share\\sheet.obj", "is an absolute path; files must lie under the scene's folder"),
    "drive": ("C:\\sheet.obj", "is an absolute path; files must lie under the scene's folder"),
}


@pytest.mark.parametrize(("file", "expected"), OUTSIDE.values(), ids=OUTSIDE.keys())
def test_paths_outside_the_scene_folder_are_refused(tmp_path: Path, file: str, expected: str) -> None:
    (tmp_path / "sheet.obj").write_text(SHEET)
    folder = tmp_path / "scene"
    folder.mkdir()
    path = scene_with(folder, file.format(outside=tmp_path))
    assert problem(path).endswith(f"{expected}. Move the file there, or allow it with --allow-outside.")


@NEEDS_LINKS
def test_links_out_of_the_scene_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sheet.obj").write_text(SHEET)
    folder = tmp_path / "scene"
    folder.mkdir()
    (folder / "link.obj").symlink_to(tmp_path / "sheet.obj")
    assert "leads out of the scene's folder" in problem(scene_with(folder, "link.obj"))


def test_paths_outside_the_scene_folder_can_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "sheet.obj").write_text(SHEET)
    folder = tmp_path / "scene"
    folder.mkdir()
    for file in ("../sheet.obj", str(tmp_path / "sheet.obj")):
        assert meshes(load(scene_with(folder, file), allow_outside=True))[0].vertex_count == 3


@pytest.mark.parametrize("url", ["https://example.org/a.obj", "file:///etc/passwd", "file:a.obj", "s3://a/b.obj"])
@pytest.mark.parametrize("allow_outside", [False, True])
def test_urls_are_never_read(tmp_path: Path, url: str, allow_outside: bool) -> None:
    text = problem(scene_with(tmp_path, url), allow_outside)
    assert text == f'"{url}": is a URL; only local files are read. Download it and give its path.'


@pytest.mark.parametrize("file", ["", " ", "a\nb.obj", "a\0b.obj"])
def test_text_that_is_not_a_path_is_refused(tmp_path: Path, file: str) -> None:
    with pytest.raises(InputError, match="is not a path: it is empty or contains control characters"):
        scene_path.resolve_scene_path(tmp_path, file)


@NEEDS_LINKS
def test_a_loop_of_links_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.obj").symlink_to("b.obj")
    (tmp_path / "b.obj").symlink_to("a.obj")
    with pytest.raises(SceneError, match=r"a\.obj"):
        load(scene_with(tmp_path, "a.obj"))


FILES = {
    "missing": (None, "sheet.obj", "no such file: {folder}/sheet.obj."),
    "misspelled": ("shet.obj", "sheet.obj", 'no such file: {folder}/sheet.obj. Did you mean "shet.obj"?'),
    "other format": (
        None,
        "sheet.fbx",
        'cannot read "sheet.fbx": not a mesh format that Toile knows. '
        "Choose from: .obj, .ply, .usd, .usda, .usdc, .usdz.",
    ),
}


@pytest.mark.parametrize(("there", "file", "expected"), FILES.values(), ids=FILES.keys())
def test_missing_files_are_named(tmp_path: Path, there: str | None, file: str, expected: str) -> None:
    if there:
        (tmp_path / there).write_text(SHEET)
    assert problem(scene_with(tmp_path, file)) == f'"{file}": {expected.format(folder=tmp_path)}'


def test_a_directory_is_not_a_mesh(tmp_path: Path) -> None:
    (tmp_path / "sheet.obj").mkdir()
    text = problem(scene_with(tmp_path, "sheet.obj"))
    assert text == f'"sheet.obj": {tmp_path}/sheet.obj is a directory. Give a mesh file.'


OBJ = {
    "empty": ("", "{path} is empty. Export it again."),
    "no vertices": ("# nothing\n", "sheet.obj has no vertices."),
    "no faces": ("v 0 0 0\n", "sheet.obj has no faces: points and lines alone are not cloth."),
    "not a number": ("v 0 x 0\n", "sheet.obj:1: could not convert string to float: 'x'."),
    "two numbers": ("\nv 0 1\n", "sheet.obj:2: needs 3 numbers and has 2."),
    "index 0": ("v 0 0 0\nf 0 1 2\n", "sheet.obj:2: index 0 does not exist; OBJ counts from 1, or back from -1."),
    "too far back": (
        "v 0 0 0\nf -1 -2 -3\n",
        "sheet.obj:2: index -2 does not exist; OBJ counts from 1, or back from -1.",
    ),
    "beyond the end": (
        SHEET + "f 1 2 4\n",
        "sheet.obj: face 1 refers to vertex 3; the file has vertex 0 to 2 (counted from 0).",
    ),
    "uv beyond the end": (
        SHEET.replace("3/3", "3/9"),
        "sheet.obj: face 0 refers to uv 8; the file has uv 0 to 2 (counted from 0).",
    ),
    "huge index": (SHEET + "f 1 2 99999999999\n", "sheet.obj:8: index 99999999999 is out of range."),
    "not an index": (SHEET + "f 1 2 3.5\n", 'sheet.obj:8: "3.5" is not a vertex index.'),
    "two corners": (SHEET + "f 1 2\n", "sheet.obj: face 1 has 2 corners; a face needs at least 3."),
    "binary": ("v 0 0 0\n\0\0", "sheet.obj:2: binary data in an OBJ text file."),
    "1e400": (SHEET + "v 1e400 0 0\nf 2 4 3\n", "vertex 3 = (inf, 0, 0): not finite (1 such vertices)."),
}


@pytest.mark.parametrize(("content", "expected"), OBJ.values(), ids=OBJ.keys())
def test_obj_files_that_cannot_be_used(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "sheet.obj"
    file.write_text(content)
    assert problem(scene_with(tmp_path, "sheet.obj")) == f'"sheet.obj": {expected.format(path=file)}'


HEADER = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
FACES = "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
PLY = {
    "not PLY": ("hello", "sheet.ply: not a PLY file: it has no PLY header."),
    "no format": ("ply\nend_header\n", "sheet.ply: the header has no format line."),
    "header": (
        "ply\nformat ascii 1.0\nelement vertex -3\nend_header\n",
        'sheet.ply:3: cannot read the header line "element vertex -3".',
    ),
    "billions announced": (
        "ply\nformat ascii 1.0\nelement vertex 9999999999\nend_header\n",
        'sheet.ply:3: cannot read the header line "element vertex 9999999999".',
    ),
    "no positions": (
        "ply\nformat ascii 1.0\nelement vertex 0\nend_header\n",
        "sheet.ply: the vertices have no x, y, z.",
    ),
    "no faces": (
        HEADER + "end_header\n0 0 0 1 0 0 0 1 0\n",
        "sheet.ply: no faces with vertex_indices: points alone are not cloth.",
    ),
    "ends early": (
        HEADER + FACES + "0 0 0 1 0 0 0 1\n",
        "sheet.ply: the data does not match the header (vertex ends early).",
    ),
    "face ends early": (
        HEADER + FACES + "0 0 0 1 0 0 0 1 0\n3 0 1\n",
        "sheet.ply: the data does not match the header (face ends early).",
    ),
    "beyond the end": (
        HEADER + FACES + "0 0 0 1 0 0 0 1 0\n3 0 1 3\n",
        "sheet.ply: face 0 refers to vertex 3; the file has vertex 0 to 2 (counted from 0).",
    ),
}


@pytest.mark.parametrize(("content", "expected"), PLY.values(), ids=PLY.keys())
def test_ply_files_that_cannot_be_used(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "sheet.ply").write_text(content)
    assert problem(scene_with(tmp_path, "sheet.ply")) == f'"sheet.ply": {expected}'


def test_an_unknown_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "sheet.obj").write_text("o sleeve\n" + SHEET)
    text = problem(scene_with(tmp_path, "sheet.obj", part="sleve"))
    assert text == '"sheet.obj": no part "sleve" in the file. Did you mean "sleeve"?'
