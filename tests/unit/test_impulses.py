"""Contact impulses by Jacobi sweeps, against non-negative least squares and Coulomb's law."""

from __future__ import annotations

import numpy as np
import pytest
from reference.contact_problem import Problem, random_problem, relaxed

SEEDS = range(6)


def one_contact(slip: float, fall: float, mu: float, mass: float = 2.0) -> Problem:
    """A particle falls on a fixed triangle, and slides on it."""
    inverse_mass = np.zeros((4, 3, 3))
    inverse_mass[0] = np.eye(3) / mass
    d = np.zeros((4, 3))
    d[0] = (slip, 0.0, -fall)
    weights = np.array([[1.0, -0.5, -0.25, -0.25]])
    return Problem(
        np.arange(4, dtype=np.int32)[None],
        weights,
        np.array([[0.0, 0.0, 1.0]]),
        np.zeros(1),
        np.array([mu]),
        inverse_mass,
        d,
    )


@pytest.mark.parametrize("held", [False, True], ids=["free", "some held"])
@pytest.mark.parametrize("seed", SEEDS)
def test_normal_impulses_solve_the_complementarity_problem(seed: int, held: bool, device: str) -> None:
    """Displacements are the closest ones, weighted by mass, that satisfy all targets; least squares finds the same."""
    problem = random_problem(seed, count=8, particles=20, held=held)
    found = relaxed(problem, device)
    wanted = problem.displacements(problem.best_impulses()[:, None] * problem.normals)
    np.testing.assert_allclose(found.d, wanted, atol=1e-10)
    gap = problem.along(found.d) - problem.targets
    can = (
        np.einsum("tij,ti,tj->t", problem.inverse_mass[problem.vertices[:, 0]], problem.normals, problem.normals) > 0.0
    )
    assert gap[can].min() > -1e-12 and found.normal_impulse.min() >= 0.0
    assert np.abs(gap * found.normal_impulse).max() < 1e-12


@pytest.mark.parametrize(("mu", "held"), [(0.1, False), (0.5, False), (2.0, False), (0.1, True), (0.5, True)])
@pytest.mark.parametrize("seed", SEEDS)
def test_friction_obeys_coulombs_law(seed: int, held: bool, mu: float, device: str) -> None:
    """Impulses lie in the cone, and on its border, opposite to the slip, where there is slip. Targets are satisfied."""
    problem = random_problem(seed, count=5, particles=30, mu=mu, held=held)
    found = relaxed(problem, device)
    size, slip = np.linalg.norm(found.friction_impulse, axis=1), problem.relative(found.d)
    slip -= np.einsum("ti,tj,tj->ti", problem.normals, problem.normals, slip)
    assert np.abs(np.einsum("ti,ti->t", found.friction_impulse, problem.normals)).max() < 1e-12
    assert (size <= mu * found.normal_impulse * (1.0 + 1e-12)).all()
    sticks = size < mu * found.normal_impulse * (1.0 - 1e-9)
    can = np.abs(problem.inverse_mass[problem.vertices]).max(axis=(1, 2, 3)) > 0.0
    assert np.linalg.norm(slip[sticks & can], axis=1).max(initial=0.0) < 1e-9
    slides = (found.normal_impulse > 0.0) & ~sticks
    assert (np.einsum("ti,ti->t", found.friction_impulse, slip)[slides] < 1e-12).all()
    if not held:  # a held particle responds in other directions than that of friction
        direction = slip[slides] / np.linalg.norm(slip[slides], axis=1)[:, None]
        np.testing.assert_allclose(found.friction_impulse[slides] / size[slides, None], -direction, atol=1e-6)
    assert problem.along(found.d)[found.normal_impulse > 0.0] == pytest.approx(
        problem.targets[found.normal_impulse > 0.0], abs=1e-9
    )


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_sweep_conserves_momentum(seed: int, mu: float, device: str) -> None:
    """This includes sweeps that stop before convergence; displacements follow from the impulses."""
    problem = random_problem(seed, count=15, particles=20, mu=mu)
    masses = 1.0 / problem.inverse_mass[:, 0, 0]
    found = relaxed(problem, device, sweeps=2)
    assert found.sweeps == 2
    np.testing.assert_allclose(masses @ found.d, masses @ problem.d, atol=1e-13 * float(masses.sum()))
    wanted = problem.displacements(found.normal_impulse[:, None] * problem.normals + found.friction_impulse)
    np.testing.assert_allclose(found.d, wanted, atol=1e-13)


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_inelastic_impacts_do_not_add_energy(seed: int, mu: float, device: str) -> None:
    """Targets of 0 are inelastic impacts: sum of m d^2 / 2 does not grow, and without friction not in any sweep.

    Friction that was too large, because a normal impulse was, is reduced again.
    """
    problem = random_problem(seed, count=15, particles=20, mu=mu)
    problem.targets[:] = 0.0
    masses = 1.0 / problem.inverse_mass[:, 0, 0]
    motions = [problem.d, *(relaxed(problem, device, sweeps=n).d for n in range(1, 9))]
    energies = [float(masses @ (d**2).sum(axis=1)) for d in motions]
    assert max(energies[1:]) < energies[0]
    if mu == 0.0:
        assert max(np.diff(energies)) < 1e-13 * energies[0]


