"""Files that are not scenes: missing, empty, binary, huge, or malicious."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from toile.errors import SceneError
from toile.scene.load import load, scene_names


def message(path: Path | str) -> str:
    with pytest.raises(SceneError) as caught:
        load(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def written(folder: Path, content: bytes | str, name: str = "scene.yaml") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_shipped_scene_is_found_by_name() -> None:
    assert "hang" in scene_names()
    assert load("hang").name == "hang"


def test_a_name_that_is_not_shipped() -> None:
    assert message("hagn") == 'no scene "hagn". Did you mean "hang"? Other scenes are given by their path.'


def test_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert message("hang2.yaml") == (
        f'hang2.yaml: no such file (tried {tmp_path / "hang2.yaml"}). Did you mean the shipped scene "hang"?'
    )
    assert message("a/b.obj") == "a/b.obj: no such file. A scene is a .yaml, .yml, .json file or a shipped name."


def test_files_with_other_suffixes_are_refused(tmp_path: Path) -> None:
    assert message(tmp_path) == f"{tmp_path}: is a directory; give a scene file inside it."
    path = written(tmp_path, "x", "notes.txt")
    assert message(path) == f"{path}: a scene is a .yaml, .yml, .json file."
    os.mkfifo(tmp_path / "pipe.yaml")
    assert message(tmp_path / "pipe.yaml") == f"{tmp_path}/pipe.yaml: is not a regular file."


CONTENTS = {
    "empty": ("", "  is empty. See the shipped scenes with: toile list scenes"),
    "only a comment": ("# nothing\n", "  is empty. See the shipped scenes with: toile list scenes"),
    "a list": ("- 1\n", ":1  a scene is a mapping of keys to values, such as `name: drape`."),
    "text": ("hello", ":1  a scene is a mapping of keys to values, such as `name: drape`."),
    "binary": (bytes(range(256)), ": is not text (byte 128 is not UTF-8)."),
    "control characters": (
        b"name: a\0b",
        ":1  not valid YAML: unacceptable character #x0000: special characters are not allowed.",
    ),
    "not YAML": ("name: [1, 2\ntime: 3\n", ":2  not valid YAML: expected ',' or ']', but got ':'."),
    "two documents": ("name: a\n---\nname: b\n", ":2  not valid YAML: but found another document."),
    "tabs": ("time:\n\tframes: 1\n", ":2  not valid YAML: found character '\\t' that cannot start any token."),
    "contains itself": ("cloth: &a [*a]\n", ":1  cloth[0]: contains itself."),
    "nested too deeply": ("[" * 5000, ":1  nested too deeply."),
    "a key that is a list": ("? [1, 2]\n: 3\n", ":1  keys must be plain text."),
}


@pytest.mark.parametrize(("content", "expected"), CONTENTS.values(), ids=CONTENTS.keys())
def test_content_that_is_not_a_scene_is_refused(tmp_path: Path, content: bytes | str, expected: str) -> None:
    path = written(tmp_path, content)
    assert message(path).splitlines()[0] == f"{path}{expected}"


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 20)]
    start = time.perf_counter()
    assert "expands to more than 200000 values" in message(written(tmp_path, "\n".join(lines)))
    assert time.perf_counter() - start < 10


def test_a_file_too_large_for_a_scene_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    os.truncate(path, 3 << 30)  # a sparse file: no disk space
    assert message(path) == (
        f"{path}: 3221.2 MB is too large for a scene (at most 2.1 MB). Keep large data in files beside it."
    )


def test_json_is_read_too_even_with_tabs(tmp_path: Path) -> None:
    path = written(tmp_path, '{\n\t"name": "j",\n\t"time": {"frames": 3, "max_step": 1e-3}\n}', "scene.json")
    scene = load(path)
    assert (scene.name, scene.time.frames, scene.time.max_step) == ("j", 3, 1e-3)


def test_numbers_in_every_notation(tmp_path: Path) -> None:
    """PyYAML reads 1e-3 as text and 010 as eight; in a scene they are a thousandth and ten."""
    path = written(
        tmp_path, "time: {frames: 010, fps: 3e1, max_step: 1E-2, min_step: .001}\ngravity: [0, -0.0, '-9.81']"
    )
    scene = load(path)
    assert (scene.time.frames, scene.time.fps, scene.time.max_step, scene.time.min_step) == (10, 30.0, 0.01, 0.001)
    assert scene.gravity == (0.0, 0.0, -9.81)


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    text = """\
cloth:
  - &one {name: one, shape: {type: grid, resolution: [2, 2]}, fabric: denim}
  - {<<: *one, name: two}
"""
    one, two = load(written(tmp_path, text)).cloth
    assert (two.name, two.fabric, two.shape) == ("two", one.fabric, one.shape)


def test_an_empty_scene_is_valid(tmp_path: Path) -> None:
    assert load(written(tmp_path, "name: nothing\n")).cloth == ()
