"""Flat parts of a sheet: the search leaves their pairs out, and no contact is lost by that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import warp as wp
from analytic.cloths import cloths, grid
from analytic.sheets import positions
from scipy.spatial import Delaunay
from unit.test_broad_phase import grid as sheet
from unit.test_contact_set import assert_nothing_is_lost, begin

from toile.contact.broad_phase.broad_phase import BroadPhase
from toile.contact.broad_phase.flat_regions import Boxes, find_regions
from toile.contact.broad_phase.patches import partition
from toile.math.types import numpy_real, real, vec3
from toile.model.mesh import find_edges

Shape = Callable[[np.ndarray], np.ndarray]
SIDE, COUNT = 0.4, 19


def rolled(radius: float) -> Shape:
    return lambda x: np.column_stack([radius * np.sin(x[:, 0] / radius), x[:, 1], radius * np.cos(x[:, 0] / radius)])


def waves(height: float, length: float) -> Shape:
    return lambda x: np.column_stack(
        [x[:, 0], x[:, 1], height * np.sin(2.0 * np.pi * (x[:, 0] + 0.6 * x[:, 1]) / length)]
    )


def scaled(factor: float) -> Shape:
    return lambda x: factor * x


def sheared(angle: float) -> Shape:
    return lambda x: np.column_stack([x[:, 0] + np.tan(angle) * x[:, 1], x[:, 1], x[:, 2]])


SHAPES: dict[str, Shape] = {
    "flat": scaled(1.0), "compressed": scaled(0.7), "crushed": scaled(0.4), "sheared": sheared(0.5),
    "sheared far": sheared(1.2), "half cylinder": rolled(SIDE / np.pi), "roll": rolled(SIDE / 9.0),
    "long waves": waves(0.02, 0.3), "short waves": waves(0.03, 0.06),
}  # fmt: skip


@pytest.mark.parametrize("thickness", [2e-3, 0.02])
@pytest.mark.parametrize("end", SHAPES)
def test_no_contact_is_lost(end: str, thickness: float, device: str) -> None:
    """A flat sheet that is deformed in a step has the same contacts, to the last bit, as from tests of all pairs; also
    after corrections, and in the next step."""
    random = np.random.default_rng(1)
    simulation = cloths(device, [{"shape": grid(SIDE, COUNT)}], contact={"thickness": thickness})
    x = positions(simulation)
    contacts = begin(simulation, SHAPES[end](x) - x + random.normal(scale=1e-5, size=x.shape), x)
    search, mesh = contacts.search, contacts.mesh
    search.update()
    assert_nothing_is_lost(contacts)
    away = random.normal(size=x.shape)
    away *= search._slack / np.linalg.norm(away, axis=1)[:, None]
    for size in (0.999, 40.0):
        chosen = np.where(random.uniform(size=(len(x), 1)) < 0.1, size, 0.999)
        mesh.x_end.assign(search._x_searched.numpy() + chosen * away)
        search.update()
        assert_nothing_is_lost(contacts)
    mesh.x.assign(mesh.x_end.numpy())
    search.at_start()
    assert_nothing_is_lost(contacts)


def test_flat_cloth_needs_no_pairs(device: str) -> None:
    """Of a sheet that falls and bends a little hardly a candidate is left, and the next step finds that without a
    search; crushed to less than half its size it has all of them."""
    simulation = cloths(device, [{"shape": grid(SIDE, COUNT)}], contact={"thickness": 0.01})
    x = positions(simulation)
    bent = rolled(SIDE)(x)
    contacts = begin(simulation, bent - x - [0.0, 0.0, 0.3], bent)
    search = contacts.search
    search.update()
    few = search._pairs.vertex_triangle_count
    contacts.mesh.x.assign(contacts.mesh.x_end.numpy())
    search._search = None  # it would fail
    search.at_start()
    assert search._pairs_again is None
    again = cloths(device, [{"shape": grid(SIDE, COUNT)}], contact={"thickness": 0.01})
    crushed = begin(again, 0.0, 0.4 * x).search
    crushed.update()
    assert few < 0.02 * crushed._pairs.vertex_triangle_count


def square(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in uv and triangles of a square."""
    _, triangles, uv = sheet(n)
    return uv, triangles


