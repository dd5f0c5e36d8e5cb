"""Contact coloring: contacts of one color share no movable particle, and sweeps by color converge like those in
turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import warp as wp
from analytic.cloths import THICKNESS, cloths, grid
from reference.contact_problem import Problem, random_problem, relaxed

from toile.contact.narrow_phase.contact_set import make_impulses
from toile.contact.response import contact_coloring as of_colors
from toile.contact.response.contact_coloring import MAX_COLORS, ContactColoring, ContactColors
from toile.contact.response.impulses import ProjectedGaussSeidel, make_response
from toile.device import grid_barrier as blocks
from toile.device.grid_barrier import CooperativeBlocks
from toile.device.launcher import Launcher
from toile.math.types import mat33, real, vec3
from toile.simulation.simulation import Simulation

H = 1.0 / 60.0
OF_CONTACTS = ("vertices", "weights", "normals", "targets", "mu")


def stack(sheets: int, side: int, seed: int) -> Problem:
    """Sheets of `side` times `side` particles fall on each other, and the lowest is held: every particle is above the
    middle of a triangle of the sheet below."""
    rng, n = np.random.default_rng(seed), side * side
    i, j = (index.ravel() for index in np.meshgrid(np.arange(side), np.arange(side)))
    below = np.minimum(i, side - 2) + side * np.minimum(j, side - 2)
    triangle = np.stack([below, below + 1, below + side], axis=1)
    vertices = [np.column_stack([np.arange(n) + n * s, triangle + n * (s - 1)]) for s in range(1, sheets)]
    count = n * (sheets - 1)
    inside = rng.dirichlet([4.0, 4.0, 4.0], count)
    d = rng.normal(0.0, 0.1, (n * sheets, 3)) - [0.0, 0.0, 1.0]
    d[:n] = 0.0
    inverse_mass = np.tile(np.eye(3), (n * sheets, 1, 1))
    inverse_mass[:n] = 0.0
    return Problem(
        np.concatenate(vertices).astype(np.int32), np.column_stack([np.ones(count), -inside]),
        np.tile([0.0, 0.0, 1.0], (count, 1)), rng.normal(0.0, 0.1, count), np.zeros(count), inverse_mass, d,
    )  # fmt: skip


def pile(device: str, seed: int, mu: float = 0.0) -> Problem:
    """The contacts of three rotated sheets with random displacements in a step, close pairs and impacts."""
    at = [{"translation": (0.005 * k, 0.0, 1.5 * k * THICKNESS), "rotation": (0.0, 0.0, 17.0 * k)} for k in range(3)]
    simulation = cloths(device, [{"shape": grid(0.2, 5), **each} for each in at])
    contact = simulation.filters[-1]
    state, end = simulation.state, simulation.state.empty_like()
    d = np.random.default_rng(seed).normal(scale=2e-3, size=(75, 3))
    end.x.assign(state.x.numpy() + d)
    simulation.constraints.move(0.0, H, state.x)
    simulation.solids.move(0.0, H)
    contact.collision_mesh.begin(state.x, end.x, end.v, 0.0, H)
    contact.collision_mesh.update_inverse_mass(
        contact.context.masses, simulation.constraints.state.S, simulation.constraints.state.S_user, None
    )
    contacts, contact_set = contact.resolver, contact.resolver.contact_set
    contacts._search()
    contact_set.find_close_contacts()
    contact_set.find_impacts(False)
    found = {
        name: getattr(contact_set.contacts, name).numpy()[: contact_set.contact_count]
        for name in ("vertices", "weights", "normal")
    }
    targets = contact_set.contacts.target.numpy()[: contact_set.contact_count]
    inverse_mass = contact.collision_mesh.inverse_mass.numpy() * float(
        simulation.model.masses.mean()
    )  # about 1, to match the tolerances
    return Problem(*found.values(), targets, np.full(len(targets), mu), inverse_mass, d)


def only(problem: Problem, chosen: np.ndarray) -> Problem:
    """Some of the contacts, in this order."""
    return replace(problem, **{name: getattr(problem, name)[chosen] for name in OF_CONTACTS})


PROBLEMS = {
    "random": lambda device: random_problem(1, count=300, particles=200),
    "some held": lambda device: random_problem(2, count=300, particles=200, held=True),
    "crowded": lambda device: random_problem(3, count=120, particles=8),
    "stack": lambda device: stack(6, 5, 0),
    "pile": lambda device: pile(device, 0),
}


def colored(problem: Problem, device: str, batches: int = 1) -> tuple[ContactColors, np.ndarray, np.ndarray]:
    """The colors, the contacts in their order, and the ends of the colors in it."""
    coloring, contacts = ContactColoring(len(problem.d), device), problem.contacts(device)
    count = len(problem.targets)
    inverse_mass = wp.array(problem.inverse_mass, dtype=mat33, device=device)
    for batch in range(1, batches + 1):
        number = wp.array([count * batch // batches], dtype=wp.int32, device=device)
        coloring.add(contacts, number, inverse_mass)
    colors = coloring.colors
    return colors, colors.order.numpy()[:count], colors.ends.numpy()


def check(problem: Problem, order: np.ndarray, ends: np.ndarray) -> None:
    """Asserts that each contact occurs once, and each movable particle once in a color."""
    assert sorted(order) == list(range(len(problem.targets)))
    assert ends[-1] == len(order)
    can_move = np.abs(problem.inverse_mass).max(axis=(1, 2)) > 0.0
    for begin, end in zip([0, *ends[:-2]], ends[:-1], strict=True):
        moved = np.concatenate([[], *(np.unique(problem.vertices[k]) for k in order[begin:end])]).astype(int)
        moved = moved[can_move[moved]]
        assert len(np.unique(moved)) == len(moved)


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_contacts_of_a_color_share_no_movable_particle(name: str, batches: int, device: str) -> None:
    """The number of colors is little more than the largest number of contacts at a particle, which is the minimum."""
    problem = PROBLEMS[name](device)
    colors, order, ends = colored(problem, device, batches)
    check(problem, order, ends)
    can_move = np.abs(problem.inverse_mass).max(axis=(1, 2)) > 0.0
    of_particle = np.bincount(problem.vertices.ravel(), minlength=len(can_move))[can_move]
    used = int(colors.count.numpy()[0])
    assert of_particle.max() <= used <= 1.5 * of_particle.max() + 3
    assert ends[-1] == ends[-2], "none is left without a color"
    assert (np.diff([0, *ends])[:used] > 0).all() and (np.diff([0, *ends])[used:] == 0).all()


def test_the_same_pair_twice_has_two_colors(device: str) -> None:
    problem = random_problem(5, count=40, particles=30)
    twice = replace(problem, **{name: np.concatenate([getattr(problem, name)] * 2) for name in OF_CONTACTS})
    _, order, ends = colored(twice, device)
    check(twice, order, ends)


def test_contacts_without_a_color_are_swept_in_turn(device: str) -> None:
    """One particle has more contacts than there are colors: the remaining contacts are swept in turn, with the same
    solution."""
    count = MAX_COLORS + 50
    rng = np.random.default_rng(0)
    vertices = np.column_stack([np.zeros(count), 1 + np.arange(3 * count).reshape(-1, 3)]).astype(np.int32)
    normals = rng.normal(size=(count, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    weights = np.tile([1.0, -0.5, -0.25, -0.25], (count, 1))
    n = 1 + 3 * count
    problem = Problem(
        vertices, weights, normals, rng.normal(scale=0.1, size=count), np.zeros(count), np.tile(np.eye(3), (n, 1, 1)),
        rng.normal(scale=0.1, size=(n, 3)),
    )  # fmt: skip
    colors, order, ends = colored(problem, device)
    check(problem, order, ends)
    assert colors.count.numpy()[0] == MAX_COLORS and ends[-1] - ends[-2] == 50
    found = relaxed(problem, device, order="in colors")
    np.testing.assert_allclose(found.d, problem.displacements(problem.best_impulses()[:, None] * normals), atol=1e-10)


@pytest.mark.parametrize("name", ["some held", "stack", "pile"])
def test_sweeps_by_color_converge_to_the_least_squares_solution(name: str, device: str) -> None:
    """Without friction displacements are unique: those of least squares. Impulses are complementary to the targets."""
    problem = PROBLEMS[name](device)
    size = np.abs(problem.d).max()
    turns, in_colors = (
        relaxed(problem, device, tolerance=1e-14 * size, order=order) for order in ("in turn", "in colors")
    )
    np.testing.assert_allclose(in_colors.d, turns.d, atol=1e-9 * size)
    wanted = problem.displacements(problem.best_impulses()[:, None] * problem.normals)
    np.testing.assert_allclose(in_colors.d, wanted, atol=1e-8 * size)
    can = problem.effective_inverse_masses() > 1e-12
    gap = (problem.along(in_colors.d) - problem.targets)[can]
    normal_impulse = in_colors.normal_impulse[can]
    assert normal_impulse.min() >= 0.0 and normal_impulse.max() > 0.0
    assert gap.min() > -1e-9 * size
    assert np.abs(gap * normal_impulse).max() < 1e-9 * size * normal_impulse.max()


@pytest.mark.parametrize("name", ["stack", "pile"])
def test_sweeps_by_color_converge_as_fast_as_in_turn(name: str, device: str) -> None:
    """After twenty sweeps the violation of the targets is the same within a factor of two."""
    problem = PROBLEMS[name](device)

    def missing(order: str) -> float:
        found = relaxed(problem, device, sweeps=20, order=order)
        return float(np.linalg.norm(np.maximum(problem.targets - problem.along(found.d), 0.0)))

    before = float(np.linalg.norm(np.maximum(problem.targets - problem.along(problem.d), 0.0)))
    assert missing("in colors") < max(2.0 * missing("in turn"), 1e-6 * before)


@pytest.mark.parametrize("mu", [0.0, 0.4])
@pytest.mark.parametrize("name", ["random", "some held", "stack", "pile"])
def test_the_order_of_contacts_changes_no_bit(name: str, mu: float, device: str) -> None:
    """The bits are the same, also of sweeps that have not converged."""
    problem = PROBLEMS[name](device)
    problem = replace(problem, mu=np.full(len(problem.mu), mu))
    problem = only(problem, np.unique(problem.vertices, axis=0, return_index=True)[1])  # a search finds each pair once
    first = relaxed(problem, device, sweeps=5, order="in colors")
    for seed in range(3):
        turn = np.random.default_rng(seed).permutation(len(problem.targets))
        other = only(problem, turn)
        found = relaxed(other, device, sweeps=5, order="in colors")
        assert np.array_equal(found.d, first.d)
        assert np.array_equal(found.normal_impulse, first.normal_impulse[turn]) and np.array_equal(
            found.friction_impulse, first.friction_impulse[turn]
        )


class Together(Launcher):
    """Launches all threads as one block."""

    def __call__(self, kernel: wp.Kernel, dim: int, inputs: list[Any]) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, device=self.device, block_dim=dim)


def test_a_block_of_threads_gives_the_bits_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, where the threads of a block run in turn from one barrier to the next: the same bits."""
    problem = random_problem(7, count=200, particles=120, mu=0.3)
    alone, (_, order, ends) = relaxed(problem, "cpu", sweeps=6, order="in colors"), colored(problem, "cpu")
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    monkeypatch.setattr(CooperativeBlocks, "block", staticmethod(lambda device: 16))
    monkeypatch.setattr(of_colors, "Launcher", Together)
    _, other_order, other_ends = colored(problem, "cpu")
    check(problem, other_order, other_ends)
    assert np.array_equal(other_ends, ends)
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        assert set(order[begin:end]) == set(other_order[begin:end])
    together = relaxed(problem, "cpu", sweeps=6, order="in colors")
    assert together.sweeps == alone.sweeps == 6
    assert np.array_equal(together.d, alone.d)
    assert np.array_equal(together.normal_impulse, alone.normal_impulse) and np.array_equal(
        together.friction_impulse, alone.friction_impulse
    )


