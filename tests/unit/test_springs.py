"""Springs of grids and of other meshes: their number, lengths and threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toile.model.mesh import Mesh
from toile.model.model import ClothPart
from toile.model.springs import FLEXION, SHEAR, STRUCTURAL, ClothSprings, springs_of
from toile.shapes.disc import Disc
from toile.shapes.folded import Folded
from toile.shapes.grid import Grid
from toile.shapes.revolved import Revolved
from toile.shapes.ribbon import Ribbon

CONE = ((0.0, 0.0), (0.3, 0.4))
SPINDLE = (*CONE, (0.0, 0.8))
SHAPES = {
    "grid": Grid(resolution=(5, 4)),
    "folded": Folded(size=(1.0, 0.5), resolution=(81, 11)),
    "ribbon": Ribbon(points=((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 0.5, 0.0)), resolution=(29, 5)),
    "disc": Disc(radius=0.5),
    "skirt": Revolved(profile=((0.4, 0.0), (0.15, 0.5)), resolution=(18, 6)),
    "cone": Revolved(profile=CONE, resolution=(12, 5)),
    "cone without cells": Revolved(profile=CONE, resolution=(9, 2)),
    "spindle": Revolved(profile=SPINDLE, resolution=(12, 9)),
    "spindle without cells": Revolved(profile=SPINDLE, resolution=(7, 3)),
    "spindle of three sides": Revolved(profile=SPINDLE, resolution=(3, 5)),
    "octahedron": Revolved(profile=SPINDLE, resolution=(4, 3)),
}


def part(mesh: Mesh, first: int = 0) -> ClothPart:
    nothing = slice(0, 0)
    return ClothPart("cloth", mesh, None, (), slice(first, first + mesh.vertex_count), nothing, nothing, None)


def counts(springs: ClothSprings) -> list[int]:
    return [int(np.count_nonzero(springs.kind == kind)) for kind in (STRUCTURAL, SHEAR, FLEXION)]


@pytest.mark.parametrize("diagonals", ["alternating", "single"])
def test_the_number_of_springs_of_a_grid(diagonals: str) -> None:
    """n(m - 1) + m(n - 1) sides, two diagonals a cell, n(m - 2) + m(n - 2) across one particle."""
    n, m = 5, 4
    mesh = Grid(size=(0.8, 0.6), resolution=(n, m), diagonals=diagonals).mesh(Path())
    springs = springs_of(part(mesh, 100))
    assert counts(springs) == [n * (m - 1) + m * (n - 1), 2 * (n - 1) * (m - 1), n * (m - 2) + m * (n - 2)]
    x = mesh.positions[springs.particles - 100]
    np.testing.assert_allclose(springs.lengths, np.linalg.norm(x[:, 1] - x[:, 0], axis=1), rtol=1e-14)
    assert len(np.unique(np.sort(springs.particles, axis=1), axis=0)) == len(springs.lengths)
    d = np.abs(x[:, 1] - x[:, 0])[:, :2]
    of_kind = {STRUCTURAL: [(0.2, 0.0), (0.0, 0.2)], SHEAR: [(0.2, 0.2)], FLEXION: [(0.4, 0.0), (0.0, 0.4)]}
    for kind, wanted in of_kind.items():
        found = {tuple(row) for row in np.round(d[springs.kind == kind], 12).tolist()}
        assert found == set(wanted)


def test_a_folded_sheet_has_the_springs_of_the_flat_one() -> None:
    flat = springs_of(part(Grid(size=(1.0, 0.5), resolution=(81, 11)).mesh(Path())))
    folded = springs_of(part(Folded(size=(1.0, 0.5), resolution=(81, 11)).mesh(Path())))
    np.testing.assert_array_equal(folded.particles, flat.particles)
    np.testing.assert_allclose(folded.lengths, flat.lengths, rtol=1e-12)


def test_the_number_of_springs_of_other_meshes() -> None:
    """Every edge, and the far corners of every hinge: E + (3T - border edges)/2."""
    mesh = Disc(radius=0.5).mesh(Path())
    springs = springs_of(part(mesh))
    structural, shear, flexion = counts(springs)
    sides = np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges, counts_of_edges = np.unique(sides, axis=0, return_counts=True)
    assert (structural, shear, flexion) == (len(edges), 0, np.count_nonzero(counts_of_edges == 2))
    x = mesh.positions[springs.particles]
    np.testing.assert_allclose(springs.lengths, np.linalg.norm(x[:, 1] - x[:, 0], axis=1), rtol=1e-12)


def test_kinds_of_springs_can_be_selected() -> None:
    springs = springs_of(part(Grid(resolution=(6, 6)).mesh(Path())))
    assert counts(springs.of(SHEAR, FLEXION)) == [0, *counts(springs)[1:]]


@pytest.mark.parametrize("name", SHAPES)
def test_every_particle_has_springs(name: str) -> None:
    """Structural springs at every particle and along every edge that is no diagonal; flexion springs across particles
    that have a side to both ends, with the length of these two."""
    mesh = SHAPES[name].mesh(Path())
    springs = springs_of(part(mesh, 7))
    structural, flexion = springs.of(STRUCTURAL), springs.of(FLEXION)
    assert (np.unique(structural.particles) == 7 + np.arange(mesh.vertex_count)).all()
    sides = np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges = {tuple(pair) for pair in sides.tolist()}
    diagonals = {tuple(pair) for pair in np.sort(springs.of(SHEAR).particles - 7, axis=1).tolist()}
    lengths = dict(zip(map(tuple, (structural.particles - 7).tolist()), structural.lengths.tolist(), strict=True))
    assert set(lengths) == edges - diagonals
    assert np.isfinite(springs.lengths).all()
    assert (springs.lengths > 0.0).all()
    assert (springs.skipped[springs.kind != FLEXION] == -1).all()
    if mesh.quads is None:
        return
    for (i, j), (k, again), length in zip(flexion.particles - 7, flexion.skipped - 7, flexion.lengths, strict=True):
        assert k == again
        assert length == pytest.approx(lengths[min(i, k), max(i, k)] + lengths[min(j, k), max(j, k)], rel=1e-12)


@pytest.mark.parametrize(("n", "through"), [(3, 0), (4, 2), (8, 4), (9, 9)])
def test_springs_continue_through_a_pole(n: int, through: int) -> None:
    """To the opposite spoke, or the two closest to it; and from the pole across the first ring to the second. Together
    they resist bending at the pole like two perpendicular threads: the mean of cos^4 over all angles is 3/8."""
    mesh = Revolved(profile=CONE, resolution=(n, 5)).mesh(Path())
    flexion = springs_of(part(mesh)).of(FLEXION)
    at_pole = flexion.skipped[:, 0] == 0
    assert np.count_nonzero(at_pole) == through
    ends = mesh.positions[flexion.particles[at_pole], :2]
    turned = np.sum(ends[:, 0] * ends[:, 1], axis=1) / np.prod(np.linalg.norm(ends, axis=2), axis=1)
    np.testing.assert_allclose(turned, -np.cos(np.pi / n) if n % 2 else -1.0)
    shares = flexion.bending_shares()
    assert (shares[~at_pole] == 1.0).all()
    np.testing.assert_allclose(shares[at_pole], 1.0 if through <= 2 else 8.0 / (3.0 * through))
    onwards = flexion.particles[(flexion.particles == 0).any(axis=1)]
    assert sorted(onwards.max(axis=1).tolist()) == list(range(1 + n, 1 + 2 * n))
