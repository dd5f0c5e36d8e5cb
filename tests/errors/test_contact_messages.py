"""Messages about contact between cloths: meshes too fine for the thickness, and pins that force cloth through cloth."""

from __future__ import annotations

from typing import Any

import pytest

from toile.errors import StepFailed
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation


def sheet(name: str, height: float = 0.0, **more: Any) -> dict[str, Any]:
    """Edges of 25 mm, and diagonals."""
    shape = {"type": "grid", "size": [0.2, 0.2], "resolution": [9, 9]}
    return {"name": name, "shape": shape, "translation": [0.0, 0.0, height], "fabric": "cotton", **more}


def scene(*cloth: dict[str, Any], thickness: float = 1e-3, **more: Any) -> Scene:
    return Scene(cloth=cloth, filters=[{"type": "self_contact", "thickness": thickness}], **more)


def test_cloth_that_is_too_thick_for_its_mesh_is_reported(device: str) -> None:
    """By the thickness of the filter or its own; each cloth is compared with its own mesh."""
    fine = sheet("fine", 1.0, shape={"type": "grid", "size": [0.1, 0.1], "resolution": [11, 11]})
    given = scene(sheet("coarse"), fine, sheet("thick", 2.0, thickness=0.02), thickness=0.006)
    assert Simulation(given, device).warnings == [
        'cloth "fine": the thickness of self_contact, 0.006 m, is more than half its shortest edge, 0.01 m. '
        "Its folds cannot close, and contact is slow: choose at most 0.005 m, or a coarser mesh.",
        'cloth "thick": its thickness, 0.02 m, is more than half its shortest edge, 0.025 m. '
        "Its folds cannot close, and contact is slow: choose at most 0.0125 m, or a coarser mesh.",
    ]


@pytest.mark.parametrize("solids", [[], [{"type": "plane", "translation": [0.0, 0.0, -1.0]}]])
def test_half_an_edge_is_not_too_thick(solids: list[dict[str, Any]], device: str) -> None:
    """1.24 cm of 2.5 cm, with and without solids, which have their own warnings."""
    assert Simulation(scene(sheet("sheet"), thickness=0.0124, solids=solids), device).warnings == []
    (messages,) = Simulation(scene(sheet("sheet"), thickness=0.0126, solids=solids), device).warnings
    assert messages.startswith('cloth "sheet": the thickness of self_contact, 0.0126 m, is more than half')


def down(speed: float) -> dict[str, Any]:
    keys = [{"time": 0.0}, {"time": 1.0, "translation": [0.0, 0.0, -speed]}]
    return {"interpolation": "linear", "keyframes": keys}


def pinned(cloth: str, speed: float = 0.0, where: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pin of the whole cloth, or of a part of it, that moves down."""
    return {"type": "pin", "cloth": cloth, "where": where or {"all": True}, "motion": down(speed)}


def remedy(given: Scene, device: str) -> str:
    """The remedy in the message of a run that fails."""
    with pytest.raises(StepFailed, match="cloth is caught between things that move against each other") as failed:
        list(Simulation(given, device).run())
    return failed.value.remedy


TIME = {"frames": 5, "fps": 30.0, "min_step": 1e-3}


def test_pins_that_force_cloth_through_cloth_are_named(device: str) -> None:
    """A sheet is lowered on a held one, over its upper right quarter: vertex 40 is at its middle. Vertices are counted
    in each cloth, and a cloth elsewhere is not named."""
    above = sheet("upper", 0.02) | {"translation": [0.1013, 0.1017, 0.02]}
    given = scene(
        sheet("elsewhere", 5.0), sheet("lower"), above, constraints=[pinned("lower"), pinned("upper", 1.0)], time=TIME
    )
    messages = remedy(given, device)
    assert messages == (
        'Pins move cloth "lower" and cloth "upper" through each other at vertex 40 of cloth "lower": '
        "change their motion."
    )


def test_pins_that_force_cloth_through_itself_are_named(device: str) -> None:
    """Layers of a folded sheet; pins move the upper one and its half of the fold down."""
    folded = {"type": "folded", "size": [0.4, 0.2], "resolution": [41, 5], "folds": 1, "gap": 0.02}
    top, bottom = ({"box": [[-1.0, -1.0, z], [1.0, 1.0, z + 0.0199]]} for z in (0.01, -0.01))
    constraints = [pinned("sheet", 1.0, top), pinned("sheet", 0.0, bottom)]
    messages = remedy(scene(sheet("sheet", shape=folded), constraints=constraints, time=TIME), device)
    assert messages.startswith('Pins move cloth "sheet" through itself at vertex ')


def blade(height: float, speed: float = 0.0) -> dict[str, Any]:
    """Across the middle of a sheet; it moves down."""
    place = {"translation": [0.0013, 0.0, height], "motion": down(speed)}
    return {"type": "box", "size": [0.004, 0.3, 0.1], "sharp": True, **place}


def test_pins_that_force_cloth_through_a_blade_are_named(device: str) -> None:
    """The blade is at rest."""
    messages = remedy(
        scene(sheet("sheet"), solids=[blade(-0.06)], constraints=[pinned("sheet", 1.0)], time=TIME), device
    )
    assert messages.startswith('Pins move cloth "sheet" and a solid through each other at vertex ')


def test_blades_that_meet_on_free_cloth_pinch_it(device: str) -> None:
    """A free sheet between a blade that moves down and one at rest: this is no error."""
    blades = [blade(-0.055), blade(0.06, 2.0)]
    simulation = Simulation(scene(sheet("sheet"), solids=blades, time=TIME), device)
    list(simulation.run())
    assert simulation.report()["summary"]["pinched"] > 0
    assert simulation.report()["summary"]["intersections"] == 0
