"""Whether faces and edges of a solid must take part, and the triangles that stand for it, against sampled geometry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference.solids import closest
from toile import plugins
from toile.colliders.base import SURFACE_TOLERANCE, Collider
from toile.colliders.features import MAX_LIFT, distance_needed, held_distance, largest_covering_radius, takes_part
from toile.math.types import precision
from toile.scene.schema import Scene
from toile.simulation.simulation import Simulation

GAP = 1e-3  # [m]
EXACT = 1e-9 if precision == "double" else 1e-6  # [m]

CURVED: dict[str, dict[str, Any]] = {
    "ball": {"type": "sphere", "radius": 0.07},
    "large ball": {"type": "sphere", "radius": 0.4},
    "rod": {"type": "capsule", "radius": 0.002, "length": 0.5},
    "arm": {"type": "capsule", "radius": 0.05, "length": 0.3},
    "disc": {"type": "cylinder", "radius": 0.3, "height": 0.1},
    "round disc": {"type": "cylinder", "radius": 0.3, "height": 0.1, "rounding": 0.02},
    "box": {"type": "box", "size": (0.3, 0.2, 0.1)},
    "round box": {"type": "box", "size": (0.3, 0.2, 0.1), "rounding": 0.03},
    "cone": {"type": "turned", "profile": [(0.0, 0.0), (0.1, 0.0), (0.0, 0.3)], "segments": 8},
}
FUNNEL = {"type": "turned", "profile": [(0.1, -0.2), (0.15, -0.2), (0.4, 0.2), (0.3, 0.2)]}


def settings(**fields: Any) -> Collider:
    found = plugins.find("colliders", fields.pop("type")).model_validate(fields)
    assert isinstance(found, Collider)
    return found


def samples(corners: np.ndarray, count: int = 8) -> np.ndarray:
    """Points of all triangles, in rows of a regular grid, with corners and edges."""
    i, j = np.meshgrid(np.arange(count + 1), np.arange(count + 1), indexing="ij")
    inside = i + j <= count
    s, t = i[inside] / count, j[inside] / count
    weights = np.stack([1.0 - s - t, s, t], axis=1)
    return np.einsum("kc,tcd->tkd", weights, corners)


@pytest.mark.parametrize("name", [*CURVED, "funnel"])
def test_the_triangles_of_a_curved_solid_enclose_it_closely(name: str) -> None:
    """No point of them is inside it, nor farther outside than the tolerance. (A hole may be narrowed as much as a rim
    is widened, and corners of rounded boxes, of triangles on a sphere, may be at twice the tolerance.)"""
    solid = settings(**{**CURVED, "funnel": FUNNEL}[name]).build(Path(), False, "cpu")
    solid.move(0.0, 0.0)
    surface = solid.contact_surface(GAP)
    points = samples(surface.vertices(0.0)[surface.triangles]).reshape(-1, 3)
    distance = closest(solid, points)["distance"]
    assert distance.min() > -EXACT
    assert distance.max() < 2.0 * SURFACE_TOLERANCE * GAP


def test_the_covering_radius_bounds_every_point_of_a_triangle() -> None:
    """The distance from the nearest corner, at sampled points of random triangles; it is reached where all angles are
    acute."""
    corners = np.random.default_rng(1).normal(size=(300, 3, 2))
    points = samples(corners, 40)
    nearest = np.linalg.norm(points[:, :, None] - corners[:, None], axis=3).min(axis=2).max(axis=1)
    radii = np.array([largest_covering_radius(triangle[None]) for triangle in corners])
    assert (nearest <= radii + 1e-12).all()
    edges = np.sort(np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2), axis=1)
    acute = edges[:, 0] ** 2 + edges[:, 1] ** 2 > edges[:, 2] ** 2
    assert acute.any()
    np.testing.assert_array_less(0.95 * radii[acute], nearest[acute])


@pytest.mark.parametrize("R", [0.0, 0.002, 0.05, 0.3])
def test_triangles_at_the_distance_needed_stay_out(R: float) -> None:
    """Random triangles whose corners are in front of a ball by the distance that their covering radius asks for; a
    right angle across the ball reaches it, but for the margin for stretch."""
    rng, rho = np.random.default_rng(2), 0.02
    gap = distance_needed(R, rho / 1.2)  # without the margin
    directions = rng.normal(size=(2000, 3, 3))
    directions = directions[:, :1] + 0.3 * rng.uniform(0.0, 1.0, (2000, 1, 1)) * directions
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    corners = (R + gap) * directions
    flat = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2)
    a, b, c = np.sort(flat, axis=1).T
    uv = np.zeros((2000, 3, 2))
    uv[:, 1, 0] = c
    uv[:, 2, 0] = (b**2 + c**2 - a**2) / (2.0 * c)
    uv[:, 2, 1] = np.sqrt(np.maximum(b**2 - uv[:, 2, 0] ** 2, 0.0))
    small = np.array([largest_covering_radius(one[None]) <= rho for one in uv])
    assert small.any()
    assert np.linalg.norm(samples(corners[small], 20), axis=2).min() >= R - 1e-12
    across = np.array([[rho, 0.0, R], [-rho, 0.0, R], [0.0, rho, R]])
    assert np.linalg.norm(across, axis=1).min() == pytest.approx(R + gap)
    assert np.linalg.norm(samples(across[None], 20), axis=2).min() == pytest.approx(R)


def test_the_decision_follows_from_curvature() -> None:
    """Cells of 2 cm: a plane and a large ball need no lift, a smaller one some, and a rod, an edge or a mesh more than
    is allowed."""
    rho = largest_covering_radius(np.array([[[0.0, 0.0], [0.02, 0.0], [0.02, 0.02]]]))
    assert rho == pytest.approx(0.01 * 2.0**0.5)
    for solid, lifted, joins in (
        (settings(type="plane"), False, False),
        (settings(type="sphere", radius=0.3), False, False),
        (settings(type="sphere", radius=0.1), True, False),
        (settings(type="capsule", radius=0.002), False, True),
        (settings(type="box"), False, True),
        (settings(type="box", rounding=0.1), True, False),
        (settings(type="mesh", file="body.obj"), False, True),
        (settings(type="level_set", parts=[{"type": "sphere", "radius": 0.3}]), False, True),
        (settings(type="sphere", radius=0.1, sharp=False), False, False),
        (settings(type="plane", sharp=True), False, True),
    ):
        gap = held_distance(solid, rho, GAP)
        assert (gap > GAP) is lifted
        assert gap <= GAP + MAX_LIFT
        assert takes_part(solid, rho, gap) is joins


def test_the_surface_of_a_level_set_is_that_of_its_field(device: str) -> None:
    """A ball of 5 cm on cells of 1 cm: its field is up to 0.5 mm inside, and rounds the edges of a box by more. Cloth
    is held in front of the field, so the triangles that take part must follow it."""
    parts = [
        {"type": "sphere", "radius": 0.05},
        {"type": "box", "size": (0.1, 0.1, 0.1), "translation": (0.2, 0.0, 0.0)},
        {"type": "sphere", "radius": 0.01, "translation": (0.2, 0.0, 0.0)},  # inside the box
    ]
    simulation = Simulation(
        Scene(
            cloth=[{"shape": {"type": "grid", "size": (0.2, 0.2), "resolution": (11, 11)}, "translation": (0, 0, 1)}],
            solids=[{"type": "level_set", "cell": 0.01, "parts": parts, "translation": (0.0, 0.3, 0.0)}],
            filters=["self_contact"],
        ),
        device,
    )
    (surface,) = simulation.solids.contact_surfaces
    used = np.unique(surface.triangles)
    x = simulation.state.x.numpy()
    points = surface.vertices(0.0)[used]
    padded = np.concatenate([points, np.zeros((-len(points) % len(x), 3))]).reshape(-1, len(x), 3)
    found = []
    for rows in padded:
        simulation.state.x.assign(rows)
        found.append(simulation.solids.closest_points(simulation.state.x, 0.0)[0]["distance"])
    distance = np.concatenate(found)[: len(points)]
    assert np.abs(distance - SURFACE_TOLERANCE * GAP).max() < 0.1 * GAP
