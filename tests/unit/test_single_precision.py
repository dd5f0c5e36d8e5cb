"""Properties that hold in single precision as well.

A process has one precision, so each case is computed in a separate process and compared here, in double.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
GRAVITY = 9.81  # [m/s^2]

Arrays = dict[str, np.ndarray]


def in_single(folder: Path, compute: Callable[..., Arrays], *arguments: object) -> Arrays:
    """The result of one of the functions below in a process of single precision."""
    path = folder / "computed.npz"
    command = [sys.executable, __file__, compute.__name__, json.dumps(arguments), str(path)]
    environment = {**os.environ, "TOILE_PRECISION": "single"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    with np.load(path) as archive:
        return dict(archive)


def run(scene: str, frames: int, overrides: list[str]) -> Arrays:
    """Positions of every frame, and some values of the certificate."""
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    simulation = Simulation(load(scene, overrides=["outputs=[]", *overrides]))
    found = [(frame.positions, frame.velocities) for frame in simulation.run(frames)]
    entry = simulation.certificate.frames[-1]
    return {
        "positions": np.array([x for x, _ in found]),
        "velocities": np.array([v for _, v in found]),
        "triangles": simulation.model.triangles,
        "masses": simulation.model.masses,
        "contacts": np.array(entry["contacts"]["cloth"]),
        "forces": np.array([solid["force"] for solid in entry["solids"].values()]),
    }


def moved(scene: str, by: list[float]) -> list[str]:
    """Overrides that translate a whole scene."""
    from toile.scene.load import load

    loaded = load(scene)
    found = [f"cloth[{k}].translation" for k in range(len(loaded.cloth))]
    found += [f"solids[{k}].translation" for k in range(len(loaded.solids))]
    places = [item.translation for item in (*loaded.cloth, *loaded.solids)]
    return [f"{key}={(np.array(at) + by).tolist()}" for key, at in zip(found, places, strict=True)]


def intersections_of(found: Arrays) -> int:
    """Intersections over all frames, by the audit, which is exact and in double precision."""
    from toile.contact.intersection_audit import Audit

    audit = Audit(found["triangles"], found["positions"].shape[1], "cpu")
    return sum(audit.count(positions) for positions in found["positions"])


@pytest.mark.parametrize(("scene", "frames"), [("layers", 12), ("drape", 15), ("twist", 36)])
def test_nothing_passes_through_anything(scene, frames, tmp_path):
    found = in_single(tmp_path, run, scene, frames, [])
    assert found["contacts"] > 0
    assert intersections_of(found) == 0


AWAY = [100.0, -100.0, 100.0]  # positions are multiples of 8 um there


def test_nothing_passes_through_anything_100_m_from_the_origin(tmp_path):
    found = in_single(tmp_path, run, "layers", 6, moved("layers", AWAY))
    assert found["contacts"] > 0
    assert intersections_of(found) == 0


def test_a_sheet_swings_the_same_100_m_from_the_origin(tmp_path):
    """Within a hundredth of its path."""
    far, near = in_single(tmp_path, run, "hang", 8, moved("hang", AWAY)), run("hang", 8, [])
    apart = np.linalg.norm(far["positions"][-1] - AWAY - near["positions"][-1], axis=1)
    way = np.linalg.norm(near["positions"][-1] - near["positions"][0], axis=1)
    assert apart.mean() < 0.01 * way.mean()


def warnings(scene: str, overrides: list[str]) -> Arrays:
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    return {"warnings": np.array(Simulation(load(scene, overrides=["outputs=[]", *overrides])).warnings, str)}


def test_coarse_positions_far_from_the_origin_are_reported(tmp_path):
    """At 300 m positions are multiples of 36 um, more than a thousandth of edges of 2 cm; at 100 m they are not."""
    messages = in_single(tmp_path, warnings, "hang", moved("hang", [300.0, 0.0, 0.0]))["warnings"]
    assert len(messages) == 1
    assert "300 m from the origin positions in single precision are multiples of 3.6e-05 m" in messages[0]
    assert not len(in_single(tmp_path, warnings, "hang", moved("hang", AWAY))["warnings"])


def test_cloth_falls_freely_at_any_stiffness(tmp_path):
    """This includes stiff cloth, whose threads contribute 1e5 times the mass to the matrix."""
    tilted = ["cloth[0].rotation=[80,20,10]", "cloth[0].fabric=denim", "cloth[0].shape.resolution=[81,81]"]
    found = in_single(tmp_path, run, "hang", 4, ["constraints=[]", "forces=[]", "time.max_step=0.0333333333", *tilted])
    v = found["masses"] @ found["velocities"][-1] / found["masses"].sum()
    assert v == pytest.approx([0.0, 0.0, -GRAVITY * 4.0 / 30.0], abs=2e-6 * GRAVITY)


def multiply(scene: str, overrides: list[str]) -> Arrays:
    """The matrix of a step times a random vector and a constant one, by its kernels and densely."""
    import warp as wp

    from toile.math.types import vec3
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    simulation = Simulation(load(scene, overrides=["outputs=[]", *overrides]))
    for _ in simulation.run(6):
        pass
    A = simulation.system.A
    x = np.random.default_rng(0).normal(size=(2, A.row_count, 3)).astype(np.float32)
    x[1] = x[1, 0]
    y = wp.zeros(A.row_count, dtype=vec3, device="cpu")
    products = []
    for vector in x:
        A.multiply(wp.array(vector, dtype=vec3, device="cpu"), y)
        products.append(y.numpy().astype(float))
    dense = A.dense()
    written = [(dense @ vector.ravel().astype(float)).reshape(-1, 3) for vector in x]
    groups = sum(int(couplings.count.numpy()[0]) for couplings in A.couplings)
    # Stored blocks are rounded, and the constant vector shows the error.
    rounding = np.abs(dense).sum(axis=1).reshape(-1, 3) * np.abs(x[1]).max() * 2.0**-23
    return {"products": np.array(products), "written": np.array(written), "rounding": rounding, "groups": groups}


FORCES = (
    "[{type: drag, quadratic: 20}, {type: wind, velocity: [0, 1, 0]}, {type: viscous, rate: 20}, "
    "{type: wind_particle, velocity: [0, 1, 0], linear: 20}, {type: pull, target: [0, 0, 1]}]"
)
SYSTEMS = {
    "air": ("hang", ["cloth[0].shape.resolution=[13,13]", f"forces={FORCES}"]),
    "friction": ("incline", []),
    "contacts": ("layers", [f"cloth[{k}].shape.resolution=[9,9]" for k in range(5)]),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_products_match_the_dense_matrix(name, tmp_path):
    """Row sums are stored separately (toile/linear/block_matrix.py), and must be complete."""
    found = in_single(tmp_path, multiply, *SYSTEMS[name])
    assert found["groups"] > 0 or name != "contacts"
    for product, written in zip(found["products"], found["written"], strict=True):
        assert (np.abs(product - written) <= 20.0 * found["rounding"]).all()


def weigh() -> Arrays:
    """A sheet at rest on a floor, and then stretched by a hundredth."""
    import warp as wp

    from toile.math.types import vec3
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    lying = ["constraints=[]", "forces=[]", "solids=[{type: plane}]", "cloth[0].translation=[0,0,0.0005]"]
    simulation = Simulation(load("hang", overrides=["outputs=[]", "cloth[0].shape.resolution=[201,201]", *lying]))
    *_, frame = simulation.run(2)
    solid = next(iter(frame.certificate["solids"].values()))
    stretched = wp.array(1.01 * frame.positions, dtype=vec3, device="cpu")
    strain = simulation.loop.strain.summary(stretched, frame.time)
    means = [strain["warp_mean"], strain["weft_mean"]]
    return {"force": np.array(solid["force"]), "mass": simulation.model.masses.sum(), "means": np.array(means)}


def test_sums_over_many_particles_are_accurate(tmp_path):
    """The force on a floor is the weight of 40,401 particles, and the mean strain that of 80,000 triangles."""
    found = in_single(tmp_path, weigh)
    assert found["force"][2] == pytest.approx(-GRAVITY * found["mass"], rel=1e-6)
    assert found["means"] == pytest.approx(0.01, rel=1e-6)


def resume() -> Arrays:
    """Six frames in one run, and in two of three."""
    from toile.scene.load import load
    from toile.simulation.simulation import Simulation

    scene = load("layers", overrides=["outputs=[]", *SYSTEMS["contacts"][1]])
    whole, first, second = (Simulation(scene) for _ in range(3))
    for simulation, frames in ((whole, 6), (first, 3)):
        for _ in simulation.run(frames):
            pass
    second.load_state_dict(first.state_dict())
    for _ in second.run(6):
        pass
    return {"whole": whole.state.x.numpy(), "resumed": second.state.x.numpy()}


def test_a_resumed_run_has_the_same_bits(tmp_path):
    found = in_single(tmp_path, resume)
    assert found["whole"].dtype == np.float32
    assert np.array_equal(found["whole"], found["resumed"])


def test_times_of_impact_are_never_late():
    """The checks of double precision hold."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    files = [str(HERE / name) for name in ("test_impact_time.py", "test_edges.py")]
    environment = {**os.environ, "TOILE_PRECISION": "single"}
    done = subprocess.run([*command, *files], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout


if __name__ == "__main__":
    name, arguments, path = sys.argv[1:]
    np.savez(path, **globals()[name](*json.loads(arguments)))
