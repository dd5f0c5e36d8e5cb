"""Measures what the README and docs claim of speed and accuracy, and writes the figures to benchmarks/claims.json.

    OPENBLAS_NUM_THREADS=1 python benchmarks/claims.py [name ...]

Variants that are compared are stepped alternately in one run, because machines drift; of repeated times the median is
taken. Without names everything is measured (about five minutes); names pick from the functions below.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def sheet(resolution: int, stiffness: float, integrator: Any = "implicit_bdf2", fps: float = 30, **fields: Any) -> Any:
    """The sheet of all comparisons: one meter square, from rest in the horizontal, hung by two corners, no damping."""
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


def alternate(scenes: dict[str, Any], frames: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Steps several scenes in turn, frame by frame; milliseconds of each frame, and the simulations."""
    from toile.simulation.simulation import Simulation

    simulations = {name: Simulation(scene) for name, scene in scenes.items()}
    for simulation in simulations.values():
        simulation.advance_frame()  # loads kernels
    times: dict[str, list[float]] = {name: [] for name in scenes}
    for _ in range(frames - 1):
        for name, simulation in simulations.items():
            begin = time.perf_counter()
            simulation.advance_frame()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return times, simulations


def preconditioners() -> dict[str, Any]:
    """A step with cholesky against one with block_jacobi: k = 1e4 N/m, h = 1/60 s, residual 1e-3, the first second."""
    from toile.scene.load import load

    cotton = "{density: 0.2, stretch_warp: 1e4, stretch_weft: 1e4, shear: 100, bend_warp: 1.2e-5, bend_weft: 1.2e-5}"
    found = {}
    for n in (51, 86):
        stiff_hang = [f"cloth[0].shape.resolution=[{n},{n}]", f"cloth[0].fabric={cotton}", "outputs=[]"]
        stiff_hang.append("integrator=implicit_euler")
        for name, make in (
            ("sheet", lambda solver, n=n: sheet(n, 1e4, "implicit_euler", 60, solver=solver)),
            ("hang", lambda solver, o=stiff_hang: load("hang", overrides=[*o, *as_set(solver)])),
        ):
            solvers = {type_name: {"preconditioner": type_name, "tolerance": 1e-3} for type_name in ("cholesky", "block_jacobi")}
            times, counts = steps_of({type_name: make(solver) for type_name, solver in solvers.items()}, 30, every=2)
            found[f"{name} {n}x{n}"] = {
                "ms_per_step": {type_name: float(np.median(values)) for type_name, values in times.items()},
                "ratio": float(np.median(np.array(times["block_jacobi"]) / np.array(times["cholesky"]))),
                "block_jacobi_iterations": float(np.median(counts["block_jacobi"])),
            }
    return found


def steps_of(scenes: dict[str, Any], count: int, every: int) -> tuple[dict[str, list[float]], dict[str, list[int]]]:
    """Milliseconds and iterations of one step in so many, scene by scene in turn; the shortest of three times each."""
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
            for _ in range(3):  # a step that is not accepted leaves no trace
                begin = time.perf_counter()
                solution = simulation.integrator.step(simulation.state, simulation.loop.candidate, h)
                tries.append(1e3 * (time.perf_counter() - begin))
            times[name].append(min(tries))
            counts[name].append(solution.iterations)
            for _ in range(every):
                simulation.step(h, FrameTally())
    return times, counts


def as_set(solver: dict[str, Any]) -> list[str]:
    return [f"solver.{key}={value}" for key, value in solver.items()]


def bare_factor() -> dict[str, Any]:
    """A step of implicit_euler with its certificate and frame against CHOLMOD's refactorization and solve alone."""
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
        factor._cholmod.numeric(factor._matrix, factor._symbolic)
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
    """Time per frame of hang against the number of particles."""
    from toile.bench import growth as measure

    rows, exponent = measure()
    return {"ms_per_frame": {row["particles"]: row["ms_per_frame"] for row in rows}, "exponent": exponent}


def explicit_reference(scene: Any, steps_per_frame: int) -> np.ndarray:
    """Center of mass at each frame by symplectic Euler with tiny steps: forces only, none of the implicit machinery."""
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
            velocities = v.numpy()  # a view on the CPU: what is written here is the state
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
    """Time per frame with the bending rigidity multiplied by 0.1 to 1,000; every frame is the same work: the best."""
    factors = (0.1, 1.0, 10.0, 100.0, 1000.0)
    scenes = {f"{f:g}": sheet(51, 5e3, fabric={"bend_warp": 5e-5 * f, "bend_weft": 5e-5 * f}) for f in factors}
    times, simulations = alternate(scenes, 30)
    ms = {name: min(values) for name, values in times.items()}
    rejected = {name: simulation.report()["summary"]["rejected"] for name, simulation in simulations.items()}
    return {"ms_per_frame": ms, "spread": max(ms.values()) / min(ms.values()) - 1.0, "rejected": rejected}


