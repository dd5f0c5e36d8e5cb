"""Springs, viscous damping and wind on particles against closed forms.

spring      F = K (l - l0) towards each other;  the fabric's stiffness when K is not given
viscous     v(t) = v0 exp(-c t);  by backward Euler v_n = v0/(1 + c h)^n
wind        F = c A (n . (u - v)) n;  a falling sheet approaches rho g/c
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analytic.sheets import DENSITY, G, put, sheet, velocities
from reference.sheets import Bench

from toile.energies.spring import Spring
from toile.energies.wind_particle import WindParticle
from toile.model.mesh import Mesh
from toile.model.model import Model, build_model
from toile.model.springs import FLEXION, STRUCTURAL, springs_of
from toile.scene.schema import Fabric, Scene
from toile.shapes.disc import Disc
from toile.shapes.grid import Grid
from toile.shapes.revolved import Revolved

FABRIC = Fabric(density=0.2, stretch_warp=900.0, stretch_weft=600.0, shear=40.0, bend_warp=3e-4, bend_weft=1e-4)
NOTHING = {"structural": 0.0, "shear": 0.0, "flexion": 0.0}


def model_of(mesh: Mesh, fabric: Fabric = FABRIC) -> Model:
    return build_model(["cloth"], [mesh], [fabric], [()])


def grid(resolution: tuple[int, int] = (9, 6), size: tuple[float, float] = (1.2, 0.5)) -> Mesh:
    return Grid(size=size, resolution=resolution, diagonals="single").mesh(Path())


def energy(device: str, mesh: Mesh, x: np.ndarray, **given: Any) -> float:
    return Bench.of(model_of(mesh), [Spring.model_validate(given)], device).energy(x)


def test_a_stretched_spring_pulls(device: str) -> None:
    """One cell of 0.5 m, its sides along x stretched to 0.8 m: every corner is pulled inwards by 0.3 K, and by nothing
    else. [Pro95] eq. (1) as printed would push it outwards."""
    mesh = grid((2, 2), (0.5, 0.5))
    x = mesh.positions * np.array([1.6, 1.0, 1.0])
    force = Bench.of(model_of(mesh), [Spring(structural=70.0, shear=0.0, flexion=0.0)], device).force(x)
    np.testing.assert_allclose(force[:, 0], -70.0 * 0.3 * np.sign(x[:, 0]), rtol=1e-13)
    np.testing.assert_allclose(force[:, 1:], 0.0, atol=1e-12)


def test_a_compressed_spring_pushes_and_keeps_the_matrix_positive(device: str) -> None:
    """At half its length: the force in closed form, and no negative eigenvalue where the Hessian has some."""
    mesh = grid((2, 2), (0.5, 0.5))
    x = 0.5 * mesh.positions
    tested = Bench.of(model_of(mesh), [Spring(structural=70.0, shear=0.0, flexion=0.0, damping=0.0)], device)
    np.testing.assert_allclose(tested.force(x)[:, :2], 70.0 * 0.25 * np.sign(x[:, :2]), rtol=1e-13)
    K = tested.matrices(x, np.zeros_like(x))[2]
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * 70.0
    step = 1e-6
    columns = []
    for place in np.ndindex(*x.shape):
        offset = np.zeros_like(x)
        offset[place] = step
        columns.append((tested.force(x + offset) - tested.force(x - offset)).ravel() / (2.0 * step))
    assert np.linalg.eigvalsh(-np.array(columns)).min() < -10.0


def test_stretched_springs_have_the_energy_of_the_fabric(device: str) -> None:
    """E = A k e^2/2 along u and along v, at any strain: the springs of each direction cover the whole area once."""
    mesh = grid()
    for axis, k in ((0, FABRIC.stretch_warp), (1, FABRIC.stretch_weft)):
        stretch = np.ones(3)
        stretch[axis] = 1.3
        found = energy(device, mesh, mesh.positions * stretch, shear=0.0, flexion=0.0)
        assert found == pytest.approx(0.5 * k * 0.3**2 * 0.6, rel=1e-12)


def test_springs_of_a_square_grid_have_the_stiffness_of_the_fabric() -> None:
    """k inside and k/2 along the border; G; 16 D per square of an edge."""
    fabric = FABRIC.model_copy(update={"stretch_weft": 900.0, "bend_weft": 3e-4})
    mesh = grid((5, 5), (0.4, 0.4))
    part = model_of(mesh, fabric).parts[0]
    springs = springs_of(part)
    K = Spring().stiffness(part, springs)
    middle = np.abs(mesh.positions[springs.particles].mean(axis=1)[:, :2]).max(axis=1)
    border = np.isclose(middle, 0.2)
    np.testing.assert_allclose(K[springs.kind == 0], np.where(border, 450.0, 900.0)[springs.kind == 0], rtol=1e-12)
    np.testing.assert_allclose(K[springs.kind == 1], 40.0, rtol=1e-12)
    np.testing.assert_allclose(K[springs.kind == 2], 16.0 * 3e-4 / 0.1**2, rtol=1e-12)


def test_springs_of_a_skirt_have_the_stiffness_of_the_fabric() -> None:
    """Its u goes around it. Springs of [Ye08]: k A/l0^2, with the stiffness of the warp around it and nearly that of
    the
    weft along it; 64 D/l0^2 across one particle."""
    mesh = Revolved(profile=((0.4, 0.0), (0.15, 0.5)), resolution=(18, 6)).mesh(Path())
    scene = Scene(preset="ye08", cloth=[{"shape": {"type": "grid"}}])
    (given,) = (energy for energy in scene.cloth[0].energies if isinstance(energy, Spring))
    model = model_of(mesh)
    part = model.parts[0]
    springs = springs_of(part)
    level = np.ptp(mesh.positions[springs.particles, 2], axis=1) < 1e-12
    area = np.zeros(len(springs.lengths))
    for triangle, own in zip(mesh.triangles, mesh.uv_areas(), strict=True):
        area[np.isin(springs.particles, triangle).all(axis=1)] += own
    K = given.stiffness(part, springs)
    around, along = ((springs.kind == STRUCTURAL) & which for which in (level, ~level))
    np.testing.assert_allclose(K[around], 900.0 * area[around] / springs.lengths[around] ** 2, rtol=1e-12)
    # Both legs of a trapezoid lean alike, by half the difference of its chords.
    lean = (0.5 * 2.0 * 0.25 / 5 * np.sin(np.pi / 18) / springs.lengths[along]) ** 2
    k = 900.0 * lean + 600.0 * (1.0 - lean)
    np.testing.assert_allclose(K[along], k * area[along] / springs.lengths[along] ** 2, rtol=1e-9)
    assert len(given.elements(model, 0).particles) == np.count_nonzero(springs.kind != FLEXION)
    past = springs.kind == FLEXION
    D = np.where(level, 3e-4, 3e-4 * lean[0] + 1e-4 * (1.0 - lean[0]))[past]
    K = Spring().stiffness(part, springs)
    np.testing.assert_allclose(K[past], 64.0 * D / springs.lengths[past] ** 2, rtol=1e-9)


def test_springs_at_a_seam_have_the_stiffness_of_the_fabric() -> None:
    """Two triangles sewn together that lie 5 m apart in uv: every edge has its direction in its own triangle."""
    corners = np.array([[0.0, 0.0], [0.1, 0.0], [0.1, 0.1], [0.0, 0.1]])
    triangles = np.array([[0, 1, 3], [1, 2, 3]], np.int32)
    moved = corners + np.array([5.0, 0.0])
    mesh = Mesh(np.column_stack([corners, np.zeros(4)]), triangles, np.stack([corners[[0, 1, 3]], moved[[1, 2, 3]]]))
    part = model_of(mesh).parts[0]
    springs = springs_of(part)
    K = {tuple(pair): k for pair, k in zip(springs.particles.tolist(), Spring().stiffness(part, springs), strict=True)}
    expected = {(0, 1): 450.0, (2, 3): 450.0, (0, 3): 300.0, (1, 2): 300.0, (1, 3): 375.0}
    assert {pair: K[pair] for pair in expected} == pytest.approx(expected, rel=1e-12)


def test_a_spring_without_a_stiffness_is_reported() -> None:
    mesh = grid()
    part = model_of(replace(mesh, uv=np.full_like(mesh.uv, np.nan))).parts[0]
    springs = springs_of(model_of(mesh).parts[0])
    with pytest.raises(ValueError, match=r'cloth "cloth": \d+ springs have no finite stiffness'):
        Spring().stiffness(part, springs)


def test_sheared_springs_have_the_energy_of_the_fabric(device: str) -> None:
    """E = A G gamma^2/2 of a sheared grid, whatever the shape of its cells. Diagonals lengthen and shorten alike to
    first order: the error is of the order of gamma^2."""
    mesh, gamma = grid(), 1e-3
    x = mesh.positions.copy()
    x[:, 0] += gamma * mesh.positions[:, 1]
    found = energy(device, mesh, x, structural=0.0, flexion=0.0)
    assert found == pytest.approx(0.5 * FABRIC.shear * gamma**2 * 0.6, rel=1e-5)


def test_an_irregular_mesh_stretches_like_its_fabric(device: str) -> None:
    """Edges of triangles act like a membrane with a Poisson ratio of 1/3: stretched equally in both directions, its
    energy is A E e^2/(1 - 1/3), which is exact because every edge has the same strain."""
    mesh = Disc(radius=0.4, rings=5).mesh(Path())
    fabric = FABRIC.model_copy(update={"stretch_weft": 900.0})
    tested = Bench.of(model_of(mesh, fabric), [Spring(flexion=0.0)], device)
    area = np.abs(mesh.uv_areas()).sum()
    assert tested.energy(1.1 * mesh.positions) == pytest.approx(1.5 * 900.0 * 0.1**2 * area, rel=1e-12)


def test_bent_springs_have_the_energy_of_the_fabric_at_one_radian(device: str) -> None:
    """Each cell of a strip is turned by 1 rad against the one before: E = D/2 (1 rad)^2 for every particle that is not
    at an end, weighted by width. Flexion springs are 2 a cos(1/2) long, where the fit assumes a (1 - 1/4): 4 % less."""
    columns, rows, a = 7, 5, 0.1
    mesh = grid((columns, rows), ((columns - 1) * a, (rows - 1) * a))
    angles = np.arange(columns - 1.0)
    across = np.concatenate([[0.0], np.cumsum(a * np.cos(angles))])
    height = np.concatenate([[0.0], np.cumsum(a * np.sin(angles))])
    column = np.arange(columns * rows) % columns
    x = np.column_stack([across[column], mesh.positions[:, 1], height[column]])
    found = energy(device, mesh, x, structural=0.0, shear=0.0)
    assert found == pytest.approx(0.5 * FABRIC.bend_warp * (columns - 2) * rows, rel=0.05)


def test_a_strip_of_springs_hangs_like_the_fabric(device: str) -> None:
    """The mean strain of row i of n, weighted by K: rho g (L - (i + 1/2) L/n)/k, at a strain of up to 19 %.

    Columns of particles differ in mass and lean on each other by less than a thousandth: the length of a row exceeds
    its height by less than the square of that."""
    rows, length, k = 8, 1.0, 10.0
    simulation = sheet(
        device, (0.25, length), (3, rows + 1), h=1.0, frames=30, rotation=(90.0, 0.0, 0.0),
        fabric={"stretch_warp": k, "stretch_weft": k},
        energies=[{"type": "spring", "shear": 0.0, "flexion": 0.0, "damping": 0.0}],
        constraints=[{"type": "pin", "where": {"edges": ["upper"]}}],
    )  # fmt: skip
    *_, last = simulation.run()
    assert np.abs(last.velocities).max() < 1e-12
    z = last.positions[:, 2].reshape(rows + 1, 3)
    strain = (np.diff(z, axis=0) * rows / length - 1.0) @ np.array([0.25, 0.5, 0.25])
    below = (np.arange(rows) + 0.5) / rows * length  # the first row is the lowest
    np.testing.assert_allclose(strain, DENSITY * G * below / k, rtol=1e-6)


def test_viscous_damping_by_backward_euler(device: str) -> None:
    """v_n = v0/(1 + c h)^n for every particle, whatever its mass."""
    rate, h, n = 3.0, 0.01, 40
    start = np.array([1.0, -2.0, 0.5])
    simulation = sheet(
        device, (1.0, 1.0), (5, 5), h=h, frames=n, gravity=0.0, forces=[{"type": "viscous", "rate": rate}],
        energies=[{"type": "spring", **NOTHING}],
    )  # fmt: skip
    put(simulation, v=np.tile(start, (25, 1)))
    *_, last = simulation.run()
    np.testing.assert_allclose(last.velocities, np.tile(start / (1.0 + rate * h) ** n, (25, 1)), rtol=1e-11)


def test_the_force_of_wind_on_a_flat_sheet(device: str) -> None:
    """The whole area times c and the normal velocity, along the normal; zero edge-on or for a sheet that moves
    along."""
    mesh = grid()
    n = np.array([1.0, 2.0, 2.0]) / 3.0
    along, other = np.array([2.0, 1.0, -2.0]) / 3.0, np.array([-2.0, 2.0, -1.0]) / 3.0
    x = mesh.positions[:, :1] * along + mesh.positions[:, 1:2] * other
    assert np.dot(np.cross(along, other), n) == pytest.approx(1.0)
    u = np.array([3.0, -1.0, 4.0])
    tested = Bench.of(model_of(mesh), [WindParticle(velocity=tuple(u), linear=0.7)], device)
    np.testing.assert_allclose(tested.force(x).sum(axis=0), 0.7 * 0.6 * (u @ n) * n, rtol=1e-12)
    assert np.abs(tested.force(x, np.tile(u, (len(x), 1)))).max() < 1e-14
    edge_on = Bench.of(model_of(mesh), [WindParticle(velocity=tuple(5.0 * along), linear=0.7)], device)
    assert np.abs(edge_on.force(x)).max() < 1e-14


def test_a_sheet_falls_at_its_terminal_velocity(device: str) -> None:
    """v_(n+1) = (v_n - h g)/(1 + h c/rho), which leads to rho g/c."""
    c, h, n = 2.0, 0.02, 50
    simulation = sheet(
        device, (1.0, 1.0), (6, 6), h=h, frames=n, energies=[{"type": "spring", **NOTHING}],
        forces=[{"type": "wind_particle", "velocity": (0.0, 0.0, 0.0), "linear": c}],
    )  # fmt: skip
    expected = 0.0
    for _ in simulation.run():
        np.testing.assert_allclose(velocities(simulation)[:, 2], expected, rtol=1e-10)
        expected = (expected - h * G) / (1.0 + h * c / DENSITY)
    assert expected == pytest.approx(-DENSITY * G / c, rel=1e-3)
