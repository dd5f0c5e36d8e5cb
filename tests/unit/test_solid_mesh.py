"""Surfaces of solids: closedness, orientation and numbering of vertices, against slow, independent counts."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.transform import Rotation

from toile.errors import InputError
from toile.model import solid_shapes as shapes
from toile.model.solid_mesh import SolidMesh, check_surface, read_solid, require_closed
from toile.model.solid_shapes import Surface


def soup(surface: Surface) -> Surface:
    """Triangles that share no vertices."""
    positions, triangles = surface
    return positions[triangles.ravel()], np.arange(3 * len(triangles)).reshape(-1, 3)


def together(*surfaces: Surface) -> Surface:
    first = np.cumsum([0, *(len(positions) for positions, _ in surfaces)])
    triangles = [triangles + first[i] for i, (_, triangles) in enumerate(surfaces)]
    return np.concatenate([positions for positions, _ in surfaces]), np.concatenate(triangles)


def moved(surface: Surface, by: tuple[float, float, float]) -> Surface:
    return surface[0] + np.array(by), surface[1]


def reversed_(surface: Surface) -> Surface:
    return surface[0], surface[1][:, ::-1]


def turned_at_random(surface: Surface, share: float, seed: int = 0) -> Surface:
    positions, triangles = surface
    turn = np.random.default_rng(seed).random(len(triangles)) < share
    turn[:2] = (False, True)  # at least one of each
    return positions, np.where(turn[:, None], triangles[:, ::-1], triangles)


def winding_number(mesh: SolidMesh, point: tuple[float, float, float]) -> float:
    """Solid angle of all triangles over that of the sphere (Van Oosterom and Strackee 1983): 1 inside, 0 outside."""
    a, b, c = np.moveaxis(mesh.positions[mesh.triangles] - np.array(point), 1, 0)
    la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
    top = np.sum(a * np.cross(b, c), axis=1)
    bottom = la * lb * lc + np.sum(a * b, 1) * lc + np.sum(b * c, 1) * la + np.sum(c * a, 1) * lb
    return float(np.sum(2 * np.arctan2(top, bottom)) / (4 * np.pi))


SOLIDS = {
    "sphere": (shapes.sphere(0.4), 0.0),
    "capsule": (shapes.capsule(0.2, 0.5), 0.0),
    "cylinder": (shapes.cylinder(0.3, 0.5, 20, 16), 0.5 * 20 * np.sin(2 * np.pi / 20) * 0.3**2 * 0.5),
    "box": (shapes.box((1.0, 2.0, 3.0)), 6.0),
}


@pytest.mark.parametrize(("surface", "volume"), SOLIDS.values(), ids=SOLIDS.keys())
def test_valid_solids_are_not_changed(surface: Surface, volume: float) -> None:
    mesh = check_surface(*surface)
    assert mesh.closed and mesh.warnings == () and mesh.numbering is None
    np.testing.assert_array_equal(mesh.positions, surface[0])
    np.testing.assert_array_equal(mesh.triangles, surface[1])
    np.testing.assert_array_equal(mesh.representatives, np.arange(len(surface[0])))
    assert mesh.triangles.dtype == np.int32 and mesh.positions.dtype == np.float64
    assert winding_number(mesh, (0.01, 0.02, 0.03)) == pytest.approx(1, abs=1e-9)
    if volume:
        assert mesh.volume == pytest.approx(volume, rel=1e-13)
    require_closed(mesh, "level_set")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.7, 0.98])
@pytest.mark.parametrize(("surface", "volume"), SOLIDS.values(), ids=SOLIDS.keys())
def test_mixed_winding_is_made_to_face_outward(surface: Surface, volume: float, share: float) -> None:
    mixed = turned_at_random(surface, share)
    mesh = check_surface(*mixed)
    np.testing.assert_array_equal(np.sort(mesh.triangles), np.sort(surface[1]))
    assert winding_number(mesh, (0.01, 0.02, 0.03)) == pytest.approx(1, abs=1e-9)
    turned = np.count_nonzero((mixed[1] != surface[1]).any(axis=1))
    assert mesh.warnings[0].startswith(f"flipped {turned} triangle")


@pytest.mark.parametrize("surface", [surface for surface, _ in SOLIDS.values()], ids=SOLIDS.keys())
def test_surfaces_with_separate_vertices_are_closed(surface: Surface) -> None:
    """The vertices remain, so that a sequence for the file still fits; `places` identifies coincident ones."""
    separate = soup(turned_at_random(surface, 0.2))
    mesh = check_surface(*separate)
    assert mesh.closed and len(mesh.positions) == 3 * len(surface[1])
    assert mesh.volume == pytest.approx(check_surface(*surface).volume, rel=1e-12)
    assert len(np.unique(mesh.representatives)) == len(surface[0])
    np.testing.assert_array_equal(mesh.positions[mesh.representatives], mesh.positions)
    first = np.argmax(mesh.representatives != np.arange(len(mesh.representatives)))
    assert mesh.warnings[0] == (
        f"{3 * len(surface[1]) - len(surface[0])} vertices on open edges at the same position as another, such as "
        f"{first} and {mesh.representatives[first]}: the surface is treated as connected there."
    )


def test_a_seam_of_texture_coordinates_is_no_opening() -> None:
    """A tube of quads whose first and last columns have separate vertices, as in a file with uv."""
    positions, triangles = shapes.cylinder(0.3, 0.5, 12, 4)
    seam = np.flatnonzero((positions[:, 1] == 0) & (positions[:, 0] > 0))
    twin = np.full(len(positions), -1)
    twin[seam] = len(positions) + np.arange(len(seam))
    below = (positions[triangles].mean(axis=1)[:, 1] < 0)[:, None]
    split = np.where(below & (twin[triangles] >= 0), twin[triangles], triangles)
    mesh = check_surface(np.concatenate([positions, positions[seam]]), split)
    assert mesh.closed and mesh.volume == pytest.approx(check_surface(positions, triangles).volume)
    assert len(mesh.warnings) == 1 and mesh.warnings[0].startswith("4 vertices on open edges")


def test_minus_zero_is_zero() -> None:
    positions, triangles = soup(moved(shapes.box((1, 1, 1)), (0.5, 0.5, 0.5)))
    positions[::2] = np.where(positions[::2] == 0, -0.0, positions[::2])
    assert check_surface(positions, triangles).closed


def test_bodies_in_contact_are_two_bodies() -> None:
    """Face to face, and along an edge: positions coincide, and each surface is closed."""
    box = shapes.box((1, 1, 1))
    for by in ((1, 0, 0), (1, 1, 0), (1, 1, 1)):
        mesh = check_surface(*together(box, moved(box, by)))
        assert mesh.closed and mesh.warnings == ()
        assert mesh.volume == pytest.approx(2.0)


def test_a_hollow_is_reported_and_kept() -> None:
    hollow = together(shapes.box((2, 2, 2)), reversed_(shapes.box((1, 1, 1))))
    mesh = check_surface(*hollow)
    assert mesh.closed and mesh.volume == pytest.approx(7.0)
    assert mesh.warnings == (
        "1 of 2 closed pieces face inward (signed volume -1 m^3): right for a cavity in another piece, wrong for a "
        "separate one.",
    )


def test_an_inside_out_solid_is_reported_and_flip_turns_it() -> None:
    wrong = reversed_(shapes.box((1, 2, 3)))
    mesh = check_surface(*wrong)
    assert mesh.volume == pytest.approx(-6.0)
    np.testing.assert_array_equal(mesh.triangles, wrong[1])
    right = check_surface(*wrong, flip=True)
    assert right.volume == pytest.approx(6.0) and right.warnings == ()
    assert winding_number(right, (0, 0, 0)) == pytest.approx(1)


def test_an_open_surface_keeps_its_front_and_flip_changes_it() -> None:
    for surface in (shapes.plane(1.0), shapes.disc(0.5)):
        mesh = check_surface(*surface)
        assert not mesh.closed and mesh.volume == 0.0
        np.testing.assert_array_equal(mesh.triangles, surface[1])
        x = mesh.positions[check_surface(*surface, flip=True).triangles]
        assert (np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])[:, 2] < 0).all()


def test_on_an_open_surface_the_minority_is_flipped() -> None:
    positions, triangles = shapes.disc(0.5, 20)
    mixed = triangles.copy()
    mixed[[3, 11, 12]] = mixed[[3, 11, 12]][:, ::-1]
    x = positions[check_surface(positions, mixed).triangles]
    assert (np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])[:, 2] > 0).all()


def test_unused_vertices_keep_the_numbering_of_the_file() -> None:
    positions, triangles = shapes.box((1, 1, 1))
    nine = np.insert(positions, 3, (7, 7, 7), axis=0)
    mesh = check_surface(nine, triangles + (triangles >= 3))
    np.testing.assert_array_equal(mesh.positions, positions)
    np.testing.assert_array_equal(mesh.triangles, triangles)
    assert mesh.numbering is not None and mesh.numbering.tolist() == [0, 1, 2, -1, 3, 4, 5, 6, 7]
    assert mesh.source_vertex_count == 9
    frames = np.random.default_rng(0).normal(size=(4, 9, 3))
    np.testing.assert_array_equal(mesh.from_source(frames), np.delete(frames, 3, axis=1))


def test_degenerate_triangles_can_be_dropped() -> None:
    """A repeated corner, a line, and the vertex that only these used."""
    positions, triangles = shapes.box((1, 1, 1))
    more = np.vstack([positions, (positions[0] + positions[1]) / 2])
    bad = np.vstack([[[0, 1, 8]], triangles[:5], [[2, 2, 3]], triangles[5:]])
    mesh = check_surface(more, bad, drop_degenerate=True)
    np.testing.assert_array_equal(mesh.triangles, triangles)
    assert mesh.closed and mesh.volume == pytest.approx(1.0) and len(mesh.positions) == 8
    assert mesh.warnings == (
        "left out 2 degenerate triangles, the first of them triangle 0.",
        "removed 1 unused vertex, the first of them vertex 8; vertex sequences keep the numbers of the source.",
    )


def test_a_moebius_strip_has_one_side() -> None:
    n = 30
    angle = 2 * np.pi * np.arange(n) / n
    around = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(n)])
    across = np.cos(angle / 2)[:, None] * around + np.sin(angle / 2)[:, None] * np.array([0, 0, 1])
    positions = np.concatenate([around - 0.2 * across, around + 0.2 * across])
    quads = [[i, i + 1, i + 1 + n, i + n] for i in range(n - 1)] + [[n - 1, n, 0, 2 * n - 1]]
    mesh = check_surface(positions, np.array(quads)[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3))
    assert not mesh.closed
    assert "the surface has only one side (a Moebius strip), so its front and back are not defined." in mesh.warnings


def test_a_large_mesh_is_checked_quickly() -> None:
    """28,000 triangles, also with separate vertices and mixed winding."""
    body = shapes.cylinder(0.3, 0.5, 200, 70)
    for surface in (body, soup(turned_at_random(body, 0.3))):
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            assert check_surface(*surface).closed
            seconds.append(time.perf_counter() - begin)
        assert min(seconds) < 1.0  # 0.1 and 0.3 on a laptop core


@st.composite
def meshes(draw: st.DrawFn) -> Surface:
    """A few triangles between points of a coarse lattice, so that defects are frequent."""
    n = draw(st.integers(1, 8))
    m = draw(st.integers(1, 14))
    positions = draw(arrays(np.float64, (n, 3), elements=st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e-13])))
    return positions, draw(arrays(np.int64, (m, 3), elements=st.integers(0, n - 1)))


@given(meshes(), st.booleans(), st.booleans())
def test_random_triangles_are_refused_or_agree_with_a_slow_count(surface: Surface, flip: bool, drop: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            mesh = check_surface(*surface, flip=flip, drop_degenerate=drop)
        except InputError as error:
            assert str(error)
            return
    assert set(mesh.triangles.ravel()) == set(range(len(mesh.positions)))
    at = [tuple(int(mesh.representatives[i]) for i in t) for t in mesh.triangles]
    uses = Counter(frozenset((t[i], t[(i + 1) % 3])) for t in at for i in range(3))
    runs = Counter((t[i], t[(i + 1) % 3]) for t in at for i in range(3))
    one_sided = any("one side" in messages for messages in mesh.warnings)
    if not one_sided:
        assert all(runs[a, b] <= 1 for a, b in runs if uses[frozenset((a, b))] == 2)
    assert mesh.closed == (set(uses.values()) == {2} and not one_sided)
    if mesh.closed:
        direct = sum(np.linalg.det(mesh.positions[t]) for t in mesh.triangles) / 6
        assert mesh.volume == pytest.approx(direct, abs=1e-12)


@given(st.integers(0, 10_000))
def test_a_solid_does_not_depend_on_the_order_of_its_file(seed: int) -> None:
    """Renumbered, reordered and rotated triangles, rotated in space: closed, outward, the same volume, no warning."""
    random = np.random.default_rng(seed)
    positions, triangles = shapes.capsule(0.2, 0.5, 9, 3)
    number = random.permutation(len(positions))
    shift = (np.arange(3) + random.integers(0, 3, (len(triangles), 1))) % 3
    shuffled = np.empty_like(positions)
    shuffled[number] = Rotation.random(random_state=seed).apply(positions) + random.normal(size=3)
    faces = random.permutation(np.take_along_axis(number[triangles], shift, axis=1))
    mesh = check_surface(shuffled, faces)
    assert mesh.closed and mesh.warnings == ()
    assert mesh.volume == pytest.approx(check_surface(positions, triangles).volume, rel=1e-10)


# Files


def write_obj(path: Path, surface: Surface, before: str = "") -> None:
    lines = [*(f"v {x!r} {y!r} {z!r}" for x, y, z in surface[0].tolist()), before]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in surface[1].tolist()]
    path.write_text("\n".join(lines) + "\n")


def test_a_solid_is_read_in_its_unit(tmp_path: Path) -> None:
    surface = shapes.box((20.0, 20.0, 20.0))
    write_obj(tmp_path / "box.obj", surface)
    mesh = read_solid(tmp_path, "box.obj", False, part=None, scale=0.01, flip=False, drop_degenerate=False)
    assert mesh.closed and mesh.warnings == ()
    assert mesh.volume == pytest.approx(0.008)
    assert read_solid(tmp_path, "box.obj", scale=0.01, flip=True).volume == pytest.approx(-0.008)


def test_quads_are_split_and_reported(tmp_path: Path) -> None:
    corners = "".join(f"v {i & 1} {i >> 1 & 1} {i >> 2 & 1}\n" for i in range(8))
    (tmp_path / "cube.obj").write_text(corners + "f 1 5 7 3\nf 2 4 8 6\nf 1 2 6 5\nf 3 7 8 4\nf 1 3 4 2\nf 5 6 8 7\n")
    mesh = read_solid(tmp_path, "cube.obj")
    assert mesh.warnings == ("6 faces with more than 3 corners were cut into triangles.",)
    assert mesh.closed and mesh.volume == pytest.approx(1.0) and len(mesh.triangles) == 12


def test_a_part_of_a_file_keeps_the_numbers_of_the_file(tmp_path: Path) -> None:
    (positions, triangles), ball = shapes.box((1, 1, 1)), shapes.sphere(0.3, 1)
    first = len(ball[0])
    text = [f"v {x!r} {y!r} {z!r}" for x, y, z in np.concatenate([ball[0], positions]).tolist()]
    text += ["o ball", *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in ball[1].tolist())]
    text += ["o crate", *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in (triangles + first).tolist())]
    (tmp_path / "two.obj").write_text("\n".join(text))
    mesh = read_solid(tmp_path, "two.obj", part="crate")
    assert mesh.warnings == () and mesh.volume == pytest.approx(1.0)
    assert mesh.source_vertex_count == first + 8
    np.testing.assert_array_equal(mesh.from_source(np.concatenate([ball[0], positions])), positions)


def test_a_solid_is_read_from_usd(tmp_path: Path) -> None:
    pytest.importorskip("pxr", reason="usd-core is an optional extra")
    from pxr import Usd, UsdGeom

    positions, triangles = shapes.box((1, 2, 3))
    stage = Usd.Stage.CreateNew(str(tmp_path / "box.usda"))
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    prim = UsdGeom.Mesh.Define(stage, "/box")
    prim.GetPointsAttr().Set(positions.astype(np.float32))
    prim.GetFaceVertexCountsAttr().Set([3] * len(triangles))
    prim.GetFaceVertexIndicesAttr().Set(triangles.ravel())
    stage.GetRootLayer().Save()
    mesh = read_solid(tmp_path, "box.usda")
    assert mesh.closed and mesh.volume == pytest.approx(6.0)
