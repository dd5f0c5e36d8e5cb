"""Contract of every shipped scene: it names the figure it reproduces, loads, runs small, and meets its expectations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from toile.runs.expectations import check
from toile.scene.load import SCENES, load, scene_names
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

SMALL_GRID, SMALL_DISC = 9, 3
SMALL_AROUND = 12  # of surfaces of revolution, which need their resolution along the profile
SMALL_ACROSS = 3  # of shapes that need their resolution along u for folds and bends


@pytest.fixture(params=scene_names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def small(name: str) -> Scene:
    """The scene with two frames and few particles; nothing is written."""
    overrides = ["time.frames=2", "outputs=[]"]
    for i, cloth in enumerate(load(name).cloth):
        if cloth.shape.type_name() == "grid":
            overrides.append(f"cloth[{i}].shape.resolution=[{SMALL_GRID}, {SMALL_GRID}]")
        if cloth.shape.type_name() == "disc":
            overrides.append(f"cloth[{i}].shape.rings={SMALL_DISC}")
        if cloth.shape.type_name() in ("folded", "ribbon"):
            overrides.append(f"cloth[{i}].shape.resolution[1]={SMALL_ACROSS}")
        if cloth.shape.type_name() == "revolved":
            overrides.append(f"cloth[{i}].shape.resolution[0]={SMALL_AROUND}")
    return load(name, overrides=overrides)


def text(name: str) -> str:
    return (SCENES / f"{name}.yaml").read_text(encoding="utf-8")


def test_there_are_scenes() -> None:
    assert "hang" in scene_names()
    assert scene_names() == sorted(path.stem for path in Path(SCENES).iterdir() if path.suffix == ".yaml")


def test_first_line_names_a_figure(name: str) -> None:
    """`# [BW98] figure 2: what it shows.`"""
    first = text(name).splitlines()[0]
    assert re.match(r"# .*\[(BW98|Pro95|Ye08|BMF03|BFA02)\] (figures? \d+|sec\. \d+\.\d+)\b.*: .+\.$", first), first


def test_has_a_name_and_a_description(name: str) -> None:
    scene = load(name)
    assert scene.name == name
    assert scene.version == 1
    assert len(scene.about) > 20
    assert scene.about.endswith(".")


def test_has_expectations(name: str) -> None:
    """At least that the run is complete, and a limit of strain."""
    expect = load(name).expect
    assert expect["ok"].equals is True
    assert any(key != "ok" and (bound.max is not None or bound.min is not None) for key, bound in expect.items())


def test_json_round_trip(name: str, tmp_path: Path) -> None:
    """A scene written as JSON is the same scene when it is read."""
    scene = load(name)
    path = tmp_path / "again.json"
    path.write_text(json.dumps(json.loads(scene.model_dump_json())), encoding="utf-8")
    assert load(path).model_dump_json() == scene.model_dump_json()


def test_runs_small(name: str, device: str) -> None:
    """Two frames of a coarse mesh: the cloth moves, stays finite, and every expectation of the scene can be
    evaluated."""
    scene = small(name)
    simulation = Simulation(scene, device)
    first, *frames = simulation.run()
    assert [frame.number for frame in frames] == [1, 2]
    assert [frame.time for frame in frames] == [n / scene.time.fps for n in (1, 2)]
    for frame in frames:
        assert np.isfinite(frame.positions).all()
        assert np.isfinite(frame.velocities).all()
    assert np.abs(frames[-1].positions - first.positions).max() > 1e-4
    if not any(constraint.type_name() == "pin" and constraint.motion for constraint in scene.constraints):
        held = simulation.constraints.particles
        np.testing.assert_array_equal(frames[-1].positions[held], first.positions[held])
    report = simulation.report()
    assert report["scene"] == name
    assert len(check(scene.expect, report)) == len(scene.expect)
    assert report["summary"]["ok"]


@pytest.mark.slow
def test_meets_its_expectations(name: str, device: str) -> None:
    """The scene as shipped, all frames."""
    scene = load(name, overrides=["outputs=[]"])
    simulation = Simulation(scene, device)
    numbers = [frame.number for frame in simulation.run()]
    assert numbers == list(range(scene.time.frames + 1))
    findings = check(scene.expect, simulation.report())
    assert all(finding.ok for finding in findings), [finding for finding in findings if not finding.ok]
