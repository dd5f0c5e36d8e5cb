"""What every output must do: give back the frames it was given, and be there completely or not at all.

An analytic sheet of two cloths moves for five frames through each output that the loader finds, alone and with solids;
what was written is read by something that shares no code with the writer.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toile import plugins
from toile.errors import InputError, ToileError
from toile.model.frame import Frame, Part, SolidSurface, Surface
from toile.outputs.base import Output

OUTPUTS = plugins.names("outputs")
NAME = "two sheets"
FPS = 24.0
FRAMES = 5
# Small pictures: these tests are about files. The drawing itself is tested in tests/unit/test_raytracer.py.
SETTINGS: dict[str, dict[str, Any]] = {
    name: {"width": 64, "height": 48, "samples": 1} for name in ("picture", "pictures", "video", "gif")
}
EXTRAS = {
    "usd": ("pxr", 'pip install "toile[usd]"'),
    "alembic": ("alembic3d", 'pip install "toile[alembic]"'),
    "video": ("imageio_ffmpeg", 'pip install "toile[video]"'),
    "gif": ("imageio_ffmpeg", 'pip install "toile[video]"'),
}
# Not on every platform; elsewhere the output says so.
if importlib.util.find_spec("alembic3d") is None:
    OUTPUTS = tuple(name for name in OUTPUTS if name != "alembic")


def grid(columns: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """uv of the vertices of a rectangle, and its triangles."""
    u, v = np.meshgrid(np.arange(columns) / 3.0, np.arange(rows) / 7.0, indexing="xy")
    a = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    lower, upper = np.stack([a, a + 1, a + columns], 1), np.stack([a + 1, a + columns + 1, a + columns], 1)
    return np.column_stack([u.ravel(), v.ravel()]), np.concatenate([lower, upper])


def two_sheets() -> Surface:
    (uv_a, triangles_a), (uv_b, triangles_b) = grid(4, 3), grid(3, 3)
    flat = np.column_stack([uv_a, np.full(len(uv_a), 0.2)])
    slanted = np.column_stack([uv_b + 1.1, 0.7 + uv_b[:, 0]])
    rest = np.concatenate([flat, slanted])
    # The uv of the second cloth jumps at one corner, as on a seam.
    corner_uv_b = uv_b[triangles_b]
    corner_uv_b[0, 1] += 0.125
    figures = {"density": (0.12, "kg/m^2"), "shear": (99.0, "N/m")}
    parts = (
        Part("front/left 1", slice(0, 12), slice(0, 12), "cotton", figures),
        Part("2nd\tsleeve", slice(12, 21), slice(12, 20), "silk"),
    )
    triangles = np.concatenate([triangles_a, triangles_b + 12]).astype(np.int32)
    return Surface(triangles, np.concatenate([uv_a[triangles_a], corner_uv_b]), rest, parts, FPS)


def sheets_and_solids() -> Surface:
    """The same over a square that stands still and a tetrahedron that moves."""
    square = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]], float) / 3.0
    corner = np.array([[0.3, 0, 0.1], [0.5, 0, 0.1], [0.3, 0.2, 0.1], [0.3, 0, 0.3]])
    solids = (
        SolidSurface("table/1", np.array([[0, 1, 2], [0, 2, 3]], np.int32), square, False),
        SolidSurface("2nd\tsleeve", np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32), corner, True),
    )
    return replace(two_sheets(), solids=solids)


SURFACES = {"cloth": two_sheets, "cloth and solids": sheets_and_solids}


def moving(surface: Surface, frames: int = FRAMES) -> list[Frame]:
    """x = rest + a sin(w t + phase): positions and velocities in closed form. Solids that move follow a parabola."""
    phase = np.arange(surface.vertex_count)[:, None] * np.array([0.3, 0.5, 0.7])
    result = []
    for k in range(frames):
        t = k / FPS
        positions = surface.rest + 0.1 * (np.sin(5.0 * t + phase) - np.sin(phase))
        solids = tuple(s.rest + t * t * np.array([1.0, 0.0, 3.0]) if s.moves else s.rest for s in surface.solids)
        result.append(Frame(k, t, positions, 0.5 * np.cos(5.0 * t + phase), solids=solids))
    return result


def output(name: str) -> Output:
    made = plugins.find("outputs", name)(**SETTINGS.get(name, {}))
    assert isinstance(made, Output)
    return made


def write(name: str, folder: Path, surface: Surface | None = None, frames: list[Frame] | None = None) -> list[Path]:
    surface = surface or two_sheets()
    writer = output(name).writer(folder, NAME, surface)
    for frame in frames if frames is not None else moving(surface):
        writer.write(frame)
    return writer.close()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Independent readers: each returns nothing and asserts what the format can hold


def read_pc2(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    check_pc2(folder / "cache.pc2", [frame.positions for frame in frames])
    check_obj((folder / "rest.obj").read_text(), surface, surface.rest)
    assert (folder / "solids.obj").exists() == (folder / "solids.pc2").exists() == bool(surface.solids)
    if surface.solids:
        check_pc2(folder / "solids.pc2", [np.concatenate(frame.solids) for frame in frames])
        text = (folder / "solids.obj").read_text()
        check_solids(text, surface, [solid.rest for solid in surface.solids])
        assert [line for line in text.splitlines() if line.startswith("# solid ")] == [
            '# solid {"name": "table/1", "moves": false}', '# solid {"name": "2nd\\tsleeve", "moves": true}',
        ]  # fmt: skip


def check_pc2(path: Path, frames: list[np.ndarray]) -> None:
    data = path.read_bytes()
    signature, *header = struct.unpack("<12siiffi", data[:32])
    assert (signature, header) == (b"POINTCACHE2\0", [1, len(frames[0]), 0.0, 1.0, len(frames)])
    numbers = struct.unpack(f"<{3 * len(frames[0]) * len(frames)}f", data[32:])
    np.testing.assert_array_equal(np.reshape(numbers, (len(frames), -1, 3)), np.array(frames, np.float32))


def read_npz(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    with np.load(folder / "two_sheets.npz", allow_pickle=False) as data:
        np.testing.assert_array_equal(data["positions"], [frame.positions for frame in frames])
        np.testing.assert_array_equal(data["velocities"], [frame.velocities for frame in frames])
        np.testing.assert_array_equal(data["times"], [frame.time for frame in frames])
        np.testing.assert_array_equal(data["triangles"], surface.triangles)
        np.testing.assert_array_equal(data["uv"], surface.uv)
        assert data["positions"].dtype == data["velocities"].dtype == data["uv"].dtype == np.float64
        assert data["fps"] == surface.fps
        assert list(data["part_names"]) == [part.name for part in surface.parts]
        for part, (v, v_end), (t, t_end) in zip(
            surface.parts, data["part_vertices"], data["part_triangles"], strict=True
        ):
            assert part.vertices == slice(v, v_end) and part.triangles == slice(t, t_end)
        assert any(name.startswith("solid") for name in data) == bool(surface.solids)
        if surface.solids:
            ranges = zip(data["solid_vertex_ranges"], data["solid_triangle_ranges"], strict=True)
            for i, (solid, (vertices, triangles)) in enumerate(zip(surface.solids, ranges, strict=True)):
                assert data["solid_names"][i] == solid.name
                np.testing.assert_array_equal(data["solid_rest"][slice(*vertices)], solid.rest)
                own = data["solid_triangles"][slice(*triangles)] - vertices[0]
                np.testing.assert_array_equal(own, solid.triangles)
                stored = data["solid_positions"][:, slice(*vertices)]
                np.testing.assert_array_equal(stored, [frame.solids[i] for frame in frames])


def read_obj(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    names = [f"two_sheets_{k:04d}.obj" for k in range(FRAMES)]
    assert sorted(path.name for path in (folder / "obj").iterdir()) == names
    for frame in frames:
        text = (folder / "obj" / f"two_sheets_{frame.number:04d}.obj").read_text()
        at = text.index("o table/1\n") if surface.solids else len(text)
        # What reads cloth alone finds it first.
        check_obj(text[:at], surface, frame.positions.astype(np.float32), np.float32)
        solids = [points.astype(np.float32) for points in frame.solids]
        check_solids(text[at:], surface, solids, surface.vertex_count, np.float32)


def check_obj(text: str, surface: Surface, positions: np.ndarray, kind: type = np.float64) -> None:
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert {row[0] for row in rows} <= {"o", "v", "vt", "f"}
    read = np.array([row[1:] for row in rows if row[0] == "v"], np.float64)
    np.testing.assert_array_equal(read.astype(kind), positions)
    uv = np.array([[float(x) for x in row[1:]] for row in rows if row[0] == "vt"])
    corners = np.array([[corner.split("/") for corner in row[1:]] for row in rows if row[0] == "f"], int)
    np.testing.assert_array_equal(corners[:, :, 0] - 1, surface.triangles)
    np.testing.assert_array_equal(uv[corners[:, :, 1] - 1], surface.uv)
    # one object per cloth, which holds its vertices and its triangles
    starts = [i for i, row in enumerate(rows) if row[0] == "o"]
    for part, start, end in zip(surface.parts, starts, [*starts[1:], len(rows)], strict=True):
        words = [row[0] for row in rows[start:end]]
        assert words.count("v") == part.vertices.stop - part.vertices.start
        assert words.count("f") == part.triangles.stop - part.triangles.start
        assert f'"fabric": "{part.fabric}"' in text


def check_solids(
    text: str, surface: Surface, positions: Sequence[np.ndarray], before: int = 0, kind: type = np.float64
) -> None:
    """`before` is how many vertices the file has before the solids."""
    objects = [rows.split("\n") for rows in re.split(r"^o ", text, flags=re.MULTILINE)[1:]]
    assert [rows[0] for rows in objects] == [solid.name.replace("\t", "_") for solid in surface.solids]
    for rows, solid, points in zip(objects, surface.solids, positions, strict=True):
        read = np.array([row[2:].split() for row in rows if row[:2] == "v "], np.float64)
        np.testing.assert_array_equal(read.astype(kind), points)
        corners = np.array([row[2:].split() for row in rows if row[:2] == "f "], int)
        np.testing.assert_array_equal(corners - 1 - before, solid.triangles)
        before += len(points)


def read_usd(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    from pxr import Usd, UsdGeom

    stage = Usd.Stage.Open(str(folder / "two_sheets.usdc"))
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    assert stage.GetTimeCodesPerSecond() == stage.GetFramesPerSecond() == FPS
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (0.0, FRAMES - 1.0)
    root = stage.GetDefaultPrim()
    assert root.GetTypeName() == "Xform" and root.GetName() == "two_sheets"
    everything_in_it = root.GetChildren()
    children = everything_in_it[: len(surface.parts)]
    assert [child.GetName() for child in children] == ["front_left_1", "_2nd_sleeve"]
    assert [child.GetDisplayName() for child in children] == [part.name for part in surface.parts]
    assert [child.GetCustomDataByKey("toile:fabric") for child in children] == ["cotton", "silk"]
    for part, child in zip(surface.parts, children, strict=True):
        mesh = UsdGeom.Mesh(child)
        assert mesh.GetSubdivisionSchemeAttr().Get() == "none" and mesh.GetDoubleSidedAttr().Get()
        triangles = np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3)
        np.testing.assert_array_equal(triangles + part.vertices.start, surface.triangles[part.triangles])
        assert set(mesh.GetFaceVertexCountsAttr().Get()) == {3}
        st = UsdGeom.PrimvarsAPI(mesh).GetPrimvar("st")
        assert st.GetInterpolation() == "faceVarying"
        np.testing.assert_array_equal(np.array(st.Get()), surface.uv[part.triangles].reshape(-1, 2).astype(np.float32))
        assert mesh.GetPointsAttr().GetTimeSamples() == list(range(FRAMES))
        for frame in frames:
            expected = frame.positions[part.vertices].astype(np.float32)
            np.testing.assert_array_equal(np.array(mesh.GetPointsAttr().Get(frame.number)), expected)
            extent = np.array(mesh.GetExtentAttr().Get(frame.number))
            np.testing.assert_array_equal(extent, [expected.min(axis=0), expected.max(axis=0)])
            velocities = np.array(mesh.GetVelocitiesAttr().Get(frame.number))
            np.testing.assert_array_equal(velocities, frame.velocities[part.vertices].astype(np.float32))
    check_usd_materials(stage, surface, children, everything_in_it[-1])
    solids = everything_in_it[len(surface.parts) : -1]
    assert [child.GetName() for child in solids] == (["table_1", "_2nd_sleeve_2"] if surface.solids else [])
    for i, (solid, child) in enumerate(zip(surface.solids, solids, strict=True)):
        mesh = UsdGeom.Mesh(child)
        assert child.GetDisplayName() == solid.name and child.GetCustomDataByKey("toile:solid") is True
        assert mesh.GetSubdivisionSchemeAttr().Get() == "none"
        np.testing.assert_array_equal(np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3), solid.triangles)
        assert mesh.GetPointsAttr().GetTimeSamples() == (list(range(FRAMES)) if solid.moves else [])
        for frame in frames:
            expected = frame.solids[i].astype(np.float32)
            np.testing.assert_array_equal(np.array(mesh.GetPointsAttr().Get(frame.number)), expected)
            extent = np.array(mesh.GetExtentAttr().Get(frame.number))
            np.testing.assert_array_equal(extent, [expected.min(axis=0), expected.max(axis=0)])


def check_usd_materials(stage: Any, surface: Surface, cloths: list[Any], scope: Any) -> None:
    from pxr import UsdShade

    assert scope.GetName() == "materials" and scope.GetTypeName() == "Scope"
    solid = ["solid"] if surface.solids else []
    assert [prim.GetName() for prim in scope.GetChildren()] == ["cotton", "silk", *solid]
    for part, cloth in zip(surface.parts, cloths, strict=True):
        material, _ = UsdShade.MaterialBindingAPI(cloth).ComputeBoundMaterial()
        prim = material.GetPrim()
        assert prim.GetName() == part.fabric and prim.GetTypeName() == "Material"
        figures = {
            a.GetName(): (a.Get(), a.GetCustomDataByKey("unit")) for a in prim.GetAttributes() if a.IsCustom()
        }
        assert figures == {f"toile:{key}": value for key, value in part.figures.items()}
        assert material.ComputeSurfaceSource()[0].GetIdAttr().Get() == "UsdPreviewSurface"


def turned(points: np.ndarray) -> np.ndarray:
    """A world with y up: a quarter turn about x."""
    return np.asarray(points @ np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]), np.float32)


def read_alembic(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    from alembic3d import Abc, AbcGeom

    archive = Abc.IArchive(str(folder / "two_sheets.abc"))
    top = archive.getTop()
    transforms = [top.children[i] for i in range(len(top.children))]
    solids = ["table_1", "_2nd_sleeve_2"] if surface.solids else []
    assert [transform.getName() for transform in transforms] == ["front_left_1", "_2nd_sleeve", *solids]
    shapes = [
        *((surface.triangles[p.triangles] - p.vertices.start, surface.uv[p.triangles], True) for p in surface.parts),
        *((solid.triangles, None, solid.moves) for solid in surface.solids),
    ]
    for i, (transform, (triangles, uv, moves)) in enumerate(zip(transforms, shapes, strict=True)):
        schema = AbcGeom.IPolyMesh(transform, transform.children[0].getName()).getSchema()
        assert schema.getNumSamples() == (FRAMES if moves else 1)
        for frame in frames:
            sample = schema.getValue(Abc.ISampleSelector(frame.time))
            # Seen from outside, corners turn clockwise.
            corners = np.array(list(sample.getFaceIndices())).reshape(-1, 3)
            np.testing.assert_array_equal(corners[:, ::-1], triangles)
            own = [*(frame.positions[part.vertices] for part in surface.parts), *frame.solids][i]
            np.testing.assert_array_equal([tuple(p) for p in sample.getPositions()], turned(own))
            if i < len(surface.parts):
                velocities = frame.velocities[surface.parts[i].vertices]
                np.testing.assert_array_equal([tuple(v) for v in sample.getVelocities()], turned(velocities))
        if uv is not None:
            read = np.array([tuple(v) for v in schema.getUVsParam().getExpandedValue().getVals()])
            np.testing.assert_array_equal(read.reshape(-1, 3, 2)[:, ::-1], uv.astype(np.float32))


def read_glb(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    document, binary = parse_glb((folder / "two_sheets.glb").read_bytes())
    array = partial(glb_array, document, binary)
    assert document["asset"]["version"] == "2.0"
    names = [part.name for part in surface.parts] + [solid.name for solid in surface.solids]
    assert document["scenes"][document["scene"]]["nodes"] == list(range(len(names)))
    assert [node["name"] for node in document["nodes"]] == names
    (animation,) = document["animations"]
    (sampler,) = animation["samplers"]
    assert sampler["interpolation"] == "LINEAR"
    np.testing.assert_array_equal(array(sampler["input"]), np.array([f.time for f in frames], np.float32))
    weights = array(sampler["output"]).reshape(FRAMES, FRAMES - 1)
    moved = {channel["target"]["node"] for channel in animation["channels"]}
    moves = [*(True for _ in surface.parts), *(solid.moves for solid in surface.solids)]
    assert moved == {number for number, does in enumerate(moves) if does}
    triangles_of = [
        *(surface.triangles[part.triangles] for part in surface.parts), *(solid.triangles for solid in surface.solids),
    ]  # fmt: skip
    for number, node in enumerate(document["nodes"]):
        mesh = document["meshes"][node["mesh"]]
        (primitive,) = mesh["primitives"]
        corners = array(primitive["indices"]).reshape(-1, 3)
        base = array(primitive["attributes"]["POSITION"])
        normals = array(primitive["attributes"]["NORMAL"])
        targets = [array(target["POSITION"]) for target in primitive.get("targets", [])]
        normal_targets = [array(target["NORMAL"]) for target in primitive.get("targets", [])]
        assert len(targets) == (FRAMES - 1 if number in moved else 0)
        for frame, weight in zip(frames, weights, strict=True):
            points = [*(frame.positions for _ in surface.parts), *frame.solids][number]
            shown = base + sum((w * t for w, t in zip(weight, targets, strict=False)), np.zeros_like(base))
            exact = turned(points[triangles_of[number]].reshape(-1, 3))
            far = np.abs(exact - base[corners].reshape(-1, 3)).max()
            np.testing.assert_allclose(shown[corners].reshape(-1, 3), exact, rtol=2.0**-24, atol=2.0**-24 * far)
            own = normals + sum((w * t for w, t in zip(weight, normal_targets, strict=False)), np.zeros_like(base))
            np.testing.assert_allclose(np.linalg.norm(own, axis=1), 1.0, atol=1e-6)
        material = document["materials"][primitive["material"]]
        if number < len(surface.parts):
            part = surface.parts[number]
            assert material["name"] == part.fabric and material["doubleSided"]
            assert material.get("extras", {}) == {k: {"value": v, "unit": u} for k, (v, u) in part.figures.items()}
            uv = array(primitive["attributes"]["TEXCOORD_0"])[corners]
            np.testing.assert_allclose(uv * [1, -1] + [0, 1], surface.uv[part.triangles], atol=1e-7)
            first = frames[0].positions[part.vertices]
            np.testing.assert_array_equal(base[: len(first)], turned(first))  # the cloth's own vertices in their order
        else:
            assert material["name"] == "solid" and "TEXCOORD_0" not in primitive["attributes"]


def parse_glb(data: bytes) -> tuple[dict[str, Any], bytes]:
    magic, version, length, text_length, kind = struct.unpack("<4sIIII", data[:20])
    assert (magic, version, length, kind) == (b"glTF", 2, len(data), 0x4E4F534A) and text_length % 4 == 0
    document = json.loads(data[20 : 20 + text_length])
    binary_length, kind = struct.unpack("<II", data[20 + text_length : 28 + text_length])
    binary = data[28 + text_length :]
    assert kind == 0x004E4942 and binary_length == len(binary) == document["buffers"][0]["byteLength"]
    return document, binary


def glb_array(document: dict[str, Any], binary: bytes, number: int) -> np.ndarray:
    accessor = document["accessors"][number]
    view = document["bufferViews"][accessor["bufferView"]]
    kind = {5126: "<f4", 5125: "<u4"}[accessor["componentType"]]
    width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3}[accessor["type"]]
    at = accessor.get("byteOffset", 0)
    assert view.get("byteStride", 4 * width) == 4 * width
    assert at % 4 == 0 and view["byteOffset"] % 4 == 0
    assert at + 4 * width * accessor["count"] <= view["byteLength"]
    array = np.frombuffer(binary, kind, width * accessor["count"], view["byteOffset"] + at).reshape(-1, width)
    if "min" in accessor:
        np.testing.assert_array_equal([accessor["min"], accessor["max"]], [array.min(axis=0), array.max(axis=0)])
    return array[:, 0] if width == 1 else array


def read_ply(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    names = [f"two_sheets_{k:04d}.ply" for k in range(FRAMES)]
    assert sorted(path.name for path in (folder / "ply").iterdir()) == names
    for frame in frames:
        head, _, body = (folder / "ply" / names[frame.number]).read_bytes().partition(b"end_header\n")
        lines = head.decode().splitlines()
        assert lines[:2] == ["ply", "format binary_little_endian 1.0"]
        vertices, faces = (int(line.split()[2]) for line in lines if line.startswith("element"))
        properties = [line.split()[-1] for line in lines if line.startswith("property")]
        assert properties == [*"xyzst", "vertex_indices", "part"]
        points = np.array([struct.unpack_from("<5f", body, 20 * i) for i in range(vertices)], np.float32)
        rows = [struct.unpack_from("<B3ii", body, 20 * vertices + 17 * i) for i in range(faces)]
        assert 20 * vertices + 17 * faces == len(body) and {row[0] for row in rows} == {3}
        corners, owners = np.array([row[1:4] for row in rows]), np.array([row[4] for row in rows])
        np.testing.assert_array_equal(points[: surface.vertex_count, :3], frame.positions.astype(np.float32))
        for number, part in enumerate(surface.parts):
            own = points[corners[owners == number]]
            expected = frame.positions[surface.triangles[part.triangles]]
            np.testing.assert_array_equal(own[..., :3], expected.astype(np.float32))
            np.testing.assert_array_equal(own[..., 3:], surface.uv[part.triangles].astype(np.float32))
        for number, solid in enumerate(surface.solids):
            own = points[corners[owners == len(surface.parts) + number]]
            np.testing.assert_array_equal(own[..., :3], frame.solids[number][solid.triangles].astype(np.float32))


def read_picture(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    image = decode_png((folder / "two_sheets.png").read_bytes())
    assert image.shape == (48, 64, 3)
    # Blue cloth and red cloth are both in it; the ground is grey.
    red, blue = image[..., 0].astype(int), image[..., 2].astype(int)
    assert (blue - red > 40).sum() > 20 and (red - blue > 40).sum() > 20


def decode_png(data: bytes) -> np.ndarray:
    """8-bit RGB with row filters 0 and 1, which is all that is promised here."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 2) and b"IEND" in chunks
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert set(rows[:, 0]) <= {0, 1}
    pixels = rows[:, 1:].reshape(height, width, 3)
    return np.where(rows[:, :1, None] == 1, np.cumsum(pixels, axis=1, dtype=np.uint8), pixels)


