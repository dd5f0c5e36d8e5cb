"""Messages for solids that cannot be used or had to be repaired."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toile.errors import InputError
from toile.model import solid_shapes as shapes
from toile.model.solid_mesh import check_surface, read_solid, require_closed

BOX, FACES = shapes.box((1.0, 1.0, 1.0))
SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])


def with_vertex(index: int, position: object) -> np.ndarray:
    changed = BOX.copy()
    changed[index] = position
    return changed


DEGENERATE = (
    "degenerate, its corners lie on a line or coincide. "
    "Repair the mesh, or set drop_degenerate: true to leave them out."
)
ERRORS = {
    "empty": (np.zeros((0, 3)), FACES[:0], "the mesh is empty: it has no vertices. Export it again."),
    "one vertex": (BOX[:1], FACES[:0], "the mesh has no faces, only 1 vertex. Export it with faces."),
    "no faces": (BOX, FACES[:0], "the mesh has no faces, only 8 vertices. Export it with faces."),
    "plane positions": (
        BOX[:, :2],
        FACES,
        "positions must be (vertices, 3) and triangles (triangles, 3) integers.",
    ),
    "halves as indices": (
        BOX,
        FACES + 0.5,
        "positions must be (vertices, 3) and triangles (triangles, 3) integers.",
    ),
    "index out of range": (
        BOX,
        [[0, 1, 2], [0, 2, 8]],
        "triangle 1 (vertices 0, 2, 8) refers to a vertex outside of 0 to 7.",
    ),
    "negative index": (
        BOX,
        [[0, 1, -1]],
        "triangle 0 (vertices 0, 1, -1) refers to a vertex outside of 0 to 7.",
    ),
    "NaN": (with_vertex(5, (0, np.nan, 1)), FACES, "vertex 5 = (0, nan, 1): not finite (1 such vertices)."),
    "far away": (
        with_vertex(2, (1e7, 0, 0)),
        FACES,
        "vertex 2 = (1e+07, 0, 0): farther than 1e+06 m from the origin. Set a scale.",
    ),
    "repeated corner": (BOX, [*FACES, [2, 3, 2]], f"triangle 12 (vertices 2, 3, 2): {DEGENERATE}"),
    "two on a line": (
        [*SQUARE, [2, 0, 0], [3, 0, 0]],
        [[0, 1, 4], [0, 1, 2], [0, 4, 5]],
        f"triangle 0 (vertices 0, 1, 4), triangle 2 (vertices 0, 4, 5): {DEGENERATE}",
    ),
    "many on a line": (
        BOX,
        [[0, 0, i] for i in range(8)],
        "triangle 0 (vertices 0, 0, 0), triangle 1 (vertices 0, 0, 1), triangle 2 (vertices 0, 0, 2), "
        f"triangle 3 (vertices 0, 0, 3), triangle 4 (vertices 0, 0, 4) and 3 more: {DEGENERATE}",
    ),
    "a face twice": (
        BOX,
        [*FACES, FACES[3][[1, 2, 0]], FACES[4][::-1]],
        "triangles 3 and 12 are the same face: vertices 1, 7, 5 (2 repeated). Remove the repeated ones.",
    ),
    "a face twice, with vertices of its own": (
        [*SQUARE, *SQUARE],
        [[0, 1, 2], [0, 2, 3], [5, 4, 6]],
        "triangles 0 and 2 are the same face: vertices 0, 1, 2 (1 repeated). Remove the repeated ones.",
    ),
    "a whole body twice": (
        [*BOX, *BOX],
        [*FACES, *(FACES + 8)],
        "triangles 0 and 12 are the same face: vertices 0, 4, 6 (12 repeated). Remove the repeated ones.",
    ),
    "both": (
        BOX,
        [*FACES, [2, 3, 2], FACES[0]],
        f"triangle 12 (vertices 2, 3, 2): {DEGENERATE}\n"
        "triangles 0 and 13 are the same face: vertices 0, 4, 6 (1 repeated). Remove the repeated ones.",
    ),
}


@pytest.mark.parametrize(("positions", "triangles", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(positions: object, triangles: object, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        check_surface(np.array(positions), np.array(triangles))
    assert str(caught.value) == expected


def test_a_solid_without_valid_triangles_is_an_error() -> None:
    with pytest.raises(InputError) as caught:
        check_surface(BOX, np.array([[0, 0, 1], [2, 2, 2]]), drop_degenerate=True)
    assert str(caught.value) == "no triangle is left: all 2 are degenerate."


INSIDE_OUT = "the solid is inside out: its signed volume is -1 m^3. It does not keep cloth out; "
WARNINGS = {
    "unused vertices": (
        [*BOX, [9, 9, 9], [8, 8, 8]],
        FACES,
        "removed 2 unused vertices, the first of them vertex 8; vertex sequences keep the numbers of the source.",
    ),
    "winding": (
        BOX,
        [FACES[0], FACES[1][::-1], *FACES[2:]],
        "flipped 1 triangle to face the same way as their piece, the first of them triangle 1.",
    ),
    "three triangles on an edge": (
        [*BOX, [0, 0, 3]],
        [*FACES, [0, 1, 8]],
        "1 edge of more than two triangles, from (-0.5, -0.5, -0.5) to (0.5, -0.5, -0.5) m: "
        "the mesh is treated as open, and its outside is uncertain there.",
    ),
    "open": (
        BOX,
        FACES[:-2],
        "the mesh is open (4 open edges, the first from (-0.5, -0.5, 0.5) to (0.5, -0.5, 0.5) m): it is treated as a "
        "thin surface, and the side from which its triangles are counterclockwise is outside.",
    ),
    "inside out": (BOX, FACES[:, ::-1], INSIDE_OUT + "set flip: true to flip it."),
    "slivers": (
        [[0, 0, 0], [1, 0, 0], [0.5, 1e-7, 0]],
        [[0, 1, 2]],
        "1 sliver among the triangles: the worst, triangle 0 (vertices 0, 1, 2), has height / longest edge = 1e-07, "
        "and its normal is uncertain.",
    ),
    "centimeters": (
        180 * BOX,
        FACES,
        "the solid is 312 m across, outside 0.001 to 100 m: is it in meters? Set scale.",
    ),
    "micrometers": (
        1e-4 * BOX,
        FACES,
        "the solid is 0.000173 m across, outside 0.001 to 100 m: is it in meters? Set scale.",
    ),
    "two sides of a sheet": (
        [*SQUARE, [0.5, 0.5, 0], *SQUARE, [0.5, 0.5, 0]],
        [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [6, 5, 9], [7, 6, 9], [8, 7, 9], [5, 8, 9]],
        "the closed surface encloses no volume: a sheet with two sides. It has no inside; keep one side only.",
    ),
}


@pytest.mark.parametrize(("positions", "triangles", "expected"), WARNINGS.values(), ids=WARNINGS.keys())
def test_warnings(positions: object, triangles: object, expected: str) -> None:
    assert expected in check_surface(np.array(positions), np.array(triangles)).warnings


def test_a_solid_flipped_inside_out_on_request_is_reported() -> None:
    assert check_surface(BOX, FACES, flip=True).warnings == (INSIDE_OUT + "remove flip: true.",)


def test_an_open_mesh_has_no_inside() -> None:
    with pytest.raises(InputError) as caught:
        require_closed(check_surface(BOX, FACES[:-2]), 'level_set "body"')
    assert str(caught.value) == (
        'level_set "body" needs a closed surface, but this mesh is open, so it has no inside: 4 open edges, the first '
        "from (-0.5, -0.5, 0.5) to (0.5, -0.5, 0.5) m. "
        "Close the holes, or use type: mesh, which treats an open surface as a thin one."
    )


def test_two_boxes_that_share_an_edge_have_no_inside() -> None:
    """They share the same two vertices, not only their positions: four triangles have one edge."""
    other = BOX + np.array([1, 1, 0])
    number = np.arange(8) + 8
    number[[0, 4]] = (3, 7)
    mesh = check_surface(np.concatenate([BOX, other]), np.concatenate([FACES, number[FACES]]))
    with pytest.raises(InputError) as caught:
        require_closed(mesh, "level_set")
    assert str(caught.value) == (
        "level_set needs a closed surface, but the inside of this mesh is undefined: "
        "1 edge of more than two triangles, from (0.5, 0.5, -0.5) to (0.5, 0.5, 0.5) m. "
        "Remove inner faces, or use type: mesh."
    )


def test_a_klein_bottle_has_no_inside() -> None:
    """A square grid whose opposite sides are joined, one pair of them reversed."""
    n = 8
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")

    def number(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return (i % n) * n + np.where(i >= n, -j, j) % n

    quads = np.stack([number(i, j), number(i + 1, j), number(i + 1, j + 1), number(i, j + 1)], axis=2).reshape(-1, 4)
    triangles = quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    mesh = check_surface(np.random.default_rng(0).normal(size=(n * n, 3)), triangles)
    with pytest.raises(InputError) as caught:
        require_closed(mesh, "level_set")
    assert str(caught.value) == (
        "level_set needs a closed surface, but this mesh has only one side, so it has no inside. Use type: mesh."
    )


FILES = {
    "missing": (None, "box.obj", "no such file: {folder}/box.obj."),
    "empty": ("", "box.obj", "{folder}/box.obj is empty. Export it again."),
    "up": (
        None,
        "../box.obj",
        "leads out of the scene's folder. Move the file there, or allow it with --allow-outside.",
    ),
    "overflow": (
        "v 0 0 0\nv 1e400 0 0\nv 0 1 0\nf 1 2 3\n",
        "box.obj",
        "vertex 1 = (inf, 0, 0): not finite (1 such vertices).",
    ),
}


@pytest.mark.parametrize(("content", "file", "expected"), FILES.values(), ids=FILES.keys())
def test_files_that_cannot_be_used(tmp_path: Path, content: str | None, file: str, expected: str) -> None:
    if content is not None:
        (tmp_path / "box.obj").write_text(content)
    with pytest.raises(InputError) as caught:
        read_solid(tmp_path, file)
    assert str(caught.value) == expected.format(folder=tmp_path)


def test_an_unknown_part(tmp_path: Path) -> None:
    (tmp_path / "body.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\no torso\nf 1 2 3\n")
    with pytest.raises(InputError) as caught:
        read_solid(tmp_path, "body.obj", part="tors")
    assert str(caught.value) == 'no part "tors" in the file. Did you mean "torso"?'
