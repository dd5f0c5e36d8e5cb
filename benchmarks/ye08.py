"""Repeats the measurements of [Ye08] on the scenes ye08_*, and writes ours to benchmarks/ye08.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/ye08.py [name ...]

Without names everything is measured, in about ten minutes; a name selects a function. Strains are those of all
structural springs after every step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sparse
from results import record
from scipy.sparse.linalg import cg

from toile.errors import StepFailed
from toile.model.springs import STRUCTURAL, springs_of
from toile.scene.load import load
from toile.simulation.certificate import FrameTally
from toile.simulation.simulation import Simulation

HERE = Path(__file__).parent
EXTENSION, COMPRESSION = 0.1, 0.02  # the limits of all scenes
ROUNDING = 1e-6  # a spring that exceeds its limit by this share of its length still counts as within it
PLAIN = "filters=[]"


def stiffness(k: float) -> list[str]:
    return [f"cloth[0].fabric.stretch_{thread}={k}" for thread in ("warp", "weft")]


def passes(count: int) -> str:
    return f"filters[0].passes={count}"


class Run:
    """A scene, and the strains of its springs after each step."""

    def __init__(self, scene: str, *overrides: str):
        self.simulation = Simulation(load(scene, overrides=["outputs=[]", *overrides]))
        self.springs = springs_of(self.simulation.model.parts[0]).of(STRUCTURAL)
        self.largest: list[float] = []
        self.smallest: list[float] = []
        self.inside: list[float] = []  # share of springs within their limits
        self._advance = self.simulation.loop.advance
        self.simulation.loop.advance = self.advance  # type: ignore[method-assign]

    @property
    def x(self) -> np.ndarray:
        return np.array(self.simulation.state.x.numpy(), float)

    def strains(self) -> np.ndarray:
        ends = self.x[self.springs.particles]
        return np.asarray(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) / self.springs.lengths - 1.0)

    def advance(self, frame_end: float, tally: FrameTally) -> None:
        self._advance(frame_end, tally)
        strains = self.strains()
        self.largest.append(float(strains.max()))
        self.smallest.append(float(strains.min()))
        inside = (strains <= EXTENSION + ROUNDING) & (strains >= -COMPRESSION - ROUNDING)
        self.inside.append(float(inside.mean()))

    def frames(self, count: int | None = None) -> Run:
        for _ in range(self.simulation.scene.time.frames if count is None else count):
            self.simulation.advance_frame()
        return self

    def results(self) -> dict[str, Any]:
        return {
            "steps": len(self.largest),
            "spring_steps_within_limits": round(float(np.mean(self.inside)), 6),
            "largest_extension": round(max(self.largest), 4),
            "largest_compression": round(-min(self.smallest), 4),
        }

    def roughness(self) -> float:
        """Root mean square of the angles between neighboring triangles [rad]."""
        model = self.simulation.model
        corners = self.x[model.triangles]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.linalg.norm(normals, axis=1)[:, None]
        one, two = normals[model.hinge_triangles[:, 0]], normals[model.hinge_triangles[:, 1]]
        angles = np.arctan2(np.linalg.norm(np.cross(one, two), axis=1), np.sum(one * two, axis=1))
        return float(np.sqrt(np.mean(angles**2)))


def attempt(run: Run, frames: int | None = None) -> dict[str, Any]:
    """The results of a run, and its failure if it stopped."""
    try:
        run.frames(frames)
    except StepFailed as failed:
        return {"failed": str(failed).splitlines()[0], **(run.results() if run.largest else {})}
    return run.results()


def swing() -> dict[str, Any]:
    """Springs within their limits in the swinging sheet, as shipped and with softer springs."""
    found: dict[str, Any] = {"as shipped": attempt(Run("ye08_swing"))}
    found["as shipped, no impulses"] = attempt(Run("ye08_swing", PLAIN))
    for k in (500.0, 250.0):
        found[f"{k:g} N/m, no impulses"] = attempt(Run("ye08_swing", PLAIN, *stiffness(k)))
        for count in (1, 3, 8):
            found[f"{k:g} N/m, {count} passes"] = attempt(Run("ye08_swing", *stiffness(k), passes(count)))
    return found


class Systems:
    """The linear systems of a run: matrices as they are factored, and right-hand sides."""

    def __init__(self, scene: str, frames: int, every: int, *overrides: str):
        self.run = Run(scene, *overrides)
        limit: Any = self.run.simulation.filters[0]
        matrix = limit.matrix
        self.factor, self.pattern = matrix.factor, (matrix.rows, matrix.offsets)
        self.found: list[tuple[np.ndarray, np.ndarray]] = []
        solve, count = matrix.solve, 0

        def noted(b: Any, C: Any, d: Any) -> Any:
            nonlocal count
            if count % every == 0:
                self.found.append((self.factor.values.copy(), b.numpy().copy()))
            count += 1
            return solve(b, C, d)

        matrix.solve = noted
        self.run.frames(frames)

    def matrix(self, values: np.ndarray) -> sparse.csr_matrix:
        upper = sparse.csc_matrix((values, *self.pattern))
        return (upper + sparse.triu(upper, 1).T).tocsr()


def milliseconds(work: Callable[[], Any], repeats: int = 7) -> float:
    """The best of several times, because other load only adds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


