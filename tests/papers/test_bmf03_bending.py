"""[BMF03] sec. 4: claims of its bending model, and printed formulas that need care.

The element here is one hinge of two triangles, numbered as in figure 1 counted from 0: flaps x0, x1, edge x2-x3.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reference.conditions import COMPLEX_STEP, angle, gradient
from reference.sheets import Bench, turned

from toile.energies.bend_mode import BendMode
from toile.model.mesh import Mesh
from toile.model.model import Model, build_model
from toile.scene.load import load
from toile.scene.schema import Fabric, Scene
from toile.shapes.grid import Grid
from toile.simulation.simulation import Simulation

D = 3e-4  # [N m]
DAMPING = 0.02  # [s]
FLAT = np.array([[-0.8, 0.4, 0.0], [0.6, 0.7, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # at rest
TRIANGLES = np.array([[0, 2, 3], [1, 3, 2]], np.int32)


def hinge_model() -> Model:
    uv = FLAT[:, :2][TRIANGLES]
    return build_model(["hinge"], [Mesh(FLAT, TRIANGLES, uv)], [Fabric(damping=DAMPING)], [()])


def hinges(count: int, seed: int = 0) -> list[np.ndarray]:
    """Random hinges, folded by up to 150 degrees, with triangles deformed by up to a third."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        fold = np.radians(rng.uniform(-150.0, 150.0))
        x = FLAT + rng.uniform(-0.1, 0.1, FLAT.shape)
        arm = x[1, 0]
        x[1, 0], x[1, 2] = arm * np.cos(fold), x[1, 2] + arm * np.sin(fold)
        found.append(turned(x, rng)[0])
    return found


def modes(x: np.ndarray) -> np.ndarray:
    """The eleven motions that do not bend: three translations, three rotations, each flap in its plane, the edge."""
    e = (x[3] - x[2]) / np.linalg.norm(x[3] - x[2])
    found = [np.tile(axis, (4, 1)) for axis in np.eye(3)]
    found += [np.cross(axis, x - x.mean(axis=0)) for axis in np.eye(3)]
    for flap in (0, 1):
        for direction in (x[2] - x[flap], x[3] - x[flap]):
            found.append(np.zeros((4, 3)))
            found[-1][flap] = direction
    found.append(np.array([np.zeros(3), np.zeros(3), -e, e]))
    return np.array([mode / np.linalg.norm(mode) for mode in found])


def test_forces_act_on_the_twelfth_mode_alone(device: str) -> None:
    """Elastic and damping forces are orthogonal to the other eleven modes, which are independent; to rounding."""
    tested = Bench.of(hinge_model(), [BendMode(rigidity=D, rest_angle=25.0)], device)
    rng = np.random.default_rng(1)
    for x in hinges(100):
        assert np.linalg.matrix_rank(modes(x).reshape(11, 12)) == 11
        elastic = tested.force(x)
        damping = tested.force(x, rng.normal(size=x.shape)) - elastic
        for force in (elastic, damping):
            along = np.abs(np.sum(modes(x) * force, axis=(1, 2)))
            assert along.max() <= 1e-12 * np.linalg.norm(force)


def test_damping_dissipates_in_bending_alone(device: str) -> None:
    """-k_d (dtheta/dt)^2 for the bending mode, with k_d = damping D |e|^2/(A0 + A1); zero for the other eleven."""
    tested = Bench.of(hinge_model(), [BendMode(rigidity=D, rest_angle=25.0)], device)
    area = 0.5 * (0.8 + 0.6)
    for x in hinges(50, seed=2):
        slope = gradient(angle, x)
        elastic = tested.force(x)
        power = np.sum((tested.force(x, slope) - elastic) * slope)
        assert power == pytest.approx(-DAMPING * D / area * np.sum(slope * slope) ** 2, rel=1e-10)
        for mode in modes(x):
            mode = mode * np.linalg.norm(slope)
            assert np.abs(tested.force(x, mode) - elastic).max() <= 1e-12 * np.abs(tested.force(x, slope)).max()


def printed_mode(x: np.ndarray) -> np.ndarray:
    """u as printed, also for complex positions."""
    N1, N2, E = np.cross(x[0] - x[2], x[0] - x[3]), np.cross(x[1] - x[3], x[1] - x[2]), x[3] - x[2]
    a1, a2, length = N1 / np.sum(N1 * N1), N2 / np.sum(N2 * N2), np.sqrt(np.sum(E * E))
    return np.array([
        length * a1,
        length * a2,
        np.sum((x[0] - x[3]) * E) / length * a1 + np.sum((x[1] - x[3]) * E) / length * a2,
        -np.sum((x[0] - x[2]) * E) / length * a1 - np.sum((x[1] - x[2]) * E) / length * a2,
    ])  # fmt: skip


