"""Messages and warnings that concern several parts of a scene at once: forces, pins, outputs, units and memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from broken_scenes import VALID, problems

from toile.errors import SceneError
from toile.scene.load import load, meshes
from toile.scene.schema import Cloth, Scene


def test_all_problems_come_at_once_and_in_the_order_of_lines(tmp_path: Path) -> None:
    text = """\
time: {fps: -1}
cloth:
  - {name: sheet, shape: {type: grid, resolution: [2, 2]}}
  - {name: shirt, shape: {type: grid, color: red}}
constraints:
  - {type: pin, cloth: shet, where: {all: true}}
  - {type: pin, cloth: sheet, where: {indices: [7]}}
  - {type: pin, cloth: shirt, where: {indices: [7]}}
seed: -1
"""
    assert problems(tmp_path, text) == [
        "drape.yaml:1  time.fps = -1: must be > 0 [1/s].",
        "drape.yaml:4  cloth[1].shape.color: no such key. Choose from: diagonals, resolution, size, type.",
        'drape.yaml:6  constraints[0].cloth = "shet": no such cloth. Did you mean "sheet"?',
        "drape.yaml:7  constraints[1].where = {indices: [7]}: vertex 7 does not exist: the cloth has vertices 0 to 3.",
        # constraints[2] belongs to a cloth that is itself invalid, so its vertices cannot be checked
        "drape.yaml:9  seed = -1: must be >= 0.",
    ]


def test_checks_of_the_whole_scene_are_reported_with_the_others(tmp_path: Path) -> None:
    text = """\
time: {fps: -1}
cloth:
  - {name: sheet, shape: {type: grid, resolution: [2, 2]}}
  - {name: sheet, shape: {type: grid, resolution: [2, 2]}}
outputs: [obj, obj]
forces: [{type: pull, stiffness: -1}]
expect:
  max_strian: {max: 1}
  frames.energy.pull: {max: 1}
"""
    assert problems(tmp_path, text) == [
        "drape.yaml:1  time.fps = -1: must be > 0 [1/s].",
        'drape.yaml:4  cloth[1].name = "sheet": another cloth has this name; names must differ.',
        "drape.yaml:5  outputs[1]: would write the same file as outputs[0]; list it once.",
        "drape.yaml:6  forces[0].stiffness = -1: must be >= 0 [N/m].",
        "drape.yaml:6  forces[0].target: missing (target position, before its motion).",
        'drape.yaml:8  expect.max_strian: no such value in the certificate. Did you mean "max_strain"?',
    ]


@pytest.mark.parametrize(
    "forces",
    ["[drag]", "[{type: wind, velocity: [1, 0, 0]}]", "[{type: wind_particle, velocity: [1, 0, 0], linear: 1}]"],
)
def test_drag_that_is_counted_twice_gives_one_warning(tmp_path: Path, forces: str) -> None:
    path = tmp_path / "drape.yaml"
    text = VALID.replace("constraints:\n", "  - {name: other, shape: {type: grid, resolution: [2, 2]}}\nconstraints:\n")
    path.write_text(f"{text}forces: {forces}\n")
    assert [mesh.warnings for mesh in meshes(load(path))] == [(), ()]
    path.write_text(f"{text}forces: [{{type: wind, velocity: [0, 1, 0]}}, {forces[1:-1]}]\n")
    one, other = meshes(load(path))
    (warning,) = one.warnings + other.warnings
    assert warning.startswith("forces[0] (wind) and forces[1] (")
    assert warning.endswith(") each model the resistance of still air. Keep one of them; wind includes drag.")


def test_pictures_of_different_frames_are_different_files(tmp_path: Path) -> None:
    path = tmp_path / "drape.yaml"
    path.write_text(VALID + "outputs: [picture, {type: picture, frame: 1}, {type: picture, frame: 2}, obj, npz]\n")
    assert len(load(path).outputs) == 5


PINS = {
    "differ": ("{all: true}, motion: {keyframes: [{time: 0}]}", "{corners: [upper_left]}", True),
    "agree": ("{all: true}", "{corners: [upper_left]}", False),
    "one after the other": ("{all: true}, end: 1, motion: {keyframes: [{time: 0}]}", "{all: true}, start: 1", None),
    "elsewhere": ("{corners: [upper_right]}, motion: {keyframes: [{time: 0}]}", "{corners: [upper_left]}", None),
    "the same motion from another start": (
        "{all: true}, motion: {keyframes: [{time: 0}]}",
        "{all: true}, start: 1, motion: {keyframes: [{time: 0}]}",
        True,
    ),
}


@pytest.mark.parametrize(("one", "two", "contradict"), PINS.values(), ids=PINS.keys())
def test_pins_on_the_same_particle(tmp_path: Path, one: str, two: str, contradict: bool | None) -> None:
    """Different pins are an error, equal pins a warning, and pins with different times or particles neither."""
    head, _, _ = VALID.partition("constraints:")
    text = f"{head}constraints:\n  - {{type: pin, where: {one}}}\n  - {{type: pin, where: {two}}}\n"
    if contradict:
        (line,) = problems(tmp_path, text)
        assert line.startswith("drape.yaml:9  constraints[1]: contradicts constraints[0]: both pin particle ")
        assert line.endswith("but move it differently. Give them times that do not overlap.")
        return
    path = tmp_path / "drape.yaml"
    path.write_text(text)
    (mesh,) = meshes(load(path))
    twice = 'cloth "sheet": constraints[0] and constraints[1] both hold 1 particles, the first of them particle 6.'
    assert mesh.warnings == ((twice,) if contradict is False else ())


def test_values_in_other_units_give_warnings(tmp_path: Path) -> None:
    path = tmp_path / "drape.yaml"
    path.write_text(
        VALID.replace("translation: [0, 0, 1]", "fabric: {density: 200, shear: 0, bend_warp: 2e-3}").replace(
            "resolution: [3, 3]", "resolution: [3, 3], size: [200, 300]"
        )
    )
    (mesh,) = meshes(load(path))
    assert mesh.warnings == (
        'cloth "sheet": the cloth is 361 m across, outside 0.001 to 100 m: is it in meters?',
        'cloth "sheet": density = 200 kg/m^2 (fabric inline) is outside the usual 0.01 to 2: is it in kg/m^2?',
        'cloth "sheet": bend_warp = 0.002 N m (fabric inline) is outside the usual 1e-07 to 0.001: is it in N m?',
    )


def test_a_mesh_too_large_for_the_machine_is_refused_before_it_is_made(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, VALID.replace("[3, 3]", "[40000, 40000]"))
    assert line.startswith(
        "drape.yaml:5  cloth[0].shape: simulating 1600000000 vertices needs about 6.4e+03 GB of memory, but only "
    )
    assert line.endswith(" GB are available. Use a coarser mesh or a larger machine.")
    (line,) = problems(tmp_path, VALID.replace("[3, 3]", "[1000000, 1000000]"))
    text = "1e+12 vertices exceed the range of 32-bit indices. Use a coarser mesh."
    assert line == f"drape.yaml:5  cloth[0].shape: {text}"


def test_scenes_made_in_python_get_the_same_checks() -> None:
    scene = Scene(
        name="script",
        cloth=(Cloth(name="sheet", shape={"type": "grid", "resolution": (2, 2)}),),
        constraints=({"type": "pin", "cloth": "shet", "where": {"all": True}},),
    )
    with pytest.raises(SceneError) as caught:
        meshes(scene)
    assert caught.value.problems == [
        'script  constraints[0].cloth = "shet": no such cloth. Did you mean "sheet"?',
    ]
