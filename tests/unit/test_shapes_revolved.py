"""The surface of revolution: unstretched, closed at the axis, facing outwards, and with rims that can be selected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from toile.errors import SceneError
from toile.model.mesh import Mesh, find_edges
from toile.model.mesh_check import check
from toile.model.model import build_model
from toile.model.selection import Selection
from toile.model.springs import FLEXION, STRUCTURAL, springs_of
from toile.scene.load import load
from toile.scene.schema import Fabric
from toile.shapes.revolved import Revolved

TUBE: dict[str, Any] = {"profile": ((0.1, 0.0), (0.1, 0.4)), "resolution": (12, 5)}
SKIRT: dict[str, Any] = {"profile": ((0.4, 0.0), (0.15, 0.5)), "resolution": (18, 6)}
CAN: dict[str, Any] = {"profile": ((0.0, 0.0), (0.1, 0.0), (0.1, 0.3), (0.0, 0.3)), "resolution": (16, 14)}
GOURD: dict[str, Any] = {
    "profile": ((0.0, 0.0), (0.2, 0.2), (0.1, 0.4), (0.15, 0.5), (0.0, 0.65)),
    "curve": "smooth",
    "resolution": (20, 24),
}
ALL = [TUBE, SKIRT, CAN, GOURD, {**GOURD, "resolution": (3, 5)}, {**CAN, "diagonals": "single"}]


def make(shape: dict[str, Any]) -> Mesh:
    return check(Revolved(**shape).mesh(Path()))


def sides(corners: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2)


@pytest.mark.parametrize("shape", ALL)
def test_every_edge_is_unstretched(shape: dict[str, Any]) -> None:
    """Every side of every triangle is as long in uv as in space, and nothing had to be repaired."""
    mesh = make(shape)
    np.testing.assert_allclose(sides(mesh.uv), sides(mesh.positions[mesh.triangles]), rtol=1e-12)
    assert (mesh.uv_areas() > 0.0).all()
    assert not mesh.warnings


@pytest.mark.parametrize("shape", ALL)
def test_threads_run_around_and_along(shape: dict[str, Any]) -> None:
    """Sides of cells along a ring have no v in uv; u grows around the axis and v along the profile."""
    mesh = make(shape)
    x, uv = mesh.positions[mesh.triangles], mesh.uv
    for corner in range(3):
        a, b = x[:, corner], x[:, (corner + 1) % 3]
        du, dv = (uv[:, (corner + 1) % 3] - uv[:, corner]).T
        radii = np.hypot(a[:, 0], a[:, 1]), np.hypot(b[:, 0], b[:, 1])
        around = np.isclose(a[:, 2], b[:, 2], atol=1e-12) & np.isclose(*radii, atol=1e-12)
        np.testing.assert_allclose(dv[around], 0.0, atol=1e-15)
        turns = np.sign(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
        np.testing.assert_array_equal(np.sign(du[around]), turns[around])
        if shape is not CAN:
            upwards = ~around & (np.abs(a[:, 2] - b[:, 2]) > 1e-9) & (shape is not GOURD)
            np.testing.assert_array_equal(np.sign(dv[upwards]), np.sign((b - a)[upwards, 2]))


@pytest.mark.parametrize(("shape", "vertices", "triangles", "characteristic"), [
    (TUBE, 60, 96, 0), (SKIRT, 108, 180, 0), (CAN, 2 + 12 * 16, 384, 2), (GOURD, 2 + 22 * 20, 880, 2),
])  # fmt: skip
def test_the_surface_is_closed_at_the_axis_alone(
    shape: dict[str, Any], vertices: int, triangles: int, characteristic: int
) -> None:
    """The Euler characteristic is 2 for a closed surface and 0 for a tube."""
    mesh = make(shape)
    edges = find_edges(mesh.triangles)
    assert (mesh.vertex_count, mesh.triangle_count) == (vertices, triangles)
    assert mesh.vertex_count - len(edges.edges) + mesh.triangle_count == characteristic
    open_edges = len(edges.edges) - len(edges.hinges)
    assert open_edges == (0 if characteristic == 2 else 2 * shape["resolution"][0])


def test_the_front_is_outside_and_volume_and_area_match_the_closed_form() -> None:
    """A can of n sides: volume n r^2 sin(2 pi/n) h/2, area n (r^2 sin(2 pi/n) + 2 r sin(pi/n) h), to rounding."""
    mesh = make(CAN)
    a, b, c = (mesh.positions[mesh.triangles[:, k]] for k in range(3))
    n, r, h = 16, 0.1, 0.3
    volume = np.sum(a * np.cross(b, c)) / 6.0
    assert volume == pytest.approx(0.5 * n * r * r * np.sin(2 * np.pi / n) * h, rel=1e-12)
    area = n * (r * r * np.sin(2 * np.pi / n) + 2 * r * np.sin(np.pi / n) * h)
    assert mesh.uv_areas().sum() == pytest.approx(area, rel=1e-12)


def test_points_of_a_linear_profile_are_rings() -> None:
    """The remaining cells go where cells are longest: lengths 0.1, 0.3, 0.1 in 15 cells."""
    rings = Revolved(**{**CAN, "resolution": (16, 16)}).rings()
    for point in CAN["profile"]:
        assert np.isclose(rings, point, atol=1e-15).all(axis=1).any()
    cells = np.linalg.norm(np.diff(rings, axis=0), axis=1)
    np.testing.assert_allclose(cells, np.full(15, 0.5 / 15), rtol=1e-12)


def test_a_smooth_profile_goes_through_its_points_and_is_round_at_the_axis() -> None:
    """Rings are at even distances along the curve and pass the given points within half a distance.

    At a pole the profile is perpendicular to the axis: the next ring is at most s^2/2 times the curvature 1/R higher,
    with R > 0.05 m.
    """
    rings = Revolved(**{**GOURD, "resolution": (20, 400)}).rings()
    steps = np.linalg.norm(np.diff(rings, axis=0), axis=1)
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-3)
    for point in GOURD["profile"]:
        assert np.linalg.norm(rings - point, axis=1).min() <= 0.51 * steps.mean()
    for pole, neighbor in ((0, 1), (-1, -2)):
        assert abs(rings[neighbor, 1] - rings[pole, 1]) < steps[0] ** 2 / (2 * 0.05)


def test_a_smooth_half_circle_gives_a_sphere() -> None:
    """A smooth profile through nine points of a half circle of radius R stays within 1e-3 R of it."""
    turn = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 9)
    points = [[max(0.0, float(np.cos(t))), float(np.sin(t))] for t in turn]
    points[0][0] = points[-1][0] = 0.0
    rings = Revolved(profile=points, curve="smooth", resolution=(8, 101)).rings()
    np.testing.assert_allclose(np.hypot(*rings.T), 1.0, atol=1e-3)


@pytest.mark.parametrize("shape", [TUBE, SKIRT, CAN])
def test_cells_are_quads_and_threads_go_around(shape: dict[str, Any]) -> None:
    """Each cell occurs once, with its corners in order; flexion springs go around the whole ring, so each has n of
    them."""
    mesh = make(shape)
    assert mesh.quads is not None
    n, along = shape["resolution"]
    poles = sum(radius == 0.0 for radius in (shape["profile"][0][0], shape["profile"][-1][0]))
    assert mesh.quads.shape == (n * (along - 1 - poles), 4)
    x = mesh.positions[mesh.quads]
    crossed = np.cross(x[:, 1] - x[:, 0], x[:, 3] - x[:, 0])
    assert (np.sum(crossed * np.cross(x[:, 3] - x[:, 2], x[:, 1] - x[:, 2]), axis=1) > 0.0).all()
    model = build_model(["figure"], [mesh], [Fabric()], [()])
    springs = springs_of(model.parts[0])
    rings = along - poles
    assert np.count_nonzero(springs.kind == STRUCTURAL) == n * rings + n * (along - 1)
    assert np.count_nonzero(springs.kind == FLEXION) == n * rings + n * (along - 2) + poles * n // 2


def test_a_tube_shares_its_uv() -> None:
    """A cylinder can be flattened with one cut along it: 13 columns of 5 points."""
    assert len(np.unique(make(TUBE).uv.reshape(-1, 2), axis=0)) == 13 * 5


def test_rims_can_be_selected() -> None:
    mesh = make(SKIRT)
    height = mesh.positions[:, 2]
    for z, name, side in ((0.0, "bottom", "lower"), (0.5, "top", "upper")):
        rim = np.flatnonzero(np.isclose(height, z))
        assert len(rim) == 18
        np.testing.assert_array_equal(Selection(region=name).resolve(mesh), rim)
        np.testing.assert_array_equal(Selection(edges=(side,)).resolve(mesh), rim)
    closed = make(GOURD)
    for name, z in (("bottom", 0.0), ("top", 0.65)):
        (pole,) = Selection(region=name).resolve(closed)
        np.testing.assert_allclose(closed.positions[pole], [0.0, 0.0, z], atol=1e-15)


@pytest.mark.parametrize("where", [{"corners": ("lower_left",)}, {"edges": ("left",)}, {"edges": ("upper", "right")}])
def test_sides_that_do_not_exist_cannot_be_selected(where: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is closed along u: it has no corners"):
        Selection(**where).resolve(make(SKIRT))


@pytest.mark.parametrize(("fields", "text"), [
    ({"profile": ((0.1, 0.0),)}, "1 given; a curve needs at least two points."),
    ({"profile": ((0.1, 0.0), (0.1, 0.0), (0.2, 0.1))}, "points 0 and 1 are the same."),
    ({"profile": ((0.1, 0.0), (0.0, 0.1), (0.1, 0.2))}, "point 1 lies on the axis; only its ends may"),
    ({"profile": ((0.0, 0.0), (0.0, 0.1))}, "point 0 lies on the axis"),
    ({"profile": CAN["profile"], "resolution": (8, 3)}, "3 rings cannot include all 4 points of the profile"),
    ({"profile": CAN["profile"], "resolution": (8, 2), "curve": "smooth"}, "closed at both ends needs at least"),
    (
        {"profile": ((0.5, 0.0), (0.005, 0.02), (0.005, 0.5), (0.005, 1.0)), "curve": "smooth"},
        "the smooth curve through the points crosses the axis.",
    ),
])  # fmt: skip
def test_profiles_that_cannot_be_revolved_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text.replace("(", "\\(")):
        Revolved(**fields)


def test_a_message_names_the_place(tmp_path: Path) -> None:
    scene = tmp_path / "skirt.yaml"
    lines = [
        "version: 1",
        "cloth:",
        "  - shape: {type: revolved, profile: [[0.3, 0], [-0.1, 0.5]], resolution: [2, 6]}",
    ]
    scene.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SceneError) as caught:
        load(scene)
    assert [problem.split("  ", 1)[1] for problem in caught.value.problems] == [
        "cloth[0].shape.profile[1][0] = -0.1: must be >= 0 [m].",
        "cloth[0].shape.resolution[0] = 2: must be >= 3.",
    ]
