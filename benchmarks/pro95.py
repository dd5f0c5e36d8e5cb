"""Repeats the measurements of [Pro95] on the scenes pro95_*, and writes ours to benchmarks/pro95.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/pro95.py [name ...]

Without names everything is measured, in about three minutes; a name selects a function. Elongations are those of all
springs after every step. Variants whose times are compared are stepped in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from results import record

from toile.constraints.scene_constraints import SceneConstraints
from toile.errors import StepFailed
from toile.model.springs import FLEXION, SHEAR, STRUCTURAL, springs_of
from toile.scene.load import load
from toile.simulation.build import constrained_particles
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

HERE = Path(__file__).parent
KINDS = {STRUCTURAL: "structural", SHEAR: "shear", FLEXION: "flexion"}
PAPER_STEPS = 200
PLAIN = "filters=[]"


def filtered(passes: int, tau_c: float = 0.1, shear: bool = True, velocities: str = "consistent") -> str:
    """The filter with a number of passes, as an override of a scene."""
    fields = f"structural: {tau_c}, shear: {tau_c if shear else 'null'}, passes: {passes}, velocities: {velocities}"
    return f"filters=[{{type: strain_deformation_rate, {fields}}}]"


class Run:
    """A scene that is stepped one step at a time, and the lengths of its springs."""

    def __init__(self, scene: str, *overrides: str):
        self.simulation = Simulation(load(scene, overrides=["outputs=[]", *overrides]))
        self.h = self.simulation.control.max_step
        self.springs = springs_of(self.simulation.model.parts[0])
        self.tally = FrameTally()

    @property
    def x(self) -> np.ndarray:
        return np.array(self.simulation.state.x.numpy(), float)

    def step(self) -> None:
        self.simulation.step(self.h, self.tally)

    def elongation(self) -> dict[str, float]:
        """The largest (l - l0)/l0 of each kind of springs."""
        ends = self.x[self.springs.particles]
        rate = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) / self.springs.lengths - 1.0
        return {name: float(rate[self.springs.kind == kind].max()) for kind, name in KINDS.items()}

    def elongations(self, steps: int) -> Iterator[dict[str, float]]:
        for _ in range(steps):
            self.step()
            yield self.elongation()

    def largest(self, steps: int) -> dict[str, dict[str, float]]:
        """The largest elongations after a number of steps, and at any time until then."""
        found = list(self.elongations(steps))
        return {
            "at_end": {name: round(found[-1][name], 4) for name in KINDS.values()},
            "at_any_time": {name: round(max(each[name] for each in found), 4) for name in KINDS.values()},
        }

    def limit(self) -> float:
        """The largest stable step of the springs without a filter [s], as the scene starts."""
        run = self.simulation
        held = SceneConstraints(constrained_particles(run.scene, run.model), run.model.particle_count, run.device)
        held.move(0.0, 0.0, run.state.x)
        return float(run.integrator.largest_step(run.state, held.state.S))


def steps_of(h: float) -> list[str]:
    return [f"time.max_step={h}", f"time.min_step={h}"]


def stiffness(K: float) -> list[str]:
    """Overrides for springs of stiffness K; flexion springs have a tenth of it."""
    each = {"structural": K, "shear": K, "flexion": 0.1 * K}
    return [f"cloth[0].energies[0].{name}={value}" for name, value in each.items()]


def medians(runs: dict[str, Run], steps: int) -> dict[str, float]:
    """Median microseconds of a step, each variant in turn, after ten steps that load kernels."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for k in range(steps + 10):
        for name, run in runs.items():
            begin = time.perf_counter()
            run.step()
            if k >= 10:
                times[name].append(1e6 * (time.perf_counter() - begin))
    return {name: round(float(np.median(values)), 1) for name, values in times.items()}


def sheet() -> dict[str, Any]:
    """Elongation of the hanging sheet after 200 steps, plain and limited."""
    found: dict[str, Any] = {"plain": Run("pro95_sheet", PLAIN).largest(PAPER_STEPS)}
    for passes in (1, 2, 5, 10, 20, 40, 80):
        for name, shear in (("structural", False), ("structural and shear", True)):
            run = Run("pro95_sheet", filtered(passes, shear=shear))
            found[f"{name} limited, {passes} passes"] = run.largest(PAPER_STEPS)
    return found


