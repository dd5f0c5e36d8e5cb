"""What it costs to keep triangles of cloth out of solids, and how deep they are: default settings beside sharp: false.

    OPENBLAS_NUM_THREADS=1 python benchmarks/solid_features.py [CASE ...]

A sheet of 51 x 51 vertices falls on a rod of 4 mm, 25 cones, a lumpy mesh of 5,120 triangles and a UV sphere; a ball
flies at 30 m/s into one that is held at all edges; and a skirt hangs on the walking body of character.py, of 13,058
vertices. Both runs of a case take turns, frame by frame, so that a drift of the machine affects both; times are those
of the process, and the first frame, which loads kernels, does not count. Writes benchmarks/solid_features.json.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from character import build as build_character
from character import write_obj
from results import record

HERE = Path(__file__).parent
FPS = 30
KEPT = {"default": {}, "sharp: false": {"sharp": False}}


def sheet(size: float, height: float) -> dict[str, Any]:
    return {
        "name": "sheet",
        "shape": {"type": "grid", "size": [size, size], "resolution": [51, 51]},
        "translation": [0.0, 0.0, height],
    }


def lumpy_ball(radius: float) -> tuple[np.ndarray, np.ndarray]:
    """A ball of 5,120 triangles with fourteen bumps and dents."""
    from toile.model import solid_shapes

    x, triangles = solid_shapes.sphere(1.0, 4)
    rng, size = np.random.default_rng(3), np.ones(len(x))
    for _ in range(14):
        center = rng.normal(size=3)
        center /= np.linalg.norm(center)
        size += rng.uniform(-0.12, 0.3) * np.exp(-(1.0 - x @ center) / rng.uniform(0.01, 0.08))
    return radius * x * size[:, None], triangles


def uv_sphere(radius: float, rings: int, around: int) -> tuple[np.ndarray, np.ndarray]:
    """A ball of circles of latitude; at the poles, fans of slivers."""
    from character import tube

    latitude = np.pi * np.arange(1, rings)[:, None] / rings
    longitude = 2.0 * np.pi * np.arange(around) / around
    circles = [np.sin(latitude) * np.cos(longitude), np.sin(latitude) * np.sin(longitude), -np.cos(latitude)]
    x, triangles = tube(radius * np.stack(np.broadcast_arrays(*circles), axis=-1))
    j, n = np.arange(around), len(x)
    following, last = (j + 1) % around, n - around
    low = np.stack([following, j, np.full(around, n)], -1)
    high = np.stack([last + j, last + following, np.full(around, n + 1)], -1)
    poles = [[0.0, 0.0, -radius], [0.0, 0.0, radius]]
    return np.concatenate([x, poles]), np.concatenate([triangles, low, high])


def measured(scenes: dict[str, Any], frames: int) -> dict[str, Any]:
    """Runs both variants in turn. Depths in mm, times in ms a frame."""
    from toile.simulation.simulation import Simulation

    runs = {name: Simulation(scene) for name, scene in scenes.items()}
    times: dict[str, list[float]] = {name: [] for name in scenes}
    for _ in range(frames):
        for name, simulation in runs.items():
            begin = time.process_time()
            simulation.advance_frame()
            times[name].append(1e3 * (time.process_time() - begin))
    found: dict[str, Any] = {}
    for name, simulation in runs.items():
        entries, ms = simulation.certificate.frames, times[name][1:]
        found[name] = {
            "solids_taking_part": len(simulation.solids.contact_surfaces),
            "ms_median": round(float(np.median(ms)), 1),
            "ms_mean": round(float(np.mean(ms)), 1),
            "ms_largest": round(float(np.max(ms)), 1),
            "steps": sum(entry["steps"] for entry in entries),
            "rejected": sum(entry["rejected"] for entry in entries),
            "depth_mm": round(1e3 * max(entry["solid_depth"] for entry in entries), 4),
            "intersections": max(entry["intersections"] or 0 for entry in entries),
            "edge_strain": round(max(entry["strain"]["edge_max"] for entry in entries), 3),
            "lowest_m": round(float(simulation.state.x.numpy()[:, 2].min()), 4),
            "highest_m": round(float(simulation.state.x.numpy()[:, 2].max()), 4),
        }
    if found["default"]["solids_taking_part"] == 0 or found["sharp: false"]["solids_taking_part"] != 0:
        raise RuntimeError("both runs hold vertices alone: there is nothing to compare.")
    ratios = [found["default"][key] / found["sharp: false"][key] for key in ("ms_median", "ms_mean")]
    return {"frames": frames, "ratio_of_medians": round(ratios[0], 2), "ratio_of_means": round(ratios[1], 2), **found}


def compared(name: str, frames: int, mesh: tuple[np.ndarray, np.ndarray] | None = None, **scene: Any) -> dict[str, Any]:
    """Runs a scene with its solids as they are, and with held vertices alone."""
    from toile.scene.load import load

    with tempfile.TemporaryDirectory() as temporary:
        folder, scenes = Path(temporary), {}
        if mesh is not None:
            write_obj(folder / "body.obj", *mesh)
        for variant, fields in KEPT.items():
            solids = [{**solid, **fields} for solid in scene["solids"]]
            path = folder / f"{name}_{len(scenes)}.json"
            given = {"name": name, "time": {"frames": frames, "fps": FPS}, "filters": ["self_contact"], **scene}
            path.write_text(json.dumps({**given, "solids": solids}), encoding="utf-8")
            scenes[variant] = load(path)
        return measured(scenes, frames)


def rod() -> dict[str, Any]:
    """A sheet of 60 cm over a rod with a diameter of 4 mm."""
    bar = {"type": "capsule", "radius": 0.002, "length": 0.8, "rotation": [90, 0, 0], "translation": [0, 0, 0.3]}
    return compared("rod", 40, cloth=[sheet(0.6, 0.32)], solids=[bar])


def cones() -> dict[str, Any]:
    """A sheet of 60 cm over the points of 25 cones."""
    profile = [[0.0, 0.0], [0.03, 0.0], [0.0, 0.3]]
    every = [
        {
            "type": "turned",
            "name": f"cone {i} {j}",
            "profile": profile,
            "translation": [0.1 * i - 0.2, 0.1 * j - 0.2, 0],
        }
        for i in range(5)
        for j in range(5)
    ]
    return compared("cones", 60, cloth=[sheet(0.6, 0.32)], solids=[*every, {"type": "plane"}])


def framed() -> dict[str, Any]:
    """A ball of 2 cm flies at 30 m/s into a sheet that is held at all edges, and 10 cm beyond."""
    shot = {
        "type": "sphere",
        "radius": 0.01,
        "translation": [0.006, 0.006, 0.8],
        "motion": {
            "interpolation": "linear",
            "keyframes": [{"time": 0.0}, {"time": 0.02, "translation": [0.0, 0.0, -0.6]}],
        },
    }
    pins = {"type": "pin", "where": {"edges": ["left", "right", "upper", "lower"]}}
    clock = {"frames": 12, "fps": 60}
    return compared("framed", 12, cloth=[sheet(0.6, 0.3)], solids=[shot], constraints=[pins], time=clock)


def lumpy() -> dict[str, Any]:
    """A sheet of one meter over a lumpy mesh of 5,120 triangles."""
    body = {"type": "mesh", "file": "body.obj", "translation": [0.0, 0.0, 0.25]}
    solids = [body, {"type": "plane"}]
    return compared("lumpy", 60, lumpy_ball(0.2), cloth=[sheet(1.0, 0.56)], solids=solids)


def uv() -> dict[str, Any]:
    """A sheet of one meter over a UV sphere of 48 by 64 cells."""
    body = {"type": "mesh", "file": "body.obj", "translation": [0.0, 0.0, 0.3]}
    return compared("uv", 60, uv_sphere(0.25, 48, 64), cloth=[sheet(1.0, 0.56)], solids=[body])


def character() -> dict[str, Any]:
    """A skirt of 2,592 vertices on a walking body of 13,058, both with the thickness of character.py."""
    from toile.scene.load import load

    with tempfile.TemporaryDirectory() as temporary:
        folder, scenes = Path(temporary), {}
        build_character(folder, (102, 128), (27, 96), 60)
        scene = json.loads((folder / "character.json").read_text(encoding="utf-8"))
        for variant, fields in KEPT.items():
            path = folder / f"character_{len(scenes)}.json"
            solids = [{**solid, **fields} for solid in scene["solids"]]
            path.write_text(json.dumps({**scene, "solids": solids, "filters": ["self_contact"]}), encoding="utf-8")
            scenes[variant] = load(path)
        return measured(scenes, 60)


CASES: tuple[Callable[[], dict[str, Any]], ...] = (rod, cones, framed, lumpy, uv, character)

if __name__ == "__main__":
    record(HERE / "solid_features.json", CASES)
