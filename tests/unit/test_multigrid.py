"""The hierarchy of `multigrid` and its Galerkin products against dense algebra, and numbers of iterations."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import warp as wp
from reference.systems import LinearSystem, random_system
from scipy.linalg import block_diag

from toile.device import threads
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.linear.multigrid import uv_hierarchy
from toile.linear.multigrid.dense_inverse import ByElimination, ByLapack
from toile.linear.multigrid.galerkin import Product
from toile.linear.multigrid.galerkin_blocks import HELD
from toile.linear.multigrid.uv_hierarchy import Sites, find_sites, interpolations
from toile.linear.precondition_multigrid import Multigrid
from toile.linear.solver import LinearSolver
from toile.math.types import mat33, precision, vec3
from toile.scene.load import load
from toile.shapes.disc import Disc
from toile.shapes.grid import Grid
from toile.shapes.revolved import Revolved
from toile.simulation.simulation import Simulation

SHAPES = {
    "grid": Grid(size=(1.0, 0.6), resolution=(31, 17)),
    "disc": Disc(rings=15),
    "tube": Revolved(profile=((0.3, 0.0), (0.3, 1.0)), resolution=(40, 20)),
    "cone": Revolved(profile=((0.1, 0.0), (0.4, 1.0)), resolution=(40, 20)),
}


def sites_of(shape: Any) -> tuple[Sites, int]:
    mesh = shape.mesh(None)
    return find_sites(mesh.triangles, mesh.uv, mesh.positions), mesh.vertex_count


def together(*shapes: Any) -> tuple[Sites, int]:
    """Sites of several separate cloths."""
    meshes = [shape.mesh(None) for shape in shapes]
    starts = np.cumsum([0, *(mesh.vertex_count for mesh in meshes)])
    triangles = np.concatenate([mesh.triangles + start for mesh, start in zip(meshes, starts, strict=False)])
    uv, points = (np.concatenate([getattr(mesh, name) for mesh in meshes]) for name in ("uv", "positions"))
    return find_sites(triangles, uv, points), int(starts[-1])


SCRAP = Grid(size=(0.1, 0.1), resolution=(4, 4))
MIXED = {
    **{name: (shape,) for name, shape in SHAPES.items()},
    "sheet and scraps": (Grid(size=(1.0, 1.0), resolution=(60, 60)), *[SCRAP] * 17),
    "fine sheet and coarse one": (Grid(size=(0.2, 0.2), resolution=(60, 60)), Grid(size=(3.0, 3.0), resolution=(9, 9))),
    "sheet and cone": (Grid(size=(1.0, 1.0), resolution=(80, 80)), SHAPES["cone"]),
}


@pytest.mark.parametrize("name", MIXED)
def test_weights_sum_to_one_and_levels_shrink(name: str) -> None:
    """A translation of the cloth is a translation of every grid; the coarsest grid is small enough for a direct
    solve."""
    sites, n = together(*MIXED[name])
    P = interpolations(sites, n)
    assert P[0].shape[0] == n and P[-1].shape[1] <= uv_hierarchy.COARSEST
    for finer, coarser in pairwise(P):
        assert finer.shape[1] == coarser.shape[0]
    for weights in P:
        assert weights.shape[1] <= 0.7 * weights.shape[0]
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=0, atol=1e-8)  # weights below 1e-9 are left out
        assert weights.data.min() > 0.0 and len(np.unique(weights.indices)) == weights.shape[1]


def test_linear_functions_of_uv_are_interpolated_exactly() -> None:
    """Bilinear weights: a function linear in uv on the coarsest grid is linear on the particles, without seams."""
    sites, n = sites_of(SHAPES["disc"])
    P = interpolations(sites, n)
    whole = P[0]
    for weights in P[1:]:
        whole = whole @ weights
    uv = np.zeros((n, 2))
    uv[sites.particles] = sites.at[:, :2]
    nodes = np.linalg.lstsq(whole.toarray(), uv, rcond=None)[0]
    np.testing.assert_allclose(whole @ nodes, uv, rtol=0, atol=1e-9)


def test_particles_on_a_seam_have_both_sides() -> None:
    """On a tube that is one panel in uv, particles on the seam have positions at both of its ends."""
    sites, n = sites_of(SHAPES["tube"])
    assert not sites.at[:, 2].any() and sites.panels.max() == 0
    times = np.bincount(sites.particles, minlength=n)
    assert np.count_nonzero(times == 2) == 20 and times.max() == 2


def test_cloth_that_cannot_be_flattened_gets_3d_grids() -> None:
    """The cells of a cone are separate panels."""
    sites, n = sites_of(SHAPES["cone"])
    assert np.array_equal(sites.at[np.argsort(sites.particles)], SHAPES["cone"].mesh(None).positions)
    assert sites.panels.max() == 0 and len(sites.particles) == n


def test_each_cloth_gets_its_own_kind_of_grid() -> None:
    """Each cloth has its own grids."""
    sites, n = together(SHAPES["grid"], SHAPES["cone"])
    flat = sites.particles < 31 * 17
    assert not sites.at[flat, 2].any() and sites.at[~flat, 2].any()
    assert len(sites.particles) == n and sites.panels.max() == 1


def finest(system: LinearSystem) -> np.ndarray:
    """S A S + eps (I - S), dense, without couplings."""
    n = len(system.S)
    S = block_diag(*system.S)
    mean = np.repeat(system.A.diagonal().reshape(-1, 3).mean(axis=1), 3)
    return S @ system.A @ S + float(HELD) * mean[:, None] * (np.eye(3 * n) - S)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_galerkin_products_match_dense_matrices(on_gpu: bool, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A_0 = S A S + eps (I - S), A_(l+1) = P^T A_l P, to the rounding of weights to single precision. Both variants run
    on every device."""
    monkeypatch.setattr(uv_hierarchy, "COARSEST", 6)
    monkeypatch.setattr(Product, "runs_on_gpu", staticmethod(lambda _: on_gpu))
    system = random_system(60, device, seed=1)
    made = Multigrid().build(system.matrix, system.device_S)
    made.prepare()
    assert made.update()
    expected = finest(system)
    assert len(made.levels) > 2
    for k, (level, P) in enumerate(zip(made.levels[1:], made.weights, strict=True)):
        weights = np.kron(P.toarray().astype(float), np.eye(3))
        expected = weights.T @ expected @ weights
        atol = (1e-12 if precision == "double" else 1e-5) * np.abs(expected).max()
        np.testing.assert_allclose(dense(level.matrix), expected, rtol=0, atol=atol)
        np.testing.assert_allclose(P.toarray(), interpolations(system.matrix.sites(), 60)[k].toarray(), atol=1e-7)
    np.testing.assert_allclose(dense(made.levels[0]), finest(system), rtol=0, atol=1e-6 * np.abs(system.A).max())