def same_bits() -> dict[str, Any]:
    """The hanging sheet twice."""
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    last = []
    for _ in range(2):
        *_, frame = Simulation(load("hang", overrides=["outputs=[]"])).run(30)
        last.append(frame)
    same = all(np.array_equal(getattr(last[0], name), getattr(last[1], name)) for name in ("positions", "velocities"))
    return {"identical": same}


def cold_start() -> dict[str, Any]:
    """Seconds from starting Python to the first frame of hang: with an empty kernel cache, then with a full one."""
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


def lumpy_body(rings: int = 90, segments: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """A closed surface of 2 segments (rings - 1) triangles with bumps, about half a meter wide."""
    from toile.model.solid_shapes import capsule

    positions, triangles = capsule(0.25, 0.1, segments, rings // 2)
    x, y, z = (12.0 * positions).T
    return positions * (1.0 + 0.06 * np.sin(x) * np.sin(y + 0.5) * np.cos(z))[:, None], triangles


def milliseconds(context: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    context()
    return 1e3 * (time.perf_counter() - begin)


def contact() -> dict[str, Any]:
    """A sheet of 51 x 51 on a body of 27,000 triangles: the contact stage of a step, and the collider's own queries for
    all points, relative to Warp's bare closest-point queries for the same points; as a mesh and as a level set."""
    import warp as wp

    from toile.colliders.solids import ANYWHERE, closest_points_kernel
    from toile.math.solid import Closest
    from toile.scene.schema import Scene
    from toile.simulation.simulation import Simulation

    @wp.kernel
    def bare(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), face_out: wp.array(dtype=wp.int32)):
        i = wp.tid()
        face_out[i] = wp.mesh_query_point_sign_normal(mesh, x[i], 1.0e6).face

    positions, triangles = lumpy_body()
    found: dict[str, Any] = {"triangles": len(triangles)}
    with tempfile.TemporaryDirectory() as folder:
        lines = [*("v {} {} {}".format(*x) for x in positions), *("f {} {} {}".format(*t) for t in triangles + 1)]
        (Path(folder) / "body.obj").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for kind in ("mesh", "level_set"):
            scene = Scene.model_validate({
                "time": {"frames": 40},
                "cloth": [{"shape": {"type": "grid"}, "translation": [0, 0, 0.32]}],
                "solids": [{"type": "mesh", "file": "body.obj"}] if kind == "mesh" else
                [{"type": "level_set", "cell": 0.01, "parts": [{"type": "mesh", "file": "body.obj"}]}],
            })  # fmt: skip
            scene._folder = Path(folder)
            simulation = Simulation(scene)
            mesh = wp.Mesh(wp.array(positions, dtype=wp.vec3), wp.array(triangles.ravel(), dtype=wp.int32))
            solid, x = simulation.solids.solids[0], wp.zeros(simulation.model.particle_count, dtype=wp.vec3)
            face, nearest = wp.zeros(len(x), dtype=wp.int32), wp.zeros(len(x), dtype=Closest)
            at = [solid.shape, simulation.solids.poses, 0, ANYWHERE, simulation.state.x, nearest]
            ask_bare = wp.launch(bare, len(x), [mesh.id, x, face], record_cmd=True)
            ask_solid = wp.launch(closest_points_kernel(solid.functions), len(x), at, record_cmd=True)
            rows: dict[str, list[float]] = {name: [] for name in ("stage", "bare", "queries", "touching")}
            for _ in simulation.run():
                if simulation.frame < 10:
                    continue  # the cloth falls, and kernels are loaded
                entry = simulation.certificate.frames[-1]
                x.assign(simulation.state.x.numpy().astype(np.float32))
                ask_solid.set_param_by_name("x", simulation.state.x)
                # Once, as the stage has to: what a step leaves in the caches is the same for both.
                rows["bare"].append(milliseconds(ask_bare.launch))
                rows["queries"].append(milliseconds(ask_solid.launch))
                rows["stage"].append(entry["ms"]["C/S"] / entry["steps"])
                rows["touching"].append(entry["contacts"]["solid"])
            by_frame = {name: np.array(values) for name, values in rows.items()}
            found[kind] = {
                "stage_ms_per_step": float(np.median(by_frame["stage"])),
                "bare_ms": float(np.median(by_frame["bare"])),
                "queries_ms": float(np.median(by_frame["queries"])),
                "stage_to_bare": float(np.median(by_frame["stage"] / by_frame["bare"])),
                "queries_to_bare": float(np.median(by_frame["queries"] / by_frame["bare"])),
                "touching": float(np.median(by_frame["touching"])),
            }
    return found


def drape_contact() -> dict[str, Any]:
    """drape with and without self_contact, frame by frame in turn. Times are without the audit, which only judges."""
    from toile.scene.load import load

    scenes = {
        "with": load("drape", overrides=["outputs=[]"]),
        "without": load("drape", overrides=["outputs=[]", "filters=[]"]),
    }
    assert [item.type_name() for item in scenes["with"].filters] == ["self_contact"]
    times, simulations = alternate(scenes, scenes["with"].time.frames)
    found: dict[str, Any] = {}
    for name, simulation in simulations.items():
        frames, summary = simulation.report()["frames"][1:], simulation.report()["summary"]
        ms = {stage: sum(entry["ms"][stage] for entry in frames) for stage in frames[0]["ms"]}
        computing = np.array(times[name]) - [entry["ms"]["audit"] for entry in frames]
        found[name] = {
            "vertices": simulation.model.particle_count,
            "ms_per_frame": {"median": float(np.median(computing)), "mean": float(computing.mean())},
            "share": {stage: of / computing.sum() for stage, of in ms.items() if stage != "audit"},
            "audit_ms_per_frame": ms["audit"] / len(frames),
            "touches_at_most": max(entry["contacts"]["cloth"] for entry in frames),
            **{key: summary[key] for key in ("steps", "rejected", "intersections", "max_strain")},
        }
    one, other = (found[name]["ms_per_frame"] for name in ("with", "without"))
    return {**found, "ratio": {key: one[key] / other[key] for key in one}}


def contact_growth(resolutions: tuple[int, ...] = (32, 63, 127)) -> dict[str, Any]:
    """The contact stage of a step and its arrays against the number of vertices: the five sheets of layers.

    They start 4 mm apart and 5 mm above the ball, so that they touch everywhere from the second frame on; that and the
    next three are measured, each time that contacts are resolved: some steps are solved again.
    Trees of boxes are Warp's own and are not counted; they grow with the number of vertices.
    """
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    rows = []
    for n in (16, *resolutions):  # the first only loads kernels
        sheets = [
            f"cloth[{i}].{field}"
            for i in range(5)
            for field in (f"shape.resolution=[{n},{n}]", f"translation=[0,0,{0.755 + 0.004 * i}]")
        ]
        # Only contact is measured. Solved well, the largest of them would take an hour.
        loose = ["solver.preconditioner=block_jacobi", "solver.tolerance=0.1"]
        simulation = Simulation(load("layers", overrides=["outputs=[]", *loose, *sheets]), audit="none")
        contacts = simulation.filters[-1]
        calls, ms, near = counted(contacts, "apply"), 0.0, []
        for frame in range(5):
            simulation.advance_frame()
            entry = simulation.certificate.frames[-1]
            if frame == 0:
                calls[0] = 0
            else:
                ms += entry["ms"]["C/C"]
                near.append(contacts.resolver.contact_set.near_pair_count)
        rows.append({
            "vertices": simulation.model.particle_count,
            "ms": ms / calls[0],
            "megabytes": array_bytes([contacts.collision_mesh, contacts.resolver, contacts.persistent_contacts]) / 1e6,
            "near_pairs": max(near),
            "contacts": contacts.contact_count(),
            "ms_of_last_frame": entry["ms"],
        })  # fmt: skip
    rows = rows[1:]
    found: dict[str, Any] = {"rows": rows, "exponent": {}, "steepest": {}}
    n = np.log([row["vertices"] for row in rows])
    for key in ("ms", "megabytes", "near_pairs", "contacts"):
        value = np.log([row[key] for row in rows])
        found["exponent"][key] = float(np.polyfit(n, value, 1)[0])
        found["steepest"][key] = float((np.diff(value) / np.diff(n)).max())  # what a straight line may hide
    return found


def counted(thing: Any, method: str) -> list[int]:
    """How often a method is called from now on."""
    calls, original = [0], getattr(thing, method)

    def and_count(*inputs: Any) -> Any:
        calls[0] += 1
        return original(*inputs)

    setattr(thing, method, and_count)
    return calls


def array_bytes(thing: Any, seen: set[int] | None = None) -> int:
    """Of all Warp arrays that an object of toile.contact holds, itself or through others, each counted once."""
    import warp as wp

    seen = set() if seen is None else seen
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, wp.array):
        return int(thing.capacity)
    if hasattr(thing, "_cls"):  # a structure of arrays, of Warp
        return sum(array_bytes(getattr(thing, name), seen) for name in thing._cls.vars)
    if isinstance(thing, (list, tuple)):
        return sum(array_bytes(item, seen) for item in thing)
    if type(thing).__module__.startswith(("toile.contact.", "toile.linear.")):
        return sum(array_bytes(value, seen) for value in vars(thing).values())
    return 0


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
    for function in MEASUREMENTS:
        if function.__name__ in wanted:
            found = function()
            results[function.__name__] = found
            print(function.__name__, json.dumps(found, indent=1), flush=True)
    results["machine"] = {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu or platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
