"""Mesh files: the same sheet in every format gives the same cloth, with its uv, regions and triangles."""

from __future__ import annotations

import struct
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toile.errors import InputError
from toile.model import mesh as model
from toile.model.mesh_check import check
from toile.model.mesh_files import PolygonMesh, read, usd
from toile.model.mesh_files.triangulate import triangulate
from toile.plugins import find
from toile.shapes.mesh import Mesh, flatten_triangles

POSITIONS = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0.5]])
UV = np.array([[0, 0], [2, 0], [2, 1.1], [0, 1.1]])
TRIANGLES = [[0, 1, 2], [0, 2, 3]]


def shape(path: Path, **fields: Any) -> model.Mesh:
    return check(Mesh(file=path.name, **fields).mesh(path.parent))


def expect_sheet(mesh: model.Mesh, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(mesh.positions, POSITIONS, atol=tolerance)
    assert mesh.triangles.tolist() == TRIANGLES
    np.testing.assert_allclose(mesh.uv, UV[np.array(TRIANGLES)], atol=tolerance)
    assert mesh.positions.dtype == np.float64
    assert mesh.triangles.dtype == np.int32


def test_the_type_name_is_mesh() -> None:
    assert find("shapes", "mesh") is Mesh


# OBJ


def obj(folder: Path, faces: str, before: str = "") -> Path:
    path = folder / "sheet.obj"
    lines = [f"v {x} {y} {z}" for x, y, z in POSITIONS] + [f"vt {u} {v}" for u, v in UV]
    path.write_text(f"# a sheet\nmtllib ../../secret.mtl\n{before}" + "\n".join(lines) + f"\nusemtl red\n{faces}\n")
    return path


@pytest.mark.parametrize(
    "faces",
    [
        "f 1/1 2/2 3/3\nf 1/1 3/3 4/4",
        "vn 0 0 1\nf 1/1/1 2/2/1 3/3/1\nf 1/1/1 3/3/1 4/4/1",
        "f -4/-4 -3/-3 -2/-2\nf -4/-4 -2/-2 -1/-1",
        "f 1/1 2/2 \\\n 3/3\nf 1/1 3/3 4/4 # the second",
    ],
    ids=["uv", "uv and normals", "counted back", "continued line"],
)
def test_obj_notations(tmp_path: Path, faces: str) -> None:
    mesh = shape(obj(tmp_path, faces))
    expect_sheet(mesh)
    assert mesh.warnings == ()


def test_obj_groups_become_regions(tmp_path: Path) -> None:
    mesh = shape(obj(tmp_path, "o shirt\ng front seam\nf 1/1 2/2 3/3\ng back\nf 1/1 3/3 4/4"))
    assert {name: region.tolist() for name, region in mesh.regions.items()} == {
        "shirt": [0, 1, 2, 3], "front": [0, 1, 2], "seam": [0, 1, 2], "back": [0, 2, 3],
    }  # fmt: skip


def test_one_part_of_a_file(tmp_path: Path) -> None:
    mesh = shape(obj(tmp_path, "g front\nf 1/1 2/2 3/3\ng back\nf 1/1 3/3 4/4"), part="back")
    np.testing.assert_allclose(mesh.positions, POSITIONS[[0, 2, 3]])
    assert mesh.triangles.tolist() == [[0, 1, 2]]
    assert mesh.numbering is not None
    assert mesh.numbering.tolist() == [0, -1, 1, 2]
    assert mesh.regions["back"].tolist() == [0, 1, 2]


def test_scale_applies_to_positions_and_uv(tmp_path: Path) -> None:
    mesh = shape(obj(tmp_path, "f 1/1 2/2 3/3\nf 1/1 3/3 4/4"), scale=0.01)
    np.testing.assert_allclose(mesh.positions, 0.01 * POSITIONS, atol=1e-15)
    np.testing.assert_allclose(mesh.uv, 0.01 * UV[np.array(TRIANGLES)], atol=1e-15)


def test_a_particle_on_a_seam_has_several_uv(tmp_path: Path) -> None:
    mesh = shape(obj(tmp_path, "vt 5 5\nvt 7 6.1\nvt 5 6.1\nf 1/1 2/2 3/3\nf 1/5 3/6 4/7"))
    np.testing.assert_allclose(mesh.uv[1], [[5, 5], [7, 6.1], [5, 6.1]])


def test_uv_on_some_corners_only_is_ignored_and_reported(tmp_path: Path) -> None:
    mesh = shape(obj(tmp_path, "f 1/1 2/2 3/3\nf 1 3 4"))
    assert mesh.warnings == (
        "3 of 6 face corners have no uv, so uv is ignored.",
        "the file has no uv: lengths in space are used as rest lengths.",
    )


# PLY


def ply(folder: Path, form: str, uv: tuple[str, str] | None = ("s", "t"), counts: str = "uchar") -> Path:
    path = folder / "sheet.ply"
    names = ["x", "y", "z", *(uv or ())]
    header = [f"ply\nformat {form} 1.0\ncomment a sheet\nelement vertex 4", *(f"property double {n}" for n in names)]
    header += ["property uchar red", "element face 2", "property uchar flags"]
    header += [f"property list {counts} int vertex_indices", "element edge 1", "property int vertex1", "end_header\n"]
    rows = np.hstack([POSITIONS, UV])[:, : len(names)]
    if form == "ascii":
        data = "\n".join(" ".join(map(str, [*row, 255])) for row in rows)
        data += "\n" + "\n".join(f"7 3 {a} {b} {c}" for a, b, c in TRIANGLES) + "\n0\n"
        path.write_text("\n".join(header) + data)
        return path
    order = "<" if "little" in form else ">"
    count = {"uchar": "B", "int": "i"}[counts]
    data_bytes = b"".join(struct.pack(f"{order}{len(names)}dB", *row, 255) for row in rows)
    data_bytes += b"".join(struct.pack(f"{order}B{count}3i", 7, 3, *t) for t in TRIANGLES) + struct.pack(f"{order}i", 0)
    path.write_bytes("\n".join(header).encode() + data_bytes)
    return path


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("uv", [("s", "t"), ("u", "v"), ("texture_u", "texture_v")])
@pytest.mark.parametrize("counts", ["uchar", "int"])
def test_ply_notations(tmp_path: Path, form: str, uv: tuple[str, str], counts: str) -> None:
    mesh = shape(ply(tmp_path, form, uv, counts))
    expect_sheet(mesh)
    assert mesh.warnings == ()


@pytest.mark.parametrize("form", ["binary_little_endian", "binary_big_endian"])
def test_every_truncation_of_a_binary_ply_is_reported(tmp_path: Path, form: str) -> None:
    path = ply(tmp_path, form)
    content = path.read_bytes()
    start = content.index(b"end_header\n") + len(b"end_header\n")
    for length in range(start, len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match="the data does not match the header"):
            read(path)


# USD


def usd_file(path: Path, **changes: Any) -> Path:
    """A stage with one quad; `changes` replace its attributes."""
    pxr = pytest.importorskip("pxr", reason="usd-core is an optional extra")
    from pxr import Gf, Sdf, Usd, UsdGeom

    stage = Usd.Stage.CreateNew(str(path))
    if changes.get("unit", 1.0) is not None:
        UsdGeom.SetStageMetersPerUnit(stage, changes.get("unit", 1.0))
    UsdGeom.SetStageUpAxis(stage, changes.get("up", UsdGeom.Tokens.z))
    UsdGeom.Xform.Define(stage, "/garment").AddTranslateOp().Set(Gf.Vec3d(*changes.get("move", (0, 0, 0))))
    mesh = UsdGeom.Mesh.Define(stage, "/garment/sheet")
    points = mesh.GetPointsAttr()
    points.Set(np.array(changes.get("points", POSITIONS), np.float32), 3.0) if changes.get("sampled") else points.Set(
        np.array(changes.get("points", POSITIONS), np.float32)
    )
    corners = changes.get("corners", [0, 1, 2, 0, 2, 3])
    mesh.GetFaceVertexCountsAttr().Set(changes.get("sizes", [3] * (len(corners) // 3)))
    mesh.GetFaceVertexIndicesAttr().Set(corners)
    if "left_handed" in changes:
        mesh.GetOrientationAttr().Set(UsdGeom.Tokens.leftHanded)
    interpolation = changes.get("st", "vertex")
    if interpolation:
        st = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", Sdf.ValueTypeNames.TexCoord2fArray, interpolation)
        st.Set(np.array(UV if interpolation == "vertex" else UV[corners], np.float32))
    if "reference" in changes:
        stage.DefinePrim("/other").GetReferences().AddReference(changes["reference"])
    stage.GetRootLayer().Save()
    assert pxr
    return path


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usd"])
@pytest.mark.parametrize("st", ["vertex", "faceVarying"])
def test_usd_notations(tmp_path: Path, suffix: str, st: str) -> None:
    mesh = shape(usd_file(tmp_path / f"sheet{suffix}", st=st))
    expect_sheet(mesh, 1e-7)  # USD stores points in float32
    assert mesh.regions["/garment/sheet"].tolist() == [0, 1, 2, 3]
    assert mesh.warnings == ()


def test_usd_unit_axis_and_transform(tmp_path: Path) -> None:
    """Centimeters with y up, moved by (1, 2, 3) cm: file (x, y, z) is world (x, -z, y) / 100."""
    file = usd_file(tmp_path / "sheet.usda", unit=0.01, up="Y", move=(1, 2, 3), points=100 * POSITIONS, sampled=True)
    moved = POSITIONS + np.array([0.01, 0.02, 0.03])
    mesh = shape(file, uv="scaled")
    np.testing.assert_allclose(mesh.positions, moved[:, [0, 2, 1]] * (1, -1, 1), atol=1e-7)


def test_usd_left_handed_faces_are_flipped(tmp_path: Path) -> None:
    mesh = shape(usd_file(tmp_path / "sheet.usda", left_handed=True, corners=[2, 1, 0, 3, 2, 0]))
    expect_sheet(mesh, 1e-7)


def test_usd_without_a_unit_is_reported(tmp_path: Path) -> None:
    mesh = shape(usd_file(tmp_path / "sheet.usda", unit=None))
    assert "the file does not give its unit: centimeters are assumed, as USD prescribes." in mesh.warnings


USD_ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "reference": ({"reference": "/etc/body.usd"}, 'sheet.usda: refers to other files, such as "/etc/body.usd". '
                  "Flatten it into one file."),
    "counts": ({"sizes": [3, 4]}, "/garment/sheet: faceVertexCounts require 7 indices, but the mesh has 6."),
    "negative count": ({"sizes": [9, -3]}, "/garment/sheet: face 1 has -3 corners; a face needs at least 3."),
    "range": ({"corners": [0, 1, 2, 0, 2, 4]}, "/garment/sheet: a face refers to vertex 4; the mesh has 4 vertices."),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), USD_ERRORS.values(), ids=USD_ERRORS.keys())
def test_usd_files_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    file = usd_file(tmp_path / "sheet.usda", **{"st": None, **changes})
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value) == expected


def test_files_that_are_not_usd_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pxr", reason="usd-core is an optional extra")
    file = tmp_path / "sheet.usda"
    file.write_bytes(b"garbage \0\1\2")
    with pytest.raises(InputError, match=r"^sheet\.usda: not a USD file\.$"):
        read(file)
    packed = tmp_path / "bomb.usdz"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("bomb.usda", "#usda 1.0\n" + " " * 10_000_000)
    with pytest.raises(InputError, match=r"^bomb\.usdz: a \.usdz must not be compressed inside; export it again\.$"):
        read(packed)
    packed.write_bytes(b"PK no zip")
    with pytest.raises(InputError, match=r"^bomb\.usdz: not a \.usdz package"):
        read(packed)


def test_reading_a_usd_file_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = usd_file(tmp_path / "sheet.usda")
    monkeypatch.setattr(usd, "TIME_LIMIT", 0.01)
    with pytest.raises(InputError, match=r"^sheet\.usda: not read within 0\.01 s\. Export a smaller file\.$"):
        read(file)


def test_usd_is_read_on_systems_without_resource_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource", reason="not on Windows")
    tried = []

    def refuse(kind: int, limits: tuple[int, int]) -> None:
        tried.append(kind)
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    usd._limit_resources()
    assert tried == [resource.RLIMIT_AS, resource.RLIMIT_CPU]


def test_the_reason_why_a_usd_file_was_not_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = usd_file(tmp_path / "sheet.usda")
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\nMemoryError: 9 GB\n")
    monkeypatch.setattr(usd.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value) == (
        "sheet.usda: the USD library could not read it within 8 GB of memory. It reported: MemoryError: 9 GB"
    )


def test_without_usd_core_the_remedy_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sheet.usda"
    file.write_text("#usda 1.0\n")
    monkeypatch.setattr(usd.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value) == 'reading sheet.usda needs usd-core: pip install "toile[usd]", or convert it to OBJ.'


# Triangles


def areas(positions: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    x = positions[triangles]
    return 0.5 * np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])[:, 2]


