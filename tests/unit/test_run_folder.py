"""Reading a finished run: the surface exactly, frames to float32, and messages for folders that are not runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toile.errors import InputError, ToileError
from toile.model.frame import Frame, Part, Surface
from toile.outputs.pc2 import Pc2
from toile.runs.folder import RunFolder, export_run, render_run

FPS = 25.0
SMALL = {"width": 32, "height": 24, "samples": 1}
finite = st.floats(allow_nan=False, allow_infinity=False)


def surface(rest: np.ndarray | None = None, names: tuple[str, str] = ("a", "b"), fabric: str = "wool") -> Surface:
    """Two triangles, each a separate cloth."""
    if rest is None:
        rest = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1], [2, 0, 1], [3, 0, 1], [2, 1, 1]], float)
    uv = rest[:, :2].reshape(2, 3, 2)
    parts = (Part(names[0], slice(0, 3), slice(0, 1), fabric), Part(names[1], slice(3, 6), slice(1, 2), ""))
    return Surface(np.arange(6, dtype=np.int32).reshape(2, 3), uv, rest, parts, FPS)


def falling(sheet: Surface, frames: int) -> list[Frame]:
    """z = z0 - t^2, for which central differences are exact."""
    result = []
    for k in range(frames):
        t = k / FPS
        down = np.array([0.0, 0.0, -1.0])
        speed = np.broadcast_to(2.0 * t * down, sheet.rest.shape)
        result.append(Frame(k, t, sheet.rest + t * t * down, speed))
    return result


def run(folder: Path, frames: int = 6, sheet: Surface | None = None, name: str = "drop") -> Path:
    sheet = sheet or surface()
    writer = Pc2().writer(folder, name, sheet)
    for frame in falling(sheet, frames):
        writer.write(frame)
    writer.close()
    return folder


@given(
    rest=arrays(np.float64, (6, 3), elements=finite),
    names=st.tuples(st.text(), st.text()),
    fabric=st.text(),
    name=st.text(),
)
def test_any_surface_is_restored_exactly(
    tmp_path_factory: pytest.TempPathFactory, rest: np.ndarray, names: tuple[str, str], fabric: str, name: str
) -> None:
    written = surface(rest, names, fabric)
    read = RunFolder(run(tmp_path_factory.mktemp("run"), 0, written, name))
    assert read.name == name
    assert read.surface().rest.tobytes() == written.rest.tobytes()
    np.testing.assert_array_equal(read.surface().uv, written.uv)
    np.testing.assert_array_equal(read.surface().triangles, written.triangles)
    assert read.surface().parts == written.parts
    assert read.surface().fps == written.fps


def test_frames_have_velocities_by_differences(tmp_path: Path) -> None:
    sheet = surface()
    frames = falling(sheet, 6)
    read = list(RunFolder(run(tmp_path)).frames())
    assert [(frame.number, frame.time) for frame in read] == [(frame.number, frame.time) for frame in frames]
    # Heights near 1 m are rounded by up to 2^-24 m, and a difference over two frames has two of these errors.
    rounding = 2.0**-24 * FPS
    for exact, frame in zip(frames, read, strict=True):
        np.testing.assert_array_equal(frame.positions, exact.positions.astype(np.float32))
        assert frame.positions.dtype == np.float64
        if exact.number not in (0, 5):
            np.testing.assert_allclose(frame.velocities, exact.velocities, atol=1.01 * rounding)
    # At the ends the difference is the velocity half a frame inside: 2 t at frames 0.5 and 4.5.
    np.testing.assert_allclose(read[0].velocities[:, 2], -1.0 / FPS, atol=2.02 * rounding)
    np.testing.assert_allclose(read[5].velocities[:, 2], -9.0 / FPS, atol=2.02 * rounding)


def test_one_frame_has_no_velocity(tmp_path: Path) -> None:
    (frame,) = RunFolder(run(tmp_path, 1)).frames()
    np.testing.assert_array_equal(frame.velocities, 0.0)


def test_the_certificate(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(InputError, match=r"report.json: the run left no certificate"):
        RunFolder(tmp_path).report()
    (tmp_path / "report.json").write_text(json.dumps({"summary": {"ok": True}}))
    assert RunFolder(tmp_path).report() == {"summary": {"ok": True}}
    for broken in ("{", "[1]"):
        (tmp_path / "report.json").write_text(broken)
        with pytest.raises(InputError, match="not a certificate"):
            RunFolder(tmp_path).report()


def test_a_folder_that_is_not_a_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: no such folder\. Give the folder of a run"):
        RunFolder(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"not the folder of a finished run: no rest\.obj and no cache\.pc2 in it"):
        RunFolder(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], r"damaged: 6 frames of 6 points take 464 bytes, but it has 463"),
        (lambda data: data + b"\0", r"damaged: 6 frames of 6 points take 464 bytes, but it has 465"),
        (lambda data: data[:20], r"not a PC2 cache"),
        (lambda data: b"X" + data[1:], r"not a PC2 cache"),
        (lambda data: b"", r"not a PC2 cache"),
        (
            lambda data: data[:16] + b"\7\0\0\0" + data[20:],
            r"holds 7 points, but rest\.obj holds 6: the two are not from",
        ),
        (lambda data: data[:28] + b"\xff\xff\xff\xff" + data[32:], r"damaged: -1 frames"),
    ],
)
def test_a_damaged_cache(tmp_path: Path, change: object, message: str) -> None:
    run(tmp_path)
    cache = tmp_path / "cache.pc2"
    cache.write_bytes(change(cache.read_bytes()))  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        RunFolder(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("v 0.0 1.0 1.0", "v 0.0 one 1.0", r"rest\.obj:6  cannot be read: could not convert string to float: 'one'"),
        ("v 0.0 1.0 1.0", "v 0.0 1.0", r"rest\.obj:6  cannot be read"),
        ("f 1/1 2/3 3/2", "f 1/1 2/3", r"rest\.obj:10  cannot be read"),
        ("f 1/1 2/3 3/2", "f 1/1 2/3 9/2", r"a triangle refers to a vertex that does not exist"),
        ("f 1/1 2/3 3/2", "f 0/1 2/3 3/2", r"a triangle refers to a vertex that does not exist"),
        ("f 1/1 2/3 3/2", "f 1/1 2/3 3/99", r"a triangle refers to a uv that does not exist"),
        ("# toile ", "# other ", r"not the surface of a run"),
    ],
)
def test_a_damaged_surface(tmp_path: Path, old: str, new: str, message: str) -> None:
    run(tmp_path)
    rest = tmp_path / "rest.obj"
    text = rest.read_text()
    assert old in text
    rest.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        RunFolder(tmp_path)


def test_export_writes_each_format_into_the_run(tmp_path: Path) -> None:
    run(tmp_path)
    written = export_run(tmp_path, ["npz", "obj", "npz"])
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "drop.npz", *(f"obj/drop_{k:04d}.obj" for k in range(6)),
    ]  # fmt: skip
    with np.load(tmp_path / "drop.npz") as data:
        np.testing.assert_array_equal(data["positions"], [frame.positions for frame in RunFolder(tmp_path).frames()])


def test_export_of_the_cache_onto_itself_keeps_it(tmp_path: Path) -> None:
    run(tmp_path)
    before = (tmp_path / "cache.pc2").read_bytes()
    export_run(tmp_path, ["pc2"])
    assert (tmp_path / "cache.pc2").read_bytes() == before


def test_export_of_an_unknown_format(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(InputError, match=r'no output "uds"\. Did you mean "usd"\?'):
        export_run(tmp_path, ["npz", "uds"], tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_export_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "run")

    def broken(self: object, frame: Frame) -> None:
        if frame.number == 2:
            raise ToileError("broken at the third frame")

    monkeypatch.setattr("toile.outputs.obj.ObjWriter.write", broken)
    with pytest.raises(ToileError, match="broken at the third frame"):
        export_run(tmp_path / "run", ["npz", "obj"], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_render_names_the_picture(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    assert render_run(folder, **SMALL) == folder / "drop.png"
    assert render_run(folder, frame=2, **SMALL) == folder / "drop_0002.png"
    assert render_run(folder, tmp_path / "my picture.png", 0, **SMALL) == tmp_path / "my picture.png"
    assert (folder / "drop.png").read_bytes() != (folder / "drop_0002.png").read_bytes()
    film = render_run(folder, tmp_path / "film.mp4", **SMALL)
    assert film.read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    ("out", "frame", "options", "message"),
    [
        (None, 6, {}, r"no frame 6: the run has frames 0 to 5"),
        (None, -1, {}, r"no frame -1: the run has frames 0 to 5"),
        ("a.jpg", None, {}, r"cannot draw \.jpg files\. Give a \.png, a \.mp4, a \.gif, or a folder"),
        ("a.mp4", 3, {}, r"a film shows every frame"),
        (None, None, {"width": 0}, r"picture: width = 0: .*greater than or equal to 2"),
        (None, None, {"heigth": 9}, r"picture: heigth = 9"),
        (None, None, {"device": "abacus"}, r'no device "abacus" to draw on: use "cpu"'),
        (None, None, {"look_at": (0, 0, 0), "look_from": (0, 0, 0)}, r"the camera is at its own target"),
    ],
)
def test_outputs_that_cannot_be_drawn_are_refused(
    tmp_path: Path, out: str | None, frame: int | None, options: dict, message: str
) -> None:
    folder = run(tmp_path / "run")
    target = None if out is None else tmp_path / out
    with pytest.raises(ToileError, match=message):
        render_run(folder, target, frame, **{**SMALL, **options})
    assert sorted(path.name for path in folder.iterdir()) == ["cache.pc2", "rest.obj"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
