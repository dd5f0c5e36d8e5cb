"""Nothing passes a solid at default settings, however thin, pointed, fine or fast, and triangles stay out of it.

By vertices alone the same sheets cut in by millimeters, fall through, or let the solid pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toile.model import solid_shapes
from toile.scene.load import load
from toile.simulation.simulation import Simulation

DEPTH = 1e-4  # [m]  largest depth of samples on triangles
BALL, SPEED, END = 0.01, 30.0, 0.15  # [m], [m/s], [m]  radius of a ball, its speed, and how far it flies

ROD = {"type": "capsule", "radius": 0.002, "length": 0.5, "rotation": [90.0, 0.0, 0.0], "translation": [0.003, 0, 0]}
CONES = [
    {
        "type": "turned",
        "name": f"cone {i} {j}",
        "profile": [[0, -0.2], [0.02, -0.2], [0, 0]],
        "translation": [0.1 * i - 0.047, 0.1 * j - 0.053, 0],
    }
    for i in range(2)
    for j in range(2)
]
SHOT = {
    "type": "sphere",
    "radius": BALL,
    "translation": [0.006, 0.004, 0.1],
    "motion": {
        "interpolation": "linear",
        "keyframes": [{"time": 0.0}, {"time": (0.1 + END) / SPEED, "translation": [0, 0, -0.1 - END]}],
    },
}
FINE_BALL = {"type": "mesh", "file": "ball.obj", "translation": [0.0, 0.0, -0.06]}


def run(folder: Path, solids: list[dict[str, Any]], height: float, device: str, **more: Any) -> Simulation:
    """A sheet with cells of 2 cm above these solids, audited after every step."""
    positions, triangles = solid_shapes.sphere(0.06, 4)
    lines = [f"v {x} {y} {z}" for x, y, z in positions] + [f"f {a} {b} {c}" for a, b, c in triangles + 1]
    (folder / "ball.obj").write_text("\n".join(lines))
    scene = {
        "name": "features",
        "time": {"frames": 15, "fps": 30},
        "cloth": [
            {"shape": {"type": "grid", "size": [0.3, 0.3], "resolution": [16, 16]}, "translation": [0, 0, height]}
        ],
        "solids": solids,
        "filters": ["self_contact"],
        **more,
    }
    (folder / "features.json").write_text(json.dumps(scene))
    simulation = Simulation(load(folder / "features.json"), device, audit="step")
    for _ in simulation.run():
        pass
    return simulation


@pytest.mark.parametrize("solids", [[ROD], CONES, [FINE_BALL]], ids=["rod of 4 mm", "cones", "ball of 5,120 triangles"])
def test_a_sheet_rests_on_solids(tmp_path: Path, solids: list[dict[str, Any]], device: str) -> None:
    """It falls 2 cm. A part of it stays above the highest point of the solids, and no triangle cuts into them."""
    simulation = run(tmp_path, solids, 0.02, device)
    summary = simulation.report()["summary"]
    assert summary["solid_depth"] <= DEPTH
    assert summary["intersections"] == 0
    assert summary["ok"]
    assert simulation.state.x.numpy()[:, 2].max() > 0.0


@pytest.mark.parametrize("solids", [[ROD], CONES, [FINE_BALL]], ids=["rod of 4 mm", "cones", "ball of 5,120 triangles"])
def test_held_vertices_alone_are_not_enough(tmp_path: Path, solids: list[dict[str, Any]], device: str) -> None:
    """The test above is not vacuous: triangles cut in, or the sheet falls through the rod."""
    simulation = run(tmp_path, [{**solid, "sharp": False} for solid in solids], 0.02, device)
    fell = simulation.state.x.numpy()[:, 2].max() < -0.01
    assert fell or simulation.report()["summary"]["solid_depth"] > 5.0 * DEPTH


def test_a_fast_ball_takes_a_held_sheet_along(tmp_path: Path, device: str) -> None:
    """At 30 m/s it moves by 50 times its radius in a step of 1/60 s; it is as large as a cell. The sheet is held at all
    its edges, and must stretch: it ends below the ball, in front of it."""
    simulation = run(
        tmp_path, [SHOT], 0.0, device,
        time={"frames": 2, "fps": 60},
        constraints=[{"type": "pin", "where": {"edges": ["left", "right", "lower", "upper"]}}],
    )  # fmt: skip
    summary = simulation.report()["summary"]
    assert summary["solid_depth"] <= DEPTH
    assert summary["intersections"] == 0
    assert simulation.state.x.numpy()[:, 2].min() < -END - BALL


def test_a_round_solid_needs_only_held_vertices(tmp_path: Path, device: str) -> None:
    """A ball of 20 cm: its triangles take no part, vertices are held 1.4 mm in front of it, and triangles stay out."""
    ball = {"type": "sphere", "radius": 0.1, "translation": [0.0, 0.0, -0.1]}
    simulation = run(tmp_path, [ball], 0.02, device)
    assert simulation.solids.contact_surfaces == ()
    assert 1.0e-3 < simulation.solids.gaps[0] < 2.5e-3
    assert simulation.report()["summary"]["solid_depth"] == 0.0
