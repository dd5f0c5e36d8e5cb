"""Live simulations for tests: a small scene, and waiting for a state."""

from __future__ import annotations

import time
from collections.abc import Callable

from toile.scene.load import load
from toile.scene.schema import Scene
from toile.viewer.live.live_simulation import LiveSimulation
from toile.viewer.live.snapshot import Snapshot

PATIENCE = 40.0  # [s] kernels may have to be compiled, on a busy machine


def sheet(*overrides: str) -> Scene:
    """A sheet of 25 vertices that hangs from two corners."""
    return load("hang", overrides=["cloth[0].shape.resolution=[5, 5]", *overrides])


def until(live: LiveSimulation, condition: Callable[[Snapshot], bool]) -> Snapshot:
    """The first snapshot for which it holds."""
    end = time.monotonic() + PATIENCE
    view = live.snapshot
    while not condition(view):
        assert time.monotonic() < end, f"waited in vain: {view.state}, frame {view.frame}, {view.message}"
        view = live.wait(view.serial, 1.0)
    return view


def handled(live: LiveSimulation, number: int) -> Snapshot:
    return until(live, lambda view: view.handled >= number)
