"""Level sets against closed forms: spheres, boxes, and surfaces with a motion in closed form.

The error of trilinear interpolation is at most h^2/8 times the sum of second derivatives along the axes; for the
distance to a sphere that is the Laplacian, 2/r, so the bound is h^2/(4 r). Storage in single precision adds about
1e-8 m.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp
from pydantic import ValidationError

from toile.colliders import _level_set_cache as cache
from toile.colliders import level_set
from toile.colliders.base import Solid
from toile.colliders.level_set import FUNCTIONS, LevelSet, LevelSetShape
from toile.errors import InputError
from toile.math.solid import Closest, MaterialPoint
from toile.math.types import precision, real, vec3
from toile.model import solid_shapes

ROUNDING = 1e-7 if precision == "double" else 3e-6  # single precision of coordinates around 1 m
CELL = 0.02
closest, attach, material, sweep = FUNCTIONS.closest, FUNCTIONS.attach, FUNCTIONS.material, FUNCTIONS.sweep


@wp.kernel
def ask(shape: LevelSetShape, x: wp.array(dtype=vec3), found_out: wp.array(dtype=Closest)):
    i = wp.tid()
    found_out[i] = closest(shape, x[i], real(1.0e6))


@wp.kernel
def fix(shape: LevelSetShape, x: wp.array(dtype=vec3), face: wp.int32, anchor_out: wp.array(dtype=vec3)):
    i = wp.tid()
    anchor_out[i] = attach(shape, x[i], face)


@wp.kernel
def follow(
    shape: LevelSetShape, anchor: wp.array(dtype=vec3), face: wp.int32, normal: vec3, h: real,
    found_out: wp.array(dtype=MaterialPoint),
):  # fmt: skip
    i = wp.tid()
    found_out[i] = material(shape, anchor[i], face, normal, h)


@wp.kernel
def cross(shape: LevelSetShape, p: vec3, q: vec3, gap: real, s_out: wp.array(dtype=real)):
    s_out[0] = sweep(shape, p, q, gap)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOILE_CACHE_DIR", str(tmp_path / "cache"))


def at(solid: Solid, points: np.ndarray) -> SimpleNamespace:
    out = wp.zeros(len(points), dtype=Closest, device="cpu")
    wp.launch(ask, len(points), [solid.shape, wp.array(points, dtype=vec3, device="cpu")], [out], device="cpu")
    return SimpleNamespace(**{name: out.numpy()[name].copy() for name in out.numpy().dtype.names})


def build(folder: Path, *parts: dict, **fields: object) -> Solid:
    return LevelSet(cell=CELL, parts=parts, **fields).build(folder, False, "cpu")


def write_mesh(path: Path, surface: tuple[np.ndarray, np.ndarray]) -> dict:
    positions, triangles = surface
    lines = [f"v {x:.17g} {y:.17g} {z:.17g}" for x, y, z in positions]
    path.write_text("\n".join([*lines, *(f"f {a} {b} {c}" for a, b, c in triangles + 1)]), encoding="utf-8")
    return {"type": "mesh", "file": path.name}


def write_sequence(folder: Path, surface: tuple[np.ndarray, np.ndarray], frames: np.ndarray, **fields: object) -> dict:
    np.savez(folder / "frames.npz", positions=frames)
    return {**write_mesh(folder / "first.obj", surface), "sequence": {"file": "frames.npz", **fields}}


def cloud(count: int, reach: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-reach, reach, (count, 3))


def shell(radius: float, thickness: float, count: int = 2000) -> np.ndarray:
    """Points around a sphere, up to a distance from it."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(count, 3))
    return u / np.linalg.norm(u, axis=1, keepdims=True) * (radius + rng.uniform(-thickness, thickness, (count, 1)))


# Distance, sign and normal


