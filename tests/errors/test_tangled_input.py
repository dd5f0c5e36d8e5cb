"""Scenes that start with intersections: warnings, the certificate, files, pictures, and --strict."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.reference.intersections import intersecting_pairs
from toile.cli import app
from toile.errors import InputError
from toile.model.frame import Frame, Part, Surface
from toile.outputs._intersections_obj import IntersectionsWriter
from toile.outputs.picture import Picture
from toile.outputs.video import Video
from toile.runs.folder import RunFolder, render_run
from toile.runs.run import run
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

SMALL = {"width": 64, "height": 48, "samples": 1}
THROUGH = "Cloth may pass through itself and other cloth. End `filters` with self_contact to prevent this."
HEIGHT = 0.3  # [m]  height of the upright sheet over the flat one, when they are apart


def scene(apart: bool = False, speed: float = 0.0, **more: Any) -> Scene:
    """A flat sheet and an upright one without self-contact that intersects it, or is above it and moves down."""
    fabric = {"density": 0.17, "stretch_warp": 900.0, "stretch_weft": 900.0, "shear": 60.0, "bend_warp": 1e-4}
    fabric["bend_weft"] = 1e-4
    flat = {"name": "flat", "shape": {"type": "grid", "size": [0.5, 0.5], "resolution": [4, 4]}, "fabric": fabric}
    upright = {
        "name": "upright",
        "shape": {"type": "grid", "size": [0.3, 0.3], "resolution": [3, 3]},
        "rotation": [90.0, 0.0, 20.0],
        "translation": [0.013, 0.021, HEIGHT if apart else 0.017],
        "velocity": [0.0, 0.0, -speed],
        "fabric": fabric,
    }
    fields: dict[str, Any] = {
        "name": "tangled",
        "time": {"frames": 3, "fps": 30.0, "max_step": 1.0 / 60.0},
        "gravity": [0.0, 0.0, 0.0],
        "cloth": [flat, upright],
        "filters": [],  # nothing keeps them apart
        **more,
    }
    return Scene(**fields)


@pytest.fixture
def tangled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with the scene as a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOILE_PRECISION", "double")
    text = {"version": 1, **json.loads(scene().model_dump_json())}
    (tmp_path / "tangled.yaml").write_text(json.dumps(text))  # JSON is YAML
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def expected_pairs(simulation: Simulation) -> np.ndarray:
    """The pairs of triangles that intersect at the start."""
    return intersecting_pairs(simulation.surface.triangles, simulation.surface.rest)


def test_the_warning_lists_pairs_and_places(device: str) -> None:
    simulation = Simulation(scene(), device, audit="frame")
    pairs = expected_pairs(simulation)
    first = simulation.surface.parts[1].triangles.start
    through, warning = simulation.warnings
    assert through == THROUGH
    assert warning.startswith(
        f"{len(pairs)} pairs of triangles intersect at the start: "
        f'cloth "flat" triangle {pairs[0, 0]} and cloth "upright" triangle {pairs[0, 1] - first} at ('
    )
    assert warning.count("cloth ") == 6
    assert f"; {len(pairs) - 3} more. The run goes on: " in warning
    places = [part.split(")")[0].split(", ") for part in warning.split("at (")[1:4]]
    for (a, b), place in zip(pairs, np.array(places, float), strict=False):
        for triangle in (a, b):
            corners = simulation.surface.rest[simulation.surface.triangles[triangle]]
            assert (place >= corners.min(axis=0) - 1e-4).all()  # four digits are printed
            assert (place <= corners.max(axis=0) + 1e-4).all()


def test_one_pair_is_reported_as_one(device: str) -> None:
    """Sheets of two triangles each; a corner of one is through the border of the other."""
    grid = {"type": "grid", "size": [1.0, 1.0], "resolution": [2, 2]}
    cloth = [
        {"name": "a", "shape": grid, "fabric": "cotton"},
        {"name": "b", "shape": grid, "fabric": "cotton", "rotation": [0.0, 90.0, 0.0], "translation": [0.2, 0.95, 0.3]},
    ]
    simulation = Simulation(scene(cloth=cloth), device, audit="frame")
    assert len(expected_pairs(simulation)) == 1
    assert simulation.warnings[-1].startswith('1 pair of triangles intersects at the start: cloth "a" triangle ')


def test_the_certificate_counts_what_an_oracle_counts(device: str) -> None:
    """The sheets move through each other: no pair at first, then more and more."""
    simulation = Simulation(scene(apart=True, speed=3.0), device, audit="frame")
    assert simulation.warnings == [THROUGH]
    found = []
    for frame in simulation.run():
        pairs = intersecting_pairs(simulation.surface.triangles, frame.positions)
        np.testing.assert_array_equal(frame.intersecting, np.unique(pairs))
        if frame.certificate is not None:
            assert frame.certificate["intersections"] == len(pairs)
        found.append(len(pairs))
    summary = simulation.report()["summary"]
    assert found[0] == 0
    assert found[-1] > 0
    assert summary["intersections"] == max(found)
    assert (summary["intersections_start"], summary["intersections_end"]) == (0, found[-1])
    assert summary["ok"] is False


def test_every_step_is_audited_on_request(device: str) -> None:
    """A small sheet passes through the border of a large one within a frame: only an audit of steps finds it."""
    grid = {"type": "grid", "size": [0.1, 0.1], "resolution": [2, 2]}
    cloth = [
        {"name": "still", "shape": grid, "fabric": "cotton"},
        {
            "name": "fast",
            "shape": grid,
            "fabric": "cotton",
            "rotation": [0.0, 90.0, 0.0],
            "translation": [0.01, 0.02, 0.12],
            "velocity": [0.0, 0.0, -7.2],  # 0.24 m in a frame of 1/30 s
        },
    ]
    counts = {}
    for audit in ("frame", "step"):
        simulation = Simulation(scene(cloth=cloth), device, audit=audit)
        *_, last = simulation.run(1)
        counts[audit] = simulation.report()["summary"]["intersections"]
        assert last.intersecting is not None
        assert len(last.intersecting) == 0
        assert simulation.report()["summary"]["ok"] is (counts[audit] == 0)
    assert counts["frame"] == 0
    assert counts["step"] > 0


def test_a_run_that_does_not_get_worse_is_ok(device: str) -> None:
    simulation = Simulation(scene(), device, audit="frame")
    count = len(expected_pairs(simulation))
    list(simulation.run())
    summary = simulation.report()["summary"]
    assert (summary["intersections_start"], summary["intersections"], summary["intersections_end"]) == (count,) * 3
    assert summary["ok"] is True


def test_nothing_is_counted_in_scenes_without_self_contact(device: str) -> None:
    """The certificate contains no zero, and the audit takes no time."""
    simulation = Simulation(scene(), device)
    frames = list(simulation.run(1))
    report = simulation.report()
    assert simulation.warnings == [THROUGH]
    assert [frame.intersecting for frame in frames] == [None, None]
    assert {report["summary"][f"intersections{of}"] for of in ("", "_start", "_end")} == {None}
    assert report["frames"][0]["intersections"] is None
    assert report["frames"][0]["ms"]["audit"] < 20.0  # [ms]  on a busy machine
    assert report["summary"]["ok"] is True


def test_the_audit_has_its_own_time(device: str) -> None:
    simulation = Simulation(scene(), device, audit="step")
    list(simulation.run(2))
    report = simulation.report()
    assert all(entry["ms"]["audit"] > 0.0 for entry in report["frames"])
    assert all(entry["ms"]["C/C"] < 20.0 for entry in report["frames"])  # [ms]  nothing to compute, on a busy machine
    without = [sum(entry["ms"].values()) - entry["ms"]["audit"] for entry in report["frames"]]
    assert report["summary"]["ms_per_frame"] == pytest.approx(np.median(without))


def test_an_audit_that_does_not_exist_is_reported(device: str) -> None:
    with pytest.raises(InputError, match='audit = "always": must be one of none, frame, step'):
        Simulation(scene(), device, audit="always")


def read_obj(path: Path) -> tuple[dict[str, list[list[int]]], np.ndarray]:
    """Returns the triangles of each object, and all vertices."""
    objects: dict[str, list[list[int]]] = {}
    vertices = []
    for line in path.read_text().splitlines():
        keyword, *values = line.split()
        if keyword == "o":
            objects[values[0]] = []
        elif keyword == "v":
            vertices.append([float(value) for value in values])
        else:
            objects[list(objects)[-1]].append([int(value) - 1 for value in values])
    return objects, np.array(vertices)


def test_a_run_writes_the_triangles_and_a_clean_one_removes_them(tangled: Path) -> None:
    result = call("run", "tangled.yaml", "--out", "run", "--audit", "frame", "--frames", "1")
    assert result.exit_code == 0, result.output
    assert "Warning: " in result.stderr
    assert "pairs of triangles intersect at the start: " in result.stderr
    path = tangled / "run" / "intersections.obj"
    assert str(Path("run", "intersections.obj")) in result.stdout
    simulation = Simulation(scene())
    surface, pairs = simulation.surface, expected_pairs(simulation)
    objects, vertices = read_obj(path)
    assert list(objects) == ["flat", "upright"]
    for part, column in zip(surface.parts, pairs.T, strict=True):
        corners = surface.rest[surface.triangles[np.unique(column)]]
        np.testing.assert_array_equal(vertices[objects[part.name]], corners)
    clean = ("--set", "cloth[1].translation=[0.0, 0.0, 1.0]", "--audit", "frame", "--frames", "1")
    result = call("run", "tangled.yaml", "--out", "run", *clean)
    assert result.exit_code == 0, result.output
    assert "intersect" not in result.stderr
    assert "no intersections" in result.stdout
    results = {file.name for file in (tangled / "run").iterdir()} - {".resume"}
    assert results == {"cache.pc2", "rest.obj", "report.json"}


def test_strict_is_an_error_and_writes_nothing(tangled: Path) -> None:
    """It does not matter whether the scene is audited otherwise."""
    for more in ((), ("--audit", "frame"), ("--audit", "none")):
        result = call("run", "tangled.yaml", "--strict", *more)
        assert result.exit_code == 2
        assert "pairs of triangles intersect at the start: cloth " in result.stderr
        assert "Move them apart, or leave out --strict" in result.stderr
        assert [file.name for file in tangled.iterdir()] == ["tangled.yaml"]


def test_strict_checks_only_the_start(tangled: Path) -> None:
    move = ("--set", "cloth[1].translation=[0.0, 0.0, 1.0]", "--frames", "1", "--json")
    result = call("run", "tangled.yaml", "--strict", *move)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)["summary"]
    assert (summary["intersections_start"], summary["intersections"], summary["ok"]) == (0, None, True)


def test_new_intersections_are_reported_at_the_end(tangled: Path) -> None:
    fall = ("--set", "cloth[1].translation=[0.0, 0.0, 0.3]", "--set", "cloth[1].velocity=[0.0, 0.0, -3.0]")
    result = call("run", "tangled.yaml", *fall, "--audit", "step")
    assert result.exit_code == 0, result.output
    assert "0 intersections at the start, " in result.stdout
    assert "The certificate is not ok" in result.stderr


def test_strict_from_python(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="intersect at the start"):
        run(scene(), tmp_path / "run", strict=True)
    assert not (tmp_path / "run").exists()
    with pytest.warns(UserWarning, match="intersect at the start"):
        result = run(scene(), tmp_path / "run", audit="frame", frames=1)
    assert tmp_path / "run" / "intersections.obj" in result.written


def surface_of_two() -> Surface:
    """Two triangles side by side, each a separate cloth; seen from the front they do not hide each other."""
    rest = np.array([[0, 0, 1], [1, 0, 1], [0, 0, 2], [1.2, 0, 1], [2.2, 0, 1], [1.2, 0, 2]], float)
    parts = (Part("a", slice(0, 3), slice(0, 1)), Part("b", slice(3, 6), slice(1, 2)))
    return Surface(np.arange(6, dtype=np.int32).reshape(2, 3), rest[:, [0, 2]].reshape(2, 3, 2), rest, parts, 30.0)


def red(image: np.ndarray) -> np.ndarray:
    """The columns of a picture that contain pure red."""
    r, g, b = np.moveaxis(image.astype(int), -1, 0)
    return np.flatnonzero(((r > 100) & (g < 0.4 * r) & (b < 0.4 * r) & (abs(g - b) < 20)).any(axis=0))


@pytest.mark.parametrize(("marked", "where"), [(None, []), ([], []), ([0], [0]), ([1], [1]), ([0, 1], [0, 1])])
def test_intersecting_triangles_are_red(tmp_path: Path, marked: list[int] | None, where: list[int]) -> None:
    """The first is in the left half, the second in the right; cloth 1 itself is blue, and cloth 2 a duller red."""
    surface = surface_of_two()
    settings = Picture(**SMALL, look_at=(1.1, 0.0, 1.5), look_from=(1.1, -6.0, 1.5))
    frame = Frame(
        0, 0.0, surface.rest, surface.rest, intersecting=None if marked is None else np.array(marked, np.int64)
    )
    writer = settings.writer_to(tmp_path / "picture.png", surface)
    try:
        writer.write(frame)
        framing = writer.planner.plan(lambda: [writer.shown], settings.camera)
        columns = red(writer.raytracer.draw(writer.shown, framing, writer.marked))
    finally:
        writer.discard()
    assert [half for half in (0, 1) if (columns // 32 == half).any()] == where


def test_each_frame_of_a_film_has_its_own_red(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    surface = surface_of_two()
    settings = Video(**SMALL, look_at=(1.1, 0.0, 1.5), look_from=(1.1, -6.0, 1.5))
    writer = settings.writer_to(tmp_path / "film.mp4", surface)
    try:
        for number, marked in enumerate(([0], [], [1])):
            writer.write(Frame(number, number / 30.0, surface.rest, surface.rest, intersecting=np.array(marked, int)))
        halves = [sorted(set((red(image) // 32).tolist())) for image in writer.film.images()]
    finally:
        writer.discard()
    assert halves == [[0], [], [1]]


def test_a_finished_run_is_drawn_with_its_intersections(tmp_path: Path) -> None:
    """Intersections are computed from the cache; a run without an audit shows none."""
    with pytest.warns(UserWarning, match="intersect"):
        run(scene(), tmp_path / "counted", audit="frame", frames=1)
    with pytest.warns(UserWarning, match="Cloth may pass"):
        run(scene(), tmp_path / "not", frames=1)
    expected = np.unique(expected_pairs(Simulation(scene())))
    for frame in RunFolder(tmp_path / "counted").frames():
        np.testing.assert_array_equal(frame.intersecting, expected)
    assert [frame.intersecting for frame in RunFolder(tmp_path / "not").frames()] == [None, None]
    pictures = [render_run(tmp_path / name, **SMALL).read_bytes() for name in ("counted", "not")]
    assert pictures[0] != pictures[1]


def test_the_file_of_intersections_is_complete_or_absent(tmp_path: Path) -> None:
    surface = surface_of_two()
    tangle = Frame(0, 0.0, surface.rest, surface.rest, intersecting=np.array([1]))
    writer = IntersectionsWriter(tmp_path, surface)
    writer.write(tangle)
    assert not (tmp_path / "intersections.obj").exists()
    writer.discard()
    assert list(tmp_path.iterdir()) == []
    writer = IntersectionsWriter(tmp_path, surface)
    writer.write(tangle)
    writer.write(Frame(1, 0.1, surface.rest, surface.rest, intersecting=np.array([0])))  # the start counts
    assert [path.name for path in writer.close()] == ["intersections.obj"]
    objects, vertices = read_obj(tmp_path / "intersections.obj")
    assert objects == {"b": [[0, 1, 2]]}
    np.testing.assert_array_equal(vertices, surface.rest[3:])


@pytest.mark.parametrize("more", [{"filters": ["self_contact"]}, {"forces": ["penalty"]}])
def test_scenes_with_self_contact_are_audited(device: str, more: dict[str, Any]) -> None:
    """At every frame by default, and not at all with audit=none."""
    simulation = Simulation(scene(apart=True, **more), device)
    *_, last = simulation.run(1)
    assert last.certificate is not None
    assert last.certificate["intersections"] == 0
    assert simulation.report()["summary"]["intersections_start"] == 0
    assert Simulation(scene(apart=True, **more), device, audit="none").report()["summary"]["intersections"] is None


@pytest.mark.parametrize("sharp", [True, False])
def test_sharp_solids_count_too(device: str, sharp: bool) -> None:
    """A thin box passes through the flat sheet; its own triangles, which share vertices, are no pairs."""
    box = {"name": "blade", "type": "box", "size": [0.01, 0.1, 0.4], "translation": [0.03, 0.04, 0.0], "sharp": sharp}
    sheet = scene(apart=True, solids=[box], constraints=[{"type": "solid_contact", "deepest_start": 1.0}])
    simulation = Simulation(sheet, device, audit="frame")
    messages = [warning for warning in simulation.warnings if "intersect" in warning]
    if not sharp:
        assert messages == []
        return
    (warning,) = messages
    (solid,) = simulation.solids
    count = len(simulation.surface.triangles)
    triangles = np.concatenate([simulation.surface.triangles, solid.triangles + len(simulation.surface.rest)])
    positions = np.concatenate([simulation.surface.rest, solid.vertices(0.0)])
    pairs = intersecting_pairs(triangles, positions, len(simulation.surface.rest))
    assert simulation.report()["summary"]["intersections_start"] == len(pairs)
    assert f'cloth "flat" triangle {pairs[0, 0]} and solid "blade" triangle {pairs[0, 1] - count} at (' in warning
    frame = next(iter(simulation.run(0)))
    assert frame.intersecting is not None
    assert frame.intersecting.tolist() == sorted(set(pairs[:, 0].tolist()))  # triangles of cloths only


@pytest.mark.parametrize("filters", [["self_contact", "forecast"], ["self_contact", "self_contact"]])
def test_contact_is_the_last_filter(filters: list[str]) -> None:
    with pytest.raises(ValueError, match="self_contact must be the last filter, and listed once"):
        Scene(filters=filters)


def test_a_sharp_solid_without_contact_is_reported(device: str) -> None:
    box = {"type": "box", "sharp": True, "translation": [0, 0, -2]}
    simulation = Simulation(Scene(cloth=[{"shape": {"type": "grid"}}], solids=[box], filters=[]), device)
    assert simulation.warnings == [
        'Cloth may pass through itself, and through faces and edges of solid "box". End `filters` with self_contact to '
        "prevent this, or set sharp: false if held vertices are enough on solids."
    ]
