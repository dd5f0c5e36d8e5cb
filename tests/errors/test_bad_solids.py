"""Errors and warnings about solids that cannot be used, or only with care, before anything runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import warp as wp

from toile.errors import InputError, SceneError, StepFailed
from toile.math.types import vec3
from toile.model.solid_shapes import box
from toile.scene.load import load
from toile.simulation.simulation import Simulation

CLOTH = "cloth: [{shape: {type: grid, resolution: [11, 11], size: [0.5, 0.5]}, translation: [0, 0, 0.3]}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a valid box and with defective ones."""
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
    return about_solids(simulation)


def about_solids(simulation: Simulation) -> list[str]:
    """The warnings of a simulation without those about triangles of cloth, which have tests of their own."""
    of_cloth = ("Cloth may pass through", "1 pair of triangles", "pairs of triangles intersect")
    return [warning for warning in simulation.warnings if not any(text in warning for text in of_cloth)]


@pytest.mark.parametrize(
    ("text", "expected"),
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
            "keyframe 1 at 0.5 s is not later than keyframe 0 at 1.0 s",
        ),
        ("solids: [{type: sphere, name: a}, {type: box, name: a}]", "another solid has this name"),
        ("solids: [{type: box, rounding: 0.3}]", "rounding: must be less than half the smallest size"),
        ("solids: [{type: level_set, parts: [plane]}]", "a plane is infinite"),
        ("constraints: [solid_contact, solid_contact]", "already set by constraints[0]"),
    ],
)
def test_solids_that_cannot_be_used_are_errors(folder: Path, text: str, expected: str) -> None:
    found = problems(folder, text)
    assert len(found) == 1
    assert expected in found[0]
    assert found[0].startswith(("solids[", "constraints["))


def test_all_problems_are_reported_at_once(folder: Path) -> None:
    found = problems(folder, "solids: [{type: sphere, radius: -1}, {type: mesh, file: gone.obj}, {type: cone}]")
    assert [problem.split("]")[0] for problem in found] == ["solids[0", "solids[1", "solids[2"]
    assert "must be > 0 [m]" in found[0]
    assert "no such collider" in found[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("solids: [{type: mesh, file: open.obj}]", "the mesh is open (3 open edges"),
        ("solids: [{type: mesh, file: inward.obj}]", "signed volume is -0.125 m^3"),
        ("solids: [{type: mesh, file: mixed.obj}]", "flipped 1 triangle"),
        ("solids: [{type: mesh, file: fin.obj}]", "1 edge of more than two triangles"),
        (
            "solids: [{type: sphere, motion: {keyframes: [{time: 0}, {time: 0.01, translation: [50, 0, 0]}]}}]",
            "teleport at frame 1: the solid moves 50 m",
        ),
        ("solids: [{type: sphere, radius: 0.35}]", "37 vertices start inside it; vertex 60 is 0.05 m deep"),
        ("solids: [{type: sphere, radius: 0.301}]", "1 vertex starts inside it; vertex 60 is 0.001 m deep"),
        (
            "solids: [{type: sphere, radius: 0.35}]\nfilters: [{type: forecast, relaxation: 0.05}]\n"
            "time: {frames: 2, max_step: 0.00416}",
            "37 vertices start inside it; vertex 60 is 0.05 m deep. They are pushed out within some 0.05 s",
        ),
        (
            "solids: [{type: level_set, parts: [{type: sphere, radius: 0.1, motion: "
            "{keyframes: [{time: 0}, {time: 0.01, translation: [50, 0, 0]}]}}]}]",
            "parts[0]: teleport at frame 1: the solid moves 50 m",
        ),
        (
            "solids: [{type: level_set, parts: [{type: mesh, file: inward.obj}]}]",
            "parts[0]: the solid is inside out: its signed volume is -0.125 m^3. It does not keep cloth out; set flip",
        ),
    ],
)
def test_solids_that_need_care_are_warnings(folder: Path, text: str, expected: str) -> None:
    found = warnings(folder, text)
    assert any(expected in warning for warning in found)
    assert all(warning.startswith('solid "') for warning in found)


