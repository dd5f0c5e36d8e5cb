"""The audit against an exact oracle on small integers, where contacts and coplanar cases are common."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest
import warp as wp

from tests.reference.intersections import intersecting_pairs
from toile.contact import intersection_audit as audit_module
from toile.contact.intersection_audit import Audit
from toile.device import threads
from toile.math.types import precision, vec3

SEPARATE = np.arange(6).reshape(2, 3)
AROUND_A_VERTEX = np.array([[0, 1, 2], [0, 3, 4]])
FLAT = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0]], float)


def pairs(triangles: np.ndarray, x: np.ndarray, device: str, particle_count: int | None = None) -> np.ndarray:
    return Audit(triangles, len(x) if particle_count is None else particle_count, device).pairs(x)


def grid(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, n) vertices on the unit square, flat, and their triangles."""
    u = np.linspace(0.0, 1.0, n)
    x = np.stack([*np.meshgrid(u, u, indexing="ij"), np.zeros((n, n))], axis=-1).reshape(-1, 3)
    a = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    lower, upper = np.stack([a, a + n, a + n + 1], axis=1), np.stack([a, a + n + 1, a + 1], axis=1)
    return x, np.concatenate([lower, upper])


def test_the_audit_imports_nothing_of_contact() -> None:
    tree = ast.parse(inspect.getsource(audit_module))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    known = {name for name in imported if name and name.startswith("toile")}
    assert known == {"toile.device.launcher", "toile.math.types"}


@pytest.mark.parametrize("size", [2, 3, 6, 40])
def test_random_pairs_of_whole_numbers(device: str, size: int) -> None:
    """Many pairs at once, far apart so that only the two triangles of a pair can intersect. With small integers a large
    share has a single common point, is coplanar, or has no area; with large ones almost none."""
    rng = np.random.default_rng(size)
    count = 150
    x = rng.integers(0, size, (count, 6, 3)).astype(float)
    judged = [bool(len(intersecting_pairs(SEPARATE, points))) for points in x]
    x[:, :, 0] += 100.0 * np.arange(count)[:, None]
    found = pairs(np.arange(6 * count).reshape(-1, 3), x.reshape(-1, 3), device)
    expected = 2 * np.flatnonzero(judged)
    np.testing.assert_array_equal(found, np.stack([expected, expected + 1], axis=1))
    assert 0.1 * count < len(found) < 0.95 * count


@pytest.mark.parametrize("size", [2, 3, 8])
def test_random_pairs_with_a_common_vertex(device: str, size: int) -> None:
    rng = np.random.default_rng(100 + size)
    count = 150
    x = rng.integers(0, size, (count, 5, 3)).astype(float)
    judged = [bool(len(intersecting_pairs(AROUND_A_VERTEX, points))) for points in x]
    x[:, :, 2] += 100.0 * np.arange(count)[:, None]
    triangles = (AROUND_A_VERTEX + 5 * np.arange(count)[:, None, None]).reshape(-1, 3)
    found = pairs(triangles, x.reshape(-1, 3), device)
    expected = 2 * np.flatnonzero(judged)
    np.testing.assert_array_equal(found, np.stack([expected, expected + 1], axis=1))
    assert 0.05 * count < len(found) < 0.95 * count


@pytest.mark.parametrize("seed", range(2))
def test_random_meshes(device: str, seed: int) -> None:
    """A connected mesh with random vertices, and a second one that represents a solid."""
    rng = np.random.default_rng(seed)
    _, triangles = grid(4)
    both = np.concatenate([triangles, triangles + 16])
    x = rng.integers(0, 12, (32, 3)).astype(float)
    expected = intersecting_pairs(both, x, 16)
    np.testing.assert_array_equal(pairs(both, x, device, 16), expected)
    assert len(expected) > 20
    assert not (expected >= len(triangles)).all(axis=1).any()