def test_a_sphere_has_its_distance_and_normal_near_the_surface(tmp_path: Path) -> None:
    found = at(build(tmp_path, {"type": "sphere", "radius": 0.3}), x := shell(0.3, 0.08))
    r = np.linalg.norm(x, axis=1)
    assert np.abs(found.distance - (r - 0.3)).max() < CELL**2 / (4 * (0.3 - 0.08 - CELL)) + ROUNDING
    # The slope over a cell is that of a parabola, with an error of h^2/24 d^3 phi, interpolated like the distance:
    # O(h^2/r^2).
    assert np.linalg.norm(found.normal - x / r[:, None], axis=1).max() < CELL**2 / (0.3 - 0.08 - CELL) ** 2


def test_the_error_falls_with_the_square_of_the_cell(tmp_path: Path) -> None:
    x = shell(0.3, 0.03)
    exact = np.linalg.norm(x, axis=1) - 0.3
    errors = []
    for cell in (0.02, 0.01):
        solid = LevelSet(cell=cell, parts=[{"type": "sphere", "radius": 0.3}]).build(tmp_path, False, "cpu")
        errors.append(np.abs(at(solid, x).distance - exact).max())
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)


def test_a_mesh_is_exact_where_its_distance_is_linear(tmp_path: Path) -> None:
    half = np.array([0.3, 0.2, 0.25])
    solid = build(tmp_path, write_mesh(tmp_path / "box.obj", solid_shapes.box(tuple(2 * half))))
    rng = np.random.default_rng(2)
    for axis in range(3):
        x = rng.uniform(-1, 1, (500, 3)) * (half - 0.1)  # not closer than this to another face
        x[:, axis] = half[axis] + rng.uniform(-0.05, 0.05, 500)
        found = at(solid, x)
        assert np.abs(found.distance - (x[:, axis] - half[axis])).max() < ROUNDING
        assert np.abs(found.normal - np.eye(3)[axis]).max() < 100 * ROUNDING


def test_a_mesh_and_its_analytic_shape_agree(tmp_path: Path) -> None:
    surface = solid_shapes.capsule(0.15, 0.3, segments=96, rings=24)
    x = cloud(3000, 0.4)
    mesh = at(build(tmp_path, write_mesh(tmp_path / "capsule.obj", surface)), x)
    shape = at(build(tmp_path, {"type": "capsule", "radius": 0.15, "length": 0.3}), x)
    near = np.abs(shape.distance) < 0.07
    sag = 0.15 * (1 - np.cos(np.pi / 96))  # the distance of a side of the polygon from the circle
    assert np.abs(mesh.distance - shape.distance)[near].max() < 2 * sag + ROUNDING


@pytest.mark.parametrize("kind", ["shape", "mesh"])
def test_the_sign_is_right_everywhere(tmp_path: Path, kind: str) -> None:
    radius = 0.6  # far more than the band
    part = {"type": "sphere", "radius": radius}
    if kind == "mesh":
        part = write_mesh(tmp_path / "ball.obj", solid_shapes.sphere(radius, 4))
    x = np.concatenate([cloud(20000, 0.9), np.zeros((1, 3))])
    r = np.linalg.norm(x, axis=1)
    found = at(build(tmp_path, part), x)
    sure = np.abs(r - radius) > 0.005
    assert (np.sign(found.distance) == np.sign(r - radius))[sure].all()
    assert found.distance[-1] < -0.5 * radius  # at the center the distance is the depth, not only negative


def test_a_hollow_is_outside_and_an_overlap_is_inside(tmp_path: Path) -> None:
    shell_out, shell_in = solid_shapes.sphere(0.4, 3), solid_shapes.sphere(0.2, 3)
    n = len(shell_out[0])
    hollow = (np.concatenate([shell_out[0], shell_in[0]]),
              np.concatenate([shell_out[1], shell_in[1][:, [0, 2, 1]] + n]))  # fmt: skip
    x = np.array([[0.0, 0, 0], [0.3, 0, 0], [0.5, 0, 0]])
    assert (np.sign(at(build(tmp_path, write_mesh(tmp_path / "hollow.obj", hollow)), x).distance) == [1, -1, 1]).all()
    shifted = (np.concatenate([shell_out[0], shell_out[0] + [0.3, 0, 0]]),
               np.concatenate([shell_out[1], shell_out[1] + n]))  # fmt: skip
    x = np.array([[0.15, 0, 0], [0.6, 0, 0], [0.8, 0, 0]])
    assert (np.sign(at(build(tmp_path, write_mesh(tmp_path / "two.obj", shifted)), x).distance) == [-1, -1, 1]).all()


