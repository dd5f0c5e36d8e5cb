"""The hierarchy of `multigrid` and its Galerkin products against dense algebra, and iterations that do not grow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from reference.systems import random_system

from toile.linear import uv_hierarchy
from toile.linear.precondition_multigrid import HELD, Multigrid
from toile.linear.solver import Solver
from toile.linear.uv_hierarchy import Sites, find_sites, interpolations
from toile.scene.load import load
from toile.shapes.disc import Disc
from toile.shapes.grid import Grid
from toile.shapes.revolved import Revolved
from toile.simulation import Simulation

SHAPES = {
    "grid": Grid(size=(1.0, 0.6), resolution=(31, 17)),
    "disc": Disc(rings=15),
    "tube": Revolved(profile=((0.3, 0.0), (0.3, 1.0)), resolution=(40, 20)),
    "cone": Revolved(profile=((0.1, 0.0), (0.4, 1.0)), resolution=(40, 20)),
}


def sites_of(shape: Any) -> tuple[Sites, int]:
    mesh = shape.mesh(None)
    return find_sites(mesh.triangles, mesh.uv, mesh.positions), mesh.vertex_count


@pytest.mark.parametrize("name", SHAPES)
def test_weights_sum_to_one_and_levels_shrink(name: str) -> None:
    """A translation of the cloth is one of every grid; the coarsest grid is small enough for a direct solve."""
    sites, n = sites_of(SHAPES[name])
    P = interpolations(sites, n)
    assert P[0].shape[0] == n and P[-1].shape[1] <= uv_hierarchy.COARSEST
    for finer, coarser in pairwise(P):
        assert finer.shape[1] == coarser.shape[0]
    for weights in P:
        assert weights.shape[1] <= 0.7 * weights.shape[0]
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=0, atol=1e-8)  # weights below 1e-9 are left out
        assert weights.data.min() > 0.0 and len(np.unique(weights.indices)) == weights.shape[1]


def test_linear_functions_of_uv_are_interpolated_exactly() -> None:
    """Bilinear weights: what is linear in uv on the coarsest grid is linear on the particles, without seams."""
    sites, n = sites_of(SHAPES["disc"])
    P = interpolations(sites, n)
    whole = P[0]
    for weights in P[1:]:
        whole = whole @ weights
    uv = np.zeros((n, 2))
    uv[sites.particles] = sites.at
    nodes = np.linalg.lstsq(whole.toarray(), uv, rcond=None)[0]
    np.testing.assert_allclose(whole @ nodes, uv, rtol=0, atol=1e-9)


def test_particles_on_a_seam_have_both_sides() -> None:
    """On a tube that is one panel in uv, the particles of the seam are at both of its ends."""
    sites, n = sites_of(SHAPES["tube"])
    assert sites.at.shape[1] == 2 and sites.panels.max() == 0
    times = np.bincount(sites.particles, minlength=n)
    assert np.count_nonzero(times == 2) == 20 and times.max() == 2


def test_what_cannot_be_laid_flat_gets_grids_in_the_room() -> None:
    """The cells of a cone are panels of their own."""
    sites, _ = sites_of(SHAPES["cone"])
    assert sites.at.shape[1] == 3


def test_galerkin_products_are_those_of_dense_matrices(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A_0 = S A S + eps (I - S), A_(l+1) = P^T A_l P; to rounding."""
    monkeypatch.setattr(uv_hierarchy, "COARSEST", 6)
    system = random_system(60, device, seed=1)
    made = Multigrid().build(system.matrix, system.device_S)
    assert made.update()
    S = np.zeros((180, 180))
    for i in range(60):
        S[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = system.S[i]
    mean = np.repeat(system.A.diagonal().reshape(-1, 3).mean(axis=1), 3)
    expected = S @ system.A @ S + float(HELD) * mean[:, None] * (np.eye(180) - S)
    assert len(made.levels) > 3
    for k, level in enumerate(made.levels):
        found = np.zeros((level.n, level.n, 3, 3))
        found[level.rows, level.columns] = level.values.numpy()
        np.testing.assert_allclose(
            found.transpose(0, 2, 1, 3).reshape(3 * level.n, -1), expected, rtol=0, atol=1e-12 * np.abs(expected).max()
        )
        if k + 1 < len(made.levels):
            P = np.kron(interpolations(system.matrix.sites(), 60)[k].toarray(), np.eye(3))
            expected = P.T @ expected @ P


FABRIC = "{density: 0.2, stretch_warp: 1.0e4, stretch_weft: 1.0e4, shear: 100.0, bend_warp: 1.2e-5, bend_weft: 1.2e-5}"
HELD_BY = {
    "grid": "{corners: [upper_left, upper_right]}",
    "disc": "{indices: [0]}",
    "tube": "{region: top}",
}


@pytest.mark.parametrize("name", HELD_BY)
def test_few_iterations(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """k = 1e4 N/m, h = 1/60 s, 1e-3, about 1,000 particles. Block-Jacobi needs more than 200."""
    shape = {
        "grid": "{type: grid, size: [1.0, 1.0], resolution: [33, 33]}",
        "disc": "{type: disc, radius: 0.5, rings: 18}",
        "tube": "{type: revolved, profile: [[0.3, 0.0], [0.3, 1.0]], resolution: [44, 24]}",
    }[name]
    overrides = [
        f"cloth[0].shape={shape}", f"cloth[0].fabric={FABRIC}", "time.fps=60", "outputs=[]",
        f"constraints=[{{type: pin, cloth: sheet, where: {HELD_BY[name]}}}]", "solver.preconditioner=multigrid",
    ]  # fmt: skip
    needed = []
    solve = Solver.solve

    def counted(self: Solver, again: bool = False) -> Any:
        solution = solve(self, again)
        needed.append(solution.iterations)
        return solution

    monkeypatch.setattr(Solver, "solve", counted)
    for _ in Simulation(load("hang", overrides=overrides), device).run(20):
        pass
    assert len(needed) >= 20 and max(needed) <= 20
