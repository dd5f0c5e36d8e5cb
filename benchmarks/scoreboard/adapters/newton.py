"""Runs a scene of the scoreboard with Newton; `run` yields the positions of one frame after the other.

    xpbd: springs along all edges, one of k on a width of one cell, so that a sheet has k along warp and weft
    vbd: triangles with mu = k / 2, lambda = 0, so that a strip has k
    bending of a hinge: E = (3/2) D |e|^2 / (A_1 + A_2) theta^2, the discrete shells' value of a square cell

Source      Newton's own examples/cloth/example_cloth_hanging.py and example_cloth_twist.py for the settings `example`
Symbols     k  stretch stiffness [N/m]     D  bending rigidity [N m]     e  edge of a hinge [m]     A  area [m^2]
Deviations  Neither has separate shear: springs have that of the diagonals, triangles have k / 2. One bending stiffness
            serves all hinges. Newton computes in float32. Damping of the fabric is given as that of the triangles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

# Substeps are of a frame of 1/60 s, as in the examples.
SETTINGS: dict[str, dict[str, Any]] = {
    "example": {"solver": "vbd", "substeps": 10, "iterations": 10},  # the default of cloth_hanging
    "xpbd example": {"solver": "xpbd", "substeps": 10, "iterations": 10},
    # With 200 springs of this stiffness overshoot and the sheet bursts in the first frame.
    "xpbd 400 substeps": {"solver": "xpbd", "substeps": 400, "iterations": 1},
    "xpbd 200 substeps": {"solver": "xpbd", "substeps": 200, "iterations": 1},
    "vbd 20 substeps": {"solver": "vbd", "substeps": 20, "iterations": 10},
}


def version() -> str:
    import newton
    import warp

    return f"newton {newton.__version__}, warp {warp.__version__}"


def hinge_stiffness(scene: dict[str, Any]) -> float:
    """Mean over the triangles' sides of 3 D |e|^2 / (A_1 + A_2), as if both triangles were alike."""
    uv = np.array(scene["uv"])
    sides = np.roll(uv, -1, axis=1) - uv
    areas = 0.5 * np.abs(sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0])
    return float(3.0 * scene["material"]["bend_warp"] * np.mean((sides**2).sum(axis=2).mean(axis=1) / (2.0 * areas)))


def build(scene: dict[str, Any], settings: dict[str, Any]) -> Any:
    import newton
    import warp as wp

    material, contact, k = scene["material"], scene["contact"], scene["material"]["stretch_warp"]
    builder = newton.ModelBuilder(gravity=tuple(scene["gravity"]))
    # Contact with a shape begins at the radius of a particle.
    radius = contact["solid_thickness"] or 1e-3
    stiffness: dict[str, Any] = {"edge_ke": hinge_stiffness(scene), "edge_kd": 0.0, "particle_radius": radius}
    if settings["solver"] == "xpbd":
        stiffness |= {"add_springs": True, "spring_ke": k, "spring_kd": material["damping"] * k}
        stiffness |= {"tri_ke": 0.0, "tri_ka": 0.0, "tri_kd": 0.0}
    else:
        stiffness |= {"tri_ke": 0.5 * k, "tri_ka": 0.0, "tri_kd": material["damping"]}
    builder.add_cloth_mesh(
        pos=wp.vec3(), rot=wp.quat_identity(), scale=1.0, vel=wp.vec3(),
        vertices=[wp.vec3(*x) for x in scene["vertices"]], indices=np.ravel(scene["triangles"]).tolist(),
        density=material["density"], **stiffness,
    )  # fmt: skip
    for pin in scene["pins"]:
        builder.particle_mass[pin["vertex"]] = 0.0
        builder.particle_flags[pin["vertex"]] &= ~int(newton.ParticleFlags.ACTIVE)
    for solid in scene["solids"]:
        shape = newton.Mesh(np.array(solid["vertices"], np.float32), np.ravel(solid["triangles"]))
        builder.add_shape_mesh(-1, mesh=shape, cfg=newton.ModelBuilder.ShapeConfig(mu=solid["friction"]))
    if settings["solver"] == "vbd":
        builder.color(include_bending=True)
    return builder.finalize(device="cpu")


def run(scene: dict[str, Any], settings: dict[str, Any]) -> Iterator[np.ndarray]:
    """The start, and then every frame."""
    import newton
    import warp as wp

    wp.config.quiet = True
    model, contact, touching = build(scene, settings), scene["contact"], bool(scene["solids"])
    if touching:
        model.soft_contact_mu = scene["solids"][0]["friction"]
    if settings["solver"] == "xpbd":
        solver = newton.solvers.SolverXPBD(model, iterations=settings["iterations"])
    else:
        keep: dict[str, Any] = {"particle_enable_self_contact": False}
        if touching:
            thickness = contact["cloth_thickness"]
            keep = {"particle_enable_self_contact": True, "particle_self_contact_margin": thickness}
            keep["particle_self_contact_gap"] = 0.5 * thickness
        solver = newton.solvers.SolverVBD(model, iterations=settings["iterations"], **keep)
    now, then, control = model.state(), model.state(), model.control()
    pipeline = newton.CollisionPipeline(model)
    contacts = pipeline.contacts()
    substeps = round(settings["substeps"] * 60 / scene["time"]["fps"])
    h = 1.0 / scene["time"]["fps"] / substeps
    yield now.particle_q.numpy().astype(float)
    for _ in range(scene["time"]["frames"]):
        for _ in range(substeps):
            now.clear_forces()
            if touching:
                pipeline.collide(now, contacts)
            solver.step(now, then, control, contacts, h)
            now, then = then, now
        yield now.particle_q.numpy().astype(float)
