"""Writes the scenes of the scoreboard as plain JSON for any simulator.

    python benchmarks/scoreboard/export.py [hang drape ...] [--resolution 51] [--steps 1200]

Units are SI, and z is up. README.md describes each field. A scene that swings contains the path of its center of mass
in a converged run by symplectic Euler with tiny steps (benchmarks/claims.py, explicit_reference), which shares the
forces with Toile but no solver. The falls of the drape and of the layers have such a path, too, until folds make them
chaotic; their converged run is that of Toile with short steps. The strip contains the distance by which its end must
sink,

    s = rho g L^2 / (2 k)

Symbols     rho  mass per area [kg/m^2]     g  gravity [m/s^2]     L  length [m]     k  stretch stiffness [N/m]
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

# The sheet of claims.py. Damping would hide errors of the swing; scenes with contact have a little of it.
FABRIC = {"density": 0.2, "stretch_warp": 5e3, "stretch_weft": 5e3, "shear": 5e2, "bend_warp": 5e-5, "bend_weft": 5e-5}


def hang(resolution: int) -> Any:
    """A square meter falls from the horizontal, hung by two corners, without damping and air, for one second."""
    from claims import sheet

    return sheet(resolution, 5e3)


def membrane(resolution: int) -> Any:
    """The same as hang without bending, for simulators and settings that do not have it."""
    from claims import sheet

    scene = sheet(resolution, 5e3, fabric={"bend_warp": 0.0, "bend_weft": 0.0})
    cloth = scene.cloth[0]
    energies = tuple(item for item in cloth.energies if not item.type_name().startswith("bend"))
    return scene.model_copy(update={"cloth": (cloth.model_copy(update={"energies": energies}),)})


def strip(resolution: int) -> Any:
    """A strip of half a meter by one meter hangs from its upper edge; its length oscillates about that at rest."""
    from toile.scene.schema import Scene

    # Coarse and a tenth as stiff as the sheet, so that single precision resolves the 2 mm by which it sinks.
    soft = {"stretch_warp": 5e2, "stretch_weft": 5e2, "shear": 5e1, "damping": 0.0}
    shape = {"type": "grid", "size": [0.5, 1.0], "resolution": [(resolution + 1) // 2, resolution]}
    cloth = {"shape": shape, "rotation": [90.0, 0.0, 0.0], "fabric": {**FABRIC, **soft}}
    upper = {"box": [[-1.0, -1.0, 0.4999], [1.0, 1.0, 1.0]]}
    return Scene.model_validate({
        "name": "strip",
        "time": {"frames": 60, "fps": 30, "max_step": 1 / 60},
        "cloth": [cloth],
        "constraints": [{"type": "pin", "where": upper}],
        "integrator": "implicit_bdf2",
    })  # fmt: skip


def drape(resolution: int) -> Any:
    """The shipped scene drape in the same fabric, without air: a sheet falls on a cylinder."""
    from toile.scene.load import load

    fabric = ", ".join(f"{name}: {value}" for name, value in {**FABRIC, "damping": 1e-3}.items())
    changes = [f"cloth[0].fabric={{{fabric}}}", f"cloth[0].shape.resolution=[{resolution},{resolution}]"]
    return load("drape", overrides=["outputs=[]", "forces=[]", *changes])


def layers(resolution: int) -> Any:
    """The shipped scene layers with five sheets of the same fabric, without air and floor: they fall over a ball."""
    from toile.scene.load import load

    fabric = ", ".join(f"{name}: {value}" for name, value in {**FABRIC, "damping": 1e-3}.items())
    changes = [
        f"cloth[{k}].{change}"
        for k in range(5)
        for change in (f"fabric={{{fabric}}}", f"shape.resolution=[{resolution},{resolution}]")
    ]
    scene = load("layers", overrides=["outputs=[]", "forces=[]", *changes])
    return scene.model_copy(update={"solids": scene.solids[:1]})


SCENES = {"strip": strip, "hang": hang, "membrane": membrane, "drape": drape, "layers": layers}
SWINGS = ("hang", "membrane")  # scenes with a reference by small explicit steps
RESOLUTIONS = {"strip": 11, "layers": 25}  # others have 51
FALLS = {"drape": 12, "layers": 12}  # frames until the sheets have fallen; folds are chaotic later


def plain(name: str, resolution: int) -> dict[str, Any]:
    """The scene as numbers and lists."""
    from toile.simulation.simulation import Simulation

    scene = SCENES[name](resolution)
    simulation = Simulation(scene)
    simulation.constraints.move(0.0, 0.0, simulation.state.x)  # finds the particles that are held at the start
    model, fps, frames = simulation.model, scene.time.fps, scene.time.frames
    fabric = scene.cloth[0].fabric
    solids = []
    for settings, solid in zip(scene.solids, simulation.solids, strict=True):
        shape = settings.model_dump(include={"type", "name", "radius", "height", "rounding", "translation", "friction"})
        moved = [solid.vertices(k / fps).tolist() for k in range(frames + 1)] if solid.moves else None
        mesh = {"vertices": solid.vertices(0.0).tolist(), "triangles": solid.triangles.tolist(), "motion": moved}
        solids.append({"type": settings.type_name(), **shape, **mesh})
    thickness = {item.type_name(): item.thickness for item in (*scene.constraints, *scene.filters) if _is_contact(item)}
    frictions = {item.type_name(): item.friction for item in scene.filters if _is_contact(item)}
    return {
        "format": "toile scoreboard 1",
        "name": name,
        "resolution": resolution,
        "about": (SCENES[name].__doc__ or "").strip(),
        "time": {"fps": fps, "frames": frames},
        "gravity": [0.0, 0.0, -9.81],
        "vertices": simulation.surface.rest.tolist(),
        "triangles": model.triangles.tolist(),
        "uv": model.uv.tolist(),
        "masses": model.masses.tolist(),
        "pins": [{"vertex": int(i), "motion": None} for i in simulation.constraints.particles],
        "material": {key: getattr(fabric, key) for key in (*FABRIC, "damping")},
        "contact": {
            "solid_thickness": thickness.get("solid_contact"),
            "cloth_thickness": thickness.get("self_contact"),
            "cloth_friction": frictions.get("self_contact"),
        },
        "solids": solids,
    }


def _is_contact(item: Any) -> bool:
    return item.type_name() in ("solid_contact", "self_contact")


def sag(found: dict[str, Any]) -> dict[str, Any]:
    """The lowest vertices of a hanging strip, and the distance by which they must sink on average.

    The strip oscillates lengthwise with a period of 4 L sqrt(rho / k), 2.4 frames: 15 of them are 36 frames.
    """
    z = np.array(found["vertices"])[:, 2]
    length, weight = np.ptp(z), found["material"]["density"] * -found["gravity"][2]
    sinks = weight * length**2 / (2.0 * found["material"]["stretch_weft"])
    return {"vertices": np.flatnonzero(z < z.min() + 1e-6 * length).tolist(), "sinks_m": sinks, "mean_of_last": 36}


def reference(name: str, resolution: int, steps: int) -> dict[str, Any]:
    """Center of mass at each frame from 1 on, with `steps` steps a frame, and its change from half as many."""
    from claims import explicit_reference

    fine, coarse = (explicit_reference(SCENES[name](resolution), count) for count in (steps, steps // 2))
    return {
        "method": "symplectic Euler",
        "steps_per_frame": steps,
        "centers": fine.tolist(),
        "change_from_half_as_many_steps_m": float(np.sqrt(np.mean(np.sum((fine - coarse) ** 2, axis=1)))),
    }


def fall(name: str, resolution: int, times: int = 32) -> dict[str, Any]:
    """Center of mass at the first frames of a fall, with steps `times` shorter, and its change from half as many."""
    from toile.simulation.simulation import Simulation

    paths = []
    for shorter in (times, times // 2):
        scene = SCENES[name](resolution)
        time = scene.time.model_copy(update={"frames": FALLS[name], "max_step": scene.time.max_step / shorter})
        simulation = Simulation(scene.model_copy(update={"time": time}), audit="none")
        masses = simulation.model.masses
        paths.append(np.array([masses @ frame.positions / masses.sum() for frame in simulation.run()][1:]))
    apart = np.sum((paths[0] - paths[1]) ** 2, axis=1)
    return {
        "method": "Toile, implicit_bdf2 with self_contact",
        "steps_per_frame": times,
        "centers": paths[0].tolist(),
        "change_from_half_as_many_steps_m": float(np.sqrt(np.mean(apart))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", nargs="*", default=list(SCENES), help=" ".join(SCENES))
    parser.add_argument("--resolution", type=int, help="by default 51, 11 for the strip, 25 for layers")
    parser.add_argument("--steps", type=int, default=1200, help="steps a frame of the reference")
    parser.add_argument("--out", type=Path, default=HERE / "scenes")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.scenes:
        resolution = chosen.resolution or RESOLUTIONS.get(name, 51)
        found = plain(name, resolution)
        if name == "strip":
            found["sag"] = sag(found)
        if name in SWINGS or name in FALLS:
            found["reference"] = fall(name, resolution) if name in FALLS else reference(name, resolution, chosen.steps)
            print(f"reference: {found['reference']['change_from_half_as_many_steps_m']:.2g} m from half as many steps")
        path = chosen.out / f"{name}_{resolution}.json"
        path.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print(path, f"{path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