def polygon(points: Any) -> PolygonMesh:
    flat = np.array(points, float)
    return PolygonMesh(np.column_stack([flat, np.zeros(len(flat))]), np.array([len(flat)]), np.arange(len(flat)))


STAR = [(r * np.cos(a), r * np.sin(a)) for r, a in zip([1, 0.3] * 6, np.arange(12) * np.pi / 6, strict=True)]
POLYGONS = {
    "square": [(0, 0), (1, 0), (1, 1), (0, 1)],
    "dart, reflex first": [(0.2, 0.2), (1, 0), (0, 1), (-1, -1)],
    "dart, reflex second": [(1, 0), (0.2, 0.2), (0, 1), (-1, -1)],
    "pentagon": [(np.cos(a), np.sin(a)) for a in 2 * np.pi * np.arange(5) / 5],
    "star": STAR,
    "L": [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)],
    "with a straight corner": [(0, 0), (1, 0), (2, 0), (2, 2), (0, 2)],
}


@pytest.mark.parametrize("points", POLYGONS.values(), ids=POLYGONS.keys())
@pytest.mark.parametrize("turned", [False, True], ids=["as is", "turned over"])
def test_polygons_are_triangulated_without_folds(points: Any, turned: bool) -> None:
    """n - 2 triangles with the orientation of the polygon and its total area (shoelace formula)."""
    mesh = polygon(points[::-1] if turned else points)
    triangles, face = triangulate(mesh)
    x, y = mesh.positions[:, 0], mesh.positions[:, 1]
    total = 0.5 * np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)
    parts = areas(mesh.positions, triangles) * np.sign(total)
    assert len(triangles) == len(points) - 2
    assert not face.any()
    if "straight" not in str(points):
        assert parts.min() > 0
    assert parts.sum() == pytest.approx(abs(total))


