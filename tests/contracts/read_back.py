"""A reader for every output that shares no code with its writer. Each asserts all that its format can hold.

They know the sheets of test_outputs.py by name; their geometry and motion are arguments.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from toile.model.frame import Frame, Surface

FPS = 24.0
FRAMES = 5


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
        # A reader of cloth alone finds it first.
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
        type_names = [row[0] for row in rows[start:end]]
        assert type_names.count("v") == part.vertices.stop - part.vertices.start
        assert type_names.count("f") == part.triangles.stop - part.triangles.start
        assert f'"fabric": "{part.fabric}"' in text


def check_solids(
    text: str, surface: Surface, positions: Sequence[np.ndarray], before: int = 0, kind: type = np.float64
) -> None:
    """`before` is the number of vertices in the file before those of the solids."""
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
        properties = {
            a.GetName(): (a.Get(), a.GetCustomDataByKey("unit")) for a in prim.GetAttributes() if a.IsCustom()
        }
        assert properties == {f"toile:{key}": value for key, value in part.properties.items()}
        assert material.ComputeSurfaceSource()[0].GetIdAttr().Get() == "UsdPreviewSurface"


def turned(points: np.ndarray) -> np.ndarray:
    """Positions in a world with y up, a quarter turn about x."""
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
            assert material.get("extras", {}) == {k: {"value": v, "unit": u} for k, (v, u) in part.properties.items()}
            uv = array(primitive["attributes"]["TEXCOORD_0"])[corners]
            np.testing.assert_allclose(uv * [1, -1] + [0, 1], surface.uv[part.triangles], atol=1e-7)
            first = frames[0].positions[part.vertices]
            np.testing.assert_array_equal(base[: len(first)], turned(first))  # the vertices of the cloth in their order
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
    # It shows blue cloth and red cloth; the ground is gray.
    red, blue = image[..., 0].astype(int), image[..., 2].astype(int)
    assert (blue - red > 40).sum() > 20 and (red - blue > 40).sum() > 20


def decode_png(data: bytes) -> np.ndarray:
    """Decodes 8-bit RGB with row filters 0 and 1, the only ones that the writer uses."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height, depth, color, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, color) == (8, 2) and b"IEND" in chunks
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
    assert b"NETSCAPE2.0\x03\x01\0\0" in data  # it repeats forever
    # Each picture is preceded by its duration in hundredths of a second.
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