def cost() -> dict[str, Any]:
    """Time of a step with the filter relative to a step without it."""
    found = {}
    for n in (17, 33):
        size = [f"cloth[0].shape.resolution=[{n},{n}]", *(steps_of(1 / 600) if n == 33 else [])]
        filters = {"plain": PLAIN} | {f"{p} passes": filtered(p) for p in (1, 2, 5, 10, 40)}
        times = medians({name: Run("pro95_sheet", *size, chosen) for name, chosen in filters.items()}, 190)
        ratios = {name: round(value / times["plain"], 3) for name, value in times.items()}
        found[f"{n}x{n}"] = {"microseconds_a_step": times, "ratio": ratios}
    return found


# Variants of the limited sheet that are compared with a plain one of the same largest elongation: K [N/m], step [s],
# passes. Softer springs allow longer steps, and need more of the filter; the last two are the best of many.
LIMITED = ((10.0, 1 / 300, 1), (10.0, 1 / 300, 10), (10.0, 1 / 300, 40), (2.0, 1 / 100, 10), (1.0, 1 / 80, 10))
COMPARED_TIME = 0.8  # [s]  the sheet has fallen and swings through its lowest position
# Part of the stability limit that the plain sheet is stepped with
NEARLY = 0.95


def speed() -> dict[str, Any]:
    """Time of the limited sheet relative to a plain one that is stiff enough for the same elongation."""
    found = {}
    for K, h, passes in LIMITED:
        overrides = [*stiffness(K), *steps_of(h)]
        wanted = _largest_elongation(Run("pro95_sheet", filtered(passes), *overrides))
        K_plain, h_plain = _as_stiff(wanted)
        times = medians(
            {
                "limited": Run("pro95_sheet", filtered(passes), *overrides),
                "plain": Run("pro95_sheet", PLAIN, *stiffness(K_plain), *steps_of(h_plain)),
            },
            round(0.5 * COMPARED_TIME / h),
        )
        found[f"K {K:g} N/m, step {1e3 * h:.2f} ms, {passes} passes"] = {
            "largest_elongation": round(wanted, 4),
            "plain_K": round(K_plain, 1),
            "plain_step_ms": round(1e3 * h_plain, 3),
            "steps_ratio": round(h / h_plain, 2),
            "microseconds_a_step": times,
            "plain_time_over_limited": round(times["plain"] / h_plain * h / times["limited"], 2),
        }
    return found


def _largest_elongation(run: Run) -> float:
    steps = round(COMPARED_TIME / run.h)
    return max(max(each["structural"], each["shear"]) for each in run.elongations(steps))


def _as_stiff(wanted: float) -> tuple[float, float]:
    """K at which the plain sheet has this largest elongation, and its step."""
    low, high = 2.0, 2000.0
    while high / low > 1.01:
        K = float(np.sqrt(low * high))
        limit = Run("pro95_sheet", PLAIN, *stiffness(K), *steps_of(1e-4)).limit()
        h = COMPARED_TIME / np.ceil(COMPARED_TIME / (NEARLY * limit))
        try:
            stretched = _largest_elongation(Run("pro95_sheet", PLAIN, *stiffness(K), *steps_of(h)))
        except StepFailed:
            stretched = np.inf  # so soft that the stretch changes too much in one step
        low, high = (K, high) if stretched > wanted else (low, K)
    return K, h


def passes() -> dict[str, Any]:
    """33 x 33: largest elongation after the same time as above, by the number of passes."""
    finer = ["cloth[0].shape.resolution=[33,33]", *steps_of(1 / 600)]
    return {str(p): Run("pro95_sheet", filtered(p), *finer).largest(2 * PAPER_STEPS) for p in range(1, 11)}


def flag() -> dict[str, Any]:
    """Ten seconds of wind with the filter, and the time until the plain flag diverges."""
    found: dict[str, Any] = {}
    for name, chosen in (("limited", filtered(20, 0.05)), ("limited, 1 pass", filtered(1, 0.05)), ("plain", PLAIN)):
        run = Run("pro95_flag", chosen)
        found["limit_ms"], found["step_ms"] = round(1e3 * run.limit(), 4), round(1e3 * run.h, 4)
        largest: dict[str, float] = dict.fromkeys(KINDS.values(), 0.0)
        try:
            for each in run.elongations(round(10.0 / run.h)):
                largest = {kind: round(max(largest[kind], each[kind]), 4) for kind in largest}
            found[name] = {"seconds": 10.0, "largest_elongation": largest}
        except StepFailed as failure:
            found[name] = {"seconds": round(failure.time, 4), "failure": str(failure).splitlines()[0]}
    return found


def sail() -> dict[str, Any]:
    """Largest elongation of the sail while it fills and when it is full."""
    plain, limited = Run("pro95_sail", PLAIN), Run("pro95_sail")
    steps = round(4.0 / limited.h)
    return {"plain": plain.largest(steps), "limited": limited.largest(steps)}


