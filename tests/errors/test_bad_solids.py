"""Solids that cannot be used, or only with care: what a scene with one says, before anything runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toile.errors import InputError, SceneError
from toile.model.solid_shapes import box
from toile.scene.load import load
from toile.simulation import Simulation

CLOTH = "cloth: [{shape: {type: grid, resolution: [11, 11], size: [0.5, 0.5]}, translation: [0, 0, 0.3]}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A box as it should be, and as it should not."""
    positions, triangles = box((0.5, 0.5, 0.5))
    mixed = triangles.copy()
    mixed[0] = mixed[0, ::-1]
    for name, faces in {
        "good": triangles,
        "open": triangles[:-1],
        "inward": triangles[:, ::-1],
        "degenerate": np.vstack([triangles, [0, 1, 1]]),
        "mixed": mixed,
        "fin": np.vstack([triangles, [0, 1, 8]]),  # a third triangle at one edge
        "step_1": triangles,
        "step_2": triangles,
        "step_4": triangles,
    }.items():
        write(tmp_path / f"{name}.obj", np.vstack([positions, [1.0, 1.0, 1.0]]) if name == "fin" else positions, faces)
    return tmp_path


def write(path: Path, positions: np.ndarray, triangles: np.ndarray) -> None:
    lines = [*("v {} {} {}".format(*x) for x in positions), *("f {} {} {}".format(*t) for t in triangles + 1)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def scene_file(folder: Path, text: str) -> Path:
    path = folder / "scene.yaml"
    path.write_text(f"name: scene\n{CLOTH}{text}\n", encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(SceneError) as caught:
        load(scene_file(folder, text))
    return [problem.split("  ", 1)[1] for problem in caught.value.problems]


def warnings(folder: Path, text: str) -> list[str]:
    simulation = Simulation(load(scene_file(folder, text)))
    for frame in simulation.run(2):
        assert np.isfinite(frame.positions).all()
    return simulation.warnings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("solids: [{type: level_set, parts: [{type: mesh, file: open.obj}]}]", "parts[0]: level_set needs a closed"),
        ("solids: [{type: mesh, file: degenerate.obj}]", "triangle 12 (vertices 0, 1, 1): degenerate"),
        ("solids: [{type: mesh, file: gone.obj}]", "no such file"),
        ("solids: [{type: mesh, file: ../body.obj}]", "leads out of the scene's folder"),
        (
            "solids: [{type: mesh, file: good.obj, sequence: {file: 'step_#.obj', fps: 24}}]",
            "sequence.file: step_3.obj is missing: step_2.obj is followed by step_4.obj",
        ),
        (
            "solids: [{type: sphere, motion: {keyframes: [{time: 1}, {time: 0.5}]}}]",
            "keyframe 1 at 0.5 s does not come after keyframe 0 at 1.0 s",
        ),
        ("solids: [{type: sphere, name: a}, {type: box, name: a}]", "another solid has this name"),
        ("solids: [{type: box, rounding: 0.3}]", "rounding must be less than half the smallest size"),
        ("solids: [{type: level_set, parts: [plane]}]", "a plane has no end"),
        ("constraints: [solid_contact, solid_contact]", "set by constraints[0] already"),
    ],
)
def test_what_cannot_be_used_is_an_error(folder: Path, text: str, said: str) -> None:
    found = problems(folder, text)
    assert len(found) == 1
    assert said in found[0]
    assert found[0].startswith(("solids[", "constraints["))


def test_all_problems_are_told_at_once(folder: Path) -> None:
    found = problems(folder, "solids: [{type: sphere, radius: -1}, {type: mesh, file: gone.obj}, {type: cone}]")
    assert [problem.split("]")[0] for problem in found] == ["solids[0", "solids[1", "solids[2"]
    assert "must be > 0 [m]" in found[0]
    assert "no such collider" in found[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("solids: [{type: mesh, file: open.obj}]", "the mesh is open (3 open edges"),
        ("solids: [{type: mesh, file: inward.obj}]", "signed volume is -0.125 m^3"),
        ("solids: [{type: mesh, file: mixed.obj}]", "turned 1 triangle"),
        ("solids: [{type: mesh, file: fin.obj}]", "1 edge of more than two triangles"),
        (
            "solids: [{type: sphere, motion: {keyframes: [{time: 0}, {time: 0.01, translation: [50, 0, 0]}]}}]",
            "teleport at frame 1: the solid moves 50 m",
        ),
        ("solids: [{type: sphere, radius: 0.35}]", "37 vertices start inside it; vertex 60 is 0.05 m deep"),
    ],
)
def test_what_can_be_used_with_care_is_a_warning(folder: Path, text: str, said: str) -> None:
    found = warnings(folder, text)
    assert any(said in warning for warning in found)
    assert all(warning.startswith('solid "') for warning in found)


def test_a_mesh_that_is_inside_out_can_be_turned(folder: Path) -> None:
    """Its volume is then positive, and cloth above it is outside."""
    assert warnings(folder, "solids: [{type: mesh, file: inward.obj, flip: true}]") == []


def test_cloth_deep_inside_a_solid_is_an_error(folder: Path) -> None:
    """|p| - r = -0.15 m at the middle of the sheet."""
    scene = load(scene_file(folder, "solids: [{type: sphere, name: ball, radius: 0.45}]"))
    with pytest.raises(InputError, match=r'solid "ball": 117 vertices start inside it; vertex 60 is 0\.15 m deep'):
        Simulation(scene)


def test_cloth_inside_a_solid_comes_out(folder: Path) -> None:
    """0.05 m at 0.02 m a step takes three steps."""
    simulation = Simulation(load(scene_file(folder, "solids: [{type: sphere, radius: 0.35}]")))
    depths = [frame.certificate["solid_depth"] for frame in simulation.run(3) if frame.certificate]
    assert depths[0] < 0.05
    assert depths[2] == 0.0