def test_a_mesh_that_is_inside_out_can_be_flipped(folder: Path) -> None:
    """Its volume is then positive, and cloth above it is outside."""
    assert warnings(folder, "solids: [{type: mesh, file: inward.obj, flip: true, sharp: false}]") == []


def test_a_level_set_that_is_inside_out_has_no_inside(folder: Path) -> None:
    """As its warning states: at the center of the box, where the distance should be -0.25 m, it is positive."""
    text = "solids: [{{type: level_set, parts: [{{type: mesh, file: inward.obj{}}}]}}]"
    for flip, sign in (("", 1.0), (", flip: true", -1.0)):
        simulation = Simulation(load(scene_file(folder, text.format(flip))))
        middle = wp.zeros(1, dtype=vec3)
        assert np.sign(simulation.solids.closest_points(middle, 0.0)[0]["distance"][0]) == sign


@pytest.mark.parametrize(("also", "type_name"), [("", "solid_contact"), ("filters: [forecast]", "forecast")])
def test_cloth_deep_inside_a_solid_is_an_error(folder: Path, also: str, type_name: str) -> None:
    """|p| - r = -0.15 m at the middle of the sheet."""
    scene = load(scene_file(folder, f"solids: [{{type: sphere, name: ball, radius: 0.45, sharp: false}}]\n{also}"))
    with pytest.raises(InputError) as caught:
        Simulation(scene)
    assert str(caught.value) == (
        'solid "ball": 117 vertices start inside it; vertex 60 is 0.15 m deep. Move the cloth or the solid, '
        f"or increase deepest_start of {type_name} (now 0.1 m) to recover it."
    )


def test_the_error_includes_the_warnings_of_the_solid(folder: Path) -> None:
    """Everything outside a box whose normals point inward counts as inside; the message includes the reason."""
    text = "solids: [{type: mesh, file: inward.obj, translation: [0, 0, -0.1]}]"
    with pytest.raises(InputError) as caught:
        Simulation(load(scene_file(folder, text)))
    first, second = str(caught.value).splitlines()
    assert first.startswith('solid "mesh": 121 vertices start inside it; vertex ')
    assert second == (
        'solid "mesh": the solid is inside out: its signed volume is -0.125 m^3. It does not keep cloth out; '
        "set flip: true to flip it."
    )


def test_pins_inside_a_solid_do_not_recover(folder: Path) -> None:
    """The middle row has 11 vertices, and |p| - r < 0 for 7 of them. Pins stay; the error concerns free vertices."""
    pin = "constraints: [{type: pin, where: {indices: [55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65]}}]"
    found = warnings(folder, f"solids: [{{type: sphere, radius: 0.35, sharp: false}}]\n{pin}")
    assert found == [
        'solid "sphere": 7 vertices start inside it; vertex 60 is 0.05 m deep. '
        "Pins hold them there and stretch the cloth around them.",
        'solid "sphere": 30 vertices start inside it; vertex 49 is 0.0459 m deep. '
        "They are pushed out, 0.02 m in a step of max_step.",
    ]
    everything = "constraints: [{type: pin, where: {box: [[-1, -1, 0], [1, 1, 1]]}}]"
    text = f"solids: [{{type: sphere, name: ball, radius: 0.45}}]\n{everything}"
    assert len(about_solids(Simulation(load(scene_file(folder, text))))) == 1  # deep, and not an error


def test_settings_without_effect_without_solids_are_reported(folder: Path) -> None:
    text = "constraints: [solid_contact]\nfilters: [forecast]\npost: [fold_projection]"
    assert warnings(folder, text) == [
        f"{where} has nothing to do, because the scene has no solids."
        for where in ("constraints: solid_contact", "filters: forecast", "post: fold_projection")
    ]


