"""Vertex sequences with one OBJ or PLY file per frame: patterns, order of the frames, and files that are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sequences import FRAMES, POSITIONS, TRIANGLES, obj_text, write_obj

from toile.errors import InputError
from toile.model.sequence_files import read_sequence


@pytest.mark.parametrize(
    "pattern", ["body_####.obj", "body_##.obj", "body_*.obj", "./body_#.obj", "body_#.obj/", "take/../body_*.obj"]
)
def test_patterns_select_the_files_of_the_frames(tmp_path: Path, pattern: str) -> None:
    write_obj(tmp_path)
    (tmp_path / "body_rest.obj").write_text("not a frame")
    (tmp_path / "other_0003.obj").write_text("not a frame")
    np.testing.assert_array_equal(read_sequence(tmp_path, pattern).positions, FRAMES)


def test_numbers_without_leading_zeros_are_in_order(tmp_path: Path) -> None:
    """8, 9, 10, 11, 12 are ordered by number, not alphabetically."""
    (tmp_path / "take").mkdir()
    write_obj(tmp_path / "take", digits=1)
    np.testing.assert_array_equal(read_sequence(tmp_path, "take/body_*.obj").positions, FRAMES)
    np.testing.assert_array_equal(read_sequence(tmp_path, "take\\body_#.obj").positions, FRAMES)


def test_frames_may_be_written_in_any_way_that_obj_allows(tmp_path: Path) -> None:
    """Colors after positions, spaces before, comments, statements over two lines."""
    write_obj(tmp_path)
    x = FRAMES[2].tolist()
    odd = ["# body", *(f"  v\t{a!r} {b!r}  {c!r} 0.5 0.5 0.5 # c" for a, b, c in x), "vn 0 0 1", "vt 0 0", "f 1 2 3"]
    (tmp_path / "body_0010.obj").write_text("\r\n".join(odd))
    (tmp_path / "body_0011.obj").write_text(
        "".join(f"v {a!r} \\\n {b!r} {c!r}\n" for a, b, c in FRAMES[3].tolist()) + "f 1 2 3"
    )
    np.testing.assert_array_equal(read_sequence(tmp_path, "body_####.obj").positions, FRAMES)


def test_ply_frames(tmp_path: Path) -> None:
    for k, positions in enumerate(FRAMES):
        rows = [" ".join(map(repr, p)) for p in positions.tolist()] + [
            f"3 {a} {b} {c}" for a, b, c in TRIANGLES.tolist()
        ]
        head = "ply\nformat ascii 1.0\nelement vertex 8\n" + "".join(f"property double {axis}\n" for axis in "xyz")
        head += "element face 12\nproperty list uchar int vertex_indices\nend_header\n"
        (tmp_path / f"{k}.ply").write_text(head + "\n".join(rows) + "\n")
    found = read_sequence(tmp_path, "#.ply")
    np.testing.assert_array_equal(found.positions, FRAMES)
    np.testing.assert_array_equal(found.triangles, TRIANGLES)


def test_a_missing_frame_is_named(tmp_path: Path) -> None:
    pattern = write_obj(tmp_path)
    (tmp_path / "body_0009.obj").unlink()
    (tmp_path / "body_0011.obj").unlink()
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, pattern)
    assert str(caught.value) == (
        "body_0009.obj is missing: body_0008.obj is followed by body_0010.obj (2 missing in all)."
    )


OBJ_ERRORS = {
    "count": (
        obj_text(POSITIONS[:7]),
        "body_0010.obj has 7 vertices, but body_0008.obj has 8; all frames need the same vertices.",
    ),
    "empty": ("", "{folder}/body_0010.obj is empty. Export it again."),
    "garbage": ("v 0 x 0\n", "body_0010.obj:1: could not convert string to float: 'x'."),
    "cut off": ("v 0 0 0\nv 1 0", "body_0010.obj:2: needs 3 numbers and has 2."),
    "binary": ("v 0 0 0\n\0\1", "body_0010.obj:2: binary data in an OBJ text file."),
}


@pytest.mark.parametrize(("content", "expected"), OBJ_ERRORS.values(), ids=OBJ_ERRORS.keys())
def test_frames_that_cannot_be_used(tmp_path: Path, content: str, expected: str) -> None:
    pattern = write_obj(tmp_path)
    (tmp_path / "body_0010.obj").write_text(content)
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, pattern)
    assert str(caught.value) == expected.format(folder=tmp_path)


def test_a_directory_among_the_frames(tmp_path: Path) -> None:
    pattern = write_obj(tmp_path)
    (tmp_path / "body_0010.obj").unlink()
    (tmp_path / "body_0010.obj").mkdir()
    with pytest.raises(InputError, match=r"body_0010\.obj is a directory. Give a mesh file\.$"):
        read_sequence(tmp_path, pattern)


def test_two_names_of_one_frame(tmp_path: Path) -> None:
    write_obj(tmp_path)
    (tmp_path / "body_8.obj").write_text(obj_text(POSITIONS))
    with pytest.raises(InputError, match=r"^body_0008\.obj and body_8\.obj are both frame 8. Remove one of them\.$"):
        read_sequence(tmp_path, "body_*.obj")


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")
@pytest.mark.parametrize("link", ["body_0008.obj", "body_0010.obj"])
def test_a_frame_outside_the_scene_folder_is_refused(tmp_path: Path, link: str) -> None:
    scene = tmp_path / "scene"
    scene.mkdir()
    pattern = write_obj(scene)
    (scene / link).rename(tmp_path / "secret.obj")
    (scene / link).symlink_to(tmp_path / "secret.obj")
    with pytest.raises(InputError, match=r"^leads out of the scene's folder\."):
        read_sequence(scene, pattern)
    np.testing.assert_array_equal(read_sequence(scene, pattern, allow_outside=True).positions, FRAMES)