def symbolic() -> dict[str, Any]:
    """Time with the order, permutation and symbolic factor reused, relative to new ones; table 1 from row 4 on."""
    systems = Systems("ye08_swing", 75, 25)
    factor = systems.factor
    whole, kept, solve = [], [], []
    for values, b in systems.found:

        def anew(values: np.ndarray = values) -> None:
            factor.forget_pattern()
            factor.values[:] = values
            factor.factor()

        def renewed(values: np.ndarray = values) -> None:
            factor.values[:] = values
            factor.factor()

        whole.append(milliseconds(anew))
        kept.append(milliseconds(renewed))
        solve.append(milliseconds(lambda b=b: factor.solve(b)))  # type: ignore[misc]
    anew_ms, kept_ms, solve_ms = (float(np.median(times)) for times in (whole, kept, solve))
    return {
        "systems": len(whole),
        "unknowns": len(systems.found[0][1]),
        "ms": {"factor anew": anew_ms, "factor, symbolic part kept": kept_ms, "solve": solve_ms},
        "saved": round(1.0 - (kept_ms + solve_ms) / (anew_ms + solve_ms), 3),
    }


def direct_against_cg() -> dict[str, Any]:
    """A factor with its solve compared with conjugate gradients from zero, preconditioned by the diagonal."""
    found = {}
    for n, frames in ((41, 60), (81, 40)):
        overrides = [f"cloth[0].shape.resolution=[{n},{n}]"]
        systems = Systems("ye08_swing", frames, 40 if n == 41 else 100, *overrides)
        direct, iterative, iterations = [], [], []
        for values, b in systems.found:
            A = systems.matrix(values)
            inverse = sparse.diags(1.0 / A.diagonal())

            def factored(factor: Any = systems.factor, values: np.ndarray = values, b: np.ndarray = b) -> None:
                factor.values[:] = values
                factor.factor()
                factor.solve(b)

            count = 0

            def counted(_: np.ndarray) -> None:
                nonlocal count
                count += 1

            cg(A, b, rtol=1e-6, M=inverse, callback=counted)
            iterations.append(count)
            direct.append(milliseconds(factored))
            iterative.append(milliseconds(lambda A=A, b=b, M=inverse: cg(A, b, rtol=1e-6, M=M)))  # type: ignore[misc]
        found[f"{n}x{n}"] = {
            "systems": len(direct),
            "unknowns": len(systems.found[0][1]),
            "direct_ms": float(np.median(direct)),
            "cg_ms": float(np.median(iterative)),
            "cg_iterations": [int(min(iterations)), int(np.median(iterations)), int(max(iterations))],
        }
    return found


def ball() -> dict[str, Any]:
    """The sheet hit by a ball, at two resolutions; springs half as long are twice as stiff."""
    found: dict[str, Any] = {}
    for n, frames in ((41, None), (81, 20)):
        size = [f"cloth[0].shape.resolution=[{n},{n}]", *stiffness(1000.0 * (n - 1) / 40.0)]
        found[f"{n}x{n}, no impulses"] = attempt(Run("ye08_ball", *size, PLAIN), frames)
        run = Run("ye08_ball", *size)
        begin = time.perf_counter()
        found[f"{n}x{n}"] = attempt(run, frames)
        seconds = time.perf_counter() - begin
        found[f"{n}x{n}"]["seconds_per_frame"] = round(seconds / run.simulation.frame, 3)
    found["41x41, 1 pass"] = attempt(Run("ye08_ball", passes(1)))
    found["41x41, 1 pass, 2000 N/m"] = attempt(Run("ye08_ball", passes(1), *stiffness(2000.0)))
    return found


