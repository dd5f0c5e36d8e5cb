"""Profiles frames of a simulation: the time spent in each kernel, and in other calls.

On the CPU a launch returns when its kernel has ended, so that launches are timed on the host; a launch that several
threads share lasts until the last of them ends. Nested calls are counted once. A GPU runs asynchronously, so that Warp
times the kernels on the device. Kernels of CUDA graphs (toile/device/cuda_graph.py) are then launched one by one: this
takes more time on the host, and the same time on the device.

Functions are replaced by timed ones only while a simulation is profiled, so that other runs have no overhead.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import warp as wp

from toile.device import threads
from toile.device.cuda_graph import CudaGraph
from toile.device.launcher import Launcher
from toile.linear.direct.ldlt import Ldlt
from toile.linear.direct.sparse_factor import Cholmod, Qdldl
from toile.math.types import precision

if TYPE_CHECKING:
    from toile.model.frame import Frame
    from toile.simulation.simulation import Simulation

LAUNCHES = ((Launcher, "__call__"), (Launcher, "by_color"), (wp, "launch"))
# Calls other than kernels: the class or module, the name in it, and the name in the profile.
OTHERS: tuple[tuple[Any, str, str], ...] = (
    (Cholmod, "factor", "factorization (CHOLMOD)"),
    (Cholmod, "solve", "solve with the factor (CHOLMOD)"),
    (Qdldl, "factor", "factorization (QDLDL)"),
    (Qdldl, "solve", "solve with the factor (QDLDL)"),
    (Ldlt, "factor", "factorization (LDLT)"),
    (Ldlt, "solve", "solve with the factor (LDLT)"),
    (wp.Bvh, "__init__", "tree of boxes: build"),
    (wp.Bvh, "rebuild", "tree of boxes: build"),
    (wp.Bvh, "refit", "tree of boxes: refit"),
    (wp.Mesh, "__init__", "mesh: build"),
    (wp.Mesh, "refit", "mesh: refit"),
    (wp.array, "numpy", "array to host"),
    (wp.array, "assign", "array from host"),
    (wp.array, "zero_", "array: set to zero"),
    (wp.array, "fill_", "array: fill"),
    (wp, "copy", "array: copy"),
)
PACKING = "packing of arguments"


@dataclass
class Spent:
    """The number of calls and the time [ms] of one kernel or function."""

    calls: int = 0
    ms: float = 0.0

    def add(self, ms: float) -> None:
        self.calls += 1
        self.ms += ms


@dataclass
class Tally:
    """Calls and times by name."""

    kernels: dict[str, Spent] = field(default_factory=dict)
    others: dict[str, Spent] = field(default_factory=dict)

    def add(self, name: str, ms: float, of: str = "others") -> None:
        getattr(self, of).setdefault(name, Spent()).add(ms)


def profile(simulation: Simulation, frames: int, progress: Callable[[Frame], None] | None = None) -> dict[str, Any]:
    """Profiles the next frames of a simulation. The first frame should come before, because it loads the kernels."""
    device = wp.get_device(simulation.device)
    first = simulation.frame + 1
    tally = Tally()
    with _timed_on_host(tally) if device.is_cpu else _timed_on_device(tally):
        begin = time.perf_counter()
        for _ in range(frames):
            frame = simulation.advance_frame()
            if progress is not None:
                progress(frame)
        wall = 1e3 * (time.perf_counter() - begin)
    rows = {kind: _rows(getattr(tally, kind), wall) for kind in ("kernels", "others")}
    return {
        "scene": simulation.scene.name,
        "vertices": simulation.model.particle_count,
        "triangles": simulation.model.triangle_count,
        "device": str(simulation.device),
        "precision": precision,
        "threads": threads.count(),
        "frames": [first, simulation.frame],
        "ms_per_frame": wall / frames,
        "wall_ms": wall,
        **rows,
        "rest_ms": wall - sum(row["ms"] for kind in rows.values() for row in kind),
    }


def label(kernel: wp.Kernel) -> str:
    """Returns the name of a kernel in the profile, such as linear.modified_pcg.advance."""
    return f"{kernel.module.name}.{kernel.key}".removeprefix("toile.")


def _kernel(given: tuple[Any, ...]) -> wp.Kernel:
    """Returns the kernel among the arguments of a launch, the first of which may be the launcher."""
    return given[1] if isinstance(given[0], Launcher) else given[0]


@contextlib.contextmanager
def _replaced(places: Sequence[tuple[Any, str]], by: Callable[[int, Callable[..., Any]], Any]) -> Iterator[None]:
    """Replaces attributes of classes and modules within the block by the result of `by(number, original)`."""
    before = [(home, name, getattr(home, name)) for home, name in places]
    try:
        for number, (home, name, function) in enumerate(before):
            setattr(home, name, by(number, function))
        yield
    finally:
        for home, name, function in before:
            setattr(home, name, function)


@contextlib.contextmanager
def _timed_on_host(tally: Tally) -> Iterator[None]:
    stopwatch = _Stopwatch(tally)
    names = [name for _, _, name in OTHERS]
    with (
        _replaced(LAUNCHES, lambda _, function: stopwatch.timed_launch(function)),
        _replaced([other[:2] for other in OTHERS], lambda number, function: stopwatch.timed(function, names[number])),
    ):
        yield


@contextlib.contextmanager
def _timed_on_device(tally: Tally) -> Iterator[None]:
    names: dict[str, str] = {}  # name of a kernel on the device -> its label

    def collect_name(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            found = function(*given, **named)
            kernel = _kernel(given)
            with contextlib.suppress(RuntimeError):  # a kernel that was not launched has no such name yet
                names[kernel.get_mangled_name()] = label(kernel)
            return found

        return call

    wp.timing_begin()
    try:
        with (
            _replaced(LAUNCHES, lambda _, function: collect_name(function)),
            _replaced([(CudaGraph, "__call__")], lambda *_: lambda graph, *arrays: graph._launches()),
        ):
            yield
    finally:
        for activity in wp.timing_end():
            if activity.filter == wp.TIMING_KERNEL:
                name = activity.name.removeprefix("forward kernel ")
                tally.add(names.get(name, name), activity.elapsed, "kernels")
            else:
                tally.add(activity.name, activity.elapsed)


class _Stopwatch:
    """Times the calls of one thread, without the timed calls nested inside them."""

    def __init__(self, tally: Tally):
        self.tally = tally
        self._thread = threading.get_ident()
        self._inside: list[float] = []  # time of the nested calls of each call in progress [ms]

    def timed_launch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if named.get("record_cmd"):
                return self._time(function, given, named, PACKING, "others")
            return self._time(function, given, named, label(_kernel(given)), "kernels")

        return call

    def timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            return self._time(function, given, named, name, "others")

        return call

    def _time(
        self, function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any], name: str, of: str
    ) -> Any:
        if threading.get_ident() != self._thread:
            return function(*given, **named)  # the call of the main thread that waits for it is timed as a whole
        self._inside.append(0.0)
        begin = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            ms = 1e3 * (time.perf_counter() - begin)
            self.tally.add(name, ms - self._inside.pop(), of)
            if self._inside:
                self._inside[-1] += ms


def _rows(spent: dict[str, Spent], wall: float) -> list[dict[str, Any]]:
    """Returns the rows of a profile, the hottest first."""
    hottest = sorted(spent.items(), key=lambda item: -item[1].ms)
    return [
        {"name": name, "calls": it.calls, "ms": it.ms, "share": it.ms / wall, "us_per_call": 1e3 * it.ms / it.calls}
        for name, it in hottest
    ]