def test_quads_are_split_along_the_shorter_diagonal() -> None:
    triangles, _ = triangulate(polygon([(0, 0), (1, 0), (1.5, 1), (0.5, 1)]))
    assert triangles.tolist() == [[0, 1, 3], [1, 2, 3]]


def test_mixed_faces_keep_their_order_and_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "mixed.obj"
    vertices = [(0, 0), (1, 0), (1, 1), (0, 1), (2, 0), (2, 1), (3, 0.5)]
    path.write_text("".join(f"v {x} {y} 0\n" for x, y in vertices) + "g a\nf 2 5 6 3\ng b\nf 5 7 6\ng c\nf 1 2 3 4\n")
    mesh = shape(path, uv="rest")
    assert mesh.warnings == ("2 faces with more than 3 corners were cut into triangles.",)
    assert [sorted(set(t.ravel().tolist())) for t in (mesh.triangles[:2], mesh.triangles[2:3], mesh.triangles[3:])] == [
        [1, 2, 4, 5], [4, 5, 6], [0, 1, 2, 3],
    ]  # fmt: skip
    assert mesh.regions["b"].tolist() == [4, 5, 6]


def test_a_face_of_thousands_of_corners_is_refused() -> None:
    angle = 2 * np.pi * np.arange(1001) / 1001
    with pytest.raises(InputError, match="face 0 has 1001 corners; cut it into triangles first"):
        triangulate(polygon(np.column_stack([np.cos(angle), np.sin(angle)])))


