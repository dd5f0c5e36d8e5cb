"""Measurements of claims.py that concern contact: its share of a step, and its growth with the number of vertices."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measuring import alternate, milliseconds


def lumpy_body(rings: int = 90, segments: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Returns a closed surface with bumps, about half a meter wide, of 2 segments (rings - 1) triangles."""
    from toile.model.solid_shapes import capsule

    positions, triangles = capsule(0.25, 0.1, segments, rings // 2)
    x, y, z = (12.0 * positions).T
    return positions * (1.0 + 0.06 * np.sin(x) * np.sin(y + 0.5) * np.cos(z))[:, None], triangles


def scene_with_body(folder: Path, kind: str) -> Any:
    """Returns a sheet above the body of `folder`, which is a mesh or a level set."""
    from toile.scene.load import load

    body = {"type": "mesh", "file": "body.obj"}
    scene = {
        "time": {"frames": 40},
        "cloth": [{"shape": {"type": "grid"}, "translation": [0, 0, 0.32]}],
        "solids": [body if kind == "mesh" else {"type": "level_set", "cell": 0.01, "parts": [body]}],
    }
    (folder / "scene.json").write_text(json.dumps(scene), encoding="utf-8")
    return load(folder / "scene.json")


def contact() -> dict[str, Any]:
    """A sheet of 51 x 51 on a body of 27,000 triangles, as a mesh and as a level set: the contact stage of a step and
    the collider's queries for all points, relative to Warp's closest-point queries for the same points."""
    import warp as wp

    from toile.colliders.solids import ANYWHERE, closest_points_kernel
    from toile.math.solid import Closest
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
            simulation = Simulation(scene_with_body(Path(folder), kind))
            mesh = wp.Mesh(wp.array(positions, dtype=wp.vec3), wp.array(triangles.ravel(), dtype=wp.int32))
            solid, x = simulation.solids.solids[0], wp.zeros(simulation.model.particle_count, dtype=wp.vec3)
            face, nearest = wp.zeros(len(x), dtype=wp.int32), wp.zeros(len(x), dtype=Closest)
            at = [solid.shape, simulation.solids.poses, 0, ANYWHERE, simulation.state.x, nearest]
            query_bare = wp.launch(bare, len(x), [mesh.id, x, face], record_cmd=True)
            query_solid = wp.launch(closest_points_kernel(solid.functions), len(x), at, record_cmd=True)
            rows: dict[str, list[float]] = {name: [] for name in ("stage", "bare", "queries", "contacts")}
            for _ in simulation.run():
                if simulation.frame < 10:
                    continue  # the cloth falls, and kernels are loaded
                entry = simulation.certificate.frames[-1]
                x.assign(simulation.state.x.numpy().astype(np.float32))
                query_solid.set_param_by_name("x", simulation.state.x)
                # Each query is launched once, as in a step, so that both find the caches as a step leaves them.
                rows["bare"].append(milliseconds(query_bare.launch))
                rows["queries"].append(milliseconds(query_solid.launch))
                rows["stage"].append(entry["ms"]["C/S"] / entry["steps"])
                rows["contacts"].append(entry["contacts"]["solid"])
            by_frame = {name: np.array(values) for name, values in rows.items()}
            found[kind] = {
                "stage_ms_per_step": float(np.median(by_frame["stage"])),
                "bare_ms": float(np.median(by_frame["bare"])),
                "queries_ms": float(np.median(by_frame["queries"])),
                "stage_to_bare": float(np.median(by_frame["stage"] / by_frame["bare"])),
                "queries_to_bare": float(np.median(by_frame["queries"] / by_frame["bare"])),
                "contacts": float(np.median(by_frame["contacts"])),
            }
    return found


def drape_contact() -> dict[str, Any]:
    """drape with and without self_contact, frame by frame in turn. Times exclude the audit, which is not needed."""
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
            "max_contacts": max(entry["contacts"]["cloth"] for entry in frames),
            **{key: summary[key] for key in ("steps", "rejected", "intersections", "max_strain")},
        }
    one, other = (found[name]["ms_per_frame"] for name in ("with", "without"))
    return {**found, "ratio": {key: one[key] / other[key] for key in one}}


def contact_growth(resolutions: tuple[int, ...] = (32, 63, 127)) -> dict[str, Any]:
    """The contact stage of a step and its arrays as functions of the number of vertices: the five sheets of layers.

    The sheets start 4 mm apart and 5 mm above the ball, so they are in contact everywhere from the second frame on. The
    second to the fifth frame are measured. The time is that of one resolution of contacts, because some steps are
    solved again. Warp's bounding volume hierarchies are not counted; they grow with the number of vertices.
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
        # Only contact is measured; with tight solves the largest of them would take an hour.
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
            "megabytes": array_bytes([contacts.collision_mesh, contacts.resolver, contacts.springs]) / 1e6,
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
        found["steepest"][key] = float((np.diff(value) / np.diff(n)).max())  # a straight fit may hide it
    return found


def counted(thing: Any, method: str) -> list[int]:
    """Counts the calls of a method from now on."""
    calls, original = [0], getattr(thing, method)

    def counting(*inputs: Any) -> Any:
        calls[0] += 1
        return original(*inputs)

    setattr(thing, method, counting)
    return calls


def array_bytes(thing: Any, seen: set[int] | None = None) -> int:
    """Returns the bytes of all Warp arrays that an object of toile.contact refers to; each array is counted once."""
    import warp as wp

    seen = set() if seen is None else seen
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, wp.array):
        return int(thing.capacity)
    if hasattr(thing, "_cls"):  # a Warp struct
        return sum(array_bytes(getattr(thing, name), seen) for name in thing._cls.vars)
    if isinstance(thing, (list, tuple)):
        return sum(array_bytes(item, seen) for item in thing)
    if type(thing).__module__.startswith(("toile.contact.", "toile.linear.")):
        return sum(array_bytes(value, seen) for value in vars(thing).values())
    return 0
