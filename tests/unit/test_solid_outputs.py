"""Solids in the folder of a run: they are read back as they were written, and exported and drawn from there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.reference.solid_scenes import SMALL, cube, flat, scene, solid, sphere, square
from toile.errors import InputError
from toile.model.frame import Frame, Surface
from toile.outputs.pc2 import Pc2
from toile.outputs.picture import Picture
from toile.runs.folder import RunFolder, export_run, render_run


def run(folder: Path, surface: Surface, frames: list[Frame]) -> Path:
    writer = Pc2().writer(folder, "drop", surface)
    for frame in frames:
        writer.write(frame)
    writer.close()
    return folder


def two_solids() -> Surface:
    return scene(flat(0.6), square(flat(0.0, 4.1), "table"), solid(sphere(0.2, 6), (0, 0, 0.3), moves=True))


def rising(surface: Surface, count: int = 3) -> list[Frame]:
    frames = []
    for k in range(count):
        up = np.array([0.0, 0.1 * k, 0.1 * k])
        solids = tuple(s.rest + up if s.moves else s.rest for s in surface.solids)
        frames.append(Frame(k, k / 30.0, surface.rest, 0.0 * surface.rest, solids=solids))
    return frames


@given(
    rest=arrays(np.float64, (4, 3), elements=st.floats(allow_nan=False, allow_infinity=False)),
    name=st.text(),
    moves=st.booleans(),
)
def test_any_solid_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, rest: np.ndarray, name: str, moves: bool
) -> None:
    written = scene(flat(1.0), square(flat(0.0)), square(rest, name, moves))
    read = RunFolder(run(tmp_path_factory.mktemp("run"), written, [])).surface()
    assert [(s.name, s.moves) for s in read.solids] == [("square", False), (name, moves)]
    for a, b in zip(read.solids, written.solids, strict=True):
        assert a.rest.tobytes() == b.rest.tobytes()
        np.testing.assert_array_equal(a.triangles, b.triangles)


def test_frames_come_back_with_their_solids(tmp_path: Path) -> None:
    surface = two_solids()
    frames = rising(surface)
    read = RunFolder(run(tmp_path, surface, frames))
    for exact, frame in zip(frames, read.frames(), strict=True):
        table, ball = read.surface().solids_at(frame)
        np.testing.assert_array_equal(table, exact.solids[0])
        np.testing.assert_array_equal(ball, exact.solids[1].astype(np.float32))


def test_solids_at_rest_need_no_cache(tmp_path: Path) -> None:
    surface = scene(flat(1.0), solid(cube()))
    folder = run(tmp_path, surface, [Frame(0, 0.0, surface.rest, surface.rest)])
    assert sorted(path.name for path in folder.iterdir()) == ["cache.pc2", "rest.obj", "solids.obj"]
    read = RunFolder(folder)
    (frame,) = read.frames()
    np.testing.assert_array_equal(read.surface().solids_at(frame)[0], cube()[0])


def test_export_and_render_of_a_folder_show_its_solids(tmp_path: Path) -> None:
    """A picture of the folder is the one that the run itself would have drawn."""
    pytest.importorskip("pxr")
    from pxr import Usd, UsdGeom

    surface = two_solids()
    frames = rising(surface)
    folder = run(tmp_path / "run", surface, frames)
    usd, npz = export_run(folder, ["usd", "npz"])
    opened = Usd.Stage.Open(str(usd))  # its prims live as long as it does
    prims = opened.GetDefaultPrim().GetChildren()
    assert [prim.GetName() for prim in prims] == ["sheet", "table", "solid", "materials"]
    ball = UsdGeom.Mesh(prims[2]).GetPointsAttr()
    np.testing.assert_array_equal(np.array(ball.Get(2)), frames[2].solids[1].astype(np.float32))
    with np.load(npz) as data:
        np.testing.assert_array_equal(data["solid_positions"][2, 4:], frames[2].solids[1].astype(np.float32))
    writer = Picture(frame=2, **SMALL).writer(tmp_path / "direct", "drop", surface)
    for frame in frames:
        # as the cache holds it
        rounded = (frame.solids[0], frame.solids[1].astype(np.float32).astype(float))
        positions = frame.positions.astype(np.float32).astype(float)
        writer.write(replace(frame, positions=positions, solids=rounded))
    (direct,) = writer.close()
    assert render_run(folder, frame=2, **SMALL).read_bytes() == direct.read_bytes()
    assert render_run(folder, frame=0, **SMALL).read_bytes() != direct.read_bytes()


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("solids.pc2", None, r"has no solids\.pc2, but a solid moves"),
        ("solids.pc2", lambda data: data[:-1], r"solids\.pc2: damaged: 3 frames of"),
        ("solids.pc2", lambda data: data[:8], r"solids\.pc2: not a PC2 cache"),
        ("solids.pc2", lambda data: data[:16] + b"\7\0\0\0" + data[20:], r"holds 7 points, but solids\.obj holds \d+"),
        ("cache.pc2", lambda data: data[:28] + b"\2\0\0\0" + data[32:-48], r"holds 3 frames, but cache\.pc2 holds 2:"),
        ("solids.obj", lambda data: b"# toile {}\n", r"solids\.obj: not the solids of a run"),
        ("solids.obj", lambda data: data.replace(b"v -2.05", b"v two", 1), r"solids\.obj:4  cannot be read: could not"),
        ("solids.obj", lambda data: data.replace(b"f 1 2 3", b"f 1 2 9", 1), r"a vertex of another solid"),
        ("solids.obj", lambda data: data.replace(b"f 1 2 3", b"f 1 2", 1), r"solids\.obj:8  cannot be read"),
    ],
)
def test_damaged_solids(tmp_path: Path, file: str, change: object, message: str) -> None:
    surface = two_solids()
    run(tmp_path, surface, rising(surface))
    path = tmp_path / file
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        RunFolder(tmp_path)