def test_steps_are_compared_with_the_precision_of_scene_files(folder: Path) -> None:
    """1/240 s is the largest step without a warning of forecast, however it is rounded."""
    text = "solids: [{{type: sphere, radius: 0.2, sharp: false}}]\nfilters: [forecast]\ntime: {{max_step: {}}}"
    for max_step, warned in ((0.00417, False), (0.0041666667, False), (0.0042, True)):
        found = about_solids(Simulation(load(scene_file(folder, text.format(max_step)))))
        assert len(found) == warned
        assert all("at steps of 1/238 s. Set time.max_step to 1/240 s" in warning for warning in found)


def test_values_that_a_filter_does_not_measure_are_null(folder: Path) -> None:
    """Only the depth is computed from positions."""
    text = "solids: [{type: sphere, radius: 0.2}]\nfilters: [forecast]\ntime: {max_step: 0.004}"
    simulation = Simulation(load(scene_file(folder, text)))
    entry = simulation.advance_frame().certificate
    assert entry is not None
    assert entry["solids"] == {"sphere": {"contacts": None, "force": None, "depth": 0.0, "deepest": None}}
    assert entry["contacts"]["solid"] is None


SHAPES = {
    "sphere": "type: sphere, radius: 0.25",
    "box": "type: box, size: [0.5, 0.5, 0.5]",
    "mesh": "type: mesh, file: good.obj",
    "level_set": "type: level_set, parts: [{type: mesh, file: good.obj}]",
}


@pytest.mark.parametrize("depth", [0.04, 0.09])
@pytest.mark.parametrize("kind", SHAPES)
def test_cloth_that_starts_at_a_permitted_depth_recovers(folder: Path, kind: str, depth: float) -> None:
    """A sheet starts inside a solid. Recovery per step shrinks with the step, so that neighbors that recover to
    opposite
    sides are not torn apart: no permitted start ends in StepFailed."""
    grid = "{type: grid, resolution: [33, 33], size: [0.8, 0.8]}"
    path = folder / "through.yaml"
    path.write_text(
        "name: through\ntime: {frames: 12}\n"
        f"cloth: [{{shape: {grid}, translation: [0, 0, {0.25 - depth}]}}]\n"
        f"solids: [{{{SHAPES[kind]}}}]\n"
    )
    simulation = Simulation(load(path))
    for _ in simulation.run():
        pass
    (found,) = simulation.solids.closest_points(simulation.state.x, simulation.state.t)
    assert found["distance"].min() > -1e-4  # of vertices: triangles may still cut through the edges of the box


def test_the_remedy_of_a_failed_step_names_the_pin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step size helps where a pin is inside a solid."""
    for limit in ("MAX_STRETCH_CHANGE", "HOPELESS_STRETCH"):
        monkeypatch.setattr(f"toile.simulation.step.{limit}", -1.0)  # no step is accepted
    pin = "constraints: [{type: pin, where: {indices: [60]}}]"
    for radius, also, expected in (
        (0.35, pin, 'Vertex 60 is pinned 0.05 m inside solid "sphere". Move the pin out of it.'),
        (0.35, "", 'Vertex 60 is 0.05 m inside solid "sphere". Start the cloth out of it.'),
        (0.25, "", "Try a smaller time.max_step."),
    ):
        simulation = Simulation(load(scene_file(folder, f"solids: [{{type: sphere, radius: {radius}}}]\n{also}")))
        with pytest.raises(StepFailed) as failed:
            simulation.advance_frame()
        assert failed.value.remedy == expected


def test_cloth_inside_a_solid_recovers_in_three_steps(folder: Path) -> None:
    """0.05 m at 0.02 m in a step of max_step takes three such steps. Vertices are held, triangles may cut in."""
    simulation = Simulation(load(scene_file(folder, "solids: [{type: sphere, radius: 0.35}]\nfilters: []")))
    depths = []
    for _ in simulation.run(3):
        (found,) = simulation.solids.closest_points(simulation.state.x, simulation.state.t)
        depths.append(-float(found["distance"].min()))
    assert depths[1] < 0.05
    assert depths[3] <= 0.0
