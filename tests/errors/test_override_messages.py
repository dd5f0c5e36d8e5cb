"""`--set key=value`: its effect, and its messages when it cannot be applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toile.errors import SceneError
from toile.scene.load import load
from toile.scene.schema import Scene

SCENE = """\
cloth:
  - {name: sheet, shape: {type: grid, resolution: [2, 2]}, fabric: denim}
"""


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    path = tmp_path / "drape.yaml"
    path.write_text(SCENE)
    return path


# override -> the values of the scene that it sets
CHANGES: dict[str, tuple[Callable[[Scene], Any], Any]] = {
    "time.frames=10": (lambda scene: scene.time.frames, 10),
    "cloth[0].fabric=cotton": (lambda scene: scene.cloth[0].fabric.name, "cotton"),
    "cloth.0.shape.resolution=[4, 3]": (lambda scene: scene.cloth[0].shape.resolution, (4, 3)),
    "solver.preconditioner=block_jacobi": (lambda scene: type(scene.solver.preconditioner).__name__, "BlockJacobi"),
    "solver.tolerance=1e-6": (lambda scene: scene.solver.tolerance, 1e-6),
    # into a default that the file does not mention
    "integrator.newton_iterations=7": (lambda scene: scene.integrator.newton_iterations, 7),
    "cloth[0].energies[1].stiffness=7": (lambda scene: scene.cloth[0].energies[1].stiffness, 7.0),
    "cloth[0].translation[2]=2": (lambda scene: scene.cloth[0].translation, (0.0, 0.0, 2.0)),
    # into a name
    "cloth[0].fabric.density=0.5": (
        lambda scene: (scene.cloth[0].fabric.density, scene.cloth[0].fabric.stretch_warp),
        (0.5, 9429.0),
    ),
    "outputs=[npz]": (lambda scene: [output.type_name() for output in scene.outputs], ["npz"]),
    "expect.max_strain.max=0.1": (
        lambda scene: {key: bound.max for key, bound in scene.expect.items()},
        {"max_strain": 0.1},
    ),
    "name=new = name": (lambda scene: scene.name, "new = name"),
}


@pytest.mark.parametrize("override", CHANGES)
def test_overrides_change_the_scene(scene: Path, override: str) -> None:
    value, expected = CHANGES[override]
    assert value(load(scene)) != expected
    assert value(load(scene, overrides=[override])) == expected


def test_the_last_of_several_wins(scene: Path) -> None:
    assert load(scene, overrides=["time.frames=10", "time.frames=11"]).time.frames == 11
    assert load(scene, overrides={"time.frames": "12"}).time.frames == 12


REFUSED = {
    "time.frame=10": 'no such key "frame". Did you mean "frames"?',
    "tiem.frames=10": 'no such key "tiem". Did you mean "time"?',
    "solver.preconditoner=x": 'no such key "preconditoner". Did you mean "preconditioner"?',
    "integrator.newton_iteration=1": 'no such key "newton_iteration". Did you mean "newton_iterations"?',
    "cloth[1].fabric=denim": "cloth has 1 entry, counted from 0; there is no [1].",
    "cloth.name=x": "cloth has 1 entry, counted from 0; there is no [name].",
    "time[0]=1": "time is not a list.",
    "time.frames.first=1": "frames has no keys of its own.",
    "frames": "write it as key=value, as in time.frames=10 or cloth[0].fabric=silk.",
    "=1": "write it as key=value, as in time.frames=10 or cloth[0].fabric=silk.",
    "gravity=[0, 0": "its value is not valid YAML: expected ',' or ']', but got '<stream end>'.",
    # a valid key with an invalid value
    "time.frames=-1": "time.frames = -1: must be >= 0.",
    "cloth[0].fabric=coton": 'cloth[0].fabric = "coton": no such fabric. Did you mean "cotton"?',
    "cloth[0].shape={type: grid, siez: 1}": 'cloth[0].shape.siez: no such key. Did you mean "size"?',
    "cloth[0].fabric.density=-1": "cloth[0].fabric.density = -1: must be > 0 [kg/m^2].",
}


@pytest.mark.parametrize("override", REFUSED)
def test_refusals_name_the_override(scene: Path, override: str) -> None:
    with pytest.raises(SceneError) as caught:
        load(scene, overrides=[override])
    assert caught.value.problems == [f"--set {override}  {REFUSED[override]}"]


def test_overrides_and_the_file_are_reported_together(scene: Path) -> None:
    scene.write_text(SCENE + "seed: -1\n")
    with pytest.raises(SceneError) as caught:
        load(scene, overrides=["time.frame=1", "time.fps=0"])
    assert [line.replace(f"{scene.parent}/", "") for line in caught.value.problems] == [
        '--set time.frame=1  no such key "frame". Did you mean "frames"?',
        "drape.yaml:3  seed = -1: must be >= 0.",
        "--set time.fps=0  time.fps = 0: must be > 0 [1/s].",
    ]