def test_several_blocks_give_the_bits_of_one_block(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a GPU has several blocks; the same bits."""
    if wp.get_device(device).is_cpu:
        pytest.skip("no GPU")
    problem = random_problem(8, count=3000, particles=2000, mu=0.3)
    alone = relaxed(problem, device, sweeps=6, order="in colors")
    for items in (1000, 100):  # for each further block
        monkeypatch.setattr(blocks, "ITEMS", items)
        assert CooperativeBlocks(device).of(3000)[1] > 3
        together = relaxed(problem, device, sweeps=6, order="in colors")
        assert np.array_equal(together.d, alone.d) and np.array_equal(together.normal_impulse, alone.normal_impulse)


def falling(device: str) -> Simulation:
    sheets = [{"shape": grid(0.2, 6)}, {"shape": grid(0.2, 6), "translation": (0.01, 0.02, 3e-3)}]
    return cloths(device, sheets)


def test_sweeps_read_arrays_that_have_grown(device: str) -> None:
    """Packed launches belong to the contact set, and read its present arrays."""
    simulation = falling(device)
    contact = simulation.filters[-1]
    contact_set, n = contact.resolver.contact_set, simulation.model.particle_count
    contact.collision_mesh.inverse_mass.assign(np.tile(np.eye(3), (n, 1, 1)))
    contact_set.contacts.vertices.assign(np.tile([0, 1, 2, 3], (len(contact_set.contacts.normal_impulse), 1)))
    contact_set.contact_count = 1
    contact_set.count.fill_(1)
    sweeps = ProjectedGaussSeidel(n, device)
    response = make_response(
        contact.collision_mesh.inverse_mass, contact.resolver._no_planes, contact.resolver._clearance
    )

    def normal_impulse_at(height: float) -> float:
        """The displacement by one contact whose first particle must rise to a height."""
        for name, value in (
            ("weights", [1.0, -1.0, 0.0, 0.0]),
            ("normal", [0.0, 0.0, 1.0]),
            ("effective_inverse_mass", 2.0),
        ):
            array = getattr(contact_set.contacts, name)
            array.assign(
                np.tile(value, (len(array), 1)) if name != "effective_inverse_mass" else np.full(len(array), value)
            )
        contact_set.contacts.target.fill_(height)
        for array in (normal_impulse, friction_impulse, d):
            array.zero_()
        sweeps.clear()
        sweeps.solve(contact_set, response, False, 1e-12, 20, impulses, d)
        return float(d.numpy()[0, 2])

    normal_impulse, friction_impulse, d = (
        wp.zeros(4 * len(contact_set.contacts.normal_impulse), dtype=kind, device=device) for kind in (real, vec3, vec3)
    )
    impulses = make_impulses(normal_impulse, friction_impulse)
    assert normal_impulse_at(0.5) == pytest.approx(0.25)
    contact_set._grow(2 * len(contact_set.contacts.normal_impulse))
    assert normal_impulse_at(0.8) == pytest.approx(0.4)
