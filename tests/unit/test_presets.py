"""Presets: the values of a paper are defaults below those of the scene, whether it is a file, a script or overrides."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from rich.console import Console
from typer.testing import CliRunner

from toile.cli import app
from toile.errors import SceneError
from toile.scene.explain import explain, explain_preset, rows
from toile.scene.load import load
from toile.scene.presets import dropped_from_preset, fill, preset_names, preset_text, read_preset
from toile.scene.schema import Cloth, Scene, Time
from toile.simulation.simulation import Simulation

NAMES = preset_names()
GRID = {"type": "grid", "resolution": (3, 3)}


def type_names(items: tuple) -> list[str]:
    return [item.type_name() for item in items]


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_a_valid_scene_with_all_values(name: str) -> None:
    """A value that a preset leaves out would be that of the default, which is not that of a paper."""
    assert {"integrator", "filters", "cloth"} <= set(read_preset(name))
    assert "energies" in read_preset(name)["cloth"]
    scene = Scene(preset=name, cloth=[{"shape": GRID}])
    for key in read_preset(name):
        assert key in scene.model_fields_set or name == "default"


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_preset_names_its_source(name: str) -> None:
    for line in preset_text(name).splitlines():
        assert "#" in line or line.endswith(":"), line  # the values of a nested key are in the lines below it


def test_scene_values_win_and_lists_are_replaced() -> None:
    scene = Scene(preset="bw98", integrator="implicit_bdf2", forces=["drag"], cloth=[{"shape": GRID}])
    assert scene.integrator.type_name() == "implicit_bdf2"
    assert type_names(scene.forces) == ["drag"]
    assert type_names(scene.cloth[0].energies) == ["stretch", "shear", "bend_angle"]


def test_values_with_a_type_are_replaced_as_a_whole() -> None:
    given, _ = fill({"preset": "bw98", "integrator": {"type": "implicit_euler"}})
    assert given["integrator"] == {"type": "implicit_euler"}


def test_mappings_are_filled_key_by_key() -> None:
    scene = Scene(preset="bw98", solver={"tolerance": 1e-6})
    assert scene.solver.tolerance == 1e-6
    assert scene.solver.preconditioner.type_name() == "diagonal"


def test_each_cloth_is_filled_separately() -> None:
    cloths = [{"name": "one", "shape": GRID, "energies": ["stretch"]}, {"name": "two", "shape": GRID}]
    scene = Scene(preset="bw98", cloth=cloths)
    assert [type_names(cloth.energies) for cloth in scene.cloth] == [["stretch"], ["stretch", "shear", "bend_angle"]]
    assert "energies" not in cloths[1]  # the input is not changed


def test_models_made_in_python_keep_their_values() -> None:
    mine = Cloth(shape=GRID, energies=["stretch"], velocity=(1, 2, 3))
    scene = Scene(preset="bw98", cloth=(mine, Cloth(name="other", shape=GRID, spin=(0, 0, 1))), time=Time(frames=3))
    assert scene.cloth[0] == mine
    assert scene.cloth[1].spin == (0, 0, 1)
    assert "energies" in scene.cloth[1].model_fields_set
    assert scene.time.frames == 3


def test_a_file_a_script_and_overrides_give_the_same_scene(tmp_path: Path) -> None:
    text = "cloth: [{shape: {type: grid, resolution: [3, 3]}}]\n"
    (tmp_path / "with.yaml").write_text("preset: bw98\n" + text)
    (tmp_path / "without.yaml").write_text(text)
    scenes = [
        load(tmp_path / "with.yaml"),
        load(tmp_path / "without.yaml", overrides=["preset=bw98"]),
        Scene(preset="bw98", cloth=[{"shape": GRID}]),
    ]
    assert len({scene.model_dump_json() for scene in scenes}) == 1
    assert len({tuple(rows(scene)) for scene in scenes}) == 1


def test_overrides_change_values_of_the_preset_in_any_order() -> None:
    one, other = (
        load("hang", overrides=overrides)
        for overrides in (
            ["preset=bw98", "integrator.newton_iterations=2"],
            ["integrator.newton_iterations=2", "preset=bw98"],
        )
    )
    assert one == other
    assert (one.integrator.type_name(), one.integrator.newton_iterations) == ("implicit_euler", 2)


OWN = ", because the scene sets its own "
ADD = " Remove that key, or add what is missing to it."


def test_replaced_values_of_a_preset_are_reported(device: str) -> None:
    scene = load("drape", overrides=["preset=pro95"])
    line = f"preset pro95: without strain_deformation_rate{OWN}filters.{ADD}"
    assert line in dropped_from_preset(scene)
    scene = Scene(preset="pro95", cloth=[{"shape": GRID}], filters=["self_contact"], time={"frames": 0})
    assert Simulation(scene, device).warnings == [line]


def test_every_replaceable_part_of_a_preset_is_reported() -> None:
    cloth = [{"shape": GRID, "energies": ["stretch", "shear"]}, {"name": "other", "shape": GRID}]
    scene = Scene(preset="bw98", integrator="implicit_bdf2", forces=["drag"], cloth=cloth)
    assert list(dropped_from_preset(scene)) == [
        f"preset bw98: without implicit_euler{OWN}integrator. Remove that key to use the preset's.",
        f"preset bw98: without penalty{OWN}forces.{ADD}",
        f"preset bw98: without bend_angle{OWN}cloth[0].energies.{ADD}",
    ]


def test_other_values_and_additions_replace_nothing() -> None:
    """Neither does leaving out settings for solids, if there are none."""
    filters = [{"type": "strain_velocity", "extension": 0.2}, "self_contact"]
    cloth = [{"shape": GRID, "energies": [{"type": "spring", "structural": 5.0}, "bend_mode"]}]
    assert (
        list(dropped_from_preset(Scene(preset="bmf03", filters=filters, forces=["drag"], post=[], cloth=cloth))) == []
    )
    with_solid = Scene(preset="bmf03", filters=filters, post=[], cloth=cloth, solids=["plane"])
    assert list(dropped_from_preset(with_solid)) == [
        f"preset bmf03: without forecast{OWN}filters.{ADD}",
        f"preset bmf03: without fold_projection{OWN}post.{ADD}",
    ]
    assert list(dropped_from_preset(Scene(filters=["self_contact"], integrator="explicit_euler", cloth=cloth))) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_alone_replaces_nothing(name: str) -> None:
    scene = Scene(preset=name, cloth=[{"shape": GRID}], solids=["plane"])
    assert list(dropped_from_preset(scene)) == []
    assert list(dropped_from_preset(Scene.model_validate_json(scene.model_dump_json()))) == []


def test_a_dumped_scene_is_the_same_scene_again() -> None:
    scene = Scene(preset="bw98", cloth=[{"shape": GRID}], forces=[])
    again = Scene.model_validate_json(scene.model_dump_json())
    assert again.model_dump_json() == scene.model_dump_json()


def test_unknown_presets_are_reported_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "scene.yaml").write_text("name: sheet\npreset: bw89\n")
    with pytest.raises(SceneError) as caught:
        load(tmp_path / "scene.yaml")
    assert str(caught.value) == f'{tmp_path}/scene.yaml:2  preset = "bw89": no such preset. Did you mean "bw98"?'
    with pytest.raises(SceneError) as caught:
        load("hang", overrides=["preset=bw89"])
    assert str(caught.value) == '--set preset=bw89  preset = "bw89": no such preset. Did you mean "bw98"?'
    with pytest.raises(ValidationError, match=f"Choose from: {', '.join(NAMES)}"):
        Scene(preset="velvet")


@pytest.mark.parametrize("value", ["[1]", "{a: 1}", "5", "null"])
def test_a_preset_that_is_not_a_name_is_reported(tmp_path: Path, value: str) -> None:
    (tmp_path / "scene.yaml").write_text(f"preset: {value}\n")
    with pytest.raises(SceneError, match=r"scene.yaml:1  preset = .*: must be text"):
        load(tmp_path / "scene.yaml")


def test_the_certificate_hash_covers_what_the_preset_set(device: str) -> None:
    """The same scene with another preset, or with none, has another hash."""

    def digest(**fields: object) -> str:
        return Simulation(Scene(cloth=[{"shape": GRID}], time={"frames": 0}, **fields), device).certificate.hash

    assert digest(preset="bw98") == digest(preset="bw98")
    assert digest(preset="bw98") != digest()
    assert digest(preset="bw98") != digest(preset="bw98", integrator={"type": "implicit_euler", "newton_iterations": 2})


def test_explain_distinguishes_values_of_the_preset_and_of_the_scene() -> None:
    found = {row.key: row for row in rows(load("hang", overrides=["preset=bw98"]))}
    assert found["newton_iterations"].of_preset
    assert found["energies"].of_preset
    assert not found["frames"].of_preset
    changed = {row.key: row for row in rows(load("hang", overrides=["preset=bw98", "integrator.newton_iterations=2"]))}
    assert not changed["newton_iterations"].of_preset
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(explain(load("hang", overrides=["preset=bw98"])))
    assert "Italic: set by the preset bw98." in console.export_text()


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_listed_and_explained(name: str) -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(explain_preset(name))
    assert console.export_text().startswith(f"{name} (preset)  ")
    runner = CliRunner()
    assert re.search(rf"^{name} +\S", runner.invoke(app, ["list", "presets"]).stdout, re.M)
    assert f"{name} (preset)" in runner.invoke(app, ["explain", name]).stdout
    assert f"{name} (preset)" in runner.invoke(app, ["explain", "preset"]).stdout


# The largest strain of an edge, where the paper limits it: [BW98] does not, and its stiffness keeps it small.
LIMITS = {"bw98": 0.1, "pro95": 0.11, "ye08": 0.1, "bmf03": 0.105, "default": 0.1}


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_hangs_a_sheet(name: str, device: str) -> None:
    """Ten frames from the horizontal: finite, and stretched within the limits of its paper. There are no warnings but
    that of [BW98], whose springs between cloths do not keep them apart under any load."""
    pins = [{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}]
    cloth = [{"shape": {"type": "grid", "resolution": (11, 11)}}]
    simulation = Simulation(Scene(preset=name, time={"frames": 10}, cloth=cloth, constraints=pins), device)
    through = "Cloth may pass through itself where it is pressed or thrown hard. "
    remedy = "End `filters` with self_contact to prevent this."
    assert simulation.warnings == ([through + remedy] if name == "bw98" else [])
    frames = list(simulation.run())
    assert all(np.isfinite(frame.positions).all() for frame in frames)
    fallen = frames[0].positions[:, 2].mean() - frames[-1].positions[:, 2].mean()
    assert 0.15 < fallen < 0.5  # 0.54 m in free fall
    assert max(frame.certificate["strain"]["edge_max"] for frame in frames[1:]) < LIMITS[name]
    assert simulation.report()["summary"]["ok"]
