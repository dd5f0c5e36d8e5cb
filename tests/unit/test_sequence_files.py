"""Vertex sequences: every format gives the same frames, and files that are missing or damaged are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sequences import FRAMES, POSITIONS, TRIANGLES, npz_bytes, pc2, write_npz, write_obj, write_pc2, write_usd

from toile.errors import InputError
from toile.model.frame import Frame, Part, Surface
from toile.model.sequence_files import FrameFile, read_sequence
from toile.model.solid_mesh import read_solid
from toile.model.vertex_sequence import sequence_for
from toile.plugins import find

WRITERS: dict[str, tuple[Callable[[Path], str], float | None, bool]] = {
    "npz": (write_npz, 24.0, True),
    "pc2": (write_pc2, None, False),
    "obj": (write_obj, None, True),
    "usd": (write_usd, 24.0, True),
}


@pytest.mark.parametrize(("write", "fps", "faces"), WRITERS.values(), ids=WRITERS.keys())
def test_every_format_gives_the_same_frames(
    tmp_path: Path, write: Callable[[Path], str], fps: float | None, faces: bool
) -> None:
    file = write(tmp_path)
    found = read_sequence(tmp_path, file)
    np.testing.assert_array_equal(found.positions, FRAMES)
    assert found.fps == fps and found.warnings == ()
    if faces:
        np.testing.assert_array_equal(found.triangles, TRIANGLES)
    else:
        assert found.triangles is None
    np.testing.assert_allclose(read_sequence(tmp_path, file, scale=0.01).positions, 0.01 * FRAMES, rtol=1e-6)


def test_a_body_is_moved_by_a_sequence(tmp_path: Path) -> None:
    """The mesh comes from the file of the first frame, the motion from a cache, halfway between two frames."""
    write_obj(tmp_path)
    mesh = read_solid(tmp_path, "body_0008.obj")
    moves = sequence_for(mesh, read_sequence(tmp_path, write_pc2(tmp_path)).positions, fps=4.0, interpolation="linear")
    x, v = moves.at(0.375)
    np.testing.assert_allclose(x, POSITIONS + 0.375)
    np.testing.assert_allclose(v, 1.0)


def surface() -> Surface:
    part = Part("cloth", slice(0, 8), slice(0, 12), "cotton")
    uv = POSITIONS[TRIANGLES][:, :, :2]
    return Surface(triangles=TRIANGLES, uv=uv, rest=POSITIONS, parts=(part,), fps=30.0)


@pytest.mark.parametrize(("output", "file"), [("npz", "demo.npz"), ("pc2", "cache.pc2"), ("usd", "demo.usdc")])
def test_outputs_of_toile_can_be_read_as_sequences(tmp_path: Path, output: str, file: str) -> None:
    if output == "usd":
        pytest.importorskip("pxr", reason="usd-core is an optional extra")
    writer = find("outputs", output)().writer(tmp_path, "demo", surface())
    for k, positions in enumerate(FRAMES):
        writer.write(Frame(k, k / 30, positions, np.zeros_like(positions)))
    writer.close()
    found = read_sequence(tmp_path, file)
    np.testing.assert_array_equal(found.positions, FRAMES)
    if output != "pc2":
        assert found.fps == 30.0
        np.testing.assert_array_equal(found.triangles, TRIANGLES)


@pytest.mark.parametrize("file", ["a.npz", "a.pc2", "a.usda"])
def test_missing_and_empty_files_and_directories_are_refused(tmp_path: Path, file: str) -> None:
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, file)
    assert str(caught.value) == f"no such file: {tmp_path / file}."
    (tmp_path / file).touch()
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, file)
    assert str(caught.value) == f"{tmp_path / file} is empty. Export it again."
    (tmp_path / file).unlink()
    (tmp_path / file).mkdir()
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, file)
    assert str(caught.value) == f"{tmp_path / file} is a directory. Give a sequence file."


NAMES = {
    "one frame": ("body.obj", '"body.obj" is a single frame. Name all of them, such as "body_####.obj".'),
    "other format": (
        "body.abc",
        'cannot read "body.abc": not a sequence format that Toile knows. '
        "Choose from: .npz, .obj, .pc2, .ply, .usd, .usda, .usdc, .usdz.",
    ),
    "two patterns": ("b#dy_*.obj", '"b#dy_*.obj": numbered frames have one # or * and end in .obj or .ply.'),
    "frames of caches": ("body_#.npz", '"body_#.npz": numbered frames have one # or * and end in .obj or .ply.'),
    "no frame": ("body_##.obj", "no file matches body_##.obj (## stands for a number) in {folder}."),
    "no folder": ("take/body_##.obj", "no such folder: {folder}/take."),
    "up": ("../body.npz", "leads out of the scene's folder. Move the file there, or allow it with --allow-outside."),
    "up, many": (
        "../body_#.obj",
        "leads out of the scene's folder. Move the file there, or allow it with --allow-outside.",
    ),
    "URL": ("https://example.org/a.npz", "is a URL; only local files are read. Download it and give its path."),
}


@pytest.mark.parametrize(("file", "expected"), NAMES.values(), ids=NAMES.keys())
def test_names_without_files_are_refused(tmp_path: Path, file: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, file)
    assert str(caught.value) == expected.format(folder=tmp_path)


GOOD = {".npz": npz_bytes(positions=FRAMES, triangles=TRIANGLES, fps=24.0), ".pc2": pc2()}


@given(st.sampled_from([".npz", ".pc2"]), st.integers(0, 10_000), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_damaged_files_are_refused_or_read(tmp_path: Path, suffix: str, seed: int, cut: bool) -> None:
    """A few bytes changed, or the end missing: an InputError or frames, nothing else."""
    random = np.random.default_rng(seed)
    content = bytearray(GOOD[suffix])
    for place in random.integers(0, len(content), 3):
        content[place] = random.integers(0, 256)
    (tmp_path / f"a{suffix}").write_bytes(content[: random.integers(1, len(content))] if cut else content)
    try:
        found: FrameFile = read_sequence(tmp_path, f"a{suffix}")
    except InputError as error:
        assert str(error)
        return
    assert found.positions.ndim == 3 and found.positions.shape[2] == 3 and found.positions.size
