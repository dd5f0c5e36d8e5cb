"""Messages about cloth on cloth: meshes that are too fine for the thickness, and pins that nothing can follow."""

from __future__ import annotations

from typing import Any

import pytest

from toile.scene.schema import Scene
from toile.simulation import Simulation


def sheet(name: str, height: float = 0.0, **more: Any) -> dict[str, Any]:
    """Edges of 25 mm, and diagonals."""
    shape = {"type": "grid", "size": [0.2, 0.2], "resolution": [9, 9]}
    return {"name": name, "shape": shape, "translation": [0.0, 0.0, height], "fabric": "cotton", **more}


def scene(*cloth: dict[str, Any], thickness: float = 1e-3, **more: Any) -> Scene:
    return Scene(cloth=cloth, filters=[{"type": "self_contact", "thickness": thickness}], **more)


def test_cloth_that_is_too_thick_for_its_mesh_is_told(device: str) -> None:
    """By the filter's thickness, or by its own; each cloth by its own mesh."""
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
    """1.24 cm of 2.5 cm; whether or not there are solids, which have warnings of their own."""
    assert Simulation(scene(sheet("sheet"), thickness=0.0124, solids=solids), device).warnings == []
    (told,) = Simulation(scene(sheet("sheet"), thickness=0.0126, solids=solids), device).warnings
    assert told.startswith('cloth "sheet": the thickness of self_contact, 0.0126 m, is more than half')
