"""Measures what the README and docs claim about speed and accuracy, and writes the results to benchmarks/claims.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/claims.py [name ...]

Variants are stepped alternately in one run, because the speed of machines drifts; the median of repeated times is
taken. Without names everything is measured, which takes about eight minutes and longer for contact_growth; a name
selects a function of MEASUREMENTS. Measurements of contact are in claims_contact.py.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from claims_contact import contact, contact_growth, drape_contact
from measuring import alternate

HERE = Path(__file__).parent


def sheet(resolution: int, stiffness: float, integrator: Any = "implicit_bdf2", fps: float = 30, **fields: Any) -> Any:
    """Returns the scene of all comparisons: one square meter, horizontal and at rest, hung by two corners, undamped."""
    from toile.scene.schema import Scene

    fabric = {"density": 0.2, "stretch_warp": stiffness, "stretch_weft": stiffness, "shear": 5e2, "damping": 0.0}
    fabric |= {"bend_warp": 5e-5, "bend_weft": 5e-5} | fields.pop("fabric", {})
    return Scene.model_validate({
        "name": "sheet",
        "time": {"frames": int(fps), "fps": fps, "max_step": 1 / 60},
        "cloth": [{"shape": {"type": "grid", "resolution": [resolution, resolution]}, "fabric": fabric}],
        "constraints": [{"type": "pin", "where": {"corners": ["upper_left", "upper_right"]}}],
        "integrator": integrator,
        **fields,
    })  # fmt: skip


def preconditioners() -> dict[str, Any]:
    """A step with cholesky compared with block_jacobi: k = 1e4 N/m, h = 1/60 s, residual 1e-3, the first second."""
    from toile.scene.load import load

    cotton = "{density: 0.2, stretch_warp: 1e4, stretch_weft: 1e4, shear: 100, bend_warp: 1.2e-5, bend_weft: 1.2e-5}"
    found = {}
    for n in (51, 86):
        stiff_hang = [f"cloth[0].shape.resolution=[{n},{n}]", f"cloth[0].fabric={cotton}", "outputs=[]"]
        stiff_hang.append("integrator=implicit_euler")
        for scene, make in (
            ("sheet", lambda solver, n=n: sheet(n, 1e4, "implicit_euler", 60, solver=solver)),
            ("hang", lambda solver, o=stiff_hang: load("hang", overrides=[*o, *overrides_of(solver)])),
        ):
            solvers = {name: {"preconditioner": name, "tolerance": 1e-3} for name in ("cholesky", "block_jacobi")}
            times, counts = steps_of({key: make(solver) for key, solver in solvers.items()}, 30, every=2)
            found[f"{scene} {n}x{n}"] = {
                "ms_per_step": {key: float(np.median(values)) for key, values in times.items()},
                "ratio": float(np.median(np.array(times["block_jacobi"]) / np.array(times["cholesky"]))),
                "block_jacobi_iterations": float(np.median(counts["block_jacobi"])),
            }
    return found


def steps_of(scenes: dict[str, Any], count: int, every: int) -> tuple[dict[str, list[float]], dict[str, list[int]]]:
    """Times one step in `every`, scene by scene in turn. Returns milliseconds, the best of three, and iterations."""
    from toile.simulation.certificate import FrameTally
    from toile.simulation.simulation import Simulation

    simulations = {name: Simulation(scene) for name, scene in scenes.items()}
    times: dict[str, list[float]] = {name: [] for name in scenes}
    counts: dict[str, list[int]] = {name: [] for name in scenes}
    h = 1.0 / 60.0
    for simulation in simulations.values():
        simulation.step(h, FrameTally())  # loads kernels
    for _ in range(count):
        for name, simulation in simulations.items():
            tries = []
            for _ in range(3):  # a step that is not accepted changes no state
                begin = time.perf_counter()
                solution = simulation.integrator.step(simulation.state, simulation.loop.candidate, h)
                tries.append(1e3 * (time.perf_counter() - begin))
            times[name].append(min(tries))
            counts[name].append(solution.iterations)
            for _ in range(every):
                simulation.step(h, FrameTally())
    return times, counts


def overrides_of(solver: dict[str, Any]) -> list[str]:
    return [f"solver.{key}={value}" for key, value in solver.items()]


def bare_factor() -> dict[str, Any]:
    """A step of implicit_euler with certificate and frame, relative to CHOLMOD's refactorization and solve alone."""
    from toile.simulation.simulation import Simulation

    simulation = Simulation(sheet(51, 1e4, "implicit_euler", 60))
    running = simulation.run()
    for _ in range(3):
        next(running)
    factor = simulation.integrator.newton.solver.preconditioner.factor
    right = np.ones(3 * simulation.model.particle_count)
    out = np.zeros_like(right)
    steps, bare = [], []
    for _ in range(50):
        begin = time.perf_counter()
        next(running)
        middle = time.perf_counter()
        factor.factor()
        factor.solve(right, out)
        steps.append(1e3 * (middle - begin))
        bare.append(1e3 * (time.perf_counter() - middle))
    return {
        "step_ms": float(np.median(steps)),
        "bare_ms": float(np.median(bare)),
        "ratio": float(np.median(np.array(steps) / np.array(bare))),
        "ratio_of_best": float(min(steps) / min(bare)),
    }


