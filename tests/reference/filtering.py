"""Applies the filters of a scene to a prescribed motion, without an integrator."""

from __future__ import annotations

from typing import Any

import numpy as np

from toile.model.state import State
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation


class Filtering:
    """Particles, solids and filters; `correct` takes one step."""

    def __init__(self, device: str, filters: list[Any], solids: list[dict[str, Any]], count: int, **more: Any):
        """`count` particles, an even number, in two columns with rest distances of 20 cm across and 25 cm along
        them."""
        rows = count // 2
        shape = {"type": "grid", "size": (0.2, 0.25 * max(rows - 1, 1)), "resolution": (2, rows)}
        far = (0.0, 0.0, 1e3)  # where the scene starts; each step sets the positions
        scene = Scene(cloth=[{"shape": shape, "translation": far}], solids=solids, filters=filters, **more)
        self.simulation = Simulation(scene, device)

    def correct(
        self, x: np.ndarray, v: np.ndarray, h: float, time: float = 0.0, x_out: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns positions and velocities after the filters of a step that is straight, or that ends at `x_out`."""
        run = self.simulation
        state = State.of(x, v, run.device)
        state_out = State.of(x + h * v if x_out is None else x_out, v, run.device)
        run.constraints.move(time, time + h, state.x)
        run.solids.move(time, time + h)
        run.contacts.detect(state, h)  # those with solids must be respected, those between cloths are corrected
        run.corrections.begin_step()
        for correction in run.filters:
            assert correction.apply(state, state_out, h) is None
        assert np.array_equal(state.x.numpy(), x.astype(state.x.numpy().dtype))
        assert np.array_equal(state.v.numpy(), v.astype(state.v.numpy().dtype))
        return state_out.x.numpy().astype(float), state_out.v.numpy().astype(float)

    def distances(self, x: np.ndarray, time: float) -> np.ndarray:
        """Distances of points from every solid at a time: (solids, points)."""
        run = self.simulation
        found = run.solids.closest_points(State.of(x, x, run.device).x, time)
        return np.stack([entry["distance"] for entry in found]).astype(float)
