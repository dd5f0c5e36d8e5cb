"""The collider `turned`: its drawn surface against volumes in closed form, and messages about profiles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from reference.solids import closest

from toile.colliders.base import Solid
from toile.colliders.turned import Turned

NEEDLE = ((0.0, 0.0), (0.1, 0.0), (0.0, 0.6))
FUNNEL = ((0.1, 0.0), (0.15, 0.0), (0.4, 0.3), (0.3, 0.3))


def build(profile: tuple[tuple[float, float], ...], segments: int = 48) -> Solid:
    solid = Turned(profile=profile, segments=segments).build(Path(), False, "cpu")
    solid.move(0.0, 0.0)
    return solid


@pytest.mark.parametrize("profile", [NEEDLE, FUNNEL, NEEDLE[::-1], FUNNEL[::-1]], ids=["cone", "funnel", "", "back"])
def test_volume_is_that_of_its_frusta(profile: tuple[tuple[float, float], ...]) -> None:
    """Divergence theorem on the drawn triangles; between regular polygons of circumradius r and s, h apart:
    A h (r^2 + r s + s^2)/3 with A = n sin(2 pi/n)/2, signed by the direction of the profile."""
    n = 24
    solid = build(profile, n)
    x = solid.positions[solid.triangles]
    volume = np.sum(np.einsum("td,td->t", x[:, 0], np.cross(x[:, 1], x[:, 2]))) / 6.0
    (r, z), (s, y) = np.array(profile).T, np.roll(profile, -1, axis=0).T
    expected = abs(np.sum((y - z) * (r**2 + r * s + s**2)) / 3.0) * 0.5 * n * np.sin(2.0 * np.pi / n)
    assert volume == pytest.approx(expected, rel=1e-12)
    runs = Counter((int(t[i]), int(t[(i + 1) % 3])) for t in solid.triangles for i in range(3))
    assert set(runs.values()) == {1} and all((b, a) in runs for a, b in runs)
    euler = 2 if profile in (NEEDLE, NEEDLE[::-1]) else 0  # a ball, and a ring
    assert len(solid.positions) - len(runs) // 2 + len(solid.triangles) == euler


def test_above_the_tip_the_distance_is_that_of_a_point() -> None:
    solid = build(NEEDLE)
    found = closest(solid, np.array([[0.0, 0.0, 0.65], [0.03, 0.0, 0.64], [0.0, 0.0, 0.59], [0.0, 0.0, -0.01]]))
    sine = 0.1 / np.hypot(0.1, 0.6)
    np.testing.assert_allclose(found["distance"], [0.05, 0.05, -0.01 * sine, 0.01], rtol=1e-6)
    np.testing.assert_allclose(found["normal"][[0, 1, 3]], [[0, 0, 1], [0.6, 0, 0.8], [0, 0, -1]], atol=1e-6)


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        (((0.0, 0.0), (1.0, 0.0)), "profile: 2 corners given; a polygon needs at least three."),
        (((0.0, 0.0), (1.0, 0.0), (1.0, 0.0)), "profile: corners 1 and 2 are the same."),
        (((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0)), "profile: the sides after corners 0 and 2 intersect."),
        (((0.0, 0.0), (0.0, 1.0), (0.0, 2.0)), "profile: the polygon has no area."),
        (((-0.1, 0.0), (0.0, 1.0), (0.2, 2.0)), "greater than or equal to 0"),
    ],
)
def test_messages(profile: tuple[tuple[float, float], ...], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Turned(profile=profile)