CASES = {
    "pierced": ([[1, 1, -1], [1, 1, 1], [9, 9, 1]], True),
    "an edge through the plane beside it": ([[3, 3, -1], [3, 3, 1], [9, 9, 1]], False),
    "a corner on the face": ([[1, 1, 0], [1, 1, 1], [2, 1, 1]], True),
    "a corner on an edge": ([[2, 2, 0], [2, 2, 1], [3, 3, 1]], True),
    "a corner on a corner": ([[4, 0, 0], [4, 0, 1], [5, 0, 1]], True),
    "an edge along an edge": ([[1, 0, 0], [2, 0, 0], [1, -1, 1]], True),
    "an edge in the plane and across": ([[1, -1, 0], [1, 5, 0], [1, 1, 3]], True),
    "an edge in the plane, outside": ([[5, 0, 0], [5, 5, 0], [5, 1, 3]], False),
    "in the plane, overlapping": ([[1, 1, 0], [5, 1, 0], [1, 5, 0]], True),
    "in the plane, inside": ([[1, 1, 0], [1.5, 1, 0], [1, 1.5, 0]], True),
    "in the plane, with a common side": ([[2, 2, 0], [4, 4, 0], [4, 2, 0]], True),
    "in the plane, apart": ([[3, 3, 0], [4, 4, 0], [4, 3, 0]], False),
    "the same": (FLAT, True),
    "a plane above": (FLAT + np.array([0, 0, 1e-300]), False),
    "no area, through": ([[1, 1, -1], [1, 1, 1], [1, 1, 3]], True),
    "no area, short of it": ([[1, 1, 1], [1, 1, 2], [1, 1, 3]], False),
    "a point on it": ([[1, 1, 0]] * 3, True),
    "a point beside it": ([[1, 1, 1e-9]] * 3, False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_known_cases(device: str, case: str) -> None:
    other, expected = CASES[case]
    for first, second in ((FLAT, other), (other, FLAT)):
        for axis in range(3):
            x = np.roll(np.concatenate([first, second]).astype(float), axis, axis=1)
            assert bool(len(pairs(SEPARATE, x, device))) is expected
            assert bool(len(intersecting_pairs(SEPARATE, x))) is expected


def test_two_segments_without_area(device: str) -> None:
    segments = np.array([[-1, 0, 0], [0, 0, 0], [1, 0, 0], [0, -1, 0], [0, 0, 0], [0, 1, 0]], float)
    assert len(pairs(SEPARATE, segments, device)) == 1
    past = segments.copy()
    past[3:, 2] = 1e-200
    assert len(pairs(SEPARATE, past, device)) == 0


def test_one_unit_in_the_last_place_decides(device: str) -> None:
    """A corner on an oblique face, then one unit in the last place above or below it."""
    face = np.array([[0.1, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1]])
    third = 0.1 / 3.0
    for last in (np.nextafter(third, 0.0), third, np.nextafter(third, 1.0)):
        corner = np.array([third, third, last])
        x = np.concatenate([face, [corner, corner + 0.3, corner * [4, 4, 5]]])
        assert len(pairs(SEPARATE, x, device)) == len(intersecting_pairs(SEPARATE, x))


def test_a_flat_cloth_does_not_intersect_itself(device: str) -> None:
    """Neither does a rotated one, which rounding leaves not quite flat."""
    x, triangles = grid(30)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for positions in (x, x @ turn.T, x @ turn.T + [1e4, -3e3, 7.0]):
        assert len(pairs(triangles, positions, device)) == 0


def test_triangles_with_a_common_edge_do_not_intersect(device: str) -> None:
    """Not even where they are folded flat onto each other; a free corner that passes through intersects other
    triangles."""
    x = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.2, 0.2, 0]], float)
    assert len(pairs(np.array([[0, 1, 2], [0, 1, 3]]), x, device)) == 0


def intersecting_grids() -> tuple[np.ndarray, np.ndarray]:
    """A flat sheet and an upright one that intersects it, off the grid lines of the first."""
    x, triangles = grid(9)
    standing = x[:, [0, 2, 1]] * [0.9, 1.0, 1.0] + [0.031, 0.437, -0.512]
    return np.concatenate([x, standing]), np.concatenate([triangles, triangles + len(x)])


