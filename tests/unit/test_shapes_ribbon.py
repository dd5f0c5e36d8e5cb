"""The ribbon: flat in uv, through its points, with minimal twist, as long as its curve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from toile.model.mesh import Mesh, find_edges
from toile.shapes.ribbon import Ribbon


def around(radius: float, turns: float, rise: float, count: int = 60) -> tuple[tuple[float, float, float], ...]:
    """Points of a helix about z."""
    angle = np.linspace(0.0, 2.0 * np.pi * turns, count)
    points = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rise * angle / (2.0 * np.pi)])
    return tuple((float(x), float(y), float(z)) for x, y, z in points)


def strains(mesh: Mesh) -> np.ndarray:
    """Strain of every edge relative to uv."""
    a, b = find_edges(mesh.triangles).edges.T
    uv = mesh.vertex_uv()
    return np.linalg.norm(mesh.positions[b] - mesh.positions[a], axis=1) / np.linalg.norm(uv[b] - uv[a], axis=1) - 1.0


def test_a_straight_ribbon_is_a_grid() -> None:
    ribbon = Ribbon(points=((1.0, 2.0, 3.0), (3.0, 2.0, 3.0)), width=0.1, resolution=(21, 3)).mesh(Path())
    x, y, z = ribbon.positions.T
    np.testing.assert_allclose(y, 2.0, atol=1e-12)
    np.testing.assert_allclose(np.unique(np.round(z, 9)), [2.95, 3.0, 3.05])
    np.testing.assert_allclose(np.unique(np.round(x, 9)), np.linspace(1.0, 3.0, 21))
    assert np.abs(strains(ribbon)).max() < 1e-9


def test_a_hoop_on_edge_is_a_cylinder() -> None:
    """Its width is along the axis, no edge is stretched, and its length is that of the chords of a circle."""
    count, radius = 201, 0.1
    hoop = Ribbon(points=around(radius, 0.9, 0.0), width=0.05, resolution=(count, 5)).mesh(Path())
    np.testing.assert_allclose(np.hypot(*hoop.positions.T[:2]), radius, rtol=1e-3)  # its ends are straight
    assert np.abs(strains(hoop)).max() < 1e-5
    chord = 2.0 * radius * np.sin(0.9 * np.pi / (count - 1))
    assert np.ptp(hoop.vertex_uv()[:, 0]) == pytest.approx((count - 1) * chord, rel=1e-3)
    np.testing.assert_allclose(np.ptp(hoop.vertex_uv()[:, 1]), 0.05)


def test_a_helix_lies_flat_on_its_cylinder() -> None:
    """A geodesic of the cylinder: the strip is inclined with the slope, and its sides are not stretched.

    A frame without twist would deviate by 2 pi sin(slope) in every turn.
    """
    radius, rise = 0.1, 0.15
    strip = Ribbon(points=around(radius, 2.0, rise, 120), width=0.04, resolution=(401, 5)).mesh(Path())
    # The width is perpendicular to the helix in the tangent plane of the cylinder: sides t away from the middle are
    # sqrt(r^2 + (t sin(slope))^2) from the axis. The ends may rotate and are left out.
    slope = np.arctan(rise / (2.0 * np.pi * radius))
    side = strip.positions[:401][60:-60]
    np.testing.assert_allclose(np.hypot(*side.T[:2]), np.hypot(radius, 0.02 * np.sin(slope)), rtol=1e-4)
    assert np.abs(strains(strip)).max() < 0.01
    assert not strip.warnings


def test_the_ribbon_passes_through_its_points() -> None:
    """A fine mesh passes every point within half an edge."""
    points = ((0.0, 0.0, 0.0), (0.3, 0.1, 0.02), (0.4, 0.5, -0.02), (0.0, 0.6, 0.05), (-0.5, 0.2, 0.0))
    strip = Ribbon(points=points, width=0.01, resolution=(2001, 3)).mesh(Path())
    middle = strip.positions[2001:4002]
    for point in points:
        assert np.linalg.norm(middle - point, axis=1).min() < 6e-4


def test_meshes_of_one_ribbon_have_the_same_position() -> None:
    settings = {"points": around(0.2, 1.3, 0.1), "width": 0.02}
    coarse = Ribbon(**settings, resolution=(101, 3)).mesh(Path()).positions  # type: ignore[arg-type]
    fine = Ribbon(**settings, resolution=(401, 5)).mesh(Path()).positions  # type: ignore[arg-type]
    np.testing.assert_allclose(coarse.reshape(3, 101, 3), fine.reshape(5, 401, 3)[::2, ::4], atol=1e-6)


def test_a_ribbon_too_wide_for_its_bends_is_reported() -> None:
    """A curve that bends in every direction within its width cannot be flat; the message has the strain and the
    place."""
    points = ((0.0, 0.0, 0.0), (0.1, 0.0, 0.1), (0.2, 0.1, 0.0), (0.1, 0.2, 0.1), (0.0, 0.1, 0.0))
    (warning,) = Ribbon(points=points, width=0.1, resolution=(101, 5)).mesh(Path()).warnings
    assert warning.startswith("the ribbon starts ") and "its curve is too tight for its width" in warning


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"points": ((0.0, 0.0, 0.0),)}, "points: 1 given; a curve needs at least two points."),
        ({"points": ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 0.0, 0.0))}, "points: points 1 and 2 are the same"),
        ({"points": ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0))}, "across: must not run along the curve at its first point."),
        ({"points": ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)), "across": (0.0, 0.0, 0.0)}, "across: must not run along"),
    ],
)
def test_messages(settings: dict, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Ribbon(**settings)