def dense(level: Any) -> np.ndarray:
    """A matrix of the hierarchy, or of a level as the cycles use it."""
    matrix, values = (level.matrix, level.rounded) if hasattr(level, "rounded") else (level, level.values)
    pattern = matrix.pattern.tocoo()
    found = np.zeros((*pattern.shape, 3, 3))
    found[pattern.row, pattern.col] = values.numpy()
    return found.transpose(0, 2, 1, 3).reshape(3 * pattern.shape[0], -1)


@pytest.mark.parametrize("kind", [ByLapack, ByElimination])
@pytest.mark.parametrize("n", [7, 8, 9])
def test_the_coarsest_inverse_is_that_of_the_dense_matrix(kind: Any, n: int, device: str) -> None:
    """The variant for a GPU runs on the CPU too. Sizes are odd and even, because two blocks are eliminated at a
    time."""
    if kind is ByLapack and device != "cpu":
        pytest.skip("for the CPU")
    system = random_system(n, device, seed=n)
    made = kind(Multigrid().build(system.matrix, system.device_S).levels[0].matrix, device)
    made.fill()
    assert made.invert()
    mean = np.repeat(finest(system).diagonal().reshape(-1, 3).mean(axis=1), 3)
    expected = np.linalg.inv(finest(system) + 1e-6 * np.diag(mean))
    found = made.inverse.numpy().transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)
    rtol = 1e-9 if precision == "double" else 1e-2  # held directions make its condition 1e3 to 1e4
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


