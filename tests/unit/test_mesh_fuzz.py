"""Any mesh gives a mesh that can be simulated or an InputError: never another exception, never a NaN."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toile.errors import InputError
from toile.model.mesh import Mesh, find_edges
from toile.model.mesh_check import check
from toile.model.mesh_files import read
from toile.model.mesh_repair import drop_degenerate, weld
from toile.shapes.grid import Grid
from toile.shapes.mesh import Mesh as MeshShape

MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def expect_usable_or_refused(mesh: Mesh, *, repair: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a division by zero would become a NaN later
        try:
            if repair:
                mesh = drop_degenerate(weld(mesh))
            usable = check(mesh)
        except InputError as error:
            assert str(error)
            return
    assert np.isfinite(usable.positions).all()
    assert (usable.uv_areas() > 0).all()
    assert set(usable.triangles.ravel()) == set(range(usable.vertex_count))
    hinges = find_edges(usable.triangles)
    assert 3 * usable.triangle_count == len(hinges.edges) + len(hinges.hinges)  # no edge has three triangles


@st.composite
def soups(draw: st.DrawFn) -> Mesh:
    """Random triangles between a few points on a coarse lattice, so that defects are frequent."""
    n = draw(st.integers(0, 9))
    m = draw(st.integers(0, 12))
    lattice = st.sampled_from([0.0, 1.0, 2.0, 1e-9, -1.0, 1e-13])
    positions = draw(arrays(np.float64, (n, 3), elements=lattice))
    triangles = draw(arrays(np.int32, (m, 3), elements=st.integers(-1 if draw(st.booleans()) else 0, max(n - 1, 0))))
    uv = draw(arrays(np.float64, (m, 3, 2), elements=lattice))
    scale = draw(st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6]))
    return Mesh(scale * positions, triangles, scale * uv)


@given(soups(), st.booleans())
@MANY
def test_random_triangles_are_repaired_or_refused(mesh: Mesh, repair: bool) -> None:
    expect_usable_or_refused(mesh, repair=repair)


@given(
    arrays(np.float64, (4, 3), elements=st.floats(width=64)),
    arrays(np.float64, (2, 3, 2), elements=st.floats(width=64)),
    st.booleans(),
)
@MANY
def test_any_coordinates_are_repaired_or_refused(positions: np.ndarray, uv: np.ndarray, repair: bool) -> None:
    mesh = Mesh(positions, np.array([[0, 1, 2], [0, 2, 3]], np.int32), uv)
    expect_usable_or_refused(mesh, repair=repair)


@given(st.integers(0, 10_000), st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6]))
@MANY
def test_a_valid_sheet_is_accepted_in_any_order_and_size(seed: int, scale: float) -> None:
    """Renumbered vertices, reordered and rotated triangles: the same sheet, so it is accepted at every size."""
    random = np.random.default_rng(seed)
    sheet = Grid(resolution=(5, 4)).mesh(Path())
    number = random.permutation(sheet.vertex_count)
    order = random.permutation(sheet.triangle_count)
    shift = (np.arange(3) + random.integers(0, 3, (sheet.triangle_count, 1))) % 3
    positions = np.empty_like(sheet.positions)
    positions[number] = sheet.positions
    triangles = np.take_along_axis(number[sheet.triangles], shift, axis=1)[order].astype(np.int32)
    uv = np.take_along_axis(sheet.uv, shift[:, :, None], axis=1)[order]
    usable = check(Mesh(scale * positions, triangles, scale * uv))
    assert np.array_equal(usable.triangles, triangles)
    assert len(usable.warnings) == (0 if 1e-3 <= 1.4 * scale <= 100 else 1)  # the warning about its size


@given(st.binary(max_size=300), st.sampled_from([".obj", ".ply"]))
@MANY
def test_files_of_random_bytes(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"random{suffix}"
    path.write_bytes((b"ply\n" if suffix == ".ply" else b"") + content)
    expect_file_refused_or_used(path)


WORDS = [
    "v",
    "vt",
    "f",
    "g",
    "o",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1/1",
    "2//2",
    "3/3/3",
    "1e400",
    "nan",
    "x",
    "\\",
    "\n",
    "#",
]


@given(st.lists(st.sampled_from(WORDS), max_size=60))
@MANY
def test_obj_files_of_random_statements(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "random.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\n" + " ".join(statements) + "\nf 1 2 3\n")
    expect_file_refused_or_used(path)


HEADER = [
    "element vertex 3",
    "element face 1",
    "property float x",
    "property float y",
    "property float z",
    "property list uchar int vertex_indices",
    "property uchar red",
    "property list int float s",
    "property float t",
]


@given(
    st.sampled_from(["ascii", "binary_little_endian", "binary_big_endian"]),
    st.lists(st.sampled_from(HEADER), max_size=10),
    st.one_of(st.binary(max_size=120), st.lists(st.sampled_from(["0", "1", "3", "-2", "nan", "z"])).map(" ".join)),
)
@MANY
def test_ply_files_of_random_headers(tmp_path: Path, form: str, header: list[str], data: bytes | str) -> None:
    path = tmp_path / "random.ply"
    text = "\n".join(["ply", f"format {form} 1.0", *header, "end_header", ""])
    path.write_bytes(text.encode() + (data.encode() if isinstance(data, str) else data))
    expect_file_refused_or_used(path)


def expect_file_refused_or_used(path: Path) -> None:
    try:
        read(path)
        mesh = MeshShape(file=path.name, weld=True, drop_degenerate=True).mesh(path.parent)
    except InputError as error:
        assert str(error)
        return
    expect_usable_or_refused(mesh, repair=False)
