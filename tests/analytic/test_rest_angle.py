"""Bending with rest angles: the rest shape is an equilibrium, and a perturbed shape returns to it.

    W'(theta) = 0 at theta0 alone,    whatever the stiffness

The strips fold along a line across their middle. Angles are measured here by acos and the side on which the flap lies,
which shares only the definition with the kernels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.sheets import Bench, turned

from toile.energies.base import Energy
from toile.energies.bend_mode import BendMode
from toile.energies.shear import Shear
from toile.energies.stretch import Stretch
from toile.model.mesh import Mesh, find_edges
from toile.model.model import Model, build_model
from toile.scene.load import load
from toile.scene.schema import Fabric, Scene
from toile.shapes.grid import Grid
from toile.simulation.simulation import Simulation

EDGE = 0.01  # [m]
FABRIC = Fabric(density=0.2, stretch_warp=1e3, stretch_weft=1e3, shear=1e2, damping=0.0)
STIFFNESSES = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]  # [N m]


def folded(degrees: float, columns: int = 7, rows: int = 3) -> Mesh:
    """A strip along x whose right half is rotated down about y, so that its upper side, the front, is convex."""
    flat = Grid(size=((columns - 1) * EDGE, (rows - 1) * EDGE), resolution=(columns, rows)).mesh(Path())
    x, y, _ = flat.positions.T
    fold, along = np.radians(degrees), np.maximum(x, 0.0)
    positions = np.column_stack([np.minimum(x, 0.0) + along * np.cos(fold), y, -along * np.sin(fold)])
    return replace(flat, positions=positions)


def angles(mesh: Mesh, x: np.ndarray) -> np.ndarray:
    """The angle of every hinge [rad]; positive where the flap lies behind the first triangle."""
    x0, x1, x2, x3 = (x[find_edges(mesh.triangles).hinges[:, a]] for a in range(4))
    n0, n1 = np.cross(x2 - x0, x3 - x0), np.cross(x3 - x1, x2 - x1)
    n0, n1 = (n / np.linalg.norm(n, axis=1, keepdims=True) for n in (n0, n1))
    between = 2.0 * np.arcsin(np.clip(0.5 * np.linalg.norm(n1 - n0, axis=1), 0.0, 1.0))
    return between * np.where(np.sum((x1 - x2) * n0, axis=1) > 0.0, -1.0, 1.0)


def model_of(mesh: Mesh) -> Model:
    return build_model(["strip"], [mesh], [FABRIC], [()])


def relaxed(tested: Bench, x: np.ndarray, iterations: int = 200) -> np.ndarray:
    """Minimizes the energy by Newton's method with the matrix of implicit steps; a step is at most a fifth of an
    edge."""
    h, at_rest = 100.0, np.zeros_like(x)
    for _ in range(iterations):
        A, f = tested.linearized(x, at_rest, h)
        dx = h * h * np.linalg.solve(A.dense(), f.ravel()).reshape(x.shape)
        largest = np.abs(dx).max()
        x = x + dx * min(1.0, 0.2 * EDGE / largest)
        if largest < 1e-13:
            break
    return x


@pytest.mark.parametrize("degrees", [30.0, -30.0, 90.0, 170.0, -170.0])
def test_positive_angles_are_convex_on_the_front(degrees: float) -> None:
    """The fold has its angle and all other hinges are flat, by the measure of this file."""
    mesh = folded(degrees)
    theta = angles(mesh, mesh.positions)
    across = np.abs(folded(0.0).positions[find_edges(mesh.triangles).hinges[:, 2:], 0]).max(axis=1) < 1e-12
    assert np.count_nonzero(across) == 2
    np.testing.assert_allclose(theta[across], np.radians(degrees), atol=1e-12)
    np.testing.assert_allclose(theta[~across], 0.0, atol=1e-7)


@pytest.mark.parametrize("degrees", [30.0, 90.0, 170.0, -170.0])
def test_the_rest_shape_is_an_equilibrium(degrees: float, device: str) -> None:
    """f = 0 relative to the force of the same strip when flat, at any rotation, and the energy is zero."""
    model = model_of(folded(degrees))
    tested = Bench.of(model, [BendMode(rest_angle="shape", rigidity=1e-4)], device)
    flat = folded(0.0).positions
    rest, _ = turned(model.parts[0].mesh.positions, np.random.default_rng(0))
    assert np.abs(tested.force(rest)).max() <= 1e-12 * np.abs(tested.force(flat)).max()
    assert tested.energy(rest) <= 1e-24 * tested.energy(flat)


@pytest.mark.parametrize("rigidity", STIFFNESSES)
@pytest.mark.parametrize("degrees", [30.0, 90.0, 170.0])
def test_a_perturbed_fold_returns_to_its_rest_angle(degrees: float, rigidity: float, device: str) -> None:
    """Every hinge returns to within 1e-6 rad of its rest angle, over six decades of stiffness.

    Perturbed by up to 3 % of an edge each way, some degrees at every hinge; more would close the fold of 170 degrees.
    """
    mesh = folded(degrees)
    bending = BendMode(rest_angle="shape", rigidity=rigidity)
    tested = Bench.of(model_of(mesh), [Stretch(), Shear(), bending], device)
    x = mesh.positions + np.random.default_rng(1).uniform(-0.03 * EDGE, 0.03 * EDGE, mesh.positions.shape)
    at_rest = angles(mesh, mesh.positions)
    assert np.abs(angles(mesh, x) - at_rest).max() > 0.03
    assert np.abs(angles(mesh, relaxed(tested, x)) - at_rest).max() < 1e-6


@pytest.mark.parametrize("degrees", [30.0, 90.0, 170.0, -90.0])
def test_a_flat_strip_folds_to_its_rest_angle(degrees: float, device: str) -> None:
    """From flat to a rest angle that is given as a number: a square with one hinge."""
    mesh = folded(0.0, columns=2, rows=2)
    tested = Bench.of(model_of(mesh), [Stretch(), Shear(), BendMode(rest_angle=degrees, rigidity=1e-4)], device)
    start = np.array(mesh.positions)
    start[0, 2] += 1e-3 * EDGE * -np.sign(degrees)
    theta = angles(mesh, relaxed(tested, start))
    np.testing.assert_allclose(theta, np.radians(degrees), atol=1e-6)


def strip_obj(path: Path, mesh: Mesh, scale: float = 1.0) -> Path:
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in (scale * mesh.positions).tolist()]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in mesh.triangles.tolist()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def simulate(
    device: str,
    folder: Path,
    rest_angle: Any,
    frames: int,
    fps: float = 60.0,
    step: float = 1.0 / 60.0,
    soft: dict[str, float] | None = None,
    **scene: Any,
) -> Simulation:
    """A flat strip in free space, strongly damped."""
    made = Scene(
        time={"frames": frames, "fps": fps, "max_step": step},
        gravity=(0.0, 0.0, 0.0),
        cloth=[{
            "shape": {"type": "grid", "size": (6 * EDGE, 2 * EDGE), "resolution": (7, 3)},
            "fabric": {**FABRIC.model_dump(), "damping": 0.02, **(soft or {})},
            "energies": ["stretch", "shear", {"type": "bend_mode", "rigidity": 1e-4, "rest_angle": rest_angle}],
        }],
        **scene,
    )  # fmt: skip
    path = folder / "scene.json"  # paths are relative to the folder of the file
    path.write_text(made.model_dump_json(), encoding="utf-8")
    return Simulation(load(path), device)


@pytest.mark.parametrize("integrator", ["implicit_bdf2", "implicit_euler"])
def test_a_run_folds_a_strip_to_the_shape_in_a_file(integrator: str, device: str, tmp_path: Path) -> None:
    """In 2 s, from flat to the fold of 90 degrees of the file, which is in millimeters and at another place.

    With damping k_d = 0.02 s k, all modes of the strip decay in far less than a second; 1e-6 rad.
    """
    sculpted = turned(folded(90.0).positions, np.random.default_rng(3))[0]
    strip_obj(tmp_path / "fold.obj", replace(folded(90.0), positions=sculpted), 1e3)
    simulation = simulate(device, tmp_path, "fold.obj", 120, integrator=integrator)
    *_, last = simulation.run()
    mesh = simulation.model.parts[0].mesh
    np.testing.assert_allclose(angles(mesh, last.positions), angles(mesh, sculpted), atol=1e-6)
    assert last.certificate is not None
    assert last.certificate["energy"]["bend_mode"] < 1e-15


def test_explicit_and_implicit_steps_bend_alike(device: str, tmp_path: Path) -> None:
    """A fold of 90 degrees opened to 70 closes again: the same angles at every frame, to the error of steps of 20 us.

    Errors of first order are some h w of the angles, 1 % at frequencies w of up to 500/s.
    """
    mesh = folded(90.0)
    strip_obj(tmp_path / "fold.obj", mesh)
    soft = {"stretch_warp": 50.0, "stretch_weft": 50.0, "shear": 10.0, "damping": 1e-3}
    found = []
    for integrator in ("implicit_bdf2", "mixed_robust", "explicit_euler"):
        simulation = simulate(device, tmp_path, "fold.obj", 4, fps=400.0, step=2e-5, soft=soft, integrator=integrator)
        simulation.state.x.assign(folded(70.0).positions)
        found.append(np.array([angles(mesh, frame.positions) for frame in simulation.run()]))
    fold = np.argmax(found[0][0])
    assert np.degrees(found[0][0, fold]) == pytest.approx(70.0)
    assert np.degrees(np.ptp(found[0][:, fold])) > 10.0
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=0.01 * np.radians(20.0))


def test_the_rest_shape_of_a_file_is_part_of_the_input_hash(device: str, tmp_path: Path) -> None:
    """Two runs whose rest shapes differ have different input hashes."""
    hashes = []
    for degrees in (90.0, 90.0, 89.0):
        strip_obj(tmp_path / "fold.obj", folded(degrees))
        hashes.append(simulate(device, tmp_path, "fold.obj", 0).report()["hash"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_hinges_at_180_degrees_have_a_finite_force(device: str) -> None:
    """At +-180 degrees the force is finite and acts towards theta0, and the matrix has no stiffness.

    W' = 2 k (1 - sin(theta0/2)) on one side and -2 k (1 + sin(theta0/2)) on the other; energies differ by the work of
    unfolding and folding again, 4 pi k sin(theta0/2).
    """
    mesh, k = folded(0.0, columns=2, rows=2), 1e-4
    theta0 = np.radians(60.0)
    energy: Energy = BendMode(rest_angle=60.0, rigidity=k)
    tested = Bench.of(model_of(mesh), [energy], device)
    weight = 2.0  # |e|^2 / (A0 + A1) of half squares
    for sign in (1.0, -1.0):
        x = diagonal_fold(mesh, sign * (np.pi - 1e-7))
        outwards = diagonal_fold(mesh, sign * (np.pi - 1e-7) + 1e-6) - diagonal_fold(mesh, sign * (np.pi - 1e-7) - 1e-6)
        slope = -np.sum(tested.force(x) * outwards) / 2e-6
        assert slope == pytest.approx(2.0 * weight * k * (sign - np.sin(theta0 / 2)), rel=1e-5)
        K = tested.matrices(x, np.zeros_like(x))[2]
        flat_K = tested.matrices(mesh.positions, np.zeros_like(x))[2]
        assert 0.0 <= np.abs(K).max() < 1e-6 * np.abs(flat_K).max()
    energies = [tested.energy(diagonal_fold(mesh, sign * (np.pi - 1e-9))) for sign in (1.0, -1.0)]
    assert energies[1] - energies[0] == pytest.approx(4.0 * np.pi * weight * k * np.sin(theta0 / 2), rel=1e-6)


def diagonal_fold(mesh: Mesh, theta: float) -> np.ndarray:
    """The square of two triangles, one of them rotated about the diagonal."""
    flap, _, start, end = find_edges(mesh.triangles).hinges[0]
    x = np.array(mesh.positions)
    e = (x[end] - x[start]) / np.linalg.norm(x[end] - x[start])
    arm = x[flap] - x[start]
    arm = arm - (arm @ e) * e
    x[flap] += (np.cos(theta) - 1.0) * arm - np.sin(theta) * np.linalg.norm(arm) * np.array([0.0, 0.0, 1.0])
    return x
