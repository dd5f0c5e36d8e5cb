"""Vertex sequences from USD: units, axes, moving parents, uneven time samples, and files that are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sequences import FRAMES, POSITIONS, write_usd

from toile.errors import InputError
from toile.model.sequence_files import read_sequence


def test_usd_unit_axis_and_moving_parent(tmp_path: Path) -> None:
    """Centimeters with y up; the parent moves 100 cm along its z, which is -y in the world, each frame."""
    frames = np.array([100 * POSITIONS] * 3)
    moves = {code: (0, 0, 100 * (code - 1)) for code in (1, 2, 3)}
    found = read_sequence(tmp_path, write_usd(tmp_path, range(1, 4), frames, unit=0.01, up="Y", moves=moves))
    world = POSITIONS[:, [0, 2, 1]] * (1, -1, 1)
    expected = world + np.array([[[0, -k, 0]] for k in range(3)])
    np.testing.assert_allclose(found.positions, expected, atol=1e-6)


def test_usd_motion_of_the_parent_alone(tmp_path: Path) -> None:
    file = write_usd(tmp_path, (), FRAMES[:0], moves={1: (0, 0, 0), 3: (2, 0, 0), 5: (4, 0, 0)})
    found = read_sequence(tmp_path, file)
    np.testing.assert_allclose(found.positions[:, :, 0], POSITIONS[:, 0] + np.array([[0], [2], [4]]))
    assert found.fps == 12.0 and found.warnings == ()


def test_usd_uneven_samples_are_resampled(tmp_path: Path) -> None:
    """1, 2, 4, 5: the frame at 3 lies halfway between its neighbors."""
    found = read_sequence(tmp_path, write_usd(tmp_path, (1, 2, 4, 5), FRAMES[[0, 1, 3, 4]]))
    np.testing.assert_array_equal(found.positions, FRAMES)
    assert found.fps == 24.0
    assert found.warnings == ("its samples lie at uneven times and were resampled every 1 of its frames.",)


def test_usd_without_samples_is_reported(tmp_path: Path) -> None:
    found = read_sequence(tmp_path, write_usd(tmp_path, (), FRAMES[:0]))
    np.testing.assert_array_equal(found.positions, POSITIONS[None])
    assert found.fps is None
    assert found.warnings == (
        "none of its points has time samples. Bake motion by a skeleton or blend shapes to points first.",
    )


def usd_text(samples: str) -> str:
    return (
        '#usda 1.0\n(metersPerUnit = 1\nupAxis = "Z")\ndef Mesh "m" {\nint[] faceVertexCounts = [3]\n'
        f"int[] faceVertexIndices = [0, 1, 2]\npoint3f[] points.timeSamples = {{{samples}}}\n}}\n"
    )


THREE, FOUR = "[(0,0,0),(1,0,0),(0,1,0)]", "[(0,0,0),(1,0,0),(0,1,0),(1,1,1)]"
USD_ERRORS = {
    "count": (
        usd_text(f"1: {THREE}, 2: {FOUR}"),
        "a.usda: 4 vertices at time code 2, but 3 at the first; every frame needs the same vertices.",
    ),
    "too many": (
        usd_text(f"0: {THREE}, 1e-9: {THREE}, 1000: {THREE}"),
        "a.usda: 1e+12 frames of 3 vertices need 3.6e+04 GB, but at most 2.15 GB are read. Export fewer samples.",
    ),
    "garbage": ("garbage", "a.usda: not a USD file."),
    "no mesh": ("#usda 1.0\n", "a.usda: contains no mesh."),
    "no points": ('#usda 1.0\ndef Mesh "m" {}\n', "a.usda: the meshes have no points."),
}


@pytest.mark.parametrize(("content", "expected"), USD_ERRORS.values(), ids=USD_ERRORS.keys())
def test_usd_files_that_cannot_be_used(tmp_path: Path, content: str, expected: str) -> None:
    pytest.importorskip("pxr", reason="usd-core is an optional extra")
    (tmp_path / "a.usda").write_text(content)
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, "a.usda")
    assert str(caught.value) == expected
