"""What formats rest on: digits of float32, vertices with one uv, normals, fabrics; and what they do at their limits."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import toile
from toile.errors import ToileError
from toile.model.frame import Frame, Part, SolidSurface, Surface
from toile.outputs import _gltf
from toile.outputs._float_text import number_lines
from toile.outputs._uv_seams import split_by_uv
from toile.outputs._y_up import y_up
from toile.outputs.alembic import Alembic
from toile.outputs.gif import Gif
from toile.outputs.glb import Glb
from toile.outputs.pc2 import Pc2
from toile.outputs.usd import Usd
from toile.render.normals import VertexNormals
from toile.runs.folder import RunFolder, export_run, render_run

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def strip(fps: float = 30.0, frames: int = 4, properties: dict | None = None) -> tuple[Surface, list[Frame]]:
    """A square of two triangles that rises, over a plate."""
    rest = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], float)
    triangles = np.array([[0, 1, 2], [0, 2, 3]], np.int32)
    parts = (Part("square", slice(0, 4), slice(0, 2), "cotton", properties or {}),)
    plate = SolidSurface("plate", triangles, rest - np.array([0.0, 0.0, 1.0]), False)
    surface = Surface(triangles, rest[triangles][..., :2], rest, parts, fps, (plate,))
    up = np.array([0.0, 0.0, 0.1])
    return surface, [Frame(k, k / fps, rest + k * up, np.broadcast_to(fps * up, (4, 3))) for k in range(frames)]


def run(folder: Path, **options: object) -> Path:
    surface, frames = strip(**options)  # type: ignore[arg-type]
    writer = Pc2().writer(folder, "rising", surface)
    for frame in frames:
        writer.write(frame)
    writer.close()
    return folder


# Digits


@given(arrays(np.float32, (4, 3), elements=finite))
def test_every_float32_reads_back(rows: np.ndarray) -> None:
    lines = number_lines("v", rows).decode().split("\n")
    assert lines.pop() == "" and [line.split()[0] for line in lines] == ["v"] * 4
    read = np.array([line.split()[1:] for line in lines], np.float64).astype(np.float32)
    assert read.tobytes() == rows.tobytes()  # -0.0 too


def test_powers_of_ten_and_their_neighbors_read_back() -> None:
    """Where the decimal exponent changes."""
    powers = np.float32([float(f"1e{k}") for k in range(-44, 39)])
    numbers = np.concatenate([powers, np.nextafter(powers, np.float32(0.0)), np.nextafter(powers, np.float32(1e38))])
    read = np.array(number_lines("", numbers[:, None]).split(), np.float64).astype(np.float32)
    np.testing.assert_array_equal(read, numbers)


def test_digits_as_they_stand() -> None:
    assert number_lines("v", np.array([[0.5, -2.0, 0.0]])) == b"v  5.00000000e-01 -2.00000000e+00  0.00000000e+00\n"


# Vertices


def test_a_vertex_on_a_seam_has_a_copy_for_each_uv() -> None:
    triangles = np.array([[0, 1, 2], [2, 1, 3]])
    uv = np.array([[[0, 0], [1, 0], [0, 1]], [[5, 1], [1, 0], [1, 1]]], float)  # vertex 2 has two
    split = split_by_uv(triangles, uv, 5)  # and vertex 4 no triangle
    np.testing.assert_array_equal(split.origin, [0, 1, 2, 3, 4, 2])
    np.testing.assert_array_equal(split.origin[split.triangles], triangles)
    np.testing.assert_array_equal(split.uv[split.triangles], uv)


def test_y_is_up_and_nothing_is_mirrored() -> None:
    x, y, z = y_up(np.eye(3))
    np.testing.assert_array_equal(z, [0, 1, 0])
    np.testing.assert_array_equal(np.cross(x, y), z)


def test_normals_of_a_closed_figure_point_outwards() -> None:
    """Of an octahedron they are its corners."""
    corners = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
    faces = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
    np.testing.assert_allclose(VertexNormals(np.array(faces), 6).at(2.0 * corners), corners, atol=1e-15)


def test_a_vertex_without_area_has_a_normal_all_the_same() -> None:
    np.testing.assert_array_equal(VertexNormals(np.array([[0, 0, 0]]), 2).at(np.zeros((2, 3))), [[0, 0, 1]] * 2)


# Fabrics


def test_figures_of_fabrics_go_through_the_folder_of_a_run(tmp_path: Path) -> None:
    properties = {"density": (0.12, "kg/m^2"), "extension_warp": (0.05, "")}
    assert RunFolder(run(tmp_path, properties=properties)).surface().parts[0].properties == properties


def test_a_fabric_knows_its_figures_and_units() -> None:
    properties = toile.Fabric(density=0.15, extension_warp=0.1).properties()
    assert properties["density"] == (0.15, "kg/m^2") and properties["extension_warp"] == (0.1, "")
    assert "extension_weft" not in properties and "name" not in properties  # not given, not a number


# Files


def test_usd_passes_the_validators_of_the_library(tmp_path: Path) -> None:
    pytest.importorskip("pxr.UsdValidation")
    from pxr import Usd as pxr_usd
    from pxr import UsdValidation

    (path,) = export_run(run(tmp_path, properties={"density": (0.12, "kg/m^2")}), ["usd"])
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    assert len(validators) >= 20
    found = UsdValidation.ValidationContext(validators).Validate(pxr_usd.Stage.Open(str(path)))
    assert [error.GetMessage() for error in found] == []


def test_usd_fabrics_of_one_name_with_other_figures_stay_apart(tmp_path: Path) -> None:
    pytest.importorskip("pxr")
    from pxr import Usd as pxr_usd

    surface, frames = strip()
    parts = tuple(
        Part(name, slice(0, 4), slice(0, 2), "inline", {"density": (density, "kg/m^2")})
        for name, density in (("a", 0.1), ("b", 0.2), ("c", 0.1))
    )
    mixed = Surface(surface.triangles, surface.uv, surface.rest, parts, 30.0)
    writer = Usd().writer(tmp_path, "three", mixed)
    writer.write(frames[0])
    stage = pxr_usd.Stage.Open(str(writer.close()[0]))
    materials = stage.GetDefaultPrim().GetChild("materials").GetChildren()
    assert [prim.GetAttribute("toile:density").Get() for prim in materials] == [0.1, 0.2]


def document(path: Path) -> dict:
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[12:16])
    return json.loads(data[20 : 20 + length])


def test_glb_of_one_frame_has_no_animation(tmp_path: Path) -> None:
    (path,) = export_run(run(tmp_path, frames=1), ["glb"])
    assert "animations" not in document(path) and "targets" not in document(path)["meshes"][0]["primitives"][0]


def test_glb_without_normals_is_half_as_large(tmp_path: Path) -> None:
    surface, frames = strip(frames=200)
    sizes = []
    for normals in (True, False):
        writer = Glb(normals=normals).writer(tmp_path, "square", surface)
        for frame in frames:
            writer.write(frame)
        (path,) = writer.close()
        views = document(path)["bufferViews"]
        sizes.append(views[-1]["byteLength"])
        attributes = document(path)["meshes"][0]["primitives"][0]["attributes"]
        assert ("NORMAL" in attributes) == normals
    assert sizes[0] == 2 * sizes[1] == 2 * 199 * 4 * 12


def test_a_glb_beyond_four_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(self: _gltf.Document) -> bytes:
        raise OverflowError(5 * 2**30)

    monkeypatch.setattr(_gltf.Document, "head", too_long)
    folder = run(tmp_path / "run")
    with pytest.raises(ToileError, match=r"rising\.glb: 5\.0 GiB, and a \.glb holds at most 4\. Leave out normals"):
        export_run(folder, ["glb"], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_lengths_of_a_glb_have_32_bits() -> None:
    whole = _gltf.Document("large")
    whole.reserve(2**32 - 100)
    with pytest.raises(OverflowError):
        whole.head()


def test_alembic_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("alembic3d")
    surface, frames = strip()
    writer = Alembic().writer(tmp_path, "square", surface)
    writer.write(frames[0])
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ToileError, match=r"square\.abc: Alembic cannot write it \(exit code 1\)\. Check the disk"):
        writer.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("fps", "pictures"), [(50.0, 6), (60.0, 3), (120.0, 2)])
def test_a_gif_has_as_many_frames_as_browsers_show(fps: float, pictures: int, tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    surface, frames = strip(fps, 6)
    writer = Gif(width=32, height=24, samples=1).writer(tmp_path, "square", surface)
    for frame in frames:
        writer.write(frame)
    (path,) = writer.close()
    assert path.read_bytes().count(b"\x21\xf9\x04") == pictures


def test_a_run_drawn_as_gif(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    folder = run(tmp_path)
    made = render_run(folder, tmp_path / "film.gif", width=32, height=24, samples=1)
    assert made.read_bytes().startswith(b"GIF89a")


def test_several_formats_at_once(tmp_path: Path) -> None:
    written = export_run(run(tmp_path / "run"), ["glb", "ply", "obj", "glb"], tmp_path / "out")
    names = ["rising.glb", *(f"rising_{k:04d}.{kind}" for kind in ("ply", "obj") for k in range(4))]
    assert [path.name for path in written] == names and all(path.is_file() for path in written)