def test_normals_have_unit_length_also_where_the_gradient_vanishes(tmp_path: Path) -> None:
    solid = build(tmp_path, {"type": "box", "size": (0.4, 0.4, 0.4)}, {"type": "sphere", "translation": (0.5, 0, 0)})
    x = np.concatenate([cloud(5000, 1.5), np.zeros((1, 3)), [[0.5, 0, 0]]])
    assert np.abs(np.linalg.norm(at(solid, x).normal, axis=1) - 1.0).max() < 1e-6


@pytest.mark.parametrize("kind", ["shape", "mesh"])
def test_far_away_the_distance_is_a_lower_bound(tmp_path: Path, kind: str) -> None:
    part = {"type": "sphere", "radius": 0.3}
    if kind == "mesh":
        part = write_mesh(tmp_path / "ball.obj", solid_shapes.sphere(0.3, 4))
    for reach in (0.6, 3.0, 100.0):
        x = cloud(5000, reach)
        exact = np.linalg.norm(x, axis=1) - 0.3
        outside = exact > 0.0
        found = at(build(tmp_path, part), x[outside])
        sag = 1e-3 if kind == "mesh" else 0.0
        assert (found.distance - exact[outside]).max() < CELL**2 / (4 * 0.3) + sag
        assert found.distance.min() > 0.0 or exact[outside].min() < 1e-3


def test_a_path_stops_at_the_surface(tmp_path: Path) -> None:
    solid = build(tmp_path, {"type": "sphere", "radius": 0.3})
    out = wp.zeros(1, dtype=real, device="cpu")
    p, q, gap = vec3(-2.0, 0.1, 0.0), vec3(2.0, 0.1, 0.0), 0.01
    wp.launch(cross, 1, [solid.shape, p, q, gap], [out], device="cpu")
    expected = (2.0 - np.sqrt(0.31**2 - 0.1**2)) / 4.0
    assert out.numpy()[0] == pytest.approx(expected, abs=CELL**2 / 4.0)
    wp.launch(cross, 1, [solid.shape, vec3(-2.0, 0.35, 0.0), vec3(2.0, 0.35, 0.0), gap], [out], device="cpu")
    assert out.numpy()[0] == 2.0


# Several parts


def test_parts_are_combined_by_the_smallest_value(tmp_path: Path) -> None:
    one = {"type": "sphere", "radius": 0.25}
    two = {"type": "box", "size": (0.3, 0.3, 0.3), "translation": (0.3, 0.1, 0), "rotation": (0, 30, 40)}
    x = cloud(3000, 0.8)
    both, first, second = (at(build(tmp_path, *parts), x) for parts in ((one, two), (one,), (two,)))
    assert np.array_equal(both.distance, np.minimum(first.distance, second.distance))
    assert np.array_equal(both.face, (second.distance < first.distance).astype(int))
    nearest = np.where((both.face == 0)[:, None], first.normal, second.normal)
    assert np.abs(both.normal - nearest).max() == 0.0


def test_points_inside_two_parts_are_pinched(tmp_path: Path) -> None:
    centers = np.array([[-0.2, 0, 0], [0.2, 0, 0]])
    solid = build(tmp_path, *({"type": "sphere", "radius": 0.25, "translation": tuple(c)} for c in centers))
    x = cloud(20000, 0.3)
    r = np.linalg.norm(x[:, None] - centers, axis=2) - 0.25
    facing = np.sum((x - centers[0]) * (x - centers[1]), axis=1) < 0.0
    caught = (r < 0.0).all(axis=1) | ((r < 0.002).all(axis=1) & facing)
    sure = (np.abs(r) > 0.0015).all(axis=1) & (np.abs(r - 0.002) > 0.0015).all(axis=1)
    assert caught[sure].any()
    assert np.array_equal(at(solid, x).pinched[sure], caught[sure].astype(int))


