"""Springs of grids and of other meshes: how many there are, how long, and along which threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toile.model.mesh import Mesh
from toile.model.model import ClothPart
from toile.model.springs import FLEXION, SHEAR, STRUCTURAL, Springs, springs_of
from toile.shapes.disc import Disc
from toile.shapes.folded import Folded
from toile.shapes.grid import Grid


def part(mesh: Mesh, first: int = 0) -> ClothPart:
    nothing = slice(0, 0)
    return ClothPart("cloth", mesh, None, (), slice(first, first + mesh.vertex_count), nothing, nothing, None)


def counts(springs: Springs) -> list[int]:
    return [int(np.count_nonzero(springs.kind == kind)) for kind in (STRUCTURAL, SHEAR, FLEXION)]


@pytest.mark.parametrize("diagonals", ["alternating", "single"])
def test_of_a_grid(diagonals: str) -> None:
    """By hand: n(m - 1) + m(n - 1) sides, two diagonals a cell, n(m - 2) + m(n - 2) past one particle."""
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


def test_of_other_meshes() -> None:
    """Every edge, and the far corners of every hinge: E + (3T - border edges)/2."""
    mesh = Disc(radius=0.5).mesh(Path())
    springs = springs_of(part(mesh))
    structural, shear, flexion = counts(springs)
    sides = np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges, met = np.unique(sides, axis=0, return_counts=True)
    assert (structural, shear, flexion) == (len(edges), 0, np.count_nonzero(met == 2))
    x = mesh.positions[springs.particles]
    np.testing.assert_allclose(springs.lengths, np.linalg.norm(x[:, 1] - x[:, 0], axis=1), rtol=1e-12)


def test_some_kinds() -> None:
    springs = springs_of(part(Grid(resolution=(6, 6)).mesh(Path())))
    assert counts(springs.of(SHEAR, FLEXION)) == [0, *counts(springs)[1:]]
