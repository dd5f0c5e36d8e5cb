"""Self-contact by default: which scenes have it, how thick it makes cloth, and what a scene without it is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toile.filters.self_contact import SelfContact
from toile.scene.presets import preset_names
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

GRID = {"type": "grid", "size": (0.3, 0.3), "resolution": (13, 13)}
BALL = {"type": "sphere", "name": "ball", "translation": (0.0, 0.0, -1.0)}


def scene(**more: Any) -> Scene:
    return Scene(**{"cloth": [{"shape": GRID}], "time": {"frames": 0}, **more})


def type_names(scene: Scene) -> list[str]:
    return [item.type_name() for item in scene.filters]


def test_a_scene_without_filters_has_self_contact(device: str) -> None:
    assert type_names(scene()) == ["self_contact"]
    assert Simulation(scene(), device).warnings == []


@pytest.mark.parametrize("preset", sorted(set(preset_names()) - {"bw98"}))
def test_it_is_the_last_filter_of_every_preset(preset: str) -> None:
    """But of [BW98], whose method for cloth on cloth is springs."""
    assert type_names(scene(preset=preset))[-1] == "self_contact"
    assert type_names(scene(preset="bw98")) == []


SECOND = {"name": "other", "shape": GRID, "translation": (0.0, 0.0, 0.1)}
END = "End `filters` with self_contact to prevent this"


@pytest.mark.parametrize(("more", "line"), [
    ({}, f"Cloth may pass through itself. {END}."),
    ({"cloth": [{"shape": GRID}, SECOND]}, f"Cloth may pass through itself and other cloth. {END}."),
    ({"forces": ["penalty"]}, f"Cloth may pass through itself where it is pressed or thrown hard. {END}."),
    ({"solids": [{**BALL, "sharp": False}]}, f"Cloth may pass through itself. {END}."),
    ({"solids": [{**BALL, "sharp": True}]},
     f'Cloth may pass through itself, and through faces and edges of solid "ball". {END}, or set sharp: false if held '
     "vertices are enough on solids."),
])  # fmt: skip
@pytest.mark.parametrize("filters", [[], ["strain_impulse"]])
@pytest.mark.parametrize("preset", ["default", "ye08"])
def test_a_scene_without_it_gets_one_line(
    more: dict[str, Any], line: str, filters: list[str], preset: str, device: str
) -> None:
    found = Simulation(scene(preset=preset, filters=filters, **more), device).warnings
    assert [warning for warning in found if not warning.startswith("preset ye08: without strain_impulse")] == [line]
    assert type_names(scene(filters=[])) == []


def test_cloth_that_cannot_meet_itself_needs_none(device: str) -> None:
    """Two triangles with a common edge, and a scene without cloth."""
    two = {"type": "grid", "resolution": (2, 2)}
    assert Simulation(scene(cloth=[{"shape": two}], filters=[]), device).warnings == []
    assert Simulation(scene(cloth=[], filters=[]), device).warnings == []


def test_the_thickness_follows_the_mesh_where_none_is_given(device: str) -> None:
    """Cells of 25 mm: 1 mm. Cells of 1.5 mm: half of them. What is given stays, with a warning where it is too much."""
    fine = {"name": "fine", "shape": {"type": "grid", "size": (0.015, 0.015), "resolution": (11, 11)}}
    own = {**fine, "name": "own", "thickness": 5e-4, "translation": (0.0, 0.0, 0.1)}
    cloth = [{"shape": GRID, "translation": (0.0, 0.0, 0.2)}, fine, own]
    simulation = Simulation(scene(cloth=cloth), device)
    model = simulation.model
    assert simulation.warnings == []
    per_cloth = [SelfContact().thicknesses(model)[part.particles] for part in model.parts]
    for found, expected in zip(per_cloth, (1e-3, 0.75e-3, 5e-4), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    (warning,) = Simulation(scene(cloth=[fine], filters=[{"type": "self_contact", "thickness": 1e-3}]), device).warnings
    assert "0.001 m, is more than half its shortest edge, 0.0015 m" in warning


def test_a_folded_sheet_does_not_fall_through_itself(device: str) -> None:
    """Its lower layer is pinned at z = 0. The upper one, 25 mm above, would fall 0.11 m in 0.15 s, and so far below it;
    by default it stays above, and no triangles intersect after any step."""
    shape = {"type": "folded", "size": (0.4, 0.2), "resolution": (17, 9), "folds": 1, "gap": 0.025}
    pins = [{"type": "pin", "where": {"box": [[-1.0, -1.0, -1e-6], [1.0, 1.0, 1e-6]]}}]

    def run(**filters: Any) -> tuple[float, int]:
        folded = scene(cloth=[{"shape": shape}], constraints=pins, time={"frames": 5}, **filters)
        simulation = Simulation(folded, device, audit="step")
        frames = list(simulation.run())
        crossed = sum(frame.certificate["intersections"] for frame in frames if frame.certificate is not None)
        return float(frames[-1].positions[:, 2].min()), crossed

    lowest, crossed = run(filters=[])
    assert lowest < -0.05 and crossed > 0
    assert run() == (0.0, 0)