def skirt() -> dict[str, Any]:
    """Frames a second of the skirt of 108 nodes on one core, and the shares of its time."""
    found = {}
    for name, overrides in (("as shipped", []), ("steps of 2.22 ms", ["time.max_step=0.0022222222222222222"])):
        simulation = Simulation(load("ye08_skirt", overrides=["outputs=[]", *overrides]))
        for _ in range(10):
            simulation.advance_frame()  # loads kernels
        wall, cpu, stages = [], [], []
        for _ in range(simulation.scene.time.frames - 10):
            begin, began = time.perf_counter(), time.process_time()
            entry: Any = simulation.advance_frame().certificate
            wall.append(time.perf_counter() - begin)
            cpu.append(time.process_time() - began)
            stages.append(entry["ms"])
        parts = {part: round(float(np.median([ms[part] for ms in stages])), 3) for part in stages[0]}
        found[name] = {
            "nodes": simulation.model.particle_count,
            "steps_per_frame": round(simulation.scene.time.max_step**-1 / simulation.scene.time.fps),
            "frames_per_second": {"median": round(1 / np.median(wall)), "mean": round(1 / np.mean(wall))},
            "frames_per_second_of_cpu_time": round(1 / np.median(cpu)),
            "median_ms_of_a_frame": {**parts, "all": round(1e3 * float(np.median(wall)), 3)},
        }
    return found


def momentum() -> dict[str, Any]:
    """The change of momentum of a free, crumpled sheet by the filter, relative to sum m |v| (|x|)."""
    import warp as wp

    from toile.math.types import vec3

    found = {}
    for count in (1, 3):
        run = Run("ye08_swing", "constraints=[]", passes(count))
        simulation = run.simulation
        simulation.constraints.move(0.0, 1e-3, simulation.state.x)
        rng = np.random.default_rng(1)
        m, x = simulation.model.masses[:, None], run.x - run.x.mean(axis=0)
        x += rng.normal(scale=0.001, size=x.shape)
        x[:, 2] += 0.02 * np.sin(9.0 * x[:, 0]) * np.cos(8.0 * x[:, 1])
        v, h = rng.normal(scale=0.3, size=x.shape), 1.0 / 450.0
        on_device = wp.array(v, dtype=vec3)
        limit: Any = simulation.filters[0]
        limit.limit(wp.array(x, dtype=vec3), on_device, h)
        dv = on_device.numpy() - v
        size = m * np.linalg.norm(v, axis=1)[:, None]
        found[f"{count} passes"] = {
            "largest_change_of_velocity": float(np.linalg.norm(dv, axis=1).max()),
            "linear": float(np.linalg.norm(np.sum(m * dv, axis=0)) / size.sum()),
            "angular": float(np.linalg.norm(np.sum(m * np.cross(x, dv), axis=0)) / np.sum(size * np.abs(x))),
        }
    return found


def steps() -> dict[str, Any]:
    """Steps four and sixteen times as long, and softer springs: whether it is finite, and its roughness."""
    found = {}
    for k in (700.0, 250.0):
        for factor in (1, 4, 16):
            for count in (1, 8):
                h = f"time.max_step={factor / 450.0}"
                run = Run("ye08_swing", h, passes(count), *stiffness(k))
                name = f"{k:g} N/m, {factor} x 2.22 ms, {count} passes"
                found[name] = {**attempt(run), "roughness": round(run.roughness(), 3)}
                found[name]["finite"] = bool(np.isfinite(run.x).all())
    return found


def triangles() -> dict[str, Any]:
    """A mesh without rows and columns: a soft disc hung from two points of its rim, with limits of 5 % and 2 %."""
    from toile.scene.schema import Scene

    found = {}
    for rings in (8, 16):
        for type_name, filters in (("no impulses", []), ("impulses", [{"type": "strain_impulse", "extension": 0.05}])):
            shape = {"type": "disc", "radius": 0.5, "rings": rings}
            outer = 1 + 3 * rings * (rings - 1)
            pins = [outer + rings, outer + 2 * rings]
            fabric = {"density": 0.15, "stretch_warp": 100.0, "stretch_weft": 100.0, "shear": 20.0}
            scene = Scene(
                cloth=[{"shape": shape, "fabric": fabric}],
                constraints=[{"type": "pin", "where": {"indices": pins}}],
                forces=[{"type": "drag", "quadratic": 0.6}],
                filters=filters,
                time={"frames": 30, "fps": 30, "max_step": 1 / 450},
            )
            simulation = Simulation(scene)
            strains, begin = [], time.perf_counter()
            for _ in range(30):
                entry: Any = simulation.advance_frame().certificate
                strain = entry["strain"]
                strains.append(max(strain["warp_max"], strain["weft_max"]))
            found[f"{rings} rings, {type_name}"] = {
                "largest_strain": round(max(strains), 4),
                "height_of_the_middle_of_mass": round(
                    float(np.average(simulation.state.x.numpy()[:, 2], weights=simulation.model.masses)), 4
                ),
                "seconds": round(time.perf_counter() - begin, 1),
            }
    return found


MEASURED: tuple[Callable[[], dict[str, Any]], ...] = (
    swing, symbolic, direct_against_cg, ball, skirt, momentum, steps, triangles,
)  # fmt: skip


if __name__ == "__main__":
    record(HERE / "ye08.json", MEASURED)
