"""Reading vertex sequences: every format gives the same frames, and what is broken is refused with its reason."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toile.errors import InputError
from toile.model import solid_shapes as shapes
from toile.model.frame import Frame, Part, Surface
from toile.model.sequence_files import FrameFile, read_sequence
from toile.model.solid_mesh import read_solid
from toile.model.vertex_sequence import sequence_for
from toile.plugins import find

POSITIONS, TRIANGLES = shapes.box((1.0, 2.0, 3.0))
FRAMES = np.array([POSITIONS + 0.25 * k for k in range(5)])  # quarters: exact in float32


def write_npz(folder: Path) -> str:
    np.savez(folder / "body.npz", positions=FRAMES, triangles=TRIANGLES, fps=24)
    return "body.npz"


def write_pc2(folder: Path, rate: float = 1.0) -> str:
    header = struct.pack("<12siiffi", b"POINTCACHE2\0", 1, 8, 0.0, rate, len(FRAMES))
    (folder / "body.pc2").write_bytes(header + FRAMES.astype("<f4").tobytes())
    return "body.pc2"


def obj_text(positions: np.ndarray) -> str:
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in positions.tolist()]
    return "\n".join([*lines, *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in TRIANGLES.tolist()), ""])


def write_obj(folder: Path, first: int = 8, digits: int = 4) -> str:
    for k, positions in enumerate(FRAMES):
        (folder / f"body_{first + k:0{digits}}.obj").write_text(obj_text(positions))
    return f"body_{'#' * digits}.obj"


def write_usd(folder: Path, codes: Any = range(1, 6), frames: np.ndarray = FRAMES, **changes: Any) -> str:
    pytest.importorskip("pxr", reason="usd-core is an optional extra")
    from pxr import Gf, Usd, UsdGeom

    stage = Usd.Stage.CreateNew(str(folder / "body.usda"))
    UsdGeom.SetStageMetersPerUnit(stage, changes.get("unit", 1.0))
    UsdGeom.SetStageUpAxis(stage, changes.get("up", UsdGeom.Tokens.z))
    stage.SetTimeCodesPerSecond(24)
    parent = UsdGeom.Xform.Define(stage, "/actor")
    mesh = UsdGeom.Mesh.Define(stage, "/actor/body")
    if "moves" in changes:
        op = parent.AddTranslateOp()
        for code, move in changes["moves"].items():
            op.Set(Gf.Vec3d(*move), code)
    for code, points in zip(codes, frames, strict=True):
        mesh.GetPointsAttr().Set(points.astype(np.float32), float(code))
    if not len(frames):
        mesh.GetPointsAttr().Set(POSITIONS.astype(np.float32))
    mesh.GetFaceVertexCountsAttr().Set([3] * len(TRIANGLES))
    mesh.GetFaceVertexIndicesAttr().Set(TRIANGLES.ravel())
    stage.GetRootLayer().Save()
    return "body.usda"


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


def test_a_body_is_carried_by_its_file(tmp_path: Path) -> None:
    """The mesh from the first frame's file, the motion from a cache, halfway between two frames."""
    write_obj(tmp_path)
    mesh = read_solid(tmp_path, "body_0008.obj")
    moves = sequence_for(mesh, read_sequence(tmp_path, write_pc2(tmp_path)).positions, fps=4.0, interpolation="linear")
    x, v = moves.at(0.375)
    np.testing.assert_allclose(x, POSITIONS + 0.375)
    np.testing.assert_allclose(v, 1.0)


# NPZ


def surface() -> Surface:
    part = Part("cloth", slice(0, 8), slice(0, 12), "cotton")
    uv = POSITIONS[TRIANGLES][:, :, :2]
    return Surface(triangles=TRIANGLES, uv=uv, rest=POSITIONS, parts=(part,), fps=30.0)