def scenes() -> dict[str, Any]:
    """The table of [BW98] for the shipped scenes."""
    from toile.bench import measure
    from toile.scene.load import load, scene_names

    return {name: measure(load(name, overrides=["outputs=[]"])) for name in scene_names()}


def growth() -> dict[str, Any]:
    """Time per frame of hang as a function of the number of particles."""
    from toile.bench import growth as measure

    rows, exponent = measure()
    return {"ms_per_frame": {row["particles"]: row["ms_per_frame"] for row in rows}, "exponent": exponent}


def explicit_reference(scene: Any, steps_per_frame: int) -> np.ndarray:
    """Center of mass at each frame by symplectic Euler with tiny steps; it uses the forces of Toile but no solver."""
    from toile.simulation.simulation import Simulation

    simulation = Simulation(scene)
    masses = simulation.model.masses
    simulation.constraints.move(0.0, 0.0, simulation.state.x)
    x, v, free = simulation.state.x, simulation.state.v, np.ones(len(masses), bool)
    free[simulation.constraints.particles] = False
    scale = (free / masses)[:, None]
    h = 1.0 / scene.time.fps / steps_per_frame
    centers = []
    for _ in range(scene.time.frames):
        for _ in range(steps_per_frame):
            force = simulation.system.forces(x, v).numpy()
            velocities = v.numpy()  # a view on the CPU: writing to it changes the state
            velocities += h * scale * force
            positions = x.numpy()
            positions += h * velocities
        centers.append(masses @ x.numpy() / masses.sum())
    return np.array(centers)


def swing() -> dict[str, Any]:
    """Error of the center of mass over the first second, time and strain, at h = 1/60 s."""
    reference = explicit_reference(sheet(51, 5e3), 1200)
    variants: dict[str, Any] = {
        "implicit_euler": "implicit_euler",
        "implicit_bdf2": "implicit_bdf2",
        "implicit_bdf2, 2 iterations": {"type": "implicit_bdf2", "newton_iterations": 2},
    }
    times, _ = alternate({name: sheet(51, 5e3, integrator) for name, integrator in variants.items()}, 30)
    found = {}
    for name, integrator in variants.items():
        from toile.simulation.simulation import Simulation

        simulation = Simulation(sheet(51, 5e3, integrator))
        masses = simulation.model.masses
        centers = np.array([masses @ frame.positions / masses.sum() for frame in simulation.run()][1:])
        frames = simulation.report()["frames"]
        found[name] = {
            "rms_error_cm": 100 * float(np.sqrt(np.mean(np.sum((centers - reference) ** 2, axis=1)))),
            "ms_per_frame": float(np.median(times[name])),
            "time_ratio": float(np.median(np.array(times[name]) / np.array(times["implicit_euler"]))),
            "warp_mean_max": max(entry["strain"]["warp_mean"] for entry in frames),
            "weft_mean_max": max(entry["strain"]["weft_mean"] for entry in frames),
            "edge_max": max(entry["strain"]["edge_max"] for entry in frames),
        }
    return found


