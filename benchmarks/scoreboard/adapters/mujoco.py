"""Runs a scene of the scoreboard with MuJoCo flex; `run` yields the positions of one frame after the other.

    E d = k,    E d^3 / (12 (1 - nu^2)) = D,    nu = 0

Source      MuJoCo's XML reference, flexcomp; its own model/flex/drape.xml for the settings called `example`
Symbols     E  Young's modulus [Pa]     d  thickness [m]     k  stretch stiffness [N/m]     D  bending rigidity [N m]
Deviations  flex is isotropic: its shear stiffness is k / 2, whatever the scene asks. Masses are spread evenly over the
            vertices. A cylinder with a rounded rim is given as its convex mesh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

# `example`: solver, step and contact as in model/flex/drape.xml, which is cloth on a solid. The others are tuned.
EXAMPLE = {"timestep": 0.002, "solver": "CG", "tolerance": 1e-6, "iterations": 400, "integrator": "discrete",
           "solref": "0.01 1", "solimp": ".95 .99 .0001", "passive": "true", "selfcollide": "auto"}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "example": EXAMPLE,
    # MuJoCo's own number of iterations when nothing is said; and a sparse factor, as most of its flex models have it.
    "100 iterations": {**EXAMPLE, "iterations": 100},
    "4 ms, 100 iterations": {**EXAMPLE, "iterations": 100, "timestep": 0.004},
    "newton 2 ms": {**EXAMPLE, "solver": "Newton"},
    "newton 4 ms": {**EXAMPLE, "solver": "Newton", "timestep": 0.004},
    "newton 8 ms": {**EXAMPLE, "solver": "Newton", "timestep": 0.0084},
}


def version() -> str:
    import mujoco

    return f"mujoco {mujoco.__version__}"


def numbers(values: Any) -> str:
    return " ".join(f"{value:.17g}" for value in np.ravel(values))


def xml(scene: dict[str, Any], settings: dict[str, Any]) -> str:
    material, contact = scene["material"], scene["contact"]
    k, rigidity = material["stretch_warp"], material["bend_warp"]
    depth = np.sqrt(12.0 * rigidity / k)
    meshes, geoms = [], []
    for solid in scene["solids"]:
        name = solid["name"]
        points, faces = numbers(solid["vertices"]), integers(solid["triangles"])
        meshes.append(f'<mesh name="{name}" vertex="{points}" face="{faces}"/>')
        geoms.append(f'<body><geom type="mesh" mesh="{name}" friction="{solid["friction"]} 0 0"/></body>')
    touching = bool(scene["solids"])
    collide = (
        f'selfcollide="{settings["selfcollide"]}" passive="{settings["passive"]}" solref="{settings["solref"]}" '
        f'solimp="{settings["solimp"]}" friction="{contact["cloth_friction"]} 0 0"'
        if touching
        else 'selfcollide="none" contype="0" conaffinity="0"'
    )
    pins = integers([pin["vertex"] for pin in scene["pins"]])
    pinned = f'<pin id="{pins}"/>' if pins else ""
    radius = 0.5 * (contact["cloth_thickness"] or 2e-3)
    return f"""<mujoco>
  <option timestep="{step(scene, settings)}" solver="{settings["solver"]}" tolerance="{settings["tolerance"]}"
          iterations="{settings["iterations"]}" integrator="{settings["integrator"]}"
          gravity="{numbers(scene["gravity"])}"/>
  <size memory="500M"/>
  <asset>{"".join(meshes)}</asset>
  <worldbody>
    {"".join(geoms)}
    <flexcomp name="cloth" type="direct" dim="2" radius="{radius}" mass="{sum(scene["masses"])}"
              point="{numbers(scene["vertices"])}" element="{integers(scene["triangles"])}">
      <contact {collide}/>
      <elasticity young="{k / depth}" poisson="0" thickness="{depth}" elastic2d="both" damping="{material["damping"]}"/>
      {pinned}
    </flexcomp>
  </worldbody>
</mujoco>"""


def integers(values: Any) -> str:
    return " ".join(str(int(value)) for value in np.ravel(values))


def step(scene: dict[str, Any], settings: dict[str, Any]) -> float:
    """The step of the settings, a little shorter if need be, so that frames fall on steps."""
    frame = 1.0 / scene["time"]["fps"]
    return frame / np.ceil(frame / settings["timestep"] - 1e-9)


def run(scene: dict[str, Any], settings: dict[str, Any]) -> Iterator[np.ndarray]:
    """The start, and then every frame."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(xml(scene, settings))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    steps = round(1.0 / scene["time"]["fps"] / model.opt.timestep)
    yield data.flexvert_xpos.reshape(-1, 3).copy()
    for _ in range(scene["time"]["frames"]):
        mujoco.mj_step(model, data, steps)
        mujoco.mj_fwdPosition(model, data)  # positions of vertices are those before the last step otherwise
        yield data.flexvert_xpos.reshape(-1, 3).copy()