def with_hole(n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """A square with a hole and a notch."""
    points, triangles = square(n)
    center = points[triangles].mean(axis=1)
    hole = np.linalg.norm(center - [0.3, 0.4], axis=1) < 0.1
    notch = (np.abs(center[:, 0] - 0.8) < 0.06) & (center[:, 1] > 0.8)
    return points, triangles[~hole & ~notch]


def disc(n: int = 26) -> tuple[np.ndarray, np.ndarray]:
    rings = [np.zeros((1, 2))]
    for k in range(1, n // 2):
        angle = 2.0 * np.pi * np.arange(6 * k) / (6 * k)
        rings.append(k / n * np.column_stack([np.cos(angle), np.sin(angle)]))
    points = np.concatenate(rings)
    return points, Delaunay(points).simplices


def spiral(n: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """A ribbon that overlaps itself in uv after one turn."""
    angle = np.linspace(0.0, 4.0 * np.pi, n)
    points = np.concatenate([r * np.column_stack([np.cos(angle), np.sin(angle)]) for r in (0.8, 0.9, 1.0, 1.1)])
    at = np.arange(4 * n).reshape(4, n)
    a, b, c, d = (at[i : 3 + i, j : n - 1 + j].ravel() for i in (0, 1) for j in (0, 1))
    return points, np.concatenate([np.stack([a, c, b], axis=1), np.stack([b, c, d], axis=1)])


@pytest.mark.parametrize(("mesh", "least"), [(with_hole, 0.3), (disc, 0.9), (spiral, 0.0)])
def test_regions_hold_the_line_between_any_two_points(mesh: Callable, least: float) -> None:
    """The line in uv between a point of a patch and one of a patch inside its region runs through cloth all the way,
    and through triangles of patches near the first one."""
    uv, triangles = mesh()
    chart = np.zeros(len(uv), int)
    of_vertex = partition(find_edges(triangles).edges, len(uv), len(uv))
    boxes = Boxes.of(int(of_vertex.max()) + 1, of_vertex, find_edges(triangles).edges, triangles, uv)
    nearby, inside = find_regions(boxes, of_vertex, triangles, uv, chart)
    of_triangle = of_vertex[triangles].min(axis=1)
    assert np.mean(np.diff(inside.indptr) > 0) >= least
    random = np.random.default_rng(2)
    for p in np.flatnonzero(np.diff(inside.indptr))[:: 1 + len(boxes.lower) // 60]:
        near = triangles[np.isin(of_triangle, nearby.indices[nearby.indptr[p] : nearby.indptr[p + 1]])]
        for q in inside.indices[inside.indptr[p] : inside.indptr[p + 1]]:
            ends = []
            for patch in (p, q):
                own = triangles[of_triangle == patch]
                own = own if len(own) else np.repeat(np.flatnonzero(of_vertex == patch)[:1], 3)[None]
                ends.append(random.dirichlet(np.ones(3)) @ uv[own[random.integers(len(own))]])
            line = ends[0] + np.linspace(0.0, 1.0, 12)[:, None] * (ends[1] - ends[0])
            assert in_triangles(line, uv[near]).all()


def in_triangles(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Whether each point lies in a triangle."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]

    def side(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        along, to = q - p, points[:, None] - p[None]
        return along[None, :, 0] * to[:, :, 1] - along[None, :, 1] * to[:, :, 0]

    signs = np.stack([side(a, b), side(b, c), side(c, a)])
    return ((signs >= -1e-9).all(axis=0) | (signs <= 1e-9).all(axis=0)).any(axis=1)


def test_parts_that_face_the_other_way_or_are_sewn_are_never_left_out(device: str) -> None:
    """Cloth without a chart, and cloth whose uv turns over at a line, has all of its pairs."""
    points, triangles = square(12)
    x = wp.array(np.column_stack([points, 0.0 * points[:, 0]]).astype(numpy_real), dtype=vec3, device=device)
    reach = wp.array(np.full(len(points), 0.05, numpy_real), dtype=real, device=device)
    counts = []
    turned = np.where(points[:, :1] > 0.5, [1.0, 0.0], 0.0) + np.where(points[:, :1] > 0.5, [-1.0, 1.0], 1.0) * points
    for uv, chart in ((points, 0), (points, -1), (turned, 0)):
        edges = find_edges(triangles).edges
        whole = np.full(len(points), chart)
        phase = BroadPhase(edges, triangles, len(points), len(points), device, rest_uv=(uv, whole))
        counts.append(phase.find(x, x, reach).edge_edge_count)
    assert counts[0] == 0 and counts[1] > 1000
    assert counts[2] > 100


def pairs_between(
    uv: np.ndarray, triangles: np.ndarray, ends: tuple[np.ndarray, np.ndarray], side: np.ndarray, device: str
) -> tuple[int, int]:
    """Candidate pairs of a vertex where `side` is 1 and a triangle with a corner where it is -1, or the other way
    round: of all pairs, and without those of flat parts."""
    counts = []
    for rest_uv in (None, (uv, np.zeros(len(uv), int))):
        edges = find_edges(triangles).edges
        phase = BroadPhase(edges, triangles, len(uv), len(uv), device, rest_uv=rest_uv)
        reach = wp.array(np.full(len(uv), 1e-3, numpy_real), dtype=real, device=device)
        x, x_end = (wp.array(end.astype(numpy_real), dtype=vec3, device=device) for end in ends)
        found = phase.find(x, x_end, reach)
        pairs = found.vertex_triangle.numpy()[: found.vertex_triangle_count]
        on_sides = side[pairs[:, 0], None] * side[triangles[pairs[:, 1]]]
        counts.append(int((on_sides.min(axis=1) < 0).sum()))
    return counts[0], counts[1]


def test_the_lips_of_a_slit_are_searched(device: str) -> None:
    """A slit is one line in uv, but its lips are not one cloth: here they swap sides."""
    uv, triangles = square(31)
    along, n = np.flatnonzero((uv[:, 1] == uv[15, 1]) & (np.abs(uv[:, 0] - 0.5) < 0.3)), len(uv)
    above = uv[triangles].mean(axis=1)[:, 1] > uv[15, 1]
    lip = np.arange(n)
    lip[along] = n + np.arange(len(along))
    triangles[above] = lip[triangles[above]]
    uv = np.concatenate([uv, uv[along]])
    side = np.zeros(len(uv))
    side[along], side[n:] = -1.0, 1.0
    opening = side * 0.004 * np.sin(np.pi * (np.abs(uv[:, 0] - 0.5) / 0.3 + 1.0) / 2.0)
    ends = np.column_stack([uv, opening]), np.column_stack([uv, -opening])
    every, found = pairs_between(uv, triangles, ends, side, device)
    assert found == every > 50


def test_wings_at_one_edge_are_searched(device: str) -> None:
    """Two half sheets that are at the same place in uv meet a third one at one line of edges, and swap sides."""
    uv, triangles = square(21)
    n, middle = len(uv), uv[:, 0] == uv[:, 0][np.argmin(np.abs(uv[:, 0] - 0.5))]
    right = uv[:, 0] > uv[middle, 0][0]
    copy = np.arange(n)
    copy[right] = n + np.arange(right.sum())
    half = triangles[uv[triangles].mean(axis=1)[:, 0] > uv[middle, 0][0]]
    triangles, uv = np.concatenate([triangles, copy[half]]), np.concatenate([uv, uv[right]])
    side = np.zeros(len(uv))
    side[:n][right], side[n:] = 1.0, -1.0
    wings = side * 0.15 * np.maximum(uv[:, 0] - 0.5, 0.0)
    ends = np.column_stack([uv, wings]), np.column_stack([uv, -wings])
    every, found = pairs_between(uv, triangles, ends, side, device)
    assert found == every > 1000
