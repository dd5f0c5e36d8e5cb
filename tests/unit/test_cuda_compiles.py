"""Kernels compile for CUDA, which needs the compiler that comes with Warp and no GPU: those that modules define, and
those that are made for each kind of solid. Kernels made for energies are not compiled here."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest
import warp as wp

import toile
from toile.contact.solid.detection import detection_kernels
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

# The compute capability of the H100 and H200.
ARCHITECTURE = 90


def modules_with_kernels() -> list[str]:
    """The names of all modules of Toile that define kernels."""
    found = []
    for each in pkgutil.walk_packages(toile.__path__, "toile."):
        if each.name.endswith("__main__"):
            continue
        module = importlib.import_module(each.name)
        own = (value for value in vars(module).values() if isinstance(value, wp.Kernel))
        if any(kernel.module.name == each.name for kernel in own):
            found.append(each.name)
    return found


def test_modules_with_kernels_are_found() -> None:
    assert {"toile.contact.broad_phase.broad_phase", "toile.linear.modified_pcg"} <= set(modules_with_kernels())


def test_kernels_compile_for_cuda(tmp_path: Path) -> None:
    failed = {}
    for name in modules_with_kernels():
        try:
            wp.compile_aot_module(name, arch=ARCHITECTURE, module_dir=tmp_path, use_ptx=True)
        except Exception as error:  # of the compiler, or of Warp's translation
            failed[name] = str(error)
    assert not failed
    assert len(list(tmp_path.glob("*.ptx"))) == len(modules_with_kernels())


@pytest.mark.parametrize(
    "solid", [{"type": "plane"}, {"type": "box", "size": (1.0, 1.0, 1.0)}], ids=lambda s: s["type"]
)
def test_kernels_of_solids_compile_for_cuda(solid: dict[str, object], tmp_path: Path) -> None:
    """Those of one kind of solid are one module."""
    sheet = {"shape": {"type": "grid", "size": (0.1, 0.1), "resolution": (3, 3)}, "translation": (0.0, 0.0, 5.0)}
    simulation = Simulation(Scene(cloth=[sheet], solids=[solid]))
    kernels = detection_kernels(next(iter(simulation.solids)).functions)
    assert len({kernel.module.name for kernel in kernels}) == 1
    wp.compile_aot_module(kernels[0].module, arch=ARCHITECTURE, module_dir=tmp_path, use_ptx=True)
    assert len(list(tmp_path.glob("*.ptx"))) == 1
