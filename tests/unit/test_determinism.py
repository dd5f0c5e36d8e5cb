"""The same scene gives the same bits: twice in a process, in another process, and with more BLAS threads.

This holds on the CPU. On a GPU sums are added in any order.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import pytest

from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

# All features at once: two sheets that fold, gusts of wind, moving pins, a pull, variable steps.
SCENE: dict[str, Any] = {
    "time": {"frames": 12, "fps": 30.0, "max_step": 0.014},
    "cloth": [
        {"name": "sheet", "shape": {"type": "grid", "resolution": [13, 13]}, "fabric": "cotton"},
        {"name": "disc", "shape": {"type": "disc", "rings": 5}, "fabric": "denim", "spin": [1.0, 2.0, 3.0]},
    ],
    "constraints": [
        {
            "type": "pin",
            "cloth": "sheet",
            "where": {"corners": ["upper_left", "upper_right"]},
            "motion": {"keyframes": [{"time": 0.0}, {"time": 0.3, "translation": [0.1, 0.0, 0.0]}]},
        },
        {"type": "slide_on_plane", "cloth": "disc", "where": {"indices": [0]}, "normal": [0.0, 1.0, 1.0]},
    ],
    "forces": [
        {"type": "wind", "velocity": [3.0, 1.0, 0.0], "gust": 0.5},
        {"type": "pull", "cloth": "sheet", "triangle": 7, "target": [0.0, 0.0, -1.0]},
    ],
    "seed": 3,
}


def fingerprints(changes: dict[str, Any] | None = None) -> list[str]:
    """A hash of positions and velocities for every fourth frame, and one of the values of the certificate."""
    simulation = Simulation(Scene(**{**SCENE, **(changes or {})}), "cpu")
    found = []
    for frame in simulation.run():
        if frame.number % 4 == 0:
            found.append(hashlib.sha256(frame.positions.tobytes() + frame.velocities.tobytes()).hexdigest())
    values = [{key: value for key, value in entry.items() if key != "ms"} for entry in simulation.report()["frames"]]
    return [*found, hashlib.sha256(repr(values).encode()).hexdigest()]


@pytest.fixture(scope="module")
def first() -> list[str]:
    return fingerprints()


def test_twice_in_one_process(first: list[str]) -> None:
    assert len(first) == 5
    assert len(set(first)) == 5, "the cloth must have moved"
    assert fingerprints() == first


@pytest.mark.parametrize("integrator", ["implicit_euler", "implicit_bdf2"])
@pytest.mark.parametrize("preconditioner", ["cholesky", "multigrid", "block_jacobi", "diagonal"])
def test_every_solver(integrator: str, preconditioner: str) -> None:
    time = {"frames": 4, "fps": 30.0, "max_step": 0.014}
    changes = {"time": time, "integrator": integrator, "solver": {"preconditioner": preconditioner}}
    assert fingerprints(changes) == fingerprints(changes)


def test_in_another_process_with_other_threads(first: list[str]) -> None:
    """Hash seed and number of BLAS threads come from the environment, and neither matters."""
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    for library in ("OPENBLAS", "OMP", "MKL"):
        environment[f"{library}_NUM_THREADS"] = "2"
    program = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import {__name__.split('.')[-1]} as t; "
    program += "print('\\n'.join(t.fingerprints()))"
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    assert result.stdout.split() == first


def test_the_seed_changes_the_gusts_and_nothing_else(first: list[str]) -> None:
    assert fingerprints({"seed": 4})[1:] != first[1:]
    still = {"forces": [SCENE["forces"][1]], "time": {"frames": 4, "fps": 30.0}}
    assert fingerprints({**still, "seed": 3}) == fingerprints({**still, "seed": 4})


def test_alternating_simulations_do_not_affect_each_other(first: list[str]) -> None:
    """Frames of one between the frames of another."""
    one, other = (Simulation(Scene(**SCENE), "cpu") for _ in range(2))
    for a, b in zip(one.run(), other.run(), strict=True):
        assert a.positions.tobytes() == b.positions.tobytes()
        assert a.velocities.tobytes() == b.velocities.tobytes()
    assert hashlib.sha256(a.positions.tobytes() + a.velocities.tobytes()).hexdigest() == first[3]
