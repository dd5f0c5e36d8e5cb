"""Repairs of meshes: welding, degenerate triangles, winding and mirrored uv; the cloth itself does not change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toile.model.mesh import Mesh, find_edges
from toile.model.mesh_check import check
from toile.model.mesh_repair import (
    coincident,
    drop_degenerate,
    relative_heights,
    weld,
    with_one_winding,
    with_positive_uv,
)
from toile.model.selection import Selection
from toile.shapes.disc import Disc
from toile.shapes.grid import Grid


@pytest.fixture
def sheet() -> Mesh:
    return Grid(size=(1.0, 1.0), resolution=(6, 5)).mesh(Path())


def soup(mesh: Mesh) -> Mesh:
    """Triangles that share no vertices."""
    n = 3 * mesh.triangle_count
    return Mesh(mesh.positions[mesh.triangles.ravel()], np.arange(n, dtype=np.int32).reshape(-1, 3), mesh.uv)


def test_generated_shapes_need_no_repair() -> None:
    for mesh in (Grid().mesh(Path()), Grid(diagonals="single").mesh(Path()), Disc().mesh(Path())):
        treated = check(mesh)
        assert treated.warnings == ()
        assert np.array_equal(treated.positions, mesh.positions)
        assert np.array_equal(treated.triangles, mesh.triangles)
        assert np.array_equal(treated.uv, mesh.uv)
        assert treated.numbering is None


def test_welding_a_soup_gives_the_sheet_back(sheet: Mesh) -> None:
    welded = check(weld(soup(sheet)))
    assert welded.vertex_count == sheet.vertex_count
    assert len(find_edges(welded.triangles).hinges) == len(find_edges(sheet.triangles).hinges)
    np.testing.assert_array_equal(welded.positions[welded.triangles], sheet.positions[sheet.triangles])
    np.testing.assert_array_equal(welded.uv, sheet.uv)
    assert welded.warnings == (f"{3 * sheet.triangle_count - sheet.vertex_count} coincident vertices were welded.",)


def test_welding_keeps_the_numbers_of_the_source(sheet: Mesh) -> None:
    """Vertex 3 t + c of the soup is corner c of triangle t, whatever its new number."""
    separate = soup(sheet)
    welded = weld(separate)
    for index in (0, 7, 3 * sheet.triangle_count - 1):
        (vertex,) = Selection(indices=(index,)).resolve(welded)
        np.testing.assert_array_equal(welded.positions[vertex], separate.positions[index])


def test_welding_joins_chains_of_near_vertices() -> None:
    """Points one tolerance apart are joined in a chain; distant points stay separate."""
    positions = np.array([[0, 0, 0], [0.9e-7, 0, 0], [1.8e-7, 0, 0], [1, 0, 0], [0, 1, 0], [1e-5, 1, 0]])
    mesh = Mesh(positions, np.array([[0, 3, 4], [1, 3, 5], [2, 5, 4]], np.int32), np.zeros((3, 3, 2)))
    assert weld(mesh).positions.tolist() == positions[[0, 3, 4, 5]].tolist()


def test_a_thousand_coincident_points_are_welded() -> None:
    positions = np.concatenate([np.zeros((100_000, 3)), [[1.0, 0, 0], [1.0, 0, 1e-9]]])
    pairs = coincident(positions)
    assert len(pairs) == 100_000
    assert len(np.unique(pairs)) == len(positions)


def test_dropping_degenerate_triangles(sheet: Mesh) -> None:
    flat = np.array([[0, 1, 1], [0, 1, 2]], np.int32)  # a repeated corner, and three vertices of one edge of the grid
    uv = np.concatenate([sheet.uv, sheet.vertex_uv()[flat]])
    repaired = drop_degenerate(Mesh(sheet.positions, np.concatenate([sheet.triangles, flat]), uv))
    assert np.array_equal(repaired.triangles, sheet.triangles)
    assert repaired.warnings == (
        f"2 degenerate triangles were dropped, the first of them triangle {sheet.triangle_count}.",
    )
    assert check(repaired).triangle_count == sheet.triangle_count


@pytest.mark.parametrize("seed", range(5))
def test_winding_is_made_consistent_whichever_triangles_are_flipped(sheet: Mesh, seed: int) -> None:
    turned = np.random.default_rng(seed).random(sheet.triangle_count) < 0.3
    order = np.where(turned[:, None], [0, 2, 1], [0, 1, 2])
    mixed = Mesh(
        sheet.positions,
        np.take_along_axis(sheet.triangles, order, axis=1),
        np.take_along_axis(sheet.uv, order[:, :, None], axis=1),
    )
    treated = check(mixed)
    assert np.array_equal(treated.triangles, sheet.triangles)
    np.testing.assert_array_equal(treated.uv, sheet.uv)
    assert treated.warnings[0].startswith(f"{np.count_nonzero(turned)} triangles faced the opposite way")


def test_each_component_keeps_the_orientation_of_its_majority(sheet: Mesh) -> None:
    """Two sheets with opposite orientations are both consistent, so nothing is flipped."""
    n = sheet.vertex_count
    other = Mesh(sheet.positions + np.array([0, 0, 1]), sheet.triangles[:, ::-1] + n, sheet.uv[:, ::-1])
    both = Mesh(
        np.concatenate([sheet.positions, other.positions]),
        np.concatenate([sheet.triangles, other.triangles]),
        np.concatenate([sheet.uv, other.uv]),
    )
    assert np.array_equal(with_one_winding(both).triangles, both.triangles)


def test_a_moebius_strip_is_reported() -> None:
    n = 12
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    across = np.stack([np.cos(angle / 2) * np.cos(angle), np.cos(angle / 2) * np.sin(angle), np.sin(angle / 2)], axis=1)
    middle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    positions = np.concatenate([middle - 0.2 * across, middle + 0.2 * across])
    triangles = []
    for i in range(n):
        low, high, next_low, next_high = i, n + i, (i + 1) % n, n + (i + 1) % n
        if i == n - 1:
            next_low, next_high = next_high, next_low
        triangles += [[low, next_low, next_high], [low, next_high, high]]
    faces = np.array(triangles, np.int32)
    uv = np.tile([[0.0, 0.0], [0.3, 0.0], [0.3, 0.3]], (len(faces), 1, 1))
    messages = [warning for warning in check(Mesh(positions, faces, uv)).warnings if "one side" in warning]
    assert messages == ["the surface has only one side (a Moebius strip), so its front and back are not defined."]


def test_mirrored_islands_keep_their_range_and_sides_refer_to_the_file(sheet: Mesh) -> None:
    mirrored = Mesh(sheet.positions, sheet.triangles, sheet.uv * (-1.0, 1.0) + (5.0, 0.0))
    treated = with_positive_uv(mirrored)
    assert (treated.uv_areas() > 0).all()
    # 5 - u is mirrored about 5 into 5 + u: continuous, and in the same range
    np.testing.assert_allclose(treated.uv, sheet.uv + np.array([5.0, 0.0]), atol=1e-14)
    left = Selection(edges=("left",)).resolve(treated)
    assert np.array_equal(left, Selection(edges=("left",)).resolve(mirrored))


def test_only_the_mirrored_island_changes(sheet: Mesh) -> None:
    """The right half of the sheet is a separate, mirrored island; the left half keeps its uv exactly."""
    right = sheet.positions[sheet.triangles].mean(axis=1)[:, 0] > 0.1
    uv = sheet.uv.copy()
    uv[right] = uv[right] * (-1.0, 1.0) + (9.0, 0.0)
    treated = with_positive_uv(Mesh(sheet.positions, sheet.triangles, uv))
    np.testing.assert_array_equal(treated.uv[~right], uv[~right])
    assert (treated.uv_areas() > 0).all()
    edges = np.linalg.norm(np.roll(treated.uv, -1, axis=1) - treated.uv, axis=2)
    np.testing.assert_allclose(edges, np.linalg.norm(np.roll(sheet.uv, -1, axis=1) - sheet.uv, axis=2), atol=1e-14)


def test_removed_vertices_keep_their_numbers_and_leave_regions(sheet: Mesh) -> None:
    far = np.array([[7.0, 7, 7]])
    mesh = Mesh(
        np.concatenate([far, sheet.positions, far]),
        sheet.triangles + 1,
        sheet.uv,
        {"hem": np.array([0, 1, 2, sheet.vertex_count + 1])},
    )
    treated = check(mesh)
    np.testing.assert_array_equal(treated.positions, sheet.positions)
    assert treated.regions["hem"].tolist() == [0, 1]
    assert Selection(indices=(1,)).resolve(treated).tolist() == [0]


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1.0, 1e150])
def test_heights_do_not_depend_on_scale(scale: float) -> None:
    triangle = scale * np.array([[[0.0, 0, 0], [2, 0, 0], [1, 0.5, 0]]])
    assert relative_heights(triangle) == pytest.approx(0.25)
    assert relative_heights(triangle[:, :, :2]) == pytest.approx(0.25)
