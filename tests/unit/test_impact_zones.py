"""Impact zones move as rigid bodies: conserved quantities, constraints, and no collision within a zone."""

from __future__ import annotations

import numpy as np
import pytest

from toile.contact.response.impact_zones import ImpactZones, rigid_motion

EYE = np.eye(3)


def zone(seed: int, count: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, displacements and masses."""
    rng = np.random.default_rng(seed)
    x = np.array([5.0, -3.0, 2.0]) + rng.normal(size=(count, 3))
    return x, rng.normal(size=(count, 3)), rng.uniform(0.1, 10.0, count)


def moved(x: np.ndarray, d: np.ndarray, masses: np.ndarray, held: np.ndarray | None = None) -> np.ndarray:
    found = rigid_motion(x, d, masses, np.zeros((len(x), 3, 3)) if held is None else held)
    assert found is not None
    return found


def holding(count: int, who: list[int], normals: np.ndarray) -> np.ndarray:
    """Projections to the held directions of some vertices."""
    held = np.zeros((count, 3, 3))
    held[who] = np.linalg.pinv(np.atleast_2d(normals)) @ np.atleast_2d(normals)
    return held


def smallest_distances(x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The smallest distance of each pair of points on the way, relative to the start."""
    i, j = np.triu_indices(len(x), 1)
    r, e = x[i] - x[j], d[i] - d[j]
    t = np.clip(-(r * e).sum(axis=1) / np.maximum((e * e).sum(axis=1), 1e-300), 0.0, 1.0)
    return np.linalg.norm(r + t[:, None] * e, axis=1) / np.linalg.norm(r, axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_linear_and_angular_momentum_are_conserved(seed: int) -> None:
    """Momentum of the displacements, about any point; to rounding."""
    x, d, m = zone(seed)
    change = m[:, None] * (moved(x, d, m) - d)
    assert np.abs(change.sum(axis=0)).max() < 1e-13 * np.abs(m[:, None] * d).sum()
    assert np.abs(np.cross(x, change).sum(axis=0)).max() < 1e-12 * np.abs(m[:, None] * d).sum()


@pytest.mark.parametrize("seed", range(5))
def test_no_distance_gets_shorter_on_the_way(seed: int) -> None:
    """The distance of any two vertices, for motions that are large relative to the zone."""
    x, d, m = zone(seed)
    assert smallest_distances(x, moved(x, 3.0 * d, m)).min() > 1.0 - 1e-12


def test_a_rigid_motion_is_not_changed() -> None:
    x, _, m = zone(0)
    d = np.array([0.3, -0.2, 0.1]) + np.cross([0.5, 0.2, -0.4], x)
    np.testing.assert_allclose(moved(x, d, m), d, atol=1e-13)


@pytest.mark.parametrize("points", [1, 2, 3], ids=["a point", "a line", "a plane"])
def test_zones_without_volume(points: int) -> None:
    """Four vertices at one point, on a line, in a plane: the rigid motion is not unique."""
    rng = np.random.default_rng(4)
    x = rng.uniform(size=(4, points)) @ rng.normal(size=(points, 3)) if points > 1 else np.ones((4, 3))
    d, m = rng.normal(size=(4, 3)), rng.uniform(0.1, 1.0, 4)
    found = moved(x, d, m)
    np.testing.assert_allclose(m @ found, m @ d, atol=1e-13)
    if points > 1:
        assert smallest_distances(x, found).min() > 1.0 - 1e-12
    else:
        assert np.ptp(found, axis=0).max() < 1e-13


@pytest.mark.parametrize(
    "normals",
    [
        EYE,
        EYE[2:],
        pytest.param(np.array([[2.0, -1.0, 2.0]]) / 3.0),
        pytest.param(np.array([[1.0, 1.0, 1.0]]) / np.sqrt(3.0)),
        EYE[:2],
    ],
    ids=["pin", "plane z", "plane (2, -1, 2)", "plane (1, 1, 1)", "line"],
)
def test_held_directions_keep_their_displacement(normals: np.ndarray) -> None:
    """One vertex is held: to the last bit where the projection is exact, otherwise to rounding."""
    x, d, m = zone(6)
    held = holding(len(x), [3], normals)
    found = moved(x, d, m, held)
    assert np.abs(normals @ (found - d)[3]).max() <= (0.0 if np.isin(held, (0.0, 1.0)).all() else 1e-15)
    others = np.delete(np.arange(len(x)), 3)
    assert smallest_distances(x[others], found[others]).min() > 1.0 - 1e-12
    assert smallest_distances(x, found).min() > 1.0 - 1e-12


def test_momentum_along_free_directions_is_conserved() -> None:
    """Vertices on lines along z: only momentum along z is not transferred to the constraints."""
    x, d, m = zone(8)
    d[:, :2] = 0.0
    found = moved(x, d, m, holding(len(x), [1, 5, 7], EYE[:2]))
    assert m @ found[:, 2] == pytest.approx(m @ d[:, 2], rel=1e-12)


def test_a_zone_follows_vertices_of_solids() -> None:
    """They have mass 0 and are held in all directions: the zone follows the solid."""
    x, d, m = zone(9)
    m[:3] = 0.0
    d[:3] = np.array([0.1, 0.2, 0.3]) + np.cross([0.0, 0.4, 0.1], x[:3])
    found = moved(x, d, m, holding(len(x), [0, 1, 2], EYE))
    np.testing.assert_array_equal(found[:3], d[:3])
    np.testing.assert_allclose(found, np.array([0.1, 0.2, 0.3]) + np.cross([0.0, 0.4, 0.1], x), atol=1e-11)


@pytest.mark.parametrize("way", [1e-6, 1.0])
def test_there_is_no_zone_motion_for_contradictory_constraints(way: float) -> None:
    """Two pins that approach, however little; three pins that deform."""
    x, d, m = zone(10)
    d[:2] = 0.0
    d[1] = way * (x[0] - x[1])
    assert rigid_motion(x, d, m, holding(len(x), [0, 1], EYE)) is None
    d[1] = 0.0
    assert rigid_motion(x, d, m, holding(len(x), [0, 1], EYE)) is not None


def test_a_zone_follows_pins_that_rotate_rigidly() -> None:
    x, d, m = zone(11)
    d[:4] = np.cross([0.0, 0.0, 0.7], x[:4])
    found = moved(x, d, m, holding(len(x), [0, 1, 2, 3], EYE))
    np.testing.assert_array_equal(found[:4], d[:4])
    np.testing.assert_allclose(found, np.cross([0.0, 0.0, 0.7], x), atol=1e-11)


def test_groups_that_share_a_vertex_become_one_zone() -> None:
    """Against the connected components of the graph, found by propagating the smallest index."""
    rng = np.random.default_rng(12)
    groups = rng.integers(0, 200, (40, 4)).astype(np.int32)
    zones = ImpactZones(200)
    zones.join(groups[:15])
    zones.join(groups[15:])
    label = np.arange(200)
    for _ in range(200):
        for group in groups:
            label[group] = label[group].min()
    inside = np.unique(groups)
    wanted = {tuple(inside[label[inside] == low]) for low in np.unique(label[inside])}
    assert {tuple(sorted(found)) for found in zones.zones()} == wanted


def test_without_groups_there_are_no_zones() -> None:
    zones = ImpactZones(5)
    assert zones.zones() == []
    zones.join(np.zeros((0, 4), np.int32))
    assert zones.zones() == []
