"""Runs a scene of the scoreboard with Toile; `run` yields the positions of each frame."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "half steps": {"max_step": 0.5},  # of that of the scene
}


def version() -> str:
    from toile import __version__

    return f"toile {__version__}"


def run(scene: dict[str, Any], settings: dict[str, Any]) -> Iterator[np.ndarray]:
    """Yields the start, and then every frame. The scene is made from its name, from which the JSON was written."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from export import SCENES

    from toile.simulation.simulation import Simulation

    again = SCENES[scene["name"]](scene["resolution"])
    if "max_step" in settings:
        time = again.time.model_copy(update={"max_step": settings["max_step"] * again.time.max_step})
        again = again.model_copy(update={"time": time})
    simulation = Simulation(again, audit="none")  # judge.py counts intersections
    if not np.array_equal(simulation.surface.rest, np.array(scene["vertices"])):
        raise SystemExit("the scene file is of another version of this scene: export it again.")
    for frame in simulation.run():
        yield frame.positions.copy()