def test_a_narrow_gap_pinches_and_a_smooth_joint_does_not(tmp_path: Path) -> None:
    gap = 0.003
    far = 0.25 + 0.5 * gap
    apart = build(tmp_path, *({"type": "sphere", "radius": 0.25, "translation": (x, 0, 0)} for x in (-far, far)))
    assert at(apart, np.zeros((1, 3))).pinched[0] == 1
    assert at(apart, np.array([[0, 0.1, 0]])).pinched[0] == 0
    joint = build(tmp_path, *({"type": "capsule", "radius": 0.1, "translation": (0, 0, z)} for z in (-0.2, 0.2)))
    assert at(joint, np.array([[0.101, 0, 0]])).pinched[0] == 0


def test_a_rigid_part_has_the_velocity_of_its_frame(tmp_path: Path) -> None:
    motion = {"interpolation": "linear", "keyframes": [
        {"time": 0.0}, {"time": 2.0, "translation": (0.4, 0, 0.2), "rotation": (0, 0, 90)}]}  # fmt: skip
    solid = build(tmp_path, {"type": "box", "size": (0.4, 0.3, 0.2), "translation": (0.1, 0, 0), "motion": motion})
    h = 0.25
    solid.move(1.0 - h, 1.0)
    origin, w = np.array([0.3, 0, 0.1]), np.array([0, 0, np.radians(45)])
    x = origin + cloud(500, 0.3)
    found = at(solid, x)
    surface = x - found.distance[:, None] * found.normal
    assert np.abs(found.velocity - (np.array([0.2, 0, 0.1]) + np.cross(w, surface - origin))).max() < ROUNDING

    # Material attached at the end of one step is carried by the frame until the end of the next.
    anchors, out = wp.zeros(len(x), dtype=vec3, device="cpu"), wp.zeros(len(x), dtype=MaterialPoint, device="cpu")
    wp.launch(fix, len(x), [solid.shape, wp.array(x, dtype=vec3, device="cpu"), 0], [anchors], device="cpu")
    solid.move(1.0, 1.0 + h)
    wp.launch(follow, len(x), [solid.shape, anchors, 0, vec3(1.0, 0.0, 0.0), h], [out], device="cpu")
    angle = w[2] * h
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    origin_then = origin + h * np.array([0.2, 0, 0.1])
    assert np.abs(out.numpy()["point"] - ((x - origin) @ turn.T + origin_then)).max() < ROUNDING
    assert np.abs(out.numpy()["normal"] - turn[:, 0]).max() < ROUNDING


def test_the_drawn_surface_moves_with_the_parts(tmp_path: Path) -> None:
    motion = {"interpolation": "linear", "keyframes": [{"time": 0.0}, {"time": 1.0, "translation": (0, 0, 1)}]}
    solid = build(
        tmp_path, {"type": "sphere"}, {"type": "box", "motion": motion}, translation=(1, 0, 0), rotation=(0, 90, 0)
    )
    ball, box = solid_shapes.sphere(0.3)[0], solid_shapes.box((0.5, 0.5, 0.5))[0]
    turn = np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]])  # 90 degrees about y
    expected = np.concatenate([ball, box + np.array([0, 0, 0.5])]) @ turn.T + [1, 0, 0]
    assert np.abs(solid.vertices(0.5) - expected).max() < 1e-12
    assert solid.triangles.max() == len(ball) + len(box) - 1
    assert solid.moves
    assert solid.move(0.0, 0.5)["drift"] == pytest.approx(0.5)


# Parts that deform