# uv


def lengths(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.roll(points, -1, axis=1) - points, axis=2)


def random_surface(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A bumpy sheet of 5 x 5 vertices in a random position."""
    random = np.random.default_rng(seed)
    u, v = np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 5))
    points = np.stack([u.ravel(), v.ravel(), 0.2 * random.normal(size=25)], axis=1)
    a = np.arange(25).reshape(5, 5)
    corners = [a[:-1, :-1].ravel(), a[:-1, 1:].ravel(), a[1:, 1:].ravel(), a[1:, :-1].ravel()]
    triangles = np.concatenate([np.stack(corners[:3], 1), np.stack([corners[0], corners[2], corners[3]], 1)])
    rotation, _ = np.linalg.qr(random.normal(size=(3, 3)))
    return points @ rotation.T + random.normal(size=3), triangles


@pytest.mark.parametrize("seed", range(5))
def test_flattened_triangles_keep_every_length(seed: int) -> None:
    positions, triangles = random_surface(seed)
    uv, plane = flatten_triangles(positions, triangles)
    np.testing.assert_allclose(lengths(uv), lengths(positions[triangles]), rtol=1e-12)
    assert (model.Mesh(positions, triangles, uv).uv_areas() > 0).all()
    assert plane.shape == (25, 2)


@pytest.mark.parametrize(
    ("x", "y", "turned"),
    [
        ((1, 0, 0), (0, 1, 0), False),
        ((1, 0, 0), (0, 0, 1), False),
        ((0, 1, 0), (0, 0, 1), False),
        ((1, 0, 0), (0, 0, 1), True),
    ],
    ids=["lying", "hanging", "hanging, facing x", "hanging, seen from behind"],
)
def test_a_flat_sheet_without_uv_gets_continuous_uv(x: tuple, y: tuple, turned: bool) -> None:
    """uv then agree at shared vertices, and the sides left, right, lower and upper are those of the sheet."""
    plane = np.array([[0, 0], [3, 0], [3, 2], [0, 2], [6, 0], [6, 2]], float)
    positions = plane @ np.array([x, y], float)
    triangles = np.array([[0, 1, 2], [0, 2, 3], [1, 4, 5], [1, 5, 2]])
    triangles = triangles[:, ::-1] if turned else triangles
    uv, found = flatten_triangles(positions, triangles)
    for vertex in range(6):
        values = uv[triangles == vertex]
        np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape), atol=1e-14)
    np.testing.assert_allclose(found, plane, atol=1e-14)


def test_u_follows_the_uv_of_the_file() -> None:
    """uv rotated by 30 degrees and stretched: the u axis of the flattened sheet keeps the direction of u in the
    file."""
    positions, triangles = random_surface(3)
    flat = positions.copy()
    flat[:, 2] = 0.0
    angle = np.radians(30)
    direction = np.array([np.cos(angle), np.sin(angle)])
    given = np.stack([3 * flat[:, :2] @ direction, 5 * flat[:, 1]], axis=1)
    uv, _ = flatten_triangles(flat, triangles, given[triangles])
    edges, edges_uv = flat[triangles][:, 1] - flat[triangles][:, 0], uv[:, 1] - uv[:, 0]
    np.testing.assert_allclose(edges_uv[:, 0], edges[:, :2] @ direction, atol=1e-13)


def test_scaled_uv_have_the_area_of_the_cloth(tmp_path: Path) -> None:
    path = obj(tmp_path, "f 1/1 2/2 3/3\nf 1/1 3/3 4/4")
    mesh = shape(path, uv="scaled")
    x = mesh.positions[mesh.triangles]
    area = 0.5 * np.linalg.norm(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]), axis=1).sum()
    assert mesh.uv_areas().sum() == pytest.approx(area)
    np.testing.assert_allclose(mesh.uv / mesh.uv[0, 1, 0], UV[np.array(TRIANGLES)] / UV[1, 0], atol=1e-14)


def test_rest_lengths_in_space_leave_the_selection_to_the_uv_of_the_file(tmp_path: Path) -> None:
    mesh = shape(obj(tmp_path, "f 1/1 2/2 3/3\nf 1/1 3/3 4/4"), uv="rest")
    np.testing.assert_allclose(lengths(mesh.uv), lengths(mesh.positions[mesh.triangles]))
    np.testing.assert_allclose(mesh.vertex_uv(), UV)
