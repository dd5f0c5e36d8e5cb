"""Describes the machine and the versions that a time was measured with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import warp as wp

from toile import __version__
from toile.device.threads import available
from toile.errors import InputError

CPUS = Path("/proc/cpuinfo")
PACKAGES = ("warp-lang", "numpy", "scipy", "cvxopt", "qdldl")


def machine(device: str) -> dict[str, Any]:
    """Returns the processor, and the GPU if the device is one."""
    found: dict[str, Any] = {"cpu": _processor(), "cores": available(), "system": platform.system()}
    try:
        computing = wp.get_device(device)
    except Exception as error:
        raise InputError(f'device "{device}" is not available here.') from error
    if not computing.is_cpu:
        found |= {"gpu": computing.name, "gpu_memory_gb": round(computing.total_memory / 1e9)}
        driver = wp.get_cuda_driver_version()
        found["cuda_driver"] = ".".join(map(str, driver)) if isinstance(driver, tuple) else str(driver)
    return found


def versions() -> dict[str, str]:
    """Returns the versions of Python, Toile and the installed packages that it computes with."""
    found = {"python": platform.python_version(), "toile": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def describe(machine: dict[str, Any]) -> str:
    """Returns a short description of a machine."""
    cores = f"{machine['cores']} core{'s' if machine['cores'] != 1 else ''}"
    return machine["gpu"] if "gpu" in machine else f"{cores} of {machine['cpu']}"


def _processor() -> str:
    if CPUS.exists():
        for line in CPUS.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
