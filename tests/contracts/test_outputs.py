"""What every output must do: give back the frames it was given, and be there completely or not at all.

An analytic sheet of two cloths moves for five frames through each output that the loader finds, alone and with solids;
what was written is read by something that shares no code with the writer.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from read_back import FPS, FRAMES, READERS

from toile import plugins
from toile.errors import InputError, ToileError
from toile.model.frame import Frame, Part, SolidSurface, Surface
from toile.outputs.base import Output

OUTPUTS = plugins.names("outputs")
NAME = "two sheets"
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
    properties = {"density": (0.12, "kg/m^2"), "shear": (99.0, "N/m")}
    parts = (
        Part("front/left 1", slice(0, 12), slice(0, 12), "cotton", properties),
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
def test_an_error_at_the_last_moment_leaves_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
