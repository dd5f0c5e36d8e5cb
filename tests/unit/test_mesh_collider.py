"""The mesh collider against a brute-force search with winding numbers, and its material against the motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reference.solids import attach, carry, closest
from tests.reference.surfaces import signed_distance
from toile.colliders.base import Collider
from toile.colliders.mesh import Mesh, MeshSolid, cyclic_next, thin_triangles
from toile.errors import InputError
from toile.math.types import numpy_real, precision
from toile.model import solid_shapes
from toile.model.solid_mesh import check_surface
from toile.model.vertex_sequence import VertexSequence

Surface = tuple[np.ndarray, np.ndarray]

# Closer than this to the surface, relative to the size of the mesh, the sign of a point is rounding.
NOTHING = 1e-13 if precision == "double" else 1e-6


def lumpy(subdivisions: int = 2) -> Surface:
    """A ball with hills and hollows, about 0.6 m across."""
    x, triangles = solid_shapes.sphere(1.0, subdivisions)
    r = 0.3 * (1.0 + 0.25 * np.sin(5.0 * x[:, 0]) * np.cos(4.0 * x[:, 1]) + 0.15 * np.sin(7.0 * x[:, 2]))
    return r[:, None] * x, triangles


def together(*surfaces: Surface) -> Surface:
    first = np.cumsum([0, *(len(x) for x, _ in surfaces)])
    triangles = [t + n for (_, t), n in zip(surfaces, first[:-1], strict=True)]
    return np.concatenate([x for x, _ in surfaces]), np.concatenate(triangles)


def spiky() -> Surface:
    """A box whose corners are moved out or in, with sharp edges of every kind and saddles."""
    x, triangles = solid_shapes.box((0.4, 0.4, 0.4))
    middle = x[triangles].mean(axis=1) * np.where(np.arange(len(triangles)) % 2, 1.9, 0.4)[:, None]
    a, b, c = triangles.T
    apex = len(x) + np.arange(len(triangles))
    fans = [np.stack([a, b, apex], 1), np.stack([b, c, apex], 1), np.stack([c, a, apex], 1)]
    return np.concatenate([x, middle]), np.concatenate(fans).astype(np.int32)


def boxes_with_a_common_edge() -> Surface:
    """Two boxes that share an edge and its two vertices, with four triangles at it."""
    x, triangles = solid_shapes.box((0.2, 0.2, 0.2))
    x, triangles = together((x, triangles), (x + np.array([0.2, 0.2, 0.0]), triangles))
    _, first, same = np.unique(np.round(x, 6), axis=0, return_index=True, return_inverse=True)
    return x[first], same.ravel()[triangles].astype(np.int32)


def loose_faces() -> Surface:
    """A box in which no triangles share vertices."""
    x, triangles = solid_shapes.box((0.3, 0.4, 0.5))
    return x[triangles].reshape(-1, 3), np.arange(triangles.size, dtype=np.int32).reshape(-1, 3)


def hollow() -> Surface:
    inner, triangles = solid_shapes.box((0.2, 0.2, 0.2))
    return together(lumpy(), (0.5 * inner, triangles[:, ::-1]))


BODIES = {
    "lumpy": lumpy(),
    "box": solid_shapes.box((0.3, 0.4, 0.5)),
    "thin plate": solid_shapes.box((0.5, 0.5, 1e-3)),
    "needle": solid_shapes.box((1e-3, 1e-3, 1.0)),
    "many-sided cylinder": solid_shapes.cylinder(0.3, 1.0, 96, 2),
    "spiky": spiky(),
    "boxes with a common edge": boxes_with_a_common_edge(),
    "loose faces": loose_faces(),
    "hollow": hollow(),
}


def near_surface(rng: np.random.Generator, surface: Surface, count: int, size: float) -> np.ndarray:
    """Points around corners, sides and triangles, at distances from `size` down to a billionth of it."""
    x, triangles = surface
    corners = x[triangles[rng.integers(0, len(triangles), count)]]
    weights = rng.dirichlet(np.ones(3), count)
    third = count // 3
    weights[:third] = np.eye(3)[rng.integers(0, 3, third)]
    weights[third : 2 * third, 0] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    away = rng.normal(size=(count, 3)) * size * 10.0 ** rng.uniform(-9.0, 0.0, (count, 1))
    return np.einsum("nk,nkd->nd", weights, corners) + away


def solid_of(surface: Surface, sequence: VertexSequence | None = None) -> MeshSolid:
    return MeshSolid(Collider(), check_surface(*surface), sequence, "cpu")


@pytest.mark.parametrize("name", BODIES)
def test_distance_and_sign_are_those_of_a_brute_force(name: str) -> None:
    x, triangles = BODIES[name]
    rng = np.random.default_rng(1)
    size = float(np.linalg.norm(np.ptp(x, axis=0)))
    low = x.min(axis=0) - 0.2 * size
    anywhere = low + rng.random((1200, 3)) * (np.ptp(x, axis=0) + 0.4 * size)
    points = np.concatenate([near_surface(rng, (x, triangles), 2400, 0.1 * size), anywhere])
    expected = signed_distance(points, x, triangles)
    found = closest(solid_of((x, triangles)), points)
    sure = np.abs(expected) > NOTHING * size
    assert np.array_equal(found["distance"][sure] > 0.0, expected[sure] > 0.0)
    # The search may return a triangle that is farther by its rounding: 1e-7 of the size, in single precision.
    assert np.abs(found["distance"] - expected).max() < 3e-7 * size
    assert np.linalg.norm(found["normal"], axis=1) == pytest.approx(1.0, abs=1e-6 if precision == "single" else 1e-12)


def test_ten_thousand_points_and_no_wrong_sign() -> None:
    x, triangles = lumpy()
    rng = np.random.default_rng(2)
    points = np.concatenate([near_surface(rng, (x, triangles), 8000, 0.02), rng.uniform(-0.5, 0.5, (2000, 3))])
    expected = signed_distance(points, x, triangles)
    sure = np.abs(expected) > NOTHING
    assert np.array_equal(closest(solid_of((x, triangles)), points)["distance"][sure] > 0.0, expected[sure] > 0.0)


def test_a_mesh_far_from_its_origin_is_as_exact() -> None:
    x, triangles = lumpy()
    rng = np.random.default_rng(3)
    points = near_surface(rng, (x, triangles), 1500, 0.05)
    expected = signed_distance(points, x, triangles)
    away = np.array([30.0, -50.0, 20.0])
    found = closest(solid_of((x + away, triangles)), points + away)["distance"]
    # Positions of 60 m are rounded to 1e-14 m, in single precision to 4e-6 m.
    assert np.abs(found - expected).max() < (1e-7 if precision == "double" else 1e-5)


@pytest.mark.parametrize("reach", [np.inf, 1e300, 1e30, 1e6])
def test_an_unlimited_search_finds_every_point(reach: float) -> None:
    solid = solid_of(solid_shapes.box((2.0, 2.0, 2.0)))
    with np.errstate(over="ignore"):
        largest = float(numpy_real(reach))
    found = closest(solid, np.array([[5000.0, 0.0, 0.0], [0.0, 0.3, 0.0]]), largest)
    assert found["distance"] == pytest.approx([4999.0, -0.7], rel=1e-6)


def test_a_search_without_a_triangle_within_reach() -> None:
    solid = solid_of(solid_shapes.box((2.0, 2.0, 2.0)))
    points = np.array([[1.5, 0.0, 0.0], [1.5, 0.0, 0.0], [1.5, 0.0, 0.0], [0.2, 0.0, 0.0]])
    near, at, short = (closest(solid, points[:1], reach)["distance"][0] for reach in (0.6, 0.5, 0.4999))
    assert (near, at, short) == pytest.approx((0.5, 0.5, 0.4999), abs=1e-6)
    inside = closest(solid, points[3:], 0.1)[0]  # too deep to be found, so it is not known to be inside
    assert inside["distance"] == pytest.approx(0.1)
    assert np.linalg.norm(inside["normal"]) == pytest.approx(1.0)


def test_on_the_surface_the_normal_is_the_pseudonormal() -> None:
    points = np.array([[1.0, 0.3, 0.2], [1.0, 1.0, 0.3], [1.0, 1.0, 1.0]])
    found = closest(solid_of(solid_shapes.box((2.0, 2.0, 2.0))), points)
    expected = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert found["distance"] == pytest.approx(0.0, abs=1e-7)
    assert np.abs(found["normal"] - expected).max() < 1e-6


def test_points_beyond_the_border_of_an_open_mesh_are_outside() -> None:
    solid = solid_of(solid_shapes.plane(1.0))
    points = np.array([[0.1, 0.1, 0.02], [0.1, 0.1, -0.02], [0.53, 0.1, 0.04], [0.53, 0.1, -0.04], [0.53, 0.54, -0.01]])
    found = closest(solid, points)
    assert found["distance"] == pytest.approx([0.02, -0.02, 0.05, 0.05, np.sqrt(0.03**2 + 0.04**2 + 0.01**2)], rel=1e-5)
    assert found["normal"][3] == pytest.approx([0.6, 0.0, -0.8], abs=1e-5)


def test_a_wrong_first_guess_is_corrected() -> None:
    """For thin triangles the error of single precision is more than 3e-5 of the size."""
    x, triangles = solid_shapes.box((0.5, 0.5, 1e-3))
    thin = thin_triangles(x, triangles)
    height = np.ptp(x[triangles][:, :, 2], axis=1)
    assert set(thin) == set(np.flatnonzero(height > 0.0))  # the eight on the four narrow sides
    assert len(thin_triangles(*lumpy(4))) == 0


def test_rings_go_around_every_vertex() -> None:
    keys = np.array([[3], [1], [3], [2], [1], [3]])
    assert cyclic_next(keys).tolist() == [2, 4, 5, 3, 1, 0]


# Meshes that deform


def waving(frames: int = 9, fps: float = 24.0, interpolation: str = "smooth") -> tuple[Surface, VertexSequence]:
    """The lumpy body, which bends, grows and moves away."""
    x, triangles = lumpy()
    turn = np.linspace(0.0, 1.2, frames)[:, None]
    y = np.broadcast_to(x, (frames, *x.shape)).copy()
    y[..., 0] += 0.4 * np.sin(turn + 3.0 * x[:, 2]) * turn
    y[..., 1] *= 1.0 + 0.3 * turn
    y[..., 2] += 0.5 * turn
    return (x, triangles), VertexSequence(y, fps, 0.0, interpolation)  # type: ignore[arg-type]


def test_a_deformed_mesh_has_the_distances_of_its_vertices_then() -> None:
    surface, sequence = waving()
    solid = solid_of(surface, sequence)
    rng = np.random.default_rng(4)
    for time in (0.21, 0.05, 0.30):  # in any order
        solid.move(time - 0.02, time)
        x, _ = sequence.at(time)
        points = near_surface(rng, (x, surface[1]), 600, 0.1)
        expected = signed_distance(points, x, surface[1])
        assert np.abs(closest(solid, points)["distance"] - expected).max() < 3e-7
        assert np.array_equal(solid.vertices(time), x)


def test_the_drift_does_not_depend_on_earlier_queries() -> None:
    surface, sequence = waving()
    solid = solid_of(surface, sequence)

    def largest(begin: float, end: float) -> float:
        return float(np.linalg.norm(sequence.at(end)[0] - sequence.at(begin)[0], axis=1).max())

    for begin, end in [(0.1, 0.2), (0.1, 0.15), (0.1, 0.125), (0.125, 0.2), (0.125, 0.2), (0.0, 0.01)]:
        assert solid.move(begin, end)["drift"] == pytest.approx(largest(begin, end), rel=1e-6)
        x = sequence.at(end)[0]
        assert np.abs(closest(solid, x)["distance"]).max() < 1e-6  # its vertices are those of the end of the step


def test_a_still_mesh_never_drifts_and_a_deforming_one_moves() -> None:
    surface, sequence = waving()
    still, deforming = solid_of(surface), solid_of(surface, sequence)
    assert not still.moves and still.move(0.0, 0.1)["drift"] == 0.0
    assert deforming.moves


def test_velocity_of_the_nearest_point_is_interpolated_from_its_vertices() -> None:
    """v = A x at the vertices is A c at every point c of a triangle, because both are linear."""
    A = np.array([[0.3, -1.0, 0.2], [0.7, 0.1, 0.0], [-0.4, 0.5, -0.2]])
    (x, triangles), _ = waving()
    sequence = VertexSequence(np.stack([x, x + x @ A.T]), 1.0, 0.0, "linear")
    solid = solid_of((x, triangles), sequence)
    solid.move(0.0, 1e-9)
    points = near_surface(np.random.default_rng(5), (x, triangles), 600, 0.1)
    found = closest(solid, points)
    feet = points - found["distance"][:, None] * found["normal"]
    assert np.abs(found["velocity"] - feet @ A.T).max() < 1e-5


def test_material_follows_a_rigid_motion_of_the_vertices() -> None:
    """Distance, normal and velocity of anchored points are those of the rotating body, also near edges and inside."""
    x, triangles = solid_shapes.box((0.3, 0.4, 0.5))
    axis, h = np.array([0.2, -0.5, 0.8]), 0.3
    angle = float(np.linalg.norm(axis)) * h
    K = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]]) * h
    R = np.eye(3) + np.sin(angle) / angle * K + (1.0 - np.cos(angle)) / angle**2 * K @ K
    sequence = VertexSequence(np.stack([x, x @ R.T + [0.1, 0.0, 0.2]]), 1.0 / h, 0.0, "linear")
    solid = solid_of((x, triangles), sequence)
    solid.move(0.0, 0.0)
    points = near_surface(np.random.default_rng(6), (x, triangles), 900, 0.05)
    points = points[np.abs(closest(solid, points)["distance"]) > 1e-4]
    found = closest(solid, points)
    anchors = attach(solid, points, found["face"])
    there, _, normals = carry(solid, (0.0, h), anchors, found["face"], found["normal"])
    tolerance = 1e-10 if precision == "double" else 1e-3
    assert np.abs(there - (points @ R.T + [0.1, 0.0, 0.2])).max() < tolerance
    assert np.abs(normals - found["normal"] @ R.T).max() < tolerance


def test_material_velocity_is_the_rate_of_its_position() -> None:
    surface, sequence = waving()
    solid = solid_of(surface, sequence)
    solid.move(0.1, 0.1)
    points = near_surface(np.random.default_rng(7), (sequence.at(0.1)[0], surface[1]), 300, 0.05)
    found = closest(solid, points)
    anchors = attach(solid, points, found["face"])
    assert np.abs(carry(solid, (0.1, 0.1), anchors, found["face"], found["normal"])[0] - points).max() < 1e-5
    dt = 1e-5 if precision == "double" else 1e-3

    def at(time: float) -> tuple[np.ndarray, np.ndarray]:
        return carry(solid, (0.1, time), anchors, found["face"], found["normal"])[:2]

    rate = (at(0.15 + dt)[0] - at(0.15 - dt)[0]) / (2.0 * dt)
    assert np.abs(at(0.15)[1] - rate).max() < (1e-6 if precision == "double" else 1e-2) * np.abs(rate).max()


# From files


def write_obj(path: Path, surface: Surface) -> None:
    x, triangles = surface
    lines = [f"v {a!r} {b!r} {c!r}" for a, b, c in x.tolist()]
    lines += [f"f {a} {b} {c}" for a, b, c in (triangles + 1).tolist()]
    path.write_text("\n".join(lines) + "\n")


def test_a_mesh_and_its_sequence_are_read_to_scale(tmp_path: Path) -> None:
    (x, triangles), sequence = waving()
    write_obj(tmp_path / "body.obj", (100.0 * x, triangles))
    np.savez(tmp_path / "body.npz", positions=100.0 * sequence.positions)
    frames = {"file": "body.npz", "fps": 24.0}
    settings = {"file": "body.obj", "scale": 0.01, "sequence": frames, "translation": (1.0, 2.0, 3.0)}
    solid = Mesh.model_validate(settings).build(tmp_path, False, "cpu")
    assert np.abs(solid.vertices(0.1) - sequence.at(0.1)[0] - [1.0, 2.0, 3.0]).max() < 1e-6
    assert solid.warnings == ()


def test_flip_turns_the_mesh_inside_out(tmp_path: Path) -> None:
    write_obj(tmp_path / "box.obj", solid_shapes.box((1.0, 1.0, 1.0)))
    solid = Mesh(file="box.obj", flip=True).build(tmp_path, False, "cpu")
    found = closest(solid, np.array([[0.8, 0.0, 0.0], [0.4, 0.0, 0.0]]))
    assert found["distance"] == pytest.approx([-0.3, 0.1], abs=1e-6)
    assert any("inside out" in text for text in solid.warnings)


def test_a_sequence_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    (x, triangles), sequence = waving()
    write_obj(tmp_path / "body.obj", (x, triangles))
    np.savez(tmp_path / "short.npz", positions=sequence.positions[:, :-1])
    np.savez(tmp_path / "silent.npz", positions=sequence.positions)
    given = {"file": "body.obj", "sequence": {"file": "short.npz", "fps": 24.0}}
    with pytest.raises(InputError, match=r"^sequence\.file: the sequence has 161 vertices, but the mesh has 162"):
        Mesh.model_validate(given).build(tmp_path, False, "cpu")
    given["sequence"] = {"file": "silent.npz"}
    with pytest.raises(InputError, match=r"^sequence\.file: the file has no frame rate. Set sequence.fps\."):
        Mesh.model_validate(given).build(tmp_path, False, "cpu")
    given["sequence"] = {"file": "../other.npz", "fps": 24.0}
    with pytest.raises(InputError, match=r"^sequence\.file: leads out of the scene's folder"):
        Mesh.model_validate(given).build(tmp_path, False, "cpu")