def test_elimination_reports_a_matrix_that_is_not_positive_definite(device: str) -> None:
    """A GPU has no readback here: the inverse is NaN, and so are the results of cycles."""
    system = random_system(9, device, seed=3, held=0.0)
    lowest = np.linalg.eigvalsh(system.A)[0]
    system.fill(system.A - 2.0 * lowest * np.eye(27))
    made = ByElimination(Multigrid().build(system.matrix, system.device_S).levels[0].matrix, device)
    made.fill()
    made.invert()
    assert np.isnan(made.inverse.numpy()).any()


def springs(triangles: np.ndarray, n: int, held: float, device: str) -> LinearSystem:
    """Particles of mass 1 with springs in random directions along the edges; some of them are held in a plane."""
    rng = np.random.default_rng(6)
    matrix = BlockMatrix.from_stencils(n, [triangles], device)
    rows, columns = matrix.rows, matrix.columns
    upper = rows < columns
    directions = rng.normal(size=(upper.sum(), 3))
    blocks = -100.0 * np.einsum("ka,kb->kab", directions, directions)
    values = np.zeros((len(rows), 3, 3))
    values[upper] = blocks
    values[matrix.slots(columns[upper], rows[upper])] = blocks
    diagonal = np.zeros((n, 3, 3))
    np.add.at(diagonal, rows, -values)
    values[matrix.slots(np.arange(n), np.arange(n))] = diagonal + np.eye(3)
    matrix.values.assign(wp.array(values, dtype=mat33, device=device))
    normals = rng.normal(size=(n, 3)) * (rng.uniform(size=n) < held)[:, None]
    lengths = np.maximum(np.linalg.norm(normals, axis=1), 1e-9)[:, None, None]
    S = np.eye(3) - np.einsum("ka,kb->kab", normals, normals) / lengths**2
    device_S = wp.array(S, dtype=mat33, device=device)
    dense_A = matrix.dense() if n < 100 else np.zeros((0, 0))
    return LinearSystem(dense_A, rng.normal(size=(n, 3)), S, np.zeros((n, 3)), np.zeros(n), matrix, device_S)


def layers(device: str) -> LinearSystem:
    """Two sheets above each other, with contacts between them that are much stiffer than the sheets."""
    rng, sheet, n = np.random.default_rng(4), Grid(size=(1.0, 1.0), resolution=(7, 7)).mesh(None), 49
    triangles = np.concatenate([sheet.triangles, sheet.triangles + n])
    points = np.concatenate([sheet.positions, sheet.positions + np.array([0.0, 0.0, 0.1])])
    system = springs(triangles, 2 * n, 0.2, device)
    system.matrix.sites = partial(find_sites, triangles, np.concatenate([sheet.uv, sheet.uv]), points)
    at, count, capacity = rng.integers(0, len(sheet.triangles), 60), 60, 70
    particles, weights = np.zeros((capacity, 4), int), np.zeros((capacity, 4))
    particles[:count] = np.column_stack([sheet.triangles[at, 0], n + sheet.triangles[at]])
    weights[:count, 0], weights[:count, 1:] = 1.0, -rng.dirichlet(np.ones(3), count)
    normals = rng.normal(size=(capacity, 3))
    blocks = 1e4 * np.einsum("ka,kb->kab", normals, normals)
    couplings = Couplings(device)
    couplings.reserve(capacity)
    arrays = (couplings.count, couplings.particles, couplings.weights, couplings.blocks)
    for array, given in zip(arrays, ([count], particles, weights, blocks), strict=True):
        array.assign(given)
    diagonal = np.zeros((2 * n, 3, 3))
    for k in range(count):
        np.add.at(diagonal, particles[k], weights[k][:, None, None] ** 2 * blocks[k])
    system.fill(system.A + block_diag(*diagonal))
    system.matrix.couplings = [couplings]
    return system


