"""Contract of every collider: a distance with slope one, the normal as its gradient, and consistent material motion.

Points are in the frame of the solid unless stated otherwise. Every collider that the loader finds needs an example.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference.solids import attach, carry, closest, sweep
from toile import plugins
from toile.colliders.base import Collider, Solid
from toile.math.types import precision
from toile.model import solid_shapes

EXACT = 1e-9 if precision == "double" else 2e-6  # [m]


@dataclass(frozen=True)
class Example:
    """Settings of a collider about half a meter large, and its accuracy."""

    type_name: str
    settings: dict[str, Any] = field(default_factory=dict)
    distance_error: float = EXACT  # [m]
    gradient_error: float = 1e-4 if precision == "double" else 5e-2


# A field on cells of 2 cm is linear between nodes, where a ball of 0.3 m deviates by 0.02^2 / (8 * 0.3) per axis.
# The facets of the ball as a mesh have angles of 9 degrees, and an edge is rounded over a cell: 0.02 * 0.16 / 2.
FIELD = {"distance_error": 6e-4, "gradient_error": 0.05}
FIELD_OF_FACETS = {"distance_error": 1.6e-3, "gradient_error": 0.05}

EXAMPLES = {
    "plane": Example("plane", {"size": 0.5}),
    "sphere": Example("sphere"),
    "capsule": Example("capsule", {"radius": 0.15}),
    "cylinder": Example("cylinder"),
    "box": Example("box", {"size": (0.4, 0.5, 0.6)}),
    "turned into a cone": Example("turned", {"profile": [(0.0, -0.3), (0.25, -0.3), (0.0, 0.3)]}),
    "turned into a funnel": Example("turned", {"profile": [(0.1, -0.2), (0.15, -0.2), (0.4, 0.2), (0.3, 0.2)]}),
    # On a mesh the search compares triangles in single precision.
    "mesh": Example("mesh", {"file": "body.obj"}, distance_error=3e-7),
    "mesh with a sequence": Example(
        "mesh", {"file": "body.obj", "sequence": {"file": "body.npz", "fps": 10.0}}, distance_error=3e-7
    ),
    "level_set": Example("level_set", {"cell": 0.02, "parts": [{"type": "sphere"}]}, **FIELD),
    "level_set of a mesh": Example(
        "level_set", {"cell": 0.02, "parts": [{"type": "mesh", "file": "ball.obj"}]}, **FIELD_OF_FACETS
    ),
}
PRESENT = [name for name, example in EXAMPLES.items() if example.type_name in plugins.names("colliders")]

MOTION = {
    "keyframes": [
        {"time": 0.0},
        {"time": 0.5, "translation": (0.3, -0.2, 0.1), "rotation": (40.0, 90.0, -60.0)},
        {"time": 1.0, "translation": (0.1, 0.4, 0.0), "rotation": (0.0, 180.0, 30.0)},
    ]
}
PLACE = {"translation": (0.4, -0.7, 0.2), "rotation": (30.0, -50.0, 80.0)}


def write_obj(path: Path, positions: np.ndarray, triangles: np.ndarray) -> None:
    lines = [f"v {a!r} {b!r} {c!r}" for a, b, c in positions.tolist()]
    path.write_text("\n".join(lines + [f"f {a} {b} {c}" for a, b, c in (triangles + 1).tolist()]) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pear, a ball, and the pear swaying for a second."""
    path = tmp_path_factory.mktemp("solids")
    ball, triangles = solid_shapes.sphere(0.3, 3)
    write_obj(path / "ball.obj", ball, triangles)
    pear = ball * (1.0 - 0.8 * ball[:, 2:])
    write_obj(path / "body.obj", pear, triangles)
    phase = np.linspace(0.0, 3.0, 11)[:, None]
    frames = np.broadcast_to(pear, (11, *pear.shape)).copy()
    frames[..., 0] += 0.1 * np.sin(phase) * np.sin(4.0 * pear[:, 2])
    frames[..., 1] *= 1.0 + 0.2 * np.sin(2.0 * phase)
    np.savez(path / "body.npz", positions=frames)
    return path


def build(name: str, folder: Path, **more: Any) -> Solid:
    example = EXAMPLES[name]
    settings = plugins.find("colliders", example.type_name).model_validate({**example.settings, **more})
    assert isinstance(settings, Collider)
    solid = settings.build(folder, False, "cpu")
    solid.move(0.0, 0.0)
    return solid


