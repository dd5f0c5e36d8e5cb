"""Toile: cloth simulation for Python in SI units, with a certificate for every run.

    scene = toile.load("hang")
    for frame in toile.Simulation(scene).run():
        print(frame.time, frame.positions.shape)

A name is imported from its module when it is first used, so that `import toile` and `toile --help` stay fast.
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

# public name -> module that defines it
_MODULE_OF = {
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
    """Sets the precision of every kernel of this process, "double" (the default) or "single".

    It must be called before the first kernel is imported; InputError if it comes too late.
    """
    from toile.errors import InputError

    if precision not in ("double", "single"):
        raise InputError(f'precision = "{precision}": must be "double" or "single".')
    types = sys.modules.get("toile.math.types")
    if types is not None and types.precision != precision:
        raise InputError(
            f"precision cannot change to {precision}: the kernels of this process already use {types.precision}. "
            f'Call toile.use_precision("{precision}") before anything else, or set TOILE_PRECISION={precision}.'
        )
    os.environ["TOILE_PRECISION"] = precision


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'toile' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # Python finds it there from now on, and does not call this function again
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
