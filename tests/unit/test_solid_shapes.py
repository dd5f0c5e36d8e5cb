"""Triangles of simple solids: Euler's formula, orientation, and volumes and areas in closed form."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from toile.model import solid_shapes as shapes
from toile.model.solid_shapes import Surface

CLOSED = {
    "sphere": shapes.sphere(0.4),
    "icosahedron": shapes.sphere(0.4, subdivisions=0),
    "capsule": shapes.capsule(0.2, 0.7),
    "capsule of few triangles": shapes.capsule(0.2, 0.7, segments=3, rings=1),
    "cylinder": shapes.cylinder(0.3, 0.5),
    "cylinder of few triangles": shapes.cylinder(0.3, 0.5, segments=3, rings=2),
    "box": shapes.box((1.0, 2.0, 3.0)),
}


def volume(surface: Surface) -> float:
    """Divergence theorem: the flux of p / 3, from the center and the area of each triangle."""
    x = surface[0][surface[1]]
    normals = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]) / 2
    return float(np.sum(x.mean(axis=1) * normals) / 3)


def polygon_area(segments: int) -> float:
    """Area of the regular polygon in the unit circle."""
    return 0.5 * segments * np.sin(2 * np.pi / segments)


@pytest.mark.parametrize("surface", CLOSED.values(), ids=CLOSED.keys())
def test_closed_shapes_are_topological_spheres(surface: Surface) -> None:
    """V - E + F = 2, and every edge occurs once in each direction."""
    positions, triangles = surface
    runs = Counter((int(t[i]), int(t[(i + 1) % 3])) for t in triangles for i in range(3))
    assert set(runs.values()) == {1}
    assert all((b, a) in runs for a, b in runs)
    assert len(positions) - len(runs) // 2 + len(triangles) == 2
    assert set(triangles.ravel()) == set(range(len(positions)))
    assert positions.dtype == np.float64 and triangles.dtype == np.int32


@pytest.mark.parametrize("surface", CLOSED.values(), ids=CLOSED.keys())
def test_closed_shapes_are_convex_and_seen_from_outside(surface: Surface) -> None:
    """No vertex lies in front of any triangle; with the winding reversed all would."""
    positions, triangles = surface
    x = positions[triangles]
    normals = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    ahead = positions @ normals.T - np.sum(normals * x[:, 0], axis=1)
    assert ahead.max() < 1e-12
    assert ahead.min() < -0.1


def test_the_cylinder_of_bw98_table_1() -> None:
    positions, triangles = shapes.cylinder(0.3, 0.5)
    assert (len(positions), len(triangles)) == (322, 640)


def test_volume_of_a_box() -> None:
    assert volume(CLOSED["box"]) == pytest.approx(6.0, rel=1e-14)


@pytest.mark.parametrize(("segments", "rings"), [(3, 2), (20, 16), (64, 2)])
def test_volume_of_a_cylinder_is_that_of_a_prism(segments: int, rings: int) -> None:
    surface = shapes.cylinder(0.3, 0.5, segments, rings)
    assert volume(surface) == pytest.approx(polygon_area(segments) * 0.3**2 * 0.5, rel=1e-13)
    assert np.ptp(surface[0][:, 2]) == pytest.approx(0.5)


@pytest.mark.parametrize(("segments", "rings"), [(5, 1), (12, 4), (32, 8)])
def test_volume_of_a_capsule_is_that_of_its_frusta(segments: int, rings: int) -> None:
    """Between parallel polygons of radius r and s, h apart: A h (r^2 + r s + s^2) / 3."""
    radius, length = 0.2, 0.7
    angle = np.linspace(0, np.pi / 2, rings + 1)
    r, z = radius * np.sin(angle), radius * np.cos(angle)
    caps = 2 * np.sum(-np.diff(z) * (r[1:] ** 2 + r[1:] * r[:-1] + r[:-1] ** 2)) / 3
    expected = polygon_area(segments) * (caps + radius**2 * length)
    assert volume(shapes.capsule(radius, length, segments, rings)) == pytest.approx(expected, rel=1e-12)


def test_vertices_of_a_capsule_lie_on_it() -> None:
    x = CLOSED["capsule"][0]
    nearest = np.column_stack([np.zeros((len(x), 2)), np.clip(x[:, 2], -0.35, 0.35)])
    np.testing.assert_allclose(np.linalg.norm(x - nearest, axis=1), 0.2, atol=1e-15)


@pytest.mark.parametrize("subdivisions", [0, 1, 3])
def test_a_sphere_is_a_divided_icosahedron(subdivisions: int) -> None:
    positions, triangles = shapes.sphere(0.4, subdivisions)
    assert (len(positions), len(triangles)) == (10 * 4**subdivisions + 2, 20 * 4**subdivisions)
    np.testing.assert_allclose(np.linalg.norm(positions, axis=1), 0.4, rtol=1e-15)


def test_volume_of_a_sphere() -> None:
    """The icosahedron has 5 (3 + sqrt 5) / 12 of the cube of its edge; refinement closes the gap by 4 each time."""
    edge = 0.4 / np.sin(2 * np.pi / 5)
    assert volume(CLOSED["icosahedron"]) == pytest.approx(5 * (3 + np.sqrt(5)) / 12 * edge**3, rel=1e-13)
    ball = 4 / 3 * np.pi * 0.4**3
    gaps = [ball - volume(shapes.sphere(0.4, n)) for n in (2, 3, 4)]
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.05)
    assert gaps[1] / gaps[2] == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize(
    ("surface", "area", "boundary"),
    [
        (shapes.plane(2.0), 4.0, 4),
        (shapes.plane((2.0, 3.0)), 6.0, 4),
        (shapes.disc(0.5, 12), polygon_area(12) * 0.25, 12),
    ],
    ids=["square", "rectangle", "disc"],
)
def test_flat_shapes_face_up(surface: Surface, area: float, boundary: int) -> None:
    positions, triangles = surface
    x = positions[triangles]
    normals = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]) / 2
    assert (normals[:, 2] > 0).all() and not positions[:, 2].any()
    assert normals[:, 2].sum() == pytest.approx(area, rel=1e-14)
    np.testing.assert_allclose(positions.mean(axis=0), 0, atol=1e-15)
    edges = Counter(frozenset((int(t[i]), int(t[(i + 1) % 3]))) for t in triangles for i in range(3))
    assert sum(count == 1 for count in edges.values()) == boundary
