"""Where the time of frames goes: to which kernels, and to what else.

On the CPU a launch returns when its kernel has ended, so launches are timed where they are made; one that threads share
is timed from its start to the end of the last of them. What is timed inside of something else is counted once. A GPU
works behind the program's back: there Warp times what the device does. What is recorded otherwise
(toile/device/cuda_graph.py) is launched one by one for it, which takes the program longer, and the kernels as long as
ever.

Nothing is in the way of runs that are not profiled: functions are replaced by timed ones while one is.
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
# Besides kernels: where it is found, its name there, and what it is.
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
    calls: int = 0
    ms: float = 0.0

    def add(self, ms: float) -> None:
        self.calls += 1
        self.ms += ms


@dataclass
class Tally:
    """Calls and milliseconds by name."""

    kernels: dict[str, Spent] = field(default_factory=dict)
    others: dict[str, Spent] = field(default_factory=dict)

    def add(self, name: str, ms: float, of: str = "others") -> None:
        getattr(self, of).setdefault(name, Spent()).add(ms)


def profile(simulation: Simulation, frames: int, progress: Callable[[Frame], None] | None = None) -> dict[str, Any]:
    """The next frames of a simulation, which should have computed one before: the first loads kernels."""
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
    """linear.modified_pcg.advance"""
    return f"{kernel.module.name}.{kernel.key}".removeprefix("toile.")


def _kernel(given: tuple[Any, ...]) -> wp.Kernel:
    """Among the arguments of a launch, which may begin with the launcher."""
    return given[1] if isinstance(given[0], Launcher) else given[0]


@contextlib.contextmanager
def _replaced(places: Sequence[tuple[Any, str]], by: Callable[[int, Callable[..., Any]], Any]) -> Iterator[None]:
    """Attributes of classes and modules, each given with its number, are something else while it lasts."""
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
    whats = [what for _, _, what in OTHERS]
    with (
        _replaced(LAUNCHES, lambda _, function: stopwatch.launching(function)),
        _replaced([other[:2] for other in OTHERS], lambda number, function: stopwatch.doing(function, whats[number])),
    ):
        yield


@contextlib.contextmanager
def _timed_on_device(tally: Tally) -> Iterator[None]:
    names: dict[str, str] = {}  # by which the device knows kernels, and those that they have in Toile

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            found = function(*given, **named)
            kernel = _kernel(given)
            with contextlib.suppress(RuntimeError):  # not launched, so that it has no name yet
                names[kernel.get_mangled_name()] = label(kernel)
            return found

        return call

    wp.timing_begin()
    try:
        with (
            _replaced(LAUNCHES, lambda _, function: noted(function)),
            _replaced([(CudaGraph, "__call__")], lambda *_: lambda recorded, *arrays: recorded._launches()),
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
    """Times calls of one thread, less the timed calls inside them."""

    def __init__(self, tally: Tally):
        self.tally = tally
        self._thread = threading.get_ident()
        self._inside: list[float] = []  # ms of what the calls under way have called

    def launching(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if named.get("record_cmd"):
                return self._timed(function, given, named, PACKING, "others")
            return self._timed(function, given, named, label(_kernel(given)), "kernels")

        return call

    def doing(self, function: Callable[..., Any], what: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            return self._timed(function, given, named, what, "others")

        return call

    def _timed(self, function: Callable[..., Any], given: Any, named: Any, name: str, of: str) -> Any:
        if threading.get_ident() != self._thread:
            return function(*given, **named)  # part of a call that is timed as a whole
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
    """The hottest first."""
    hottest = sorted(spent.items(), key=lambda item: -item[1].ms)
    return [
        {"name": name, "calls": it.calls, "ms": it.ms, "share": it.ms / wall, "us_per_call": 1e3 * it.ms / it.calls}
        for name, it in hottest
    ]