def points_around(solid: Solid, rng: np.random.Generator, count: int, nearest: float, farthest: float) -> np.ndarray:
    """Points on both sides of the drawn surface, with a distance in the given range."""
    corners = solid.positions[solid.triangles[rng.integers(0, len(solid.triangles), 4 * count)]]
    feet = np.einsum("nk,nkd->nd", rng.dirichlet(np.ones(3), 4 * count), corners)
    away = rng.normal(size=feet.shape)
    away *= rng.uniform(nearest, farthest, (4 * count, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    points = feet + away
    distance = np.abs(closest(solid, points)["distance"])
    kept = points[(distance > nearest) & (distance < farthest)][:count]
    assert len(kept) == count
    return kept


def test_every_collider_has_an_example() -> None:
    assert set(plugins.names("colliders")) <= {example.type_name for example in EXAMPLES.values()}


@pytest.mark.parametrize("name", PRESENT)
def test_the_normal_is_the_gradient_of_the_distance(name: str, folder: Path) -> None:
    solid, example = build(name, folder), EXAMPLES[name]
    points = points_around(solid, np.random.default_rng(1), 400, 0.02, 0.07)
    # Where the curvature is discontinuous, central differences have an error of delta over twice the distance; fields
    # need a whole cell.
    delta, bend = (1e-6, 1e-3) if precision == "double" else (1e-3, 0.08)
    if example.type_name == "level_set":
        delta, bend = 0.02, 0.3
    normal = closest(solid, points)["normal"]
    gradient, smooth = np.zeros_like(points), np.ones(len(points), bool)
    for axis, step in enumerate(delta * np.eye(3)):
        ahead, behind = closest(solid, points + step), closest(solid, points - step)
        gradient[:, axis] = (ahead["distance"] - behind["distance"]) / (2.0 * delta)
        # Where the closest point jumps, the distance has a crease and no gradient.
        for beside in (ahead["normal"], behind["normal"]):
            smooth &= np.linalg.norm(beside - normal, axis=1) < bend
    assert np.count_nonzero(smooth) > 300
    assert np.abs(np.linalg.norm(normal, axis=1) - 1.0).max() < 1e-6
    assert np.abs(np.linalg.norm(gradient[smooth], axis=1) - 1.0).max() < example.gradient_error
    assert np.linalg.norm(gradient[smooth] - normal[smooth], axis=1).max() < example.gradient_error


@pytest.mark.parametrize("name", PRESENT)
def test_the_distance_is_lipschitz_with_constant_one(name: str, folder: Path) -> None:
    solid = build(name, folder)
    rng = np.random.default_rng(2)
    p = rng.uniform(-0.8, 0.8, (2000, 3))
    q = p + rng.normal(size=p.shape) * 10.0 ** rng.uniform(-4.0, 0.0, (len(p), 1))
    change = np.abs(closest(solid, p)["distance"] - closest(solid, q)["distance"])
    # Far from its surface a field is only a lower bound of the distance; near it, its slope deviates a little from 1.
    allowed = np.linalg.norm(p - q, axis=1) * (1.0 + EXAMPLES[name].gradient_error)
    assert (change - allowed).max() < 2.0 * EXAMPLES[name].distance_error


@pytest.mark.parametrize("name", PRESENT)
def test_the_drawn_surface_is_where_the_distance_is_zero(name: str, folder: Path) -> None:
    solid, example = build(name, folder), EXAMPLES[name]
    assert np.abs(closest(solid, solid.positions)["distance"]).max() < example.distance_error
    corners = solid.positions[solid.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    # A point 1 cm from the middle of a drawn triangle is outside in front of it and inside behind it; a drawn chord of
    # a ball of 0.3 m lies up to 2 mm inside of it.
    assert closest(solid, corners.mean(axis=1) + 0.01 * normals)["distance"].min() > 0.005
    assert closest(solid, corners.mean(axis=1) - 0.01 * normals)["distance"].max() < -0.005


@pytest.mark.parametrize("name", PRESENT)
def test_a_short_search_does_not_overstate_the_distance(name: str, folder: Path) -> None:
    """A distance within the reach is exact; beyond it, the result is between the reach and the distance."""
    solid = build(name, folder)
    points = np.random.default_rng(3).uniform(-0.6, 0.6, (1000, 3))
    whole = closest(solid, points)["distance"]
    short = closest(solid, points, 0.1)["distance"]
    near = np.abs(whole) < 0.0999
    assert np.abs(short - whole)[near].max() < EXACT
    outside = ~near & (whole > 0.0)
    assert np.all(short[outside] >= 0.0999) and np.all(short[outside] <= whole[outside] + EXACT)


@pytest.mark.parametrize("name", PRESENT)
def test_the_drawn_surface_moves_with_the_solid(name: str, folder: Path) -> None:
    """World vertices, transformed to the frame of the solid at the end of a step, lie on the surface there."""
    solid = build(name, folder, motion=MOTION, **PLACE)
    assert solid.moves
    for time in (0.37, 0.8, 0.37):
        solid.move(time - 0.05, time)
        R, o, _, _ = solid.frame(time)
        inside = (solid.vertices(time) - o) @ R
        # A field of a deforming surface is not tested between its frames; rigid ones are as exact as at a frame.
        assert np.abs(closest(solid, inside)["distance"]).max() < EXAMPLES[name].distance_error + EXACT


@pytest.mark.parametrize("name", PRESENT)
def test_material_velocity_is_the_rate_of_its_position(name: str, folder: Path) -> None:
    """By central differences of the world position of attached points; the jerk of this motion is about 100 m/s^3."""
    solid = build(name, folder, motion=MOTION, **PLACE)
    time, h = 0.63, 1e-4 if precision == "double" else 2e-3
    solid.move(time - h, time - h)
    points = points_around(solid, np.random.default_rng(4), 200, 0.0, 0.05)
    found = closest(solid, points)
    anchors = attach(solid, points, found["face"])
    given = (anchors, found["face"], found["normal"])
    R, o, _, _ = solid.frame(time - h)
    begin = points @ R.T + o
    assert np.abs(carry(solid, (time - h, time - h), *given)[0] - begin).max() < EXACT
    end, _, _ = carry(solid, (time - h, time + h), *given)
    _, velocity, _ = carry(solid, (time - h, time), *given)
    rate = (end - begin) / (2.0 * h)
    assert np.linalg.norm(rate, axis=1).min() > 0.1
    assert np.abs(velocity - rate).max() < (1e-5 if precision == "double" else 1e-2)


@pytest.mark.parametrize("name", PRESENT)
def test_the_pose_bounds_the_drift_of_surface_points(name: str, folder: Path) -> None:
    solid = build(name, folder, motion=MOTION, **PLACE)
    for begin, end in ((0.2, 0.3), (0.2, 0.22), (0.7, 0.75)):
        drift = float(solid.move(begin, end)["drift"])
        (R0, o0, _, _), (R1, o1, _, _) = solid.frame(begin), solid.frame(end)
        moved = (solid.vertices(end) - o1) @ R1 - (solid.vertices(begin) - o0) @ R0
        assert np.linalg.norm(moved, axis=1).max() <= drift + EXACT


@pytest.mark.parametrize("name", PRESENT)
def test_a_sweep_finds_the_first_entry_into_the_gap(name: str, folder: Path) -> None:
    solid, gap, samples = build(name, folder), 0.002, 1000
    rng = np.random.default_rng(5)
    p = points_around(solid, rng, 300, 0.05, 0.5)
    p = p[closest(solid, p)["distance"] > 0.0]
    aims = solid.positions[rng.integers(0, len(solid.positions), len(p))] + rng.normal(0.0, 0.1, p.shape)
    q = p + rng.uniform(0.5, 3.0, (len(p), 1)) * (aims - p)  # some stop short, some pass through
    s = np.linspace(0.0, 1.0, samples + 1)
    dense = closest(solid, (p[:, None] + s[:, None] * (q - p)[:, None]).reshape(-1, 3))["distance"].reshape(len(p), -1)
    first = np.where((dense <= gap).any(axis=1), s[np.argmax(dense <= gap, axis=1)], 2.0)
    found = sweep(solid, p, q, gap)
    crosses = first <= 1.0
    assert 50 < np.count_nonzero(crosses) < len(p)
    # Never later than a sample within the gap. It stops at the gap; a grazing path may be stopped earlier.
    assert np.all(found[crosses] <= first[crosses] + 1e-6)
    stopped = found <= 1.0
    at = closest(solid, p[stopped] + found[stopped, None] * (q - p)[stopped])["distance"]
    assert np.quantile(at, 0.9) < 1.01 * gap and at.max() < 5.0 * gap and at.min() > 0.0
    assert np.all(found[dense.min(axis=1) > 5.0 * gap] == 2.0)  # a path that stays away is not stopped