def test_reported_points_lie_on_both_triangles(device: str) -> None:
    """The sheets intersect along the line y = 0.437, z = 0, which their edges cut into about 22 segments."""
    x, triangles = intersecting_grids()
    audit = Audit(triangles, len(x), device)
    found = audit.pairs(x)
    places = audit.points(x, found)
    assert len(found) == audit.count(x) == len(places) > 20
    np.testing.assert_allclose(places[:, 1:], [[0.437, 0.0]] * len(found), atol=1e-15)
    for pair, place in zip(found, places, strict=True):
        for corners in x[triangles[pair]]:
            assert (place >= corners.min(axis=0) - 1e-15).all()
            assert (place <= corners.max(axis=0) + 1e-15).all()


def test_pairs_are_invariant_under_exact_rigid_motion(device: str) -> None:
    """The same pairs, degenerate or not, after translations without rounding and rotations by right angles."""
    rng = np.random.default_rng(5)
    _, triangles = grid(12)
    x = rng.integers(0, 64, (144, 3)).astype(float) / 64.0
    expected = pairs(triangles, x, device)
    assert len(expected) > 1000
    for offset in ([1024.0, -512.0, 3.0], [2.0**30, 2.0**29, 0.0]):
        np.testing.assert_array_equal(pairs(triangles, x + offset, device), expected)
        np.testing.assert_array_equal(pairs(triangles, x[:, [1, 2, 0]] * [-1.0, 1.0, 1.0] + offset, device), expected)
    scaled = pairs(triangles, x * 2.0**-500, device)  # products of these are smaller than any double
    np.testing.assert_array_equal(scaled, expected)


def test_more_pairs_than_the_initial_capacity(device: str) -> None:
    """A stack of triangles around one axis, in which every triangle intersects every other."""
    n = 80
    angle = np.linspace(0.0, 3.0, n)
    height = np.linspace(0.0, 1.0, n)
    edge = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = np.zeros((n, 3, 3))
    x[:, 0, :2], x[:, 1, :2], x[:, 2, 2] = -edge, edge, 3.0 + height
    x[:, :2, 2] = -3.0
    audit = Audit(np.arange(3 * n).reshape(-1, 3), 3 * n, device)
    assert audit.count(x.reshape(-1, 3)) == n * (n - 1) // 2
    assert audit.count(np.zeros((3 * n, 3)) + 10.0 * np.arange(n).repeat(3)[:, None]) == 0


def test_a_refitted_tree_finds_the_same_pairs(device: str) -> None:
    """The tree is only refitted, whatever the motion of the triangles."""
    x, triangles = intersecting_grids()
    audit = Audit(triangles, len(x), device)
    apart = x + np.where(np.arange(len(x)) < 81, 0.0, 5.0)[:, None]
    assert audit.count(wp.array(apart, dtype=vec3, device=device)) == 0
    if precision == "double":
        found = audit.pairs(wp.array(x, dtype=vec3, device=device))
        np.testing.assert_array_equal(found, pairs(triangles, x, device))
    assert audit.count(x[np.random.default_rng(0).permutation(len(x))]) > 100


@pytest.mark.parametrize("count", [2, 3])
def test_any_number_of_threads_finds_the_same(count: int, device: str) -> None:
    """Two sheets of 3,200 triangles that intersect."""
    x, triangles = grid(41)
    standing = x[:, [0, 2, 1]] * [0.9, 1.0, 1.0] + [0.031, 0.437, -0.512]
    before = threads.count()
    found = []
    try:
        for number in (1, count):
            threads.use(number)
            audit = Audit(np.concatenate([triangles, triangles + len(x)]), 2 * len(x), device)
            found.append(audit.pairs(np.concatenate([x, standing])))
    finally:
        threads.use(before)
    assert len(found[0]) > 100
    np.testing.assert_array_equal(*found)


def test_a_mesh_without_triangles(device: str) -> None:
    audit = Audit(np.zeros((0, 3), np.int32), 0, device)
    assert audit.pairs(np.zeros((0, 3))).shape == (0, 2)
    assert audit.points(np.zeros((0, 3)), audit.pairs(np.zeros((0, 3)))).shape == (0, 3)


def test_positions_that_are_not_numbers_are_reported(device: str) -> None:
    x, triangles = grid(3)
    x[4, 1] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        pairs(triangles, x, device)