def oscillation() -> dict[str, Any]:
    """The sheet hangs flat and is released: how far its center of mass falls below its rest position."""
    found = {}
    hanging = "cloth[0].rotation=[90, 0, 0]"
    variants = {"plain": PLAIN, "1 pass": filtered(1), "2 passes": filtered(2), "40 passes": filtered(40)}
    for name, chosen in variants.items():
        run = Run("pro95_sheet", hanging, chosen)
        masses, rate = run.simulation.model.masses, 0.5
        heights = []
        for _ in range(round(20.0 / run.h)):
            run.step()
            heights.append(float(masses @ run.x[:, 2]) / masses.sum())
        below = np.mean(heights[-round(2.0 / run.h) :]) - np.array(heights)
        inner = np.flatnonzero((below[1:-1] > below[:-2]) & (below[1:-1] >= below[2:]) & (below[1:-1] > 1e-3)) + 1
        peaks = _apart(inner, below, round(0.1 / run.h))
        lasting = np.flatnonzero(np.abs(below) > 0.01)
        found[name] = {
            "viscous_rate": rate,
            "first_two_peaks_cm": [round(100.0 * float(below[k]), 2) for k in peaks[:2]],
            "ratio_of_peaks": round(float(below[peaks[1]] / below[peaks[0]]), 3),
            "period_s": round(float(peaks[1] - peaks[0]) * run.h, 3),
            "seconds_until_within_1_cm": round(float(lasting[-1] + 1) * run.h, 2) if len(lasting) else 0.0,
        }
    return found


def _apart(places: np.ndarray, values: np.ndarray, distance: int) -> list[int]:
    """The highest of peaks that are close together."""
    kept: list[int] = []
    for k in places.tolist():
        if kept and k - kept[-1] < distance:
            kept[-1] = max(kept[-1], k, key=lambda at: values[at])
        else:
            kept.append(k)
    return kept


def hung_energy() -> dict[str, Any]:
    """Energy [J] of the sheet in 3 s without damping; springs that are still too long return some."""
    found = {}
    variants = {f"{p} passes": filtered(p) for p in (1, 2, 10, 40)}
    variants["40 passes, velocities kept"] = filtered(40, velocities="kept")
    for name, chosen in variants.items():
        run = Run("pro95_sheet", "forces=[]", chosen)
        energies = [_energy(run)]
        for _ in range(round(3.0 / run.h)):
            run.step()
            energies.append(_energy(run))
        E = np.array(energies)
        found[name] = {
            "at_start": round(E[0], 4),
            "at_end": round(E[-1], 4),
            "most_above_the_start": round(float((E - E[0]).max()), 5),
            "most_regained": round(float((E - np.minimum.accumulate(E)).max()), 5),
        }
    return found


def energy() -> dict[str, Any]:
    """A free sheet that expands, by backward Euler: increases of its energy in a step, relative to the start."""
    found = {}
    for name, chosen in {"plain": PLAIN, **{f"{p} passes": filtered(p) for p in (1, 2, 10, 40)}}.items():
        run = Run("pro95_sheet", "constraints=[]", "forces=[]", "gravity=[0,0,0]", "integrator=implicit_euler", chosen)
        state = run.simulation.state
        rng = np.random.default_rng(1)
        state.v.assign(0.5 + 0.2 * rng.normal(size=run.x.shape) + 6.0 * (run.x - run.x.mean(axis=0)))
        energies, momenta = [], []
        for _ in range(PAPER_STEPS):
            energies.append(_energy(run))
            momenta.append(run.simulation.model.masses @ np.array(run.simulation.state.v.numpy(), float))
            run.step()
        rises = np.diff(energies) / energies[0]
        drift = np.abs(np.array(momenta) - momenta[0]).max() / np.linalg.norm(momenta[0])
        found[name] = {
            "largest_rise": float(rises.max()),
            "steps_that_rose": int(np.count_nonzero(rises > 1e-10)),
            "left_after_200_steps": round(float(energies[-1] / energies[0]), 4),
            "momentum_drift": float(drift),
        }
    return found


def _energy(run: Run) -> float:
    system, state = run.simulation.system, run.simulation.state
    v = np.array(state.v.numpy(), float)
    kinetic = 0.5 * float(run.simulation.model.masses @ np.sum(v**2, axis=1))
    return kinetic + sum(system.energies(state.x, state.v).values())


MEASURED: tuple[Callable[[], dict[str, Any]], ...] = (
    sheet, cost, speed, passes, flag, sail, oscillation, energy, hung_energy,
)  # fmt: skip


if __name__ == "__main__":
    record(HERE / "pro95.json", MEASURED)