@pytest.mark.parametrize(("output", "file"), [("npz", "demo.npz"), ("pc2", "cache.pc2"), ("usd", "demo.usdc")])
def test_what_toile_writes_it_reads(tmp_path: Path, output: str, file: str) -> None:
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [("<f8", "f8"), (">f8", "f8"), ("<f4", "f4"), (">f4", "f4"), ("<f2", "f4"), ("<i4", "f8"), ("<u2", "f8")],
)
def test_npz_numbers_of_any_kind(tmp_path: Path, given: str, expected: str) -> None:
    whole = np.arange(24).reshape(2, 4, 3)
    np.savez_compressed(tmp_path / "a.npz", positions=whole.astype(given))
    found = read_sequence(tmp_path, "a.npz")
    np.testing.assert_array_equal(found.positions, whole)
    assert found.positions.dtype == np.dtype(expected)
    assert found.fps is None and found.triangles is None


def npz_bytes(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npz_of(header: bytes, data: bytes = b"") -> bytes:
    """An archive whose one array has a header of our own."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("positions.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
    return buffer.getvalue()


HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000, 3), }\n"
NPZ_ERRORS = {
    "garbage": (b"garbage", r"a\.npz: not a readable NumPy archive \(File is not a zip file\)\."),
    "cut off": (npz_bytes(positions=FRAMES)[:-300], r"a\.npz: not a readable NumPy archive \("),
    "damaged": (
        npz_bytes(positions=FRAMES).replace(FRAMES[2].tobytes(), FRAMES[3].tobytes()),
        r"a\.npz: not a readable NumPy archive \(Bad CRC-32",
    ),
    "no positions": (
        npz_bytes(verts=FRAMES, faces=TRIANGLES),
        r'a\.npz: has no array "positions" \(frames, vertices, 3\), but faces, verts\.',
    ),
    "nothing": (npz_bytes(), r'a\.npz: has no array "positions" \(frames, vertices, 3\), but nothing\.'),
    "one frame": (
        npz_bytes(positions=POSITIONS),
        r'a\.npz: "positions" is \(8, 3\) of float64; it must be \(frames, vertices, 3\) of numbers\.',
    ),
    "no frames": (
        npz_bytes(positions=FRAMES[:0]),
        r'a\.npz: "positions" is \(0, 8, 3\) of float64; it must be \(frames, vertices, 3\) of numbers\.',
    ),
    "words": (
        npz_bytes(positions=FRAMES.astype("U8")),
        r'a\.npz: "positions" is \(5, 8, 3\) of <U8; it must be \(frames, vertices, 3\) of numbers\.',
    ),
    "objects": (
        npz_bytes(positions=np.array([[["a", 1, None]]], object)),
        r'a\.npz: "positions" has Python objects, which are never read. Save plain numbers\.',
    ),
    "announces too much": (npz_of(HUGE), r'a\.npz: "positions" declares 12000000000000 bytes and has 0\.'),
    "header": (npz_of(b"{'descr': __import__('os')}"), r"a\.npz: not a readable NumPy archive \("),
    "fps": (npz_bytes(positions=FRAMES, fps=0), r'a\.npz: "fps" must be one number > 0 \[1/s\]\.'),
    "two fps": (npz_bytes(positions=FRAMES, fps=[24, 25]), r'a\.npz: "fps" must be one number > 0 \[1/s\]\.'),
    "quads": (
        npz_bytes(positions=FRAMES, triangles=[[0, 1, 2, 3]]),
        r'a\.npz: "triangles" is \(1, 4\) of int64; it must be \(triangles, 3\) of integers\.',
    ),
    "range": (
        npz_bytes(positions=FRAMES, triangles=[[0, 1, 2], [0, 1, 8]]),
        r"a\.npz: triangle 1 refers to a vertex outside of 0 to 7\.",
    ),
}


@pytest.mark.parametrize(("content", "expected"), NPZ_ERRORS.values(), ids=NPZ_ERRORS.keys())
def test_npz_files_that_cannot_be_used(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=f"^{expected}"):
        read_sequence(tmp_path, "a.npz")


def test_an_archive_larger_than_memory_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", positions=np.zeros((100, 1000, 3)))
    monkeypatch.setattr("toile.model.mesh_files.available_memory", lambda: 1_000_000)
    with pytest.raises(InputError, match=r"^reading a\.npz needs about 0\.0024 GB of memory, but only 0\.001 GB are"):
        read_sequence(tmp_path, "a.npz")


# PC2


def test_pc2_samples_of_several_frames_are_reported(tmp_path: Path) -> None:
    found = read_sequence(tmp_path, write_pc2(tmp_path, rate=2.0))
    assert found.warnings == ("its samples are 2 frames apart. Set fps to samples per second.",)


def pc2(version: int = 1, points: int = 8, samples: int = 5, data: int = 480) -> bytes:
    return struct.pack("<12siiffi", b"POINTCACHE2\0", version, points, 0.0, 1.0, samples) + bytes(data)


PC2_ERRORS = {
    "garbage": (b"garbage" * 20, "a.pc2: not a PC2 file: it does not begin with POINTCACHE2."),
    "header cut off": (pc2()[:20], "a.pc2: ends within its header of 32 bytes."),
    "version": (pc2(version=2), "a.pc2: PC2 version 2; only version 1 exists."),
    "no points": (pc2(points=0), "a.pc2: declares 5 frames of 0 vertices; both must be at least 1."),
    "negative": (pc2(samples=-5), "a.pc2: declares -5 frames of 8 vertices; both must be at least 1."),
    "cut off": (
        pc2(data=479),
        "a.pc2: 5 frames of 8 vertices are 512 bytes, but the file has 511: it was cut off. Write it again.",
    ),
    "billions announced": (
        pc2(points=2**31 - 1, samples=2**31 - 1),
        "a.pc2: 2147483647 frames of 2147483647 vertices are 55340232169589047340 bytes, but the file has 512: "
        "it was cut off. Write it again.",
    ),
    "too long": (
        pc2(data=481),
        "a.pc2: 5 frames of 8 vertices are 512 bytes, but the file has 513: "
        "it does not match its header. Write it again.",
    ),
}


@pytest.mark.parametrize(("content", "expected"), PC2_ERRORS.values(), ids=PC2_ERRORS.keys())
def test_pc2_files_that_cannot_be_used(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "a.pc2").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, "a.pc2")
    assert str(caught.value) == expected


# One file per frame


@pytest.mark.parametrize(
    "pattern", ["body_####.obj", "body_##.obj", "body_*.obj", "./body_#.obj", "body_#.obj/", "take/../body_*.obj"]
)
def test_patterns(tmp_path: Path, pattern: str) -> None:
    write_obj(tmp_path)
    (tmp_path / "body_rest.obj").write_text("not a frame")
    (tmp_path / "other_0003.obj").write_text("not a frame")
    np.testing.assert_array_equal(read_sequence(tmp_path, pattern).positions, FRAMES)


def test_numbers_without_leading_zeros_are_in_order(tmp_path: Path) -> None:
    """8, 9, 10, 11, 12: by number, not by letter."""
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


@pytest.mark.parametrize("link", ["body_0008.obj", "body_0010.obj"])
def test_a_frame_that_leads_out_is_refused(tmp_path: Path, link: str) -> None:
    scene = tmp_path / "scene"
    scene.mkdir()
    pattern = write_obj(scene)
    (scene / link).rename(tmp_path / "secret.obj")
    (scene / link).symlink_to(tmp_path / "secret.obj")
    with pytest.raises(InputError, match=r"^leads out of the scene's folder\."):
        read_sequence(scene, pattern)
    np.testing.assert_array_equal(read_sequence(scene, pattern, allow_outside=True).positions, FRAMES)


# USD


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


def test_usd_uneven_samples_are_read_at_even_times(tmp_path: Path) -> None:
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


# Files that are not there


@pytest.mark.parametrize("file", ["a.npz", "a.pc2", "a.usda"])
def test_missing_empty_and_directory(tmp_path: Path, file: str) -> None:
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
def test_names_that_lead_nowhere(tmp_path: Path, file: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, file)
    assert str(caught.value) == expected.format(folder=tmp_path)


GOOD = {".npz": npz_bytes(positions=FRAMES, triangles=TRIANGLES, fps=24.0), ".pc2": pc2()}


@given(st.sampled_from([".npz", ".pc2"]), st.integers(0, 10_000), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_damaged_files_are_refused_or_read(tmp_path: Path, suffix: str, seed: int, cut: bool) -> None:
    """A few bytes changed, or the end missing: a typed error or frames, nothing else."""
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
