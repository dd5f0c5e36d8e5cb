"""Runs of a shipped scene from starts that differ by a tenth of a millimeter, and what each of them cost.

The cost of a frame is processor time, which other load on the machine changes little, and wall time on a GPU. It does
not contain the audit, which checks the result, the loading of kernels, which the first frame that uses them waits for,
and the time that the garbage collector takes for the objects of the tests, a tenth of a second each time.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from toile.linear.modified_pcg import Solution
from toile.scene.schema import Scene
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

JITTER = 1e-4  # [m]  of the translation of each cloth


@dataclass
class Run:
    """The certificate of a run, and what its frames and steps cost."""

    report: dict[str, Any] = field(default_factory=dict)
    ms: list[float] = field(default_factory=list)  # time of each frame
    solves: list[int] = field(default_factory=list)  # linear systems of each accepted step

    @property
    def slowest(self) -> tuple[int, float]:
        """The slowest frame, and its time relative to the median; the first has no frame before it to start from."""
        later = np.array(self.ms[1:])
        worst = int(np.argmax(later))
        return worst + 2, float(later[worst] / np.median(later))


def moved(scene: Scene, seed: int) -> Scene:
    """Returns the scene with every cloth elsewhere, by up to JITTER along each axis."""
    random = np.random.default_rng(seed)
    cloths = [
        cloth.model_copy(update={"translation": tuple(cloth.translation + random.uniform(-JITTER, JITTER, 3))})
        for cloth in scene.cloth
    ]
    return scene.model_copy(update={"cloth": tuple(cloths)})


def run(scene: Scene, seed: int, device: str = "cpu") -> Run:
    """Runs a scene from a start of its own, with an audit after every step."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    simulation, found, audit, spent = Simulation(moved(scene, seed), device, audit="step"), Run(), [0.0], 0.0
    for part in ("after_step", "of_frame"):
        _timed(simulation.intersections, part, clock, audit)
    gc.collect()
    gc.freeze()
    with _loading() as loading, _solves_of_steps(found.solves):
        for frame in simulation.run():
            now = 1e3 * (clock() - audit[0]) - loading[0]
            if frame.number:
                found.ms.append(now - spent)
            spent = now
    gc.unfreeze()
    found.report = simulation.report()
    return found


def _timed(owner: Any, method: str, clock: Callable[[], float], seconds: list[float]) -> None:
    """Adds the time of a method to `seconds` from now on."""
    original: Callable[..., Any] = getattr(owner, method)

    def timed(*given: Any) -> Any:
        begin = clock()
        try:
            return original(*given)
        finally:
            seconds[0] += clock() - begin

    setattr(owner, method, timed)


@contextmanager
def _loading() -> Iterator[list[float]]:
    """Sums the time that Warp takes to load, and perhaps to compile, modules [ms]."""
    total = [0.0]

    class Logger:
        def debug(self, message: str) -> None: ...

        def info(self, message: str) -> None:
            if took := re.search(r"took ([0-9.]+) ms", message):
                total[0] += float(took[1])

        def warning(self, message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None: ...

        def error(self, message: str) -> None: ...

    level, logger = wp.config.log_level, wp.get_logger()
    wp.config.log_level = wp.LOG_INFO
    wp.set_logger(Logger())
    try:
        yield total
    finally:
        wp.config.log_level = level
        wp.set_logger(logger)


@contextmanager
def _solves_of_steps(found: list[int]) -> Iterator[None]:
    """Collects the number of linear systems of every accepted step."""
    original = FrameTally.add_step

    def add_step(tally: FrameTally, h: float, solution: Solution, truncated: int) -> None:
        found.append(solution.solves)
        original(tally, h, solution, truncated)

    FrameTally.add_step = add_step  # type: ignore[method-assign]
    try:
        yield
    finally:
        FrameTally.add_step = original  # type: ignore[method-assign]
