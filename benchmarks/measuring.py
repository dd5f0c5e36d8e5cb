"""Times several simulations alternately, so that a drift of the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def alternate(scenes: dict[str, Any], frames: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Advances several scenes in turn, frame by frame. Returns milliseconds of each frame, and the simulations."""
    from toile.simulation.simulation import Simulation

    simulations = {name: Simulation(scene) for name, scene in scenes.items()}
    for simulation in simulations.values():
        simulation.advance_frame()  # loads kernels
    times: dict[str, list[float]] = {name: [] for name in scenes}
    for _ in range(frames - 1):
        for name, simulation in simulations.items():
            begin = time.perf_counter()
            simulation.advance_frame()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return times, simulations


def milliseconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begin)