def read_video(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    import imageio_ffmpeg

    film = imageio_ffmpeg.read_frames(str(folder / "two_sheets.mp4"))
    about = next(film)
    images = [np.frombuffer(image, np.uint8).reshape(48, 64, 3).astype(int) for image in film]
    assert about["codec"] == "h264" and about["pix_fmt"].startswith("yuv420p")
    assert about["size"] == (64, 48) and about["fps"] == FPS
    assert len(images) == len(frames)
    for image in images:
        assert (image[..., 2] - image[..., 0] > 30).sum() > 20
    assert not np.array_equal(images[0], images[-1])


def read_gif(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    import imageio_ffmpeg

    data = (folder / "two_sheets.gif").read_bytes()
    assert data[:6] == b"GIF89a" and struct.unpack("<HH", data[6:10]) == (64, 48)
    assert b"NETSCAPE2.0\x03\x01\0\0" in data  # it repeats for ever
    # Each picture is preceded by how long it is shown, in hundredths of a second.
    delays = [int.from_bytes(found, "little") for found in re.findall(rb"\x21\xf9\x04.(..).\x00", data, re.DOTALL)]
    assert len(delays) == FRAMES and abs(sum(delays[:-1]) - 100 * (FRAMES - 1) / FPS) <= 1.0
    film = imageio_ffmpeg.read_frames(str(folder / "two_sheets.gif"))
    next(film)
    images = [np.frombuffer(image, np.uint8).reshape(48, 64, 3).astype(int) for image in film]
    for image in images:
        assert (image[..., 2] - image[..., 0] > 30).sum() > 20
    assert not np.array_equal(images[0], images[-1])


def read_pictures(folder: Path, surface: Surface, frames: list[Frame]) -> None:
    names = [f"two_sheets_{k:04d}.png" for k in range(FRAMES)]
    assert sorted(path.name for path in (folder / "pictures").iterdir()) == names
    images = [decode_png((folder / "pictures" / name).read_bytes()) for name in names]
    for image in images:
        assert image.shape == (48, 64, 3) and (image[..., 2].astype(int) - image[..., 0] > 40).sum() > 20
    assert not np.array_equal(images[0], images[-1])


READERS: dict[str, Callable[[Path, Surface, list[Frame]], None]] = {
    "pc2": read_pc2, "npz": read_npz, "obj": read_obj, "ply": read_ply, "usd": read_usd, "alembic": read_alembic,
    "glb": read_glb, "picture": read_picture, "pictures": read_pictures, "video": read_video, "gif": read_gif,
}  # fmt: skip


@pytest.mark.parametrize("shown", SURFACES)
@pytest.mark.parametrize("name", OUTPUTS)
def test_what_was_written_reads_back(name: str, shown: str, tmp_path: Path) -> None:
    surface = SURFACES[shown]()
    frames = moving(surface)
    written = write(name, tmp_path, surface, frames)
    READERS[name](tmp_path, surface, frames)
    assert {path.relative_to(tmp_path) for path in written} == {Path(path) for path in everything(tmp_path)}


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_same_frames_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    for run in ("a", "b"):
        write(name, tmp_path / run, sheets_and_solids())
    assert everything(tmp_path / "a") == everything(tmp_path / "b")


@pytest.mark.parametrize("name", OUTPUTS)
def test_nothing_is_visible_before_it_is_complete(name: str, tmp_path: Path) -> None:
    writer = output(name).writer(tmp_path, NAME, sheets_and_solids())
    for frame in moving(sheets_and_solids()):
        writer.write(frame)
        assert all(path.startswith(".") for path in everything(tmp_path))
    writer.close()
    assert not any(path.startswith(".") for path in everything(tmp_path))


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("frames", [0, 2])
def test_discard_leaves_nothing(name: str, frames: int, tmp_path: Path) -> None:
    writer = output(name).writer(tmp_path, NAME, sheets_and_solids())
    for frame in moving(sheets_and_solids())[:frames]:
        writer.write(frame)
    writer.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_failed_run_leaves_the_result_of_the_one_before(name: str, tmp_path: Path) -> None:
    write(name, tmp_path, sheets_and_solids())
    before = everything(tmp_path)
    writer = output(name).writer(tmp_path, NAME, two_sheets())
    writer.write(moving(two_sheets())[0])
    writer.discard()
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_shorter_run_replaces_a_longer_one(name: str, tmp_path: Path) -> None:
    surface = two_sheets()
    write(name, tmp_path / "twice", surface, moving(surface))
    write(name, tmp_path / "twice", surface, moving(surface, 3))
    write(name, tmp_path / "once", surface, moving(surface, 3))
    assert everything(tmp_path / "twice") == everything(tmp_path / "once")


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_run_without_solids_replaces_one_with(name: str, tmp_path: Path) -> None:
    write(name, tmp_path / "twice", sheets_and_solids())
    write(name, tmp_path / "twice")
    write(name, tmp_path / "once")
    assert everything(tmp_path / "twice") == everything(tmp_path / "once")


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_error_at_the_last_moment_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.replace", full)
    monkeypatch.setattr("os.rename", full)
    with pytest.raises(ToileError, match=r"cannot be written: no space left on device\. Free some space"):
        write(name, tmp_path, sheets_and_solids())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_disk_that_fills_up_is_one_clear_error(
    name: str, tmp_path: Path, small_disk: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    """The system itself refuses the bytes, wherever the writer happens to be when they run out."""
    surface = two_sheets()
    frames = moving(surface)
    with small_disk(), pytest.raises(ToileError, match=re.escape(str(tmp_path)) + r".*too large.*disk") as caught:
        writer = output(name).writer(tmp_path, NAME, surface)
        try:
            for frame in frames:
                writer.write(frame)
        except BaseException:
            writer.discard()
            raise
        writer.close()
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """No file may grow beyond 100 bytes inside it; pytest's own report may be a file, and is written outside it."""
    resource = pytest.importorskip("resource")  # not on Windows
    write("picture", tmp_path_factory.mktemp("warm"))  # kernels are cached on disk too

    @contextlib.contextmanager
    def limited() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_file_in_the_way_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("not a folder")
    with pytest.raises(ToileError, match=r"out.*cannot be written: .*a file is in the way"):
        write(name, tmp_path / "out")


def test_a_killed_run_leaves_no_results_and_the_next_one_no_rubbish(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from test_outputs import *\n"
        "writers = [output(name).writer(Path(sys.argv[1]), NAME, two_sheets()) for name in OUTPUTS]\n"
        "[writer.write(frame) for frame in moving(two_sheets()) for writer in writers]\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, check=False)
    assert done.returncode == -9
    left = everything(tmp_path)
    assert left and all(path.startswith(".") for path in left)
    for name in OUTPUTS:
        write(name, tmp_path)
    assert not any(path.startswith(".") for path in everything(tmp_path))


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_a_missing_package_is_named_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, remedy = EXTRAS[name]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=re.escape(remedy)):
        output(name).writer(tmp_path, NAME, two_sheets())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_any_name_of_a_scene_stays_inside_the_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    surface = two_sheets()
    for scene in ("../../etc/passwd", "a b\n\0c", ".hidden", "Ärmel", "x" * 300, "...", "1"):
        writer = output(name).writer(folder, scene, surface)
        writer.write(moving(surface)[0])
        for path in writer.close():
            assert path.resolve().is_relative_to(folder.resolve()) and path.is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_scene_without_cloth_and_without_motion(name: str, tmp_path: Path) -> None:
    nothing = Surface(np.zeros((0, 3), np.int32), np.zeros((0, 3, 2)), np.zeros((0, 3)), (), FPS)
    for path in write(name, tmp_path, nothing, [Frame(0, 0.0, nothing.rest, nothing.rest)]):
        assert path.stat().st_size > 0


def test_importing_the_outputs_imports_nothing_heavy() -> None:
    script = (
        "import sys; from toile import plugins\n"
        "[plugins.find('outputs', name) for name in plugins.names('outputs')]\n"
        "print(sorted({'warp', 'pxr', 'alembic3d', 'imageio_ffmpeg', 'scipy'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_cloths_whose_names_look_alike_stay_apart_in_usd(tmp_path: Path) -> None:
    from pxr import Usd

    sheets = two_sheets()
    parts = tuple(Part(name, p.vertices, p.triangles) for name, p in zip(("a b", "a/b"), sheets.parts, strict=True))
    write("usd", tmp_path, Surface(sheets.triangles, sheets.uv, sheets.rest, parts, FPS))
    stage = Usd.Stage.Open(str(tmp_path / "two_sheets.usdc"))
    assert [child.GetName() for child in stage.GetDefaultPrim().GetChildren()] == ["a_b", "a_b_2", "materials"]


def test_a_picture_of_a_frame_that_does_not_exist(tmp_path: Path) -> None:
    writer = plugins.find("outputs", "picture")(frame=7, **SETTINGS["picture"]).writer(tmp_path, NAME, two_sheets())
    for frame in moving(two_sheets()):
        writer.write(frame)
    with pytest.raises(InputError, match="no picture of frame 7: the run has frames 0 to 4"):
        writer.close()
    assert list(tmp_path.iterdir()) == []
