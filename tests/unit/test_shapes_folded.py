"""The folded sheet: it keeps every length of the flat one, its layers have their heights, and nothing intersects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toile.errors import InputError
from toile.model.mesh import Mesh, find_edges
from toile.shapes.folded import Folded, layer_order

# folds, vertices along u, gap [m]; the sheet is 1 m wide. Some with edges as long as the gap, the longest allowed.
CASES = [(1, 41, 0.025), (1, 81, 0.1), (2, 81, 0.0125), (2, 121, 0.03), (3, 81, 0.0125), (4, 401, 0.0025)]


def make(folds: int, along: int, gap: float) -> Mesh:
    return Folded(size=(1.0, 0.2), resolution=(along, 5), folds=folds, gap=gap).mesh(Path())


def lengths(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of every edge in space and in uv."""
    a, b = find_edges(mesh.triangles).edges.T
    uv = mesh.vertex_uv()
    return np.linalg.norm(mesh.positions[b] - mesh.positions[a], axis=1), np.linalg.norm(uv[b] - uv[a], axis=1)


def distance_of_segments(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Distances of all pairs of segments p[i], p[i + 1] and q[j], q[j + 1] in the plane, 0 if they cross."""
    a, b, c, d = (x[..., None, :] if k < 2 else x for k, x in enumerate((p[:-1], p[1:], q[:-1], q[1:])))

    def to_segment(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        t = np.clip(np.sum((x - a) * (b - a), axis=-1) / np.sum((b - a) ** 2, axis=-1), 0.0, 1.0)
        return np.linalg.norm(x - a - t[..., None] * (b - a), axis=-1)

    def turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return (b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0]

    ends = [to_segment(a, c, d), to_segment(b, c, d), to_segment(c, a, b), to_segment(d, a, b)]
    crossing = (turn(a, b, c) * turn(a, b, d) < 0.0) & (turn(c, d, a) * turn(c, d, b) < 0.0)
    return np.where(crossing, 0.0, np.min(ends, axis=0))


@pytest.mark.parametrize(("folds", "along", "gap"), CASES)
def test_every_edge_keeps_its_length(folds: int, along: int, gap: float) -> None:
    """To the rounding of the square root of a difference, divided by a part of a fold: far below 1 %."""
    mesh = make(folds, along, gap)
    in_space, flat = lengths(mesh)
    np.testing.assert_allclose(in_space, flat, rtol=1e-9)
    np.testing.assert_allclose(np.ptp(mesh.vertex_uv(), axis=0), [1.0, 0.2], rtol=1e-12)
    assert (mesh.uv_areas() > 0.0).all()


@pytest.mark.parametrize(("folds", "along", "gap"), CASES)
def test_layers_are_a_gap_apart(folds: int, along: int, gap: float) -> None:
    """2^n layers at multiples of the gap; parts of the sheet more than a fold apart keep most of the gap.

    The chord of an edge of length e lies inside its circle of radius R by e^2 / (8 R); with R = 1.5 gap and e = gap
    that is a twelfth of the gap.
    """
    mesh = make(folds, along, gap)
    profile = mesh.positions[:along, [0, 2]]
    assert np.ptp(profile[:, 1]) == pytest.approx((2**folds - 1) * gap, rel=0.02)
    middle = np.abs(profile[:, 0]) < 0.1 * np.ptp(profile[:, 0])
    heights = np.unique(np.round(profile[middle, 1] / gap, 6))
    np.testing.assert_allclose(heights, np.arange(2**folds), atol=1e-6)
    distance = distance_of_segments(profile, profile)
    apart = np.abs(np.subtract.outer(np.arange(along - 1), np.arange(along - 1))) / (along - 1)
    assert distance[apart > 0.5 * np.pi * gap].min() > 0.85 * gap


def test_two_folds_in_half() -> None:
    """A strip 0 1 2 3, folded right over left, has 0 3 beside 1 2, and folded again 0 3 2 1 from the bottom up."""
    assert layer_order(1).tolist() == [0, 1]
    assert layer_order(2).tolist() == [0, 3, 2, 1]
    assert layer_order(3).tolist() == [0, 7, 4, 3, 2, 5, 6, 1]


def test_finer_meshes_have_the_same_position() -> None:
    """A vertex of the coarse mesh differs from the fine one by chords instead of arcs: (e/r)^2/24 of a fold."""
    coarse, fine = make(2, 101, 0.04), make(2, 401, 0.04)
    a, b = coarse.positions[:101], fine.positions[:401:4]
    arc, radius = 0.04 * np.pi * 2.5, 0.02
    assert np.linalg.norm(a - b, axis=1).max() < 1.5 * arc * (0.01 / radius) ** 2 / 24


def test_edges_too_long_for_the_folds_are_refused() -> None:
    with pytest.raises(InputError, match=r"edges of 25 mm along u are too long for folds with a gap of 10 mm\."):
        Folded(resolution=(41, 5), gap=0.01).mesh(Path())
    Folded(resolution=(101, 5), gap=0.01).mesh(Path())  # as the message recommends


def test_folds_wider_than_the_sheet_are_refused() -> None:
    with pytest.raises(InputError, match=r"leave no straight parts at a gap of 0\.05 m\. Set gap to less than 0\.0"):
        Folded(folds=4, gap=0.05).mesh(Path())
