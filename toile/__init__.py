"""Toile: cloth simulation for Python, in SI units, with a certificate for every run.

    scene = toile.load("hang")
    for frame in toile.Simulation(scene).run():
        print(frame.time, frame.positions.shape)

Names are imported when they are first used, so that `import toile` and `toile --help` stay fast.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toile.errors import InputError, SceneError, StepFailed, ToileError
    from toile.model.frame import Frame, Surface
    from toile.runs.run import Interrupted, RunResult, run
    from toile.scene.load import load
    from toile.scene.schema import Bound, Cloth, Fabric, RestStretch, Scene, Solver, Time
    from toile.simulation.simulation import Simulation

__version__ = "0.1.0"

# public name -> module that holds it
_HOMES = {
    "Bound": "toile.scene.schema",
    "Cloth": "toile.scene.schema",
    "Fabric": "toile.scene.schema",
    "Frame": "toile.model.frame",
    "InputError": "toile.errors",
    "Interrupted": "toile.runs.run",
    "RestStretch": "toile.scene.schema",
    "RunResult": "toile.runs.run",
    "Scene": "toile.scene.schema",
    "SceneError": "toile.errors",
    "Simulation": "toile.simulation.simulation",
    "Solver": "toile.scene.schema",
    "StepFailed": "toile.errors",
    "Surface": "toile.model.frame",
    "Time": "toile.scene.schema",
    "ToileError": "toile.errors",
    "load": "toile.scene.load",
    "run": "toile.runs.run",
}

__all__ = [
    "Bound",
    "Cloth",
    "Fabric",
    "Frame",
    "InputError",
    "Interrupted",
    "RestStretch",
    "RunResult",
    "Scene",
    "SceneError",
    "Simulation",
    "Solver",
    "StepFailed",
    "Surface",
    "Time",
    "ToileError",
    "__version__",
    "load",
    "run",
    "use_precision",
]


def use_precision(precision: str) -> None:
    """Choose "double" (the default) or "single" for every kernel of this process, before any of them is imported."""
    from toile.errors import InputError

    if precision not in ("double", "single"):
        raise InputError(f'precision = "{precision}": must be "double" or "single".')
    types = sys.modules.get("toile.math.types")
    if types is not None and types.precision != precision:
        raise InputError(
            f"precision cannot change to {precision}: this process already uses {types.precision}, and its kernels are "
            f'made for it. Call toile.use_precision("{precision}") first of all, or set TOILE_PRECISION={precision}.'
        )
    os.environ["TOILE_PRECISION"] = precision


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toile' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use does not come through here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
