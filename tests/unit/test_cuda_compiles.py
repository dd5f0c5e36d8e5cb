"""Every kernel compiles for CUDA, which needs the compiler that comes with Warp and no GPU."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import warp as wp

import toile

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
