"""Runs a scene of the scoreboard with Newton; `run` yields the positions of each frame.

    springs (xpbd):     C = [[a + d/2, d/2], [d/2, a + d/2]],  shear d/2,  C_11 - C_12^2 / C_11 = k
    triangles (vbd):    mu = k / 2, lambda = 0, so that a strip has the stiffness k
    hinges:             E = K theta^2 / 2,  K = D |e|^2 / (A_1 + A_2)

Springs lie along the sides of triangles, half a spring for each triangle: `a` along warp and weft, `d` across, so that
a strip has the stiffness k and shear is that of the scene. The solver for springs multiplies the angle of a hinge by
|e| where the gradient is |e| / 2A: it gets K / 2A. The solver for triangles multiplies by |e|: it gets K / |e|.

Source      Newton's examples/cloth/example_cloth_hanging.py for the settings `example`, and example_cloth_twist.py for
            the contact of cloth with itself
Symbols     k  stretch stiffness [N/m]     D  bending rigidity [N m]     e  edge of a hinge [m]     A  area [m^2]
Deviations  Triangles have shear k / 2. Newton computes in float32. xpbd has spheres at the vertices for contact between
            cloths. Particles and their grid are left out of scenes without contact, which halves the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

# Substeps are per frame, and even, because launches are captured once and replayed. The examples have 10 in 1/60 s.
SETTINGS: dict[str, dict[str, Any]] = {
    "xpbd example": {"solver": "xpbd", "substeps": 20, "iterations": 10},
    "vbd example": {"solver": "vbd", "substeps": 20, "iterations": 10},
    "xpbd 320": {"solver": "xpbd", "substeps": 320, "iterations": 1},
    "xpbd 640": {"solver": "xpbd", "substeps": 640, "iterations": 1},
    "xpbd 360 undamped": {"solver": "xpbd", "substeps": 360, "iterations": 1, "damping": 0.0},  # of that of the scene
    "vbd 100": {"solver": "vbd", "substeps": 100, "iterations": 1},
    "vbd converged": {"solver": "vbd", "substeps": 20, "iterations": 400},
    "vbd 2": {"solver": "vbd", "substeps": 2, "iterations": 10},
}


def version() -> str:
    import newton
    import warp

    return f"newton {newton.__version__}, warp {warp.__version__}"


def spring_stiffness(k: float, shear: float) -> tuple[float, float]:
    """Stiffness along the threads and across, `a` and `d` above [N/m]."""
    across = 2.0 * shear
    return 0.5 * (k + np.sqrt(k**2 + across**2)) - 0.5 * across, across


def add_springs(builder: Any, scene: dict[str, Any], damping: float) -> None:
    """Adds a spring for each side of the triangles, half as stiff at the border, which has one triangle."""
    material = scene["material"]
    along, across = spring_stiffness(material["stretch_warp"], material["shear"])
    triangles, uv = np.array(scene["triangles"]), np.array(scene["uv"])
    stiffness: dict[tuple[int, int], float] = {}
    for corners, places in zip(triangles, uv, strict=True):
        for i, j in ((0, 1), (1, 2), (2, 0)):
            side = np.abs(places[i] - places[j])
            threads = side.min() < 1e-6 * side.max()
            pair = (int(min(corners[i], corners[j])), int(max(corners[i], corners[j])))
            stiffness[pair] = stiffness.get(pair, 0.0) + 0.5 * (along if threads else across)
    for (i, j), k in stiffness.items():
        builder.add_spring(i, j, k, damping * k, 0.0)


def set_hinges(builder: Any, scene: dict[str, Any], solver: str, damping: float) -> None:
    """Sets the bending of each hinge; the cloth is flat and unstretched at the start."""
    x, material = np.array(scene["vertices"]), scene["material"]
    for at, (i, j, k, l) in enumerate(np.reshape(builder.edge_indices, (-1, 4))):  # noqa: E741
        if min(i, j) < 0:
            continue  # the border
        edge = x[l] - x[k]
        length, areas = np.linalg.norm(edge), [0.5 * np.linalg.norm(np.cross(x[p] - x[k], edge)) for p in (i, j)]
        hinge = material["bend_warp"] * length**2 / sum(areas)
        given = hinge / sum(areas) if solver == "xpbd" else hinge / length
        builder.edge_bending_properties[at] = (given, damping * given if solver == "xpbd" else 0.0)


def build(scene: dict[str, Any], settings: dict[str, Any]) -> Any:
    import newton
    import warp as wp

    material, contact, solver = scene["material"], scene["contact"], settings["solver"]
    damping = material["damping"] * settings.get("damping", 1.0)
    builder = newton.ModelBuilder(gravity=tuple(scene["gravity"]))
    k = material["stretch_warp"] if solver == "vbd" else 0.0
    builder.add_cloth_mesh(
        pos=wp.vec3(), rot=wp.quat_identity(), scale=1.0, vel=wp.vec3(),
        vertices=[wp.vec3(*x) for x in scene["vertices"]], indices=np.ravel(scene["triangles"]).tolist(),
        density=material["density"], tri_ke=0.5 * k, tri_ka=0.0, tri_kd=0.25 * k * damping,
        edge_ke=0.0, edge_kd=0.0, particle_radius=settings.get("radius") or contact["solid_thickness"] or 1e-3,
    )  # fmt: skip
    if solver == "xpbd":
        add_springs(builder, scene, damping)
    if material["bend_warp"]:
        set_hinges(builder, scene, solver, damping)
    for pin in scene["pins"]:
        builder.particle_mass[pin["vertex"]] = 0.0
        builder.particle_flags[pin["vertex"]] &= ~int(newton.ParticleFlags.ACTIVE)
    for solid in scene["solids"]:
        shape = newton.Mesh(np.array(solid["vertices"], np.float32), np.ravel(solid["triangles"]))
        builder.add_shape_mesh(-1, mesh=shape, cfg=newton.ModelBuilder.ShapeConfig(mu=solid["friction"]))
    if solver == "vbd":
        builder.color(include_bending=True)
    model = builder.finalize(device="cpu")
    if solver == "xpbd" and not material["bend_warp"]:
        model.edge_count = 0  # otherwise it would pass through them
    if scene["solids"]:
        model.soft_contact_ke, model.soft_contact_kd = 1e3, 0.1  # of cloth_twist
        model.soft_contact_mu, model.particle_mu = scene["solids"][0]["friction"], contact["cloth_friction"]
    else:
        model.particle_grid, model.particle_max_radius = None, 0.0
    return model


def make_solver(model: Any, scene: dict[str, Any], settings: dict[str, Any]) -> Any:
    import newton

    if settings["solver"] == "xpbd":
        return newton.solvers.SolverXPBD(model, iterations=settings["iterations"])
    contact = {}
    if scene["solids"]:
        thickness = scene["contact"]["cloth_thickness"]
        contact = {"particle_self_contact_margin": thickness, "particle_self_contact_gap": 0.75 * thickness}
    return newton.solvers.SolverVBD(
        model, iterations=settings["iterations"], particle_enable_self_contact=bool(contact), **contact
    )


def run(scene: dict[str, Any], settings: dict[str, Any]) -> Iterator[np.ndarray]:
    """Yields the start, and then every frame."""
    import newton
    import warp as wp

    wp.config.quiet = True
    model = build(scene, settings)
    solver, has_solids = make_solver(model, scene, settings), bool(scene["solids"])
    states, control = [model.state(), model.state()], model.control()
    pipeline = newton.CollisionPipeline(model) if has_solids else None
    contacts = pipeline.contacts() if pipeline else None
    h = 1.0 / scene["time"]["fps"] / settings["substeps"]

    def frame() -> None:
        for _ in range(settings["substeps"]):
            states[0].clear_forces()
            if pipeline:
                pipeline.collide(states[0], contacts)
            solver.step(states[0], states[1], control, contacts, h)
            states.reverse()

    frame()  # kernels are loaded before launches are captured
    with wp.ScopedCapture(device="cpu") as capture:
        frame()
    for state in states:
        state.assign(model.state())
    yield states[0].particle_q.numpy().astype(float)
    for _ in range(scene["time"]["frames"]):
        wp.capture_launch(capture.graph)
        yield states[0].particle_q.numpy().astype(float)