def test_the_printed_mode_is_minus_the_gradient_of_the_angle() -> None:
    """So dtheta/dt is minus the printed sum, and F^d = -k_d |E| (dtheta/dt) u would drive the motion it should damp."""
    for x in hinges(20, seed=3):
        np.testing.assert_allclose(printed_mode(x), -gradient(angle, x), rtol=0, atol=1e-11)


def printed_force(x: np.ndarray, factors_at: np.ndarray | None) -> np.ndarray:
    """F^e as printed with k_e = 1 and theta0 = 0; the factor |E|^2/(|N1| + |N2|) of another shape when one is given."""
    at = x if factors_at is None else factors_at
    N1, N2, E = np.cross(at[0] - at[2], at[0] - at[3]), np.cross(at[1] - at[3], at[1] - at[2]), at[3] - at[2]
    factor = np.sum(E * E) / (np.sqrt(np.sum(N1 * N1)) + np.sqrt(np.sum(N2 * N2)))
    theta = angle(x)
    sine = np.sin(theta / 2)
    return factor * sine * printed_mode(x)


def asymmetry(factors_at: np.ndarray | None, x: np.ndarray) -> float:
    """Asymmetry of the Jacobian of the printed force, by complex steps, relative to its norm."""
    J = np.zeros((12, 12))
    for column, place in enumerate(np.ndindex(4, 3)):
        moved = x.astype(complex)
        moved[place] += 1j * COMPLEX_STEP
        J[:, column] = np.imag(printed_force(moved, factors_at)).ravel() / COMPLEX_STEP
    return float(np.linalg.norm(J - J.T) / np.linalg.norm(J))