def test_a_sequence_that_translates_moves_its_field_between_keyframes(tmp_path: Path) -> None:
    radius, step = 0.15, np.array([0.4, 0.0, 0.1])  # farther than the ball is wide
    ball = solid_shapes.sphere(radius, 4)
    frames = ball[0] + np.arange(3)[:, None, None] * step
    part = write_sequence(tmp_path, ball, frames, fps=10.0, interpolation="linear")
    moving, still = build(tmp_path, part), build(tmp_path, write_mesh(tmp_path / "still.obj", ball))
    for time in (0.03, 0.05, 0.18):
        moving.move(time - 0.01, time)
        x = shell(radius, 0.05)
        found, rest = at(moving, x + step * time * 10.0), at(still, x)
        # Both are trilinear on their own grids; the mesh is the same.
        assert np.abs(found.distance - rest.distance).max() < 2 * CELL**2 / (4 * (radius - 0.05 - CELL))
        assert np.abs(found.velocity - step * 10.0).max() < 1e-5
        assert np.sum(found.normal * rest.normal, axis=1).min() > 0.98


def test_a_sequence_that_inflates_carries_its_material(tmp_path: Path) -> None:
    ball = solid_shapes.sphere(1.0, 4)
    radii = np.array([0.2, 0.23, 0.26, 0.29])  # 0.9 m/s at 30 frames a second
    part = write_sequence(tmp_path, ball, radii[:, None, None] * ball[0], fps=30.0, interpolation="linear")
    solid = build(tmp_path, part)
    h, time = 0.01, 0.06
    radius = 0.2 + 0.9 * time
    solid.move(time - h, time)
    x = shell(radius, 0.03, 500)
    r = np.linalg.norm(x, axis=1, keepdims=True)
    found = at(solid, x)
    sag = 0.002 * radius  # of the flat triangles
    assert np.abs(found.distance - (r[:, 0] - radius)).max() < CELL**2 / (2 * (radius - 0.03 - CELL)) + sag
    # Velocities are stored at every second cell: (2 h)^2/8 times second derivatives of 0.9 x/r, at most 2/r^2 of it.
    assert np.abs(found.velocity - 0.9 * x / r).max() < 0.9 * CELL**2 / (radius - 0.05) ** 2

    start = x / r * (radius + 0.001)
    anchors, out = wp.zeros(len(x), dtype=vec3, device="cpu"), wp.zeros(len(x), dtype=MaterialPoint, device="cpu")
    wp.launch(fix, len(x), [solid.shape, wp.array(start, dtype=vec3, device="cpu"), 0], [anchors], device="cpu")
    solid.move(time, time + h)
    wp.launch(follow, len(x), [solid.shape, anchors, 0, vec3(1.0, 0.0, 0.0), h], [out], device="cpu")
    carried = out.numpy()["point"]
    assert np.abs(carried - x / r * (radius + 0.001 + 0.9 * h)).max() < 0.01 * 0.9 * h
    assert np.abs(out.numpy()["normal"] - x / r).max() < 0.02


def test_a_smooth_sequence_agrees_with_its_own_vertices(tmp_path: Path) -> None:
    ball = solid_shapes.sphere(0.2, 3)
    frames = ball[0] + np.array([0.0, 0.01, 0.05, 0.08])[:, None, None] * np.array([0, 0, 1.0])
    solid = build(tmp_path, write_sequence(tmp_path, ball, frames, fps=10.0))
    for time in (0.04, 0.16, 0.27):
        solid.move(time - 0.01, time)
        before, now, after = (solid.vertices(time + dt) for dt in (-1e-4, 0.0, 1e-4))
        found = at(solid, now)
        # At a vertex the distance has a kink, which a grid rounds by its slope over half a cell.
        assert np.abs(found.distance).max() < 0.3 * CELL
        assert np.abs(found.velocity - (after - before) / 2e-4).max() < 1e-3


