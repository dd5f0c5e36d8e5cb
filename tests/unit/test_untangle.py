"""Untangling: intersecting cloth separates by displacements alone, step after step, without dynamics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from reference.contours import contour_length
from scipy.spatial.transform import Rotation

from toile.contact.untangle.contours import Tangle
from toile.contact.untangle.untangle import Untangler
from toile.math.types import real, vec3
from toile.shapes.grid import Grid

MOST = 1e-3  # [m]  motion of a step

Tangled = tuple[np.ndarray, np.ndarray]


def grid(columns: int, rows: int, width: float, height: float) -> Tangled:
    """A grid in the plane z = 0 with its center at the origin."""
    mesh = Grid(size=(width, height), resolution=(columns, rows)).mesh(Path())
    return mesh.positions - mesh.positions.mean(axis=0), mesh.triangles


def turned(x: np.ndarray, axes: str, *degrees: float) -> np.ndarray:
    return Rotation.from_euler(axes, degrees, degrees=True).apply(x)


def moved(x: np.ndarray, *by: float) -> np.ndarray:
    return x + np.array(by)


def together(*parts: Tangled) -> Tangled:
    starts = np.cumsum([0, *(len(x) for x, _ in parts[:-1])])
    return (
        np.concatenate([x for x, _ in parts]),
        np.concatenate([t + start for (_, t), start in zip(parts, starts, strict=True)]),
    )


def border_corner() -> Tangled:
    """Two sheets, each half through the other: the contour goes from the border of one to the border of the other."""
    x, triangles = grid(11, 11, 0.2, 0.2)
    return together((x, triangles), (moved(turned(x, "x", 70.0), 0.0837, 0.013, 0.011), triangles))


def corner_through() -> Tangled:
    """A corner of a sheet is 5 cm through another sheet."""
    x, triangles = grid(16, 16, 0.3, 0.3)
    other = turned(x, "zx", 45.0, 80.0)
    return together((x, triangles), (moved(other, -0.003, -0.004, -other[:, 2].min() - 0.05), triangles))


def strip_through_itself(taper: float = 0.0, shift: float = 0.03) -> Tangled:
    """A strip in a loop whose ends intersect, one of them narrower by `taper`."""
    x, triangles = grid(61, 7, 0.9, 0.09)
    s = np.linspace(-0.45, 0.45, 61)
    turn = np.clip(s, -0.25, 0.25) / 0.5 * np.radians(250.0)
    ds = np.diff(s, prepend=s[0])
    curve = np.column_stack([np.cumsum(np.cos(turn) * ds), np.cumsum(np.sin(turn) * ds)])
    along = x[:, 0]
    y = x[:, 1] * (1.0 - taper * (along + 0.45) / 0.9) + shift * along
    return np.column_stack([np.interp(along, s, curve[:, 0]), y, np.interp(along, s, curve[:, 1])]), triangles


def strips_side_by_side() -> Tangled:
    """Two perpendicular strips, the contour across two thirds of their width."""
    x, triangles = grid(41, 7, 0.6, 0.09)
    return together((x[:, [1, 0, 2]], triangles), (moved(x[:, [1, 2, 0]], 0.031, 0.0031, 0.0113), triangles))


def strip_through_strip() -> Tangled:
    """A strip that is 6 cm through the middle of a wider one."""
    x, triangles = grid(21, 7, 0.3, 0.09)
    wide, wide_triangles = grid(16, 11, 0.3, 0.2)
    return together((wide, wide_triangles), (moved(turned(x, "yz", 90.0, 3.0), 0.0131, 0.0031, 0.0913), triangles))


def dome() -> Tangled:
    """A bump of a sheet, 4 cm high, through another sheet: a closed contour in the interior of both."""
    x, triangles = grid(16, 16, 0.3, 0.3)
    bump = x.copy()
    bump[:, 2] = 0.06 * np.exp(-(((x[:, :2] - [0.004, 0.007]) / 0.06) ** 2).sum(axis=1)) - 0.02
    return together((x, triangles), (turned(bump, "x", 4.0), triangles))


def folded_through_itself() -> Tangled:
    """A folded sheet, the end of its upper half through the lower: the contour is as long as the sheet is wide."""
    x, triangles = grid(31, 13, 0.4, 0.15)
    s = x[:, 0] + 0.2
    turn, end = np.clip((s - 0.17) / 0.06, 0.0, 1.0) * np.pi, np.clip(s - 0.23, 0.0, None)
    along = np.minimum(s, 0.17) + 0.019 * np.sin(turn) - end
    # A little oblique: the contour ends 2 mm inside either border.
    return np.column_stack([along, x[:, 1] + 0.02 * end, 0.019 * (1.0 - np.cos(turn)) - 0.3 * end]), triangles


# Cases whose contour shortens in every step, and the maximum number of steps: a few more than they need.
SHORTEN: dict[Callable[[], Tangled], int] = {
    border_corner: 70,
    corner_through: 40,
    strip_through_itself: 40,
    strips_side_by_side: 36,
    dome: 25,
}


def edges_of(triangles: np.ndarray) -> np.ndarray:
    return np.unique(np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)


class Bench:
    def __init__(self, tangled: Tangled, device: str, inverse_masses: np.ndarray | None = None):
        self.x, self.triangles = tangled
        self.edges, self.device = edges_of(self.triangles), device
        n = len(self.x)
        self.inverse_masses = np.ones(n) if inverse_masses is None else inverse_masses
        masses = wp.array(self.inverse_masses, dtype=real, device=device)
        self.untangler = Untangler(self.edges, self.triangles, n, n, masses, device)

    def array(self, x: np.ndarray) -> wp.array:
        return wp.array(x, dtype=vec3, device=self.device)

    def displacements(self, x: np.ndarray) -> np.ndarray:
        return self.untangler.displacements(self.array(x), MOST).numpy().copy()

    def tangle(self, x: np.ndarray) -> Tangle:
        return Tangle(self.untangler._surface, x, *self.untangler.intersections.find(self.array(x)))

    def intersection_count(self) -> int:
        return len(self.untangler.intersections.find(self.array(self.x))[0])

    def lengths(self, steps: int) -> list[float]:
        """Lengths of the contour after each step, until nothing intersects or the steps are used up. x is updated."""
        lengths = [contour_length(self.x, self.triangles)]
        while self.intersection_count() > 0 and len(lengths) <= steps:
            self.x = self.x + self.displacements(self.x)
            lengths.append(contour_length(self.x, self.triangles))
        return lengths


@pytest.mark.parametrize("case", SHORTEN, ids=lambda case: case.__name__)
def test_the_contour_shortens_in_every_step_until_it_vanishes(case: Callable[[], Tangled], device: str) -> None:
    bench = Bench(case(), device)
    lengths = bench.lengths(SHORTEN[case])
    assert lengths[0] > 0.05
    assert np.all(np.diff(lengths) < 0.0)
    assert bench.intersection_count() == 0
    assert lengths[-1] == 0.0


@pytest.mark.parametrize(
    ("tangled", "steps"),
    [
        (strip_through_strip(), 55),
        (strip_through_itself(taper=0.6, shift=0.0), 32),
        (strip_through_itself(shift=0.0), 24),
        (folded_through_itself(), 14),
    ],
    ids=["strip_through_strip", "narrow_end_through_itself", "strip_through_itself_in_line", "folded_through_itself"],
)
def test_a_strip_through_another_is_withdrawn(tangled: Tangled, steps: int, device: str) -> None:
    """The contour keeps its length for most of the way, because it is as long as the strip is wide."""
    bench = Bench(tangled, device)
    assert bench.lengths(steps)[-1] == 0.0
    assert bench.intersection_count() == 0


def test_the_change_of_length_matches_the_formula(device: str) -> None:
    """dL = -1/2 sum +-G . d when one sheet moves by d, against differences of the length from triangles alone."""
    x, triangles = border_corner()
    bench = Bench((x, triangles), device)
    tangle = bench.tangle(x)
    n = len(x) // 2
    sign = np.where(tangle.ends[:, 0] < n, 1.0, -1.0)
    dL_dd = -0.5 * (sign[:, None] * tangle.G).sum(axis=0)
    step = 1e-8  # rounding of a length of 0.2 m gives 1e-8 in a difference quotient, curvature less
    for k in range(3):
        d = np.zeros_like(x)
        d[:n, k] = step
        quotient = (contour_length(x + d, triangles) - contour_length(x - d, triangles)) / (2.0 * step)
        assert quotient == pytest.approx(dL_dd[k], abs=1e-6)


@pytest.mark.parametrize("case", SHORTEN, ids=lambda case: case.__name__)
def test_momentum_is_conserved_and_displacements_are_bounded(case: Callable[[], Tangled], device: str) -> None:
    x, triangles = case()
    masses = np.random.default_rng(5).uniform(0.5, 2.0, len(x))
    moves = Bench((x, triangles), device, 1.0 / masses).displacements(x)
    assert np.linalg.norm(moves, axis=1).max() <= MOST * (1.0 + 1e-12)
    assert np.linalg.norm(moves, axis=1).max() > 0.3 * MOST
    np.testing.assert_allclose(masses @ moves, 0.0, atol=1e-12 * MOST * masses.sum())


def test_held_cloth_stays_and_free_cloth_moves_the_whole_way(device: str) -> None:
    x, triangles = corner_through()
    inverse_masses = np.ones(len(x))
    inverse_masses[: len(x) // 2] = 0.0
    bench = Bench((x, triangles), device, inverse_masses)
    assert bench.lengths(100)[-1] == 0.0
    assert bench.intersection_count() == 0
    assert np.array_equal(bench.x[: len(x) // 2], x[: len(x) // 2])


def test_nothing_moves_without_intersections(device: str) -> None:
    x, triangles = corner_through()
    bench = Bench((x, triangles), device)
    clear = x.copy()
    clear[: len(x) // 2] -= [0.0, 0.0, 0.2]
    assert not bench.displacements(clear).any()
    assert not bench.untangler.exempt(bench.array(clear)).any()
    assert bench.displacements(x).any()
    # Neither does it after an intersection.
    assert not bench.displacements(clear).any()


def test_triangles_at_and_around_the_contour_are_exempt(device: str) -> None:
    x, triangles = corner_through()
    bench = Bench((x, triangles), device)
    edge, triangle, _ = bench.untangler.intersections.find(bench.array(x))
    pierced = {tuple(bench.edges[e]) for e in edge}
    inside = [
        k in triangle or any(tuple(sorted((t[a], t[b]))) in pierced for a, b in ((0, 1), (1, 2), (2, 0)))
        for k, t in enumerate(triangles)
    ]
    ring = set(triangles[inside].ravel())
    expected = [bool(ring & set(t)) for t in triangles]
    assert bench.untangler.exempt(bench.array(x)).tolist() == expected
    assert 0 < sum(expected) < len(triangles) / 2


def test_displacements_are_equivariant_under_rotation(device: str) -> None:
    x, triangles = dome()
    bench = Bench((x, triangles), device)
    R = Rotation.random(random_state=2).as_matrix()
    np.testing.assert_allclose(bench.displacements(x @ R.T), bench.displacements(x) @ R.T, atol=1e-9 * MOST)


def test_coincident_sheets_separate_along_their_normal(device: str) -> None:
    """Without contour or side: along their common normal, whatever their orientation."""
    x, triangles = grid(9, 9, 0.2, 0.2)
    for other in (triangles, triangles[:, ::-1]):
        bench = Bench(together((x, triangles), (moved(x, 0.003, 0.005, 0.0), other)), device)
        assert len(bench.untangler.intersections.find(bench.array(bench.x))[0]) > 0
        moves = bench.displacements(bench.x)
        assert len(bench.untangler.intersections.find(bench.array(bench.x + moves))[0]) == 0
        np.testing.assert_allclose(moves[:, :2], 0.0, atol=1e-9 * MOST)


def test_untangling_is_deterministic(device: str) -> None:
    x, triangles = dome()
    one, two = Bench((x, triangles), device), Bench((x, triangles), device)
    assert np.array_equal(one.displacements(x), two.displacements(x))