def test_contacts_between_cloths_are_on_every_level(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coarsest matrix includes the couplings of contacts: Q^T (S (A + C) S + eps (I - S)) Q."""
    monkeypatch.setattr(uv_hierarchy, "COARSEST", 10)
    system = layers(device)
    made = Multigrid().build(system.matrix, system.device_S)
    made.prepare()
    assert made.update()
    Q = np.eye(len(system.S))
    for P in made.weights:
        Q = Q @ P.toarray()
    Q, S = np.kron(Q, np.eye(3)), block_diag(*system.S)
    expected = Q.T @ (finest(system) + S @ (system.matrix.dense() - system.A) @ S) @ Q
    n = Q.shape[1] // 3
    assert len(made.weights) >= 2 and n < 10
    found = made.coarsest.inverse.numpy().transpose(0, 2, 1, 3).reshape(3 * n, 3 * n) @ expected
    np.testing.assert_allclose(found, np.eye(3 * n), rtol=0, atol=1e-3)  # the inverted matrix is regularized by 1e-6


@pytest.mark.parametrize("count", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(count: int) -> None:
    """4,096 particles, so that threads share the launches over particles and over blocks."""
    shape = Grid(size=(1.0, 1.0), resolution=(64, 64)).mesh(None)
    system = springs(shape.triangles, shape.vertex_count, 0.1, "cpu")
    system.matrix.sites = partial(find_sites, shape.triangles, shape.uv, shape.positions)
    r = np.random.default_rng(2).normal(size=(shape.vertex_count, 3))
    found = []
    before = threads.count()
    try:
        for used in (1, count):
            threads.use(used)
            made = Multigrid().build(system.matrix, system.device_S)
            made.prepare()
            assert made.update()
            s = wp.zeros(len(r), dtype=vec3, device="cpu")
            made.apply(wp.array(r, dtype=vec3, device="cpu"), s)
            found.append(s.numpy())
    finally:
        threads.use(before)
    np.testing.assert_array_equal(found[0], found[1])


FABRIC = "{density: 0.2, stretch_warp: 1.0e4, stretch_weft: 1.0e4, shear: 100.0, bend_warp: 1.2e-5, bend_weft: 1.2e-5}"
HELD_BY = {
    "grid": "{corners: [upper_left, upper_right]}",
    "disc": "{indices: [0]}",
    "tube": "{region: top}",
}


SHEETS = {
    "grid of 33": ("grid", "{type: grid, size: [1.0, 1.0], resolution: [33, 33]}"),
    "grid of 65": ("grid", "{type: grid, size: [1.0, 1.0], resolution: [65, 65]}"),
    "disc": ("disc", "{type: disc, radius: 0.5, rings: 25}"),
    "tube": ("tube", "{type: revolved, profile: [[0.3, 0.0], [0.3, 1.0]], resolution: [60, 33]}"),
}


@pytest.mark.parametrize("name", SHEETS)
def test_the_number_of_iterations_does_not_grow_with_the_mesh(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """k = 1e4 N/m, h = 1/60 s, 1e-3, up to 4,225 particles: at most 60, as at any size (benchmarks/multigrid.py).
    At most 24 are needed here, and more than 200 with block-Jacobi."""
    kind, shape = SHEETS[name]
    overrides = [
        f"cloth[0].shape={shape}", f"cloth[0].fabric={FABRIC}", "time.fps=60", "outputs=[]",
        f"constraints=[{{type: pin, cloth: sheet, where: {HELD_BY[kind]}}}]", "solver.preconditioner=multigrid",
    ]  # fmt: skip
    needed = iterations_of(load("hang", overrides=overrides), 15, device, monkeypatch)
    assert len(needed) >= 15 and max(needed) <= 30


def test_a_closed_surface_that_lands_needs_few_iterations(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """3-d grids, where the smoother must be stable for eigenvalues up to 5.5; with a bound of 4 some solves need
    thousands
    of iterations."""
    scene = load("bmf03_balloon", overrides=["outputs=[]", "solver.preconditioner=multigrid"])
    needed = iterations_of(scene, 8, device, monkeypatch)
    assert len(needed) >= 16 and max(needed) <= 30


def test_layers_in_contact_need_few_iterations(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five sheets fall on each other. With contacts on the diagonal alone, up to 55 iterations are needed."""
    scene = load("layers", overrides=["outputs=[]", "solver.preconditioner=multigrid"])
    needed = iterations_of(scene, 6, device, monkeypatch)
    assert len(needed) >= 20 and max(needed) <= 25


def iterations_of(scene: Any, frames: int, device: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Iterations of every solve."""
    needed = []
    solve = LinearSolver.solve

    def counted(self: LinearSolver, *tolerances: float) -> Any:
        solution = solve(self, *tolerances)
        needed.append(solution.iterations)
        return solution

    monkeypatch.setattr(LinearSolver, "solve", counted)
    for _ in Simulation(scene, device).run(frames):
        pass
    return needed