def test_the_distance_of_a_moving_sequence_is_a_lower_bound(tmp_path: Path) -> None:
    ball = solid_shapes.sphere(0.15, 3)
    step = np.array([0.3, 0.0, 0.0])
    part = write_sequence(tmp_path, ball, ball[0] + np.arange(2)[:, None, None] * step, fps=1.0, interpolation="linear")
    solid = build(tmp_path, part)
    solid.move(0.0, 0.4)
    for reach in (0.5, 2.0):
        x = cloud(4000, reach)
        exact = np.linalg.norm(x - 0.4 * step, axis=1) - 0.15
        found = at(solid, x)
        outside = exact > 0.0
        assert (found.distance - exact)[outside].max() < CELL**2 / (2 * 0.15) + 0.005 * 0.15
        assert (np.sign(found.distance) == np.sign(exact))[np.abs(exact) > 0.005].all()


# Cache and bad input


def fields_of(solid: Solid) -> list[bytes]:
    field = solid.parts[0].fields[0]  # type: ignore[attr-defined]
    return [array.numpy().tobytes() for array in (field.slots, field.far, field.near)]


def test_a_field_is_baked_once_and_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = write_mesh(tmp_path / "ball.obj", solid_shapes.sphere(0.2, 2))
    first = build(tmp_path, part)

    def refuse(*_: object) -> None:
        raise AssertionError("baked again")

    monkeypatch.setattr(level_set, "bake_mesh", refuse)
    assert fields_of(build(tmp_path, part)) == fields_of(first)
    with pytest.raises(AssertionError, match="baked again"):
        build(tmp_path, {**part, "scale": 1.001})
    with pytest.raises(AssertionError, match="baked again"):
        build(tmp_path, part, band=0.05)


@pytest.mark.parametrize("damage", ["truncate", "flip", "garbage", "empty", "folder"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, damage: str) -> None:
    part = write_mesh(tmp_path / "ball.obj", solid_shapes.sphere(0.2, 2))
    good = fields_of(build(tmp_path, part))
    (file,) = cache.folder().glob("*.npz")
    content = file.read_bytes()
    middle = len(content) // 2
    file.unlink()
    if damage == "folder":
        file.mkdir()
    else:
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        file.write_bytes({"truncate": content[:middle], "flip": flipped, "garbage": b"PK??", "empty": b""}[damage])
    assert fields_of(build(tmp_path, part)) == good
    if damage != "folder":
        assert file.read_bytes() == content
    assert not list(cache.folder().glob("*.part"))


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("TOILE_CACHE_DIR", str(tmp_path / "file"))
    solid = build(tmp_path, write_mesh(tmp_path / "ball.obj", solid_shapes.sphere(0.2, 2)))
    assert at(solid, np.zeros((1, 3))).distance[0] < -0.05


def test_the_oldest_files_of_the_cache_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 1)
    for radius in (0.1, 0.2):
        build(tmp_path, write_mesh(tmp_path / "ball.obj", solid_shapes.sphere(radius, 1)))
    assert len(list(cache.folder().glob("*.npz"))) == 0


def test_an_open_mesh_is_refused(tmp_path: Path) -> None:
    positions, triangles = solid_shapes.box((1, 1, 1))
    with pytest.raises(InputError, match=r"parts\[0\]: level_set needs a closed surface"):
        build(tmp_path, write_mesh(tmp_path / "open.obj", (positions, triangles[1:])))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "plane"}, "a plane is infinite"),
        ({"type": "level_set", "parts": ["sphere"]}, "a level set cannot contain a level set"),
        ({"type": "sphere", "friction": 0.5}, "a part has no friction of its own"),
    ],
)
def test_parts_that_cannot_be_used_are_refused(part: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LevelSet(parts=[part])


def test_a_cell_that_is_far_too_small_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cell = 1e-06 m needs .* tiles, about .* GB of memory. Use a larger cell"):
        LevelSet(cell=1e-6, parts=["sphere"]).build(tmp_path, False, "cpu")
