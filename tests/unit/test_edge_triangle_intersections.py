"""Intersections of edges and triangles, against a brute-force search that solves a linear system for every pair."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from scipy.spatial.transform import Rotation

from toile.contact.untangle.intersections import EdgeTriangleIntersections
from toile.math.types import vec3
from toile.shapes.grid import Grid


def sides(triangles: np.ndarray) -> np.ndarray:
    """The edges of a mesh, each once."""
    return np.unique(np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)


def search(
    x: np.ndarray, edges: np.ndarray, triangles: np.ndarray, moving: int, device: str
) -> EdgeTriangleIntersections:
    return EdgeTriangleIntersections(edges.astype(np.int32), triangles.astype(np.int32), len(x), moving, device)


def found(x: np.ndarray, triangles: np.ndarray, device: str, moving: int | None = None) -> set[tuple[int, int]]:
    """The pairs of edge and triangle that intersect."""
    intersections = search(x, sides(triangles), triangles, len(x) if moving is None else moving, device)
    edge, triangle, _ = intersections.find(wp.array(x, dtype=vec3, device=device))
    return set(zip(edge.tolist(), triangle.tolist(), strict=True))


def brute_force(x: np.ndarray, edges: np.ndarray, triangles: np.ndarray) -> tuple[set[tuple[int, int]], np.ndarray]:
    """p0 + t (p1 - p0) = a + u (b - a) + v (c - a), solved for every pair: those with a solution inside, and its
    point."""
    pairs = [(e, k) for e in range(len(edges)) for k in range(len(triangles)) if not set(edges[e]) & set(triangles[k])]
    e, k = np.array(pairs).T
    p0, p1 = x[edges[e, 0]], x[edges[e, 1]]
    a, b, c = (x[triangles[k, i]] for i in range(3))
    t, u, v = np.linalg.solve(np.stack([p0 - p1, b - a, c - a], axis=-1), (p0 - a)[:, :, None])[:, :, 0].T
    inside = (t >= 0.0) & (t <= 1.0) & (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0)
    return {pairs[i] for i in np.flatnonzero(inside)}, (p0 + t[:, None] * (p1 - p0))[inside]


@pytest.mark.parametrize("seed", range(5))
def test_all_intersections_of_random_triangles_are_found(seed: int, device: str) -> None:
    rng = np.random.default_rng(seed)
    # Triangles of a soup, some with common corners.
    x = rng.uniform(0.0, 1.0, (60, 3))
    triangles = np.array([rng.choice(60, 3, replace=False) for _ in range(40)])
    edges = sides(triangles)
    expected, places = brute_force(x, edges, triangles)
    assert len(expected) > 256  # more than the initial capacity

    intersections = search(x, edges, triangles, len(x), device)
    edge, triangle, where = intersections.find(wp.array(x, dtype=vec3, device=device))
    pairs = list(zip(edge.tolist(), triangle.tolist(), strict=True))
    assert set(pairs) == expected
    assert pairs == sorted(pairs)
    np.testing.assert_allclose(where, places, atol=1e-9)  # conditions of the systems up to 1e4
    again = intersections.find(wp.array(x, dtype=vec3, device=device))
    assert all(np.array_equal(one, two) for one, two in zip((edge, triangle, where), again, strict=True))


def test_the_tree_follows_moving_triangles(device: str) -> None:
    rng = np.random.default_rng(8)
    x = rng.uniform(0.0, 1.0, (60, 3))
    triangles = np.arange(60).reshape(20, 3)
    edges = sides(triangles)
    intersections = search(x, edges, triangles, len(x), device)
    for _ in range(5):
        edge, triangle, _ = intersections.find(wp.array(x, dtype=vec3, device=device))
        assert set(zip(edge.tolist(), triangle.tolist(), strict=True)) == brute_force(x, edges, triangles)[0]
        x = x + rng.uniform(-0.5, 0.5, x.shape)


def test_solids_are_not_compared_with_each_other(device: str) -> None:
    rng = np.random.default_rng(9)
    x = rng.uniform(0.0, 1.0, (60, 3))
    triangles = np.arange(60).reshape(20, 3)
    edges = sides(triangles)
    expected = {(e, k) for e, k in brute_force(x, edges, triangles)[0] if edges[e, 0] < 30 or triangles[k, 0] < 30}
    assert found(x, triangles, device, moving=30) == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_flat_sheet_in_any_position_does_not_intersect_itself(seed: int, device: str) -> None:
    """Edges and triangles of a flat sheet are coplanar, and the boxes of many overlap."""
    flat = Grid(size=(0.7, 0.6), resolution=(9, 8)).mesh(Path())
    x = flat.positions @ Rotation.random(random_state=seed).as_matrix().T + np.array([0.1, -2.0, 3.0])
    assert found(x, flat.triangles, device) == set()


def intersect_exactly(p0: np.ndarray, p1: np.ndarray, corners: np.ndarray) -> bool:
    """Whether an edge and a triangle have a common point, in rational arithmetic; not for an edge in its plane."""

    def volume(*points: np.ndarray) -> Fraction:
        u, v, w = (
            [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(p, points[3], strict=True)] for p in points[:3]
        )
        return (
            u[0] * (v[1] * w[2] - v[2] * w[1]) + u[1] * (v[2] * w[0] - v[0] * w[2]) + u[2] * (v[0] * w[1] - v[1] * w[0])
        )

    a, b, c = corners
    ends = volume(a, b, c, p0), volume(a, b, c, p1)
    line = volume(p0, p1, a, b), volume(p0, p1, b, c), volume(p0, p1, c, a)
    assert any(ends)
    return ends[0] * ends[1] <= 0 and (min(line) >= 0 or max(line) <= 0)


def test_exact_contacts_are_never_missed(device: str) -> None:
    """Edges that end on a triangle, its sides or corners, up to rounding; the reference is rational arithmetic."""
    rng = np.random.default_rng(4)
    n = 2000
    corners = rng.uniform(-1.0, 1.0, (n, 3, 3))
    weights = rng.dirichlet(np.ones(3), n)
    weights[: n // 2, 0] = 0.0
    weights[: n // 4, 1] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    on = np.einsum("nk,nki->ni", weights, corners)
    away = rng.uniform(-1.0, 1.0, (n, 3))
    away[::2] += on[::2]
    beyond = np.where(rng.random((n, 1)) < 0.5, on, on + 0.3 * (on - away))
    x = np.concatenate([corners, np.stack([away, beyond], axis=1)], axis=1).reshape(-1, 3)
    first = 5 * np.arange(n)[:, None]
    triangles, edges = first + np.arange(3), (first + np.array([3, 4]))
    # Side by side, 16 in a row; rounding moves the points a little to either side.
    x[:, 0] += np.repeat(4.0 * (np.arange(n) % 16), 5)
    x[:, 1] += np.repeat(4.0 * (np.arange(n) // 16), 5)
    edge, triangle, _ = search(x, edges, triangles, len(x), device).find(wp.array(x, dtype=vec3, device=device))
    pairs = set(zip(edge.tolist(), triangle.tolist(), strict=True))
    truth = [intersect_exactly(x[e[0]], x[e[1]], x[t]) for e, t in zip(edges, triangles, strict=True)]
    assert 200 < sum(truth) < n
    missed = [i for i in np.flatnonzero(truth) if (i, i) not in pairs]
    assert missed == []
    # Edges that end before the triangle by far more than rounding do not intersect. The smallest distance is 1e-10.
    short = x.reshape(n, 5, 3)
    short[:, 4] = np.where((beyond == on), short[:, 4] + 1e-7 * (short[:, 3] - short[:, 4]), short[:, 4])
    edge, triangle, _ = search(x, edges, triangles, len(x), device).find(wp.array(x, dtype=vec3, device=device))
    assert not np.any((beyond == on).all(axis=1)[edge[edge == triangle]])


def test_an_edge_in_the_plane_of_a_triangle(device: str) -> None:
    triangle = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    R = Rotation.random(random_state=1).as_matrix()
    cases = {
        ((-0.5, 0.3), (0.5, 0.3)): True,  # over a side
        ((0.2, 0.2), (0.3, 0.3)): True,  # within
        ((-1.0, 0.3), (2.0, 0.3)): True,  # across
        ((0.6, 0.6), (2.0, 0.1)): False,  # beyond the long side, boxes overlap
        ((-0.2, -0.1), (1.2, -0.1)): False,
        ((1.1, 0.0), (1.5, 0.0)): False,  # in line with a side
    }
    for ends, expected in cases.items():
        x = np.concatenate([triangle, np.column_stack([np.array(ends), np.zeros(2)])]) @ R.T
        intersections = search(x, np.array([[3, 4]]), np.array([[0, 1, 2]]), 5, device)
        assert (len(intersections.find(wp.array(x, dtype=vec3, device=device))[0]) == 1) == expected
