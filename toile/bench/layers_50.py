"""Fifty sheets on a lying cylinder, off its middle: they drape over it, slide off to one side and fall on the floor.

    layers = n / 4900, from 2 to 50,    vertices along a side = sqrt(n / layers)

Small sizes have fewer sheets, not coarser ones, because a coarse sheet has few folds and easy contacts. Sizes above
245,000 vertices have finer sheets.

    python -m toile.bench.layers_50 SIZE FILE.json     writes the scene, which every command of toile accepts

Source      Chen, Hsu, Liu, Macklin, Yang and Yuksel 2025, "Offset Geometric Contact": 50 layers of cloth, 246 thousand
            vertices
Deviations  The source does not say how its layers are placed; these slide off, so that resting contact, sliding contact
            and impacts all occur.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from toile.scene.schema import Scene

LAYERS = 50
# Vertices of a sheet below the full number of layers.
SHEET = 70 * 70

SIDE = 1.0  # [m]
THICKNESS = 1e-3  # [m]
SPACING = 3e-3  # [m]  at the start
RADIUS, AXIS_HEIGHT = 0.15, 0.7  # [m]
# Distance of the sheets from the middle of the cylinder [m]; the friction lets go at a third of it.
OFF_MIDDLE = 0.12


def layers_50(size: int, layers: int | None = None) -> Scene:
    """Returns the scene with about `size` vertices in all, in as many sheets as that gives, or in `layers`."""
    layers = layers or min(max(round(size / SHEET), 2), LAYERS)
    n = max(round((size / layers) ** 0.5), 2)
    bottom = AXIS_HEIGHT + RADIUS + 0.005
    sheets: list[dict[str, Any]] = [
        {
            "name": f"sheet_{k}",
            "shape": {"type": "grid", "size": [SIDE, SIDE], "resolution": [n, n]},
            "translation": [OFF_MIDDLE, 0.0, bottom + k * SPACING],
            "fabric": "cotton",
        }
        for k in range(layers)
    ]
    cylinder = {
        "type": "cylinder", "name": "cylinder", "radius": RADIUS, "height": 1.4, "rounding": 0.02,
        "translation": [0.0, 0.0, AXIS_HEIGHT], "rotation": [90.0, 0.0, 0.0], "friction": 0.05,
    }  # fmt: skip
    return Scene.model_validate({
        "version": 1,
        "name": "layers_50",
        "about": f"{layers} sheets drape over a lying cylinder, slide off to one side and fall on the floor.",
        "time": {"frames": 60, "fps": 30},
        "cloth": sheets,
        "solids": [cylinder, {"type": "plane", "name": "floor", "friction": 0.3}],
        "constraints": [{"type": "solid_contact", "thickness": 0.003}],
        "filters": [{"type": "self_contact", "thickness": THICKNESS, "friction": 0.05}],
        "forces": [{"type": "drag", "quadratic": 0.6}],
        "expect": {"ok": {"equals": True}, "intersections": {"equals": 0}, "max_strain": {"max": 0.25}},
    })  # fmt: skip


def main() -> None:
    if len(sys.argv) != 3 or not sys.argv[1].isdigit():
        raise SystemExit("usage: python -m toile.bench.layers_50 SIZE FILE.json")
    scene = layers_50(int(sys.argv[1]))
    Path(sys.argv[2]).write_text(scene.model_dump_json(exclude_defaults=True, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
