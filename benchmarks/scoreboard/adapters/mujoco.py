"""Runs a scene of the scoreboard with MuJoCo flex; `run` yields the positions of each frame.

    E d = k,    E d^3 / (12 (1 - nu^2)) = D,    nu = 0

Source      MuJoCo's XML reference, flexcomp; its own model/flex/drape.xml and the chapter "Deformables" of its guide
Symbols     E  Young's modulus [Pa]     d  thickness [m]     k  stretch stiffness [N/m]     D  bending rigidity [N m]
Deviations  Flex is isotropic: its shear stiffness is k / 2, whatever the scene has. Masses are distributed evenly over
            the vertices. A cylinder with a rounded rim is given as its convex mesh. Edges with length constraints
            (`membrane: edges`) have no bending; MuJoCo accepts both with one integrator only.
            Contacts that are `passive` or `ipc` have no friction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

# `example` is model/flex/drape.xml, cloth on a solid; `guide` is the recommendation of the documentation for cloth,
# with the longest of its typical steps. The others are tuned; tuning.json has all settings that were tried.
EXAMPLE: dict[str, Any] = {
    "integrator": "discrete", "timestep": 0.002, "solver": "CG", "tolerance": 1e-6, "iterations": 400,
    "membrane": "elastic", "contact": "passive", "solref": "0.01 1", "solimp": ".95 .99 .0001",
}  # fmt: skip
GUIDE = {**EXAMPLE, "timestep": 0.004, "solver": "Newton", "iterations": 100, "contact": "rows"}
IPC = {**EXAMPLE, "contact": "ipc", "iterations": 100}
SETTINGS: dict[str, dict[str, Any]] = {
    "example": EXAMPLE,
    "guide": GUIDE,
    "explicit 0.1 ms": {**EXAMPLE, "integrator": "Euler", "timestep": 1e-4},
    "discrete 1.8 ms": {**GUIDE, "timestep": 1 / 30 / 19},
    # Stiffness 1 / (2 h)^2 and damping 1 / h of each edge, relative to its inertia.
    "edges 4.2 ms": {
        **GUIDE, "integrator": "implicitfast", "timestep": 1 / 240, "iterations": 2,
        "membrane": "edges", "edge_solref": "-14400 -240", "edge_solimp": ".9999 .9999 .001",
    },
    "passive 11 ms": {**EXAMPLE, "timestep": 1 / 90, "iterations": 100},
    "ipc 11 ms": {**IPC, "timestep": 1 / 90},
    "ipc 17 ms": {**IPC, "timestep": 1 / 60},
    "ipc 33 ms": {**IPC, "timestep": 1 / 30, "tolerance": 1e-4},
}  # fmt: skip


def version() -> str:
    import mujoco

    return f"mujoco {mujoco.__version__}"


def numbers(values: Any) -> str:
    return " ".join(f"{value:.17g}" for value in np.ravel(values))


def integers(values: Any) -> str:
    return " ".join(str(int(value)) for value in np.ravel(values))


def step(scene: dict[str, Any], settings: dict[str, Any]) -> float:
    """The step of the settings, a little shorter if necessary, so that frames are multiples of it."""
    frame = 1.0 / scene["time"]["fps"]
    return frame / np.ceil(frame / settings["timestep"] - 1e-9)


def fabric(scene: dict[str, Any], settings: dict[str, Any]) -> str:
    """The elasticity of the cloth, as elements of flexcomp."""
    material = scene["material"]
    if settings["membrane"] == "edges":
        return f'<edge equality="true" solref="{settings["edge_solref"]}" solimp="{settings["edge_solimp"]}"/>'
    k, rigidity = material["stretch_warp"], material["bend_warp"]
    thickness, bends = (np.sqrt(12.0 * rigidity / k), "both") if rigidity else (1e-3, "stretch")
    return (
        f'<elasticity young="{k / thickness}" poisson="0" thickness="{thickness}" elastic2d="{bends}" '
        f'damping="{material["damping"]}"/>'
    )


def xml(scene: dict[str, Any], settings: dict[str, Any]) -> str:
    contact, has_solids = scene["contact"], bool(scene["solids"])
    radius = 0.5 * (contact["cloth_thickness"] or 2e-3)
    meshes, geoms = [], []
    for solid in scene["solids"]:
        name, margin = solid["name"], contact["solid_thickness"] - radius
        points, faces = numbers(solid["vertices"]), integers(solid["triangles"])
        meshes.append(f'<mesh name="{name}" vertex="{points}" face="{faces}"/>')
        geoms.append(f'<geom type="mesh" mesh="{name}" friction="{solid["friction"]} 0 0" margin="{margin}"/>')
    passive = "true" if settings["contact"] == "passive" else "false"
    collide = (
        f'selfcollide="auto" passive="{passive}" solref="{settings["solref"]}" solimp="{settings["solimp"]}" '
        f'friction="{contact["cloth_friction"]} 0 0"'
        if has_solids
        else 'selfcollide="none" contype="0" conaffinity="0"'
    )
    flags = 'ipc="enable"' if has_solids and settings["contact"] == "ipc" else ""
    pins = integers([pin["vertex"] for pin in scene["pins"]])
    return f"""<mujoco>
  <option timestep="{step(scene, settings)}" solver="{settings["solver"]}" tolerance="{settings["tolerance"]}"
          iterations="{settings["iterations"]}" integrator="{settings["integrator"]}"
          gravity="{numbers(scene["gravity"])}"><flag {flags}/></option>
  <size memory="1G"/>
  <asset>{"".join(meshes)}</asset>
  <worldbody>
    {"".join(geoms)}
    <flexcomp name="cloth" type="direct" dim="2" radius="{radius}" mass="{sum(scene["masses"])}"
              point="{numbers(scene["vertices"])}" element="{integers(scene["triangles"])}">
      <contact {collide}/>
      {fabric(scene, settings)}
      {f'<pin id="{pins}"/>' if pins else ""}
    </flexcomp>
  </worldbody>
</mujoco>"""


def run(scene: dict[str, Any], settings: dict[str, Any]) -> Iterator[np.ndarray]:
    """Yields the start, and then every frame."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(xml(scene, settings))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    steps = round(1.0 / scene["time"]["fps"] / model.opt.timestep)
    yield data.flexvert_xpos.reshape(-1, 3).copy()
    for _ in range(scene["time"]["frames"]):
        mujoco.mj_step(model, data, steps)
        mujoco.mj_kinematics(model, data)  # otherwise positions of vertices are those before the last step
        mujoco.mj_flex(model, data)
        yield data.flexvert_xpos.reshape(-1, 3).copy()
