"""Writes the scoreboard's scenes as plain JSON, for any simulator to read.

    python benchmarks/scoreboard/export.py [hang drape ...] [--resolution 51] [--steps 1200]

Everything is in SI units, z is up. README.md says what each field means. A scene that swings carries the path of its
centre of mass in a converged run: symplectic Euler with tiny steps (benchmarks/claims.py, explicit_reference), which
shares the forces with Toile but none of its solvers.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # claims.py

# The sheet of claims.py. Damping would hide errors of the swing; where cloth meets things, all have a little.
FABRIC = {"density": 0.2, "stretch_warp": 5e3, "stretch_weft": 5e3, "shear": 5e2, "bend_warp": 5e-5, "bend_weft": 5e-5}


def hang(resolution: int) -> Any:
    """One metre square, from rest in the horizontal, hung by two corners, no damping, no air: one second."""
    from claims import sheet

    return sheet(resolution, 5e3)


def drape(resolution: int) -> Any:
    """The shipped scene of that name in the same fabric, without air: a sheet falls on a cylinder."""
    from toile.scene.load import load

    fabric = ", ".join(f"{name}: {value}" for name, value in {**FABRIC, "damping": 1e-3}.items())
    changes = [f"cloth[0].fabric={{{fabric}}}", f"cloth[0].shape.resolution=[{resolution},{resolution}]"]
    return load("drape", overrides=["outputs=[]", "forces=[]", *changes])


SCENES = {"hang": hang, "drape": drape}
SWINGS = ("hang",)  # those whose centre of mass has a converged path; folds on a solid are chaotic


def plain(scene: Any, name: str) -> dict[str, Any]:
    """The scene as numbers and lists."""
    from toile.simulation import Simulation

    simulation = Simulation(scene)
    simulation.held.move(0.0, 0.0, simulation.state.x)  # says which particles are held at the start
    model, fps, frames = simulation.model, scene.time.fps, scene.time.frames
    fabric = scene.cloth[0].fabric
    solids = []
    for settings, solid in zip(scene.solids, simulation.solids, strict=True):
        shape = settings.model_dump(include={"type", "name", "radius", "height", "rounding", "translation", "friction"})
        moved = [solid.vertices(k / fps).tolist() for k in range(frames + 1)] if solid.moves else None
        mesh = {"vertices": solid.vertices(0.0).tolist(), "triangles": solid.triangles.tolist(), "motion": moved}
        solids.append({"type": settings.word(), **shape, **mesh})
    thickness = {item.word(): item.thickness for item in (*scene.constraints, *scene.filters) if _touches(item)}
    frictions = {item.word(): item.friction for item in scene.filters if _touches(item)}
    return {
        "format": "toile scoreboard 1",
        "name": name,
        "about": (SCENES[name].__doc__ or "").strip(),
        "time": {"fps": fps, "frames": frames},
        "gravity": [0.0, 0.0, -9.81],
        "vertices": simulation.surface.rest.tolist(),
        "triangles": model.triangles.tolist(),
        "uv": model.uv.tolist(),
        "masses": model.masses.tolist(),
        "pins": [{"vertex": int(i), "motion": None} for i in simulation.held.particles],
        "material": {key: getattr(fabric, key) for key in (*FABRIC, "damping")},
        "contact": {
            "solid_thickness": thickness.get("solid_contact"),
            "cloth_thickness": thickness.get("self_contact"),
            "cloth_friction": frictions.get("self_contact"),
        },
        "solids": solids,
    }


def _touches(item: Any) -> bool:
    return item.word() in ("solid_contact", "self_contact")


def reference(name: str, resolution: int, steps: int) -> dict[str, Any]:
    """Centre of mass at each frame from 1 on, with so many steps a frame and with half as many."""
    from claims import explicit_reference

    fine, coarse = (explicit_reference(SCENES[name](resolution), count) for count in (steps, steps // 2))
    return {
        "method": "symplectic Euler",
        "steps_per_frame": steps,
        "centres": fine.tolist(),
        "change_from_half_as_many_steps_m": float(np.sqrt(np.mean(np.sum((fine - coarse) ** 2, axis=1)))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", nargs="*", default=list(SCENES), help=" ".join(SCENES))
    parser.add_argument("--resolution", type=int, default=51)
    parser.add_argument("--steps", type=int, default=1200, help="of the reference, a frame")
    parser.add_argument("--out", type=Path, default=HERE / "scenes")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.scenes:
        found = plain(SCENES[name](chosen.resolution), name)
        if name in SWINGS:
            found["reference"] = reference(name, chosen.resolution, chosen.steps)
            print(f"reference: {found['reference']['change_from_half_as_many_steps_m']:.2g} m from half as many steps")
        path = chosen.out / f"{name}_{chosen.resolution}.json"
        path.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print(path, f"{path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