def test_the_force_has_an_energy_only_with_factors_of_the_rest_shape(device: str) -> None:
    """A force that is a gradient has a symmetric Jacobian: 1e-10 with constant factors, about 30 % without."""
    found = hinges(50, seed=4)
    assert max(asymmetry(FLAT, x) for x in found) < 1e-10
    current = [asymmetry(None, x) for x in found]
    assert min(current) > 0.1 and np.median(current) > 0.2
    # With constant factors, it is the force of the energy with k_e = 4 D.
    tested = Bench.of(hinge_model(), [BendMode(rigidity=D)], device)
    for x in found:
        expected = 4.0 * D * printed_force(x, FLAT).real
        np.testing.assert_allclose(tested.force(x), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


# Rigidity over k_e by direction of bending: the anisotropy of a hinge model (docs/papers.md).
DIRECTIONS = (0.0, 15.0, 30.0, 45.0, 135.0)
RIGIDITY: dict[str, tuple[float, ...]] = {
    "alternating": (0.25, 0.28125, 0.34375, 0.375, 0.375),
    "single": (0.25, 0.4375, 0.654006, 0.75, 0.25),
}


def bent(diagonals: str, cells: int, cell: float, curvature: float, degrees: float) -> tuple[Model, np.ndarray]:
    """A square patch, and positions on the surface z = curvature s^2/2, s along a direction."""
    size = cells * cell
    mesh = Grid(size=(size, size), resolution=(cells + 1, cells + 1), diagonals=diagonals).mesh(Path())
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    x = np.array(mesh.positions)
    x[:, 2] = 0.5 * curvature * (x[:, 0] * c + x[:, 1] * s) ** 2
    return build_model(["patch"], [mesh], [Fabric(damping=DAMPING)], [()]), x


def per_area(device: str, diagonals: str, cell: float, degrees: float, of: str) -> float:
    """Energy, or power of damping, per area and per square of the curvature or of its rate, without edge effects.

    A patch of n by n cells has a n^2 + b n + c, because cells at the edge lack hinges; a follows from three patches.
    """
    curvature = 1e-5 / cell  # flat enough: the error is quadratic in slopes below 1e-4
    totals = []
    for cells in (4, 8, 12):
        model, x = bent(diagonals, cells, cell, curvature, degrees)
        tested = Bench.of(model, [BendMode(rigidity=D)], device)
        if of == "energy":
            totals.append(tested.energy(x))
        else:
            flat = x * np.array([1.0, 1.0, 0.0])
            totals.append(-np.sum(tested.force(flat, x - flat) * (x - flat)))
    return (totals[2] - 2.0 * totals[1] + totals[0]) / 32.0 / cell**2 / curvature**2


@pytest.mark.parametrize("cell", [0.04, 0.02, 0.01])
@pytest.mark.parametrize("diagonals", RIGIDITY)
def test_stiffness_is_that_of_the_material_on_every_mesh(diagonals: str, cell: float, device: str) -> None:
    """Energy per area is D_eff curvature^2/2 at every resolution, and the power of damping D_eff damping rate^2.

    D_eff/k_e by direction: the same for every size of cells, as claimed, but not for every direction.
    """
    for degrees, expected in zip(DIRECTIONS, RIGIDITY[diagonals], strict=True):
        assert per_area(device, diagonals, cell, degrees, "energy") == pytest.approx(2.0 * D * expected, rel=1e-6)
        power = per_area(device, diagonals, cell, degrees, "power")
        assert power == pytest.approx(4.0 * D * DAMPING * expected, rel=1e-6)


def printed_damping(cell: float) -> float:
    """Power of F^d as printed, with k_d = 1, per area and per square of the rate of curvature, without edge effects."""
    totals = []
    for cells in (2, 4, 6):
        model, x = bent("alternating", cells, cell, 1.0, 0.0)
        v, flat = x * np.array([0.0, 0.0, 1.0]), x * np.array([1.0, 1.0, 0.0])
        total = 0.0
        for points in model.hinges:
            rate = np.sum(printed_mode(flat[points]) * v[points])
            total += float(np.linalg.norm(flat[points[3]] - flat[points[2]]) * rate**2)
        totals.append(total)
    return (totals[2] - 2.0 * totals[1] + totals[0]) / 8.0 / cell**2


def test_printed_damping_vanishes_as_the_mesh_is_refined() -> None:
    """With the printed factor |E|, the power of damping halves with the cells; Toile uses the elastic factor."""
    found = [printed_damping(cell) for cell in (0.04, 0.02, 0.01)]
    np.testing.assert_allclose(np.divide(found[1:], found[:-1]), 0.5, rtol=1e-9)


# Scenes


def off_shape(x: np.ndarray, rest: np.ndarray) -> float:
    """Root mean square distance from a shape, after the best rigid alignment [m]."""
    a, b = x - x.mean(axis=0), rest - rest.mean(axis=0)
    U, _, V = np.linalg.svd(a.T @ b)
    turn = U @ np.diag([1.0, 1.0, np.sign(np.linalg.det(U @ V))]) @ V
    return float(np.sqrt(np.mean(np.sum((a - b @ turn.T) ** 2, axis=1))))


def ends_of(device: str, scene: Scene) -> dict[str, tuple[float, float]]:
    """Height of each figure at the end over that at the start, and its distance from its shape [m]."""
    simulation = Simulation(scene, device)
    first, *_, last = simulation.run()
    assert simulation.report()["summary"]["ok"]
    return {
        part.name: (
            float(np.ptp(last.positions[part.particles, 2]) / np.ptp(first.positions[part.particles, 2])),
            off_shape(last.positions[part.particles], first.positions[part.particles]),
        )
        for part in simulation.model.parts
    }


def coarse(name: str, number: int, frames: int) -> Scene:
    """One figure of a scene."""
    overrides = [f"cloth[{number}].shape.resolution=[20, 26]", f"time.frames={frames}", "outputs=[]"]
    scene = load(name, overrides=overrides)
    return scene.model_copy(update={"cloth": scene.cloth[number : number + 1]})


def test_a_stiff_figure_stands_where_a_soft_one_collapses(device: str) -> None:
    """Figures 3 and 4: the same figure on coarse meshes, before a ball is pressed into the stiff ones."""
    soft = ends_of(device, coarse("bmf03_balloon", 0, frames=20))["sculpted"]
    stiff = ends_of(device, coarse("bmf03_bottle", 1, frames=20))["springy"]
    assert soft[0] < 0.7 and stiff[0] > 0.9
    assert stiff[1] < 0.01 < 0.05 < soft[1]


@pytest.mark.slow
def test_dents_remain_in_film_and_not_in_stiff_figures(device: str) -> None:
    """As shipped. The balloon folds to about half its height; the dent in the film remains, and the dent in the figure
    where bending dominates does not."""
    soft = ends_of(device, load("bmf03_balloon", overrides=["outputs=[]"]))
    assert soft["sculpted"][0] < 0.55  # 0.42 to 0.52 for starts some millimeters apart
    assert soft["sculpted"][1] > 0.05
    stiff = ends_of(device, load("bmf03_bottle", overrides=["outputs=[]"]))
    assert stiff["film"][0] > 0.8 and stiff["springy"][0] > 0.9
    assert stiff["springy"][1] < 0.01 < stiff["film"][1] < 0.03
