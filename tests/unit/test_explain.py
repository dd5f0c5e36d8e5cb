"""`toile explain`: every field of a scene appears with its value, and values of the scene differ from defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from rich.console import Console

from toile.families import FAMILIES
from toile.plugins import find, names
from toile.scene.explain import Row, explain, explain_plugin, field_rows, judgment_constants, rows
from toile.scene.load import load
from toile.scene.schema import Scene


@pytest.fixture(scope="module")
def scene() -> Scene:
    return load("hang", overrides=["cloth[0].regions={hem: {edges: [lower]}}"])


def row(scene: Scene, key: str, depth: int) -> Row:
    return next(entry for entry in rows(scene) if (entry.key, entry.depth) == (key, depth))


def fields(value: Any) -> list[str]:
    """The names of all fields of all models inside a value."""
    if isinstance(value, BaseModel):
        own = list(type(value).model_fields)
        return own + [name for key in own for name in fields(getattr(value, key))]
    if isinstance(value, dict):
        return [name for item in value.values() for name in fields(item)]
    if isinstance(value, tuple):
        return [name for item in value for name in fields(item)]
    return []


def test_every_field_of_every_model_is_there(scene: Scene) -> None:
    shown = [entry.key for entry in rows(scene) if not entry.key.startswith("[")]
    for name in set(fields(scene)):
        assert shown.count(name) >= fields(scene).count(name), name


def test_a_value_that_the_scene_set(scene: Scene) -> None:
    assert row(scene, "frames", 1) == Row(1, "frames", "75", False, "", ">= 0", "frames after the start")


def test_a_default(scene: Scene) -> None:
    assert row(scene, "min_step", 1) == Row(
        1, "min_step", "1e-05", True, "s", "> 0", "the run stops when a step would have to be smaller"
    )


def test_plugins_are_shown_with_their_summary(scene: Scene) -> None:
    grid = row(scene, "type", 3)
    assert (grid.value, grid.doc) == (
        "grid", "A rectangular sheet of right triangles, with alternating or parallel diagonals.",
    )  # fmt: skip
    assert row(scene, "diagonals", 3).limits == "alternating | single"


def test_limits_of_the_entries_of_a_list_are_shown(scene: Scene) -> None:
    assert (row(scene, "size", 3).limits, row(scene, "resolution", 3).limits) == ("> 0", ">= 2")


def test_names_stay_whole_on_a_narrow_screen(scene: Scene) -> None:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(explain(scene))
    lines = console.export_text().splitlines()
    constants = [f"{module}.{name}" for module, name, _, _ in judgment_constants()]
    for key in [*("  " * entry.depth + entry.key for entry in rows(scene)), *constants]:
        assert any(line.startswith(key) for line in lines), key


def test_a_plugin_shows_the_fields_of_its_nested_models() -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(explain_plugin("constraints", "pin"))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")] == [
        "indices", "corners", "edges", "box", "region", "all", "keyframes", "interpolation", "center",
    ]  # fmt: skip
    assert any(line.startswith("    rotation ") for line in lines)


def test_the_whole_explanation_is_printed(scene: Scene) -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(explain(scene))
    text = console.export_text()
    assert "bending rigidity when u curves" in text
    assert "hem" in text


def test_judgment_constants_come_with_their_reason() -> None:
    constants = {f"{module}.{name}": (value, why) for module, name, value, why in judgment_constants()}
    assert constants["model.mesh_repair.DEGENERATE"] == (
        "1e-12",
        "Height of a triangle over its longest edge up to which it is a line within rounding, and has no normal.",
    )  # fmt: skip
    assert all(why for _, why in constants.values())
    assert not any(name.startswith(("viewer.", "cli.")) for name in constants)  # only about appearance


@pytest.mark.parametrize(("family", "name"), [(family, name) for family in FAMILIES for name in names(family)])
def test_every_plugin_can_be_explained(family: str, name: str) -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(explain_plugin(family, name))
    assert console.export_text().startswith(f"{name} ({FAMILIES[family].noun})  ")


@pytest.mark.parametrize(("family", "name"), [(family, name) for family in FAMILIES for name in names(family)])
def test_every_plugin_and_its_fields_are_documented(family: str, name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "scenes.md").read_text(encoding="utf-8")
    if name == "gravity":  # a key of the scene, which is not listed by its type
        assert "`gravity`" in page
        return
    for key in (name, *(row.key for row in field_rows(find(family, name)))):
        assert f"`{key}`" in page or f"`{key}: " in page, key
