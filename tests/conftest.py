"""Common to all tests: one BLAS thread, fixed seeds, and the device chosen by `--device`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Before NumPy is imported. On a busy machine BLAS threads wait for each other: minutes instead of seconds.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# The same examples in every run; a slow machine is not a failure.
settings.register_profile("toile", derandomize=True, deadline=None)
settings.load_profile("toile")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where the simulations of the tests run")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """The device to simulate on; tests that ask for it run on the CPU or, with `--device cuda`, on the GPU."""
    name: str = request.config.getoption("--device")
    if name == "cuda":
        import warp as wp

        if not wp.is_cuda_available():
            pytest.fail("--device cuda was asked for, and Warp finds no CUDA device.")
    return name


@pytest.fixture(scope="module")
def benchmark_script() -> Iterator[Callable[[str], Any]]:
    """A script of benchmarks/ by its name."""
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    yield importlib.import_module
    sys.path.remove(folder)