@pytest.mark.parametrize(("slip", "left"), [(0.1, 0.0), (0.3, 0.0), (1.0, 0.7), (-1.0, -0.7)])
def test_friction_of_one_particle_on_a_triangle(slip: float, left: float, device: str) -> None:
    """It falls by 1 and slides: friction reduces the slip by mu times the fall, and at most to zero."""
    problem = one_contact(slip, fall=1.0, mu=0.3)
    found = relaxed(problem, device)
    np.testing.assert_allclose(found.d[0], (left, 0.0, 0.0), atol=1e-14)
    assert found.normal_impulse[0] == pytest.approx(2.0)  # its mass times the fall


def test_separating_contacts_get_no_impulse(device: str) -> None:
    problem = one_contact(slip=1.0, fall=-0.1, mu=0.3)
    found = relaxed(problem, device)
    assert np.array_equal(found.d, problem.d) and found.normal_impulse[0] == 0.0


def test_particles_without_inverse_mass_do_not_move(device: str) -> None:
    """To the last bit, and no value becomes NaN."""
    problem = one_contact(slip=1.0, fall=1.0, mu=0.3)
    problem.inverse_mass[:] = 0.0
    found = relaxed(problem, device)
    assert np.array_equal(found.d, problem.d) and np.isfinite(found.normal_impulse).all()


def test_held_directions_do_not_respond(device: str) -> None:
    """Particles that cannot move along x and y: those displacements keep their bits."""
    problem = random_problem(3, count=20, particles=20, mu=0.5)
    problem.inverse_mass[::2] *= np.diag([0.0, 0.0, 1.0])
    found = relaxed(problem, device, sweeps=50)
    assert np.array_equal(found.d[::2, :2], problem.d[::2, :2])
    assert np.abs(found.d[::2, 2] - problem.d[::2, 2]).max() > 1e-3


def test_particles_on_solids_may_leave_but_not_enter(device: str) -> None:
    """A particle between a contact from above and a plane below stays at the plane; one pulled up leaves it."""
    problem = one_contact(slip=0.0, fall=0.5, mu=0.0)
    problem.inverse_mass[1:] = np.eye(3) / 2.0
    problem.d[0] = (0.0, 0.0, -0.5)
    planes = (np.array([0, 1, 1, 1], np.int32), np.tile([0.0, 0.0, 1.0], (12, 1)), np.zeros(12))
    found = relaxed(problem, device, planes=planes)
    np.testing.assert_allclose(found.d, 0.0, atol=1e-12)
    problem.normals[:] = -problem.normals  # the particle is on the lower side, and rises
    problem.d[0] = (0.0, 0.0, 0.5)
    found = relaxed(problem, device, planes=planes)
    assert found.d[1:, 2].min() > 0.0
    assert problem.along(found.d)[0] == pytest.approx(0.0, abs=1e-12)


def test_normal_impulses_transmit_weight_through_a_column(device: str) -> None:
    """Ten particles above each other, the lowest held: each normal impulse is that of the weight above it."""
    n = 10
    other = np.full(n - 1, n)  # two held particles with zero weights: the four vertices of a contact must be distinct
    vertices = np.stack([np.arange(1, n), np.arange(n - 1), other, other + 1], axis=1).astype(np.int32)
    weights = np.tile([1.0, -1.0, 0.0, 0.0], (n - 1, 1))
    inverse_mass = np.tile(np.eye(3), (n + 2, 1, 1))
    d = np.tile([0.0, 0.0, -1.0], (n + 2, 1))
    for held in (0, n, n + 1):
        inverse_mass[held] = d[held] = 0.0
    problem = Problem(
        vertices, weights, np.tile([0.0, 0.0, 1.0], (n - 1, 1)), np.zeros(n - 1), np.zeros(n - 1), inverse_mass, d
    )
    found = relaxed(problem, device)
    np.testing.assert_allclose(found.d, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.normal_impulse, np.arange(n - 1, 0, -1), atol=1e-8)