def bending() -> dict[str, Any]:
    """Best time of a frame with the bending rigidity multiplied by 0.1 to 1,000; every frame is the same work."""
    factors = (0.1, 1.0, 10.0, 100.0, 1000.0)
    scenes = {f"{f:g}": sheet(51, 5e3, fabric={"bend_warp": 5e-5 * f, "bend_weft": 5e-5 * f}) for f in factors}
    times, simulations = alternate(scenes, 30)
    ms = {name: min(values) for name, values in times.items()}
    rejected = {name: simulation.report()["summary"]["rejected"] for name, simulation in simulations.items()}
    return {"ms_per_frame": ms, "spread": max(ms.values()) / min(ms.values()) - 1.0, "rejected": rejected}


def same_bits() -> dict[str, Any]:
    """Whether two runs of the hanging sheet give the same bits."""
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    last = []
    for _ in range(2):
        *_, frame = Simulation(load("hang", overrides=["outputs=[]"])).run(30)
        last.append(frame)
    same = all(np.array_equal(getattr(last[0], name), getattr(last[1], name)) for name in ("positions", "velocities"))
    return {"identical": same}


def cold_start() -> dict[str, Any]:
    """Seconds from the start of Python to the first frame of hang, with an empty kernel cache and with a full one."""
    code = (
        "import time, toile; s = toile.Simulation(toile.load('hang')); r = s.run(); next(r); next(r);"
        "print('first frame')"
    )
    seconds = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(3):
            begin = time.perf_counter()
            environment = {**os.environ, "WARP_CACHE_PATH": cache}
            subprocess.run([sys.executable, "-c", code], check=True, env=environment, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - begin)
    return {"empty_cache_s": seconds[0], "full_cache_s": min(seconds[1:])}


def drape() -> dict[str, Any]:
    """The scene as shipped: steps a frame, depth, and the share of the time that contact with the solid takes."""
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    simulation = Simulation(load("drape", overrides=["outputs=[]"]))
    for _ in simulation.run():
        pass
    frames, summary = simulation.report()["frames"], simulation.report()["summary"]
    # The first frame loads kernels.
    ms = {stage: sum(entry["ms"][stage] for entry in frames[1:]) for stage in frames[0]["ms"]}
    return {
        "frames": summary["frames"],
        "steps": summary["steps"],
        "rejected": summary["rejected"],
        "solid_depth": summary["solid_depth"],
        "max_strain": summary["max_strain"],
        "ms_per_frame": summary["ms_per_frame"],
        "share": {stage: of / sum(ms.values()) for stage, of in ms.items()},
    }


MEASUREMENTS = (
    scenes, preconditioners, bare_factor, growth, swing, bending, same_bits, cold_start, drape, contact, drape_contact,
    contact_growth,
)  # fmt: skip


def main() -> None:
    wanted = sys.argv[1:] or [function.__name__ for function in MEASUREMENTS]
    path = HERE / "claims.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    cpu = next((line.split(":")[1].strip() for line in cpus.splitlines() if line.startswith("model name")), "")
    machine = {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu or platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    for function in MEASUREMENTS:
        if function.__name__ in wanted:
            found = {**function(), "measured": machine}  # "machine" is that of results without their own
            results[function.__name__] = found
            print(function.__name__, json.dumps(found, indent=1), flush=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
