"""Solids in pictures and in the folder of a run: where they are follows from geometry, what is saved comes back."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toile.errors import InputError
from toile.model.frame import Frame, Part, SolidSurface, Surface
from toile.outputs.pc2 import Pc2
from toile.outputs.picture import Picture
from toile.render.camera import GROUND_GAP, MARGIN, Camera
from toile.render.raytracer import Light, RayTracer, vertex_normals
from toile.render.solid_mesh import split_sharp
from toile.render.staging import FLOOR_GAP, Stage, Staging
from toile.runs.folder import RunFolder, export_run, render_run

FAR_BELOW = -1e4  # [m]  a ground that is not in the picture
SQUARE = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
TWO = np.array([[0, 1, 2], [0, 2, 3]], np.int32)
SMALL = {"width": 64, "height": 48, "samples": 1}


def flat(z: float, size: float = 1.0) -> np.ndarray:
    """A square that faces up."""
    return np.column_stack([size * SQUARE, np.full(4, z)])


def upright(y: float, size: float = 1.0) -> np.ndarray:
    """A square in the plane y that faces -y."""
    return np.column_stack([size * SQUARE[:, 0], np.full(4, y), size * SQUARE[:, 1]])


def square(points: np.ndarray, name: str = "square", moves: bool = False) -> SolidSurface:
    return SolidSurface(name, TWO, points, moves)


def turned(profile: list[tuple[float, float]], segments: int) -> tuple[np.ndarray, np.ndarray]:
    """A closed surface of revolution about z, from (radius, height) bottom to top; both ends are on the axis."""
    angles = 2.0 * np.pi * np.arange(segments) / segments
    rings = [np.column_stack([r * np.cos(angles), r * np.sin(angles), np.full(segments, z)]) for r, z in profile[1:-1]]
    last = segments * len(rings) + 1
    triangles = []
    for i in range(segments):
        j = (i + 1) % segments
        triangles += [(0, 1 + j, 1 + i), (last, last - segments + i, last - segments + j)]
        for ring in range(len(rings) - 1):
            a, b = 1 + segments * ring + i, 1 + segments * ring + j
            triangles += [(a, b, b + segments), (a, b + segments, a + segments)]
    ends = [np.array([[0.0, 0.0, z]]) for _, z in (profile[0], profile[-1])]
    return np.concatenate([ends[0], *rings, ends[1]]), np.array(triangles, np.int32)


def sphere(radius: float, rings: int = 48) -> tuple[np.ndarray, np.ndarray]:
    angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, rings)
    return turned([(radius * math.cos(a), radius * math.sin(a)) for a in angles], 2 * rings)


def cylinder(radius: float, height: float, segments: int = 24) -> tuple[np.ndarray, np.ndarray]:
    return turned([(0.0, 0.0), (radius, 0.0), (radius, height), (0.0, height)], segments)


def cube() -> tuple[np.ndarray, np.ndarray]:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    return corners, np.concatenate([quads[:, :3], quads[:, [0, 2, 3]]]).astype(np.int32)


def solid(
    shape: tuple[np.ndarray, np.ndarray], at: tuple[float, float, float] = (0, 0, 0), moves: bool = False
) -> SolidSurface:
    return SolidSurface("solid", shape[1], shape[0] + np.array(at, float), moves)


def scene(cloth: np.ndarray | None, *solids: SolidSurface) -> Surface:
    """A square of cloth, or none, with solids."""
    if cloth is None:
        return Surface(np.zeros((0, 3), np.int32), np.zeros((0, 3, 2)), np.zeros((0, 3)), (), 30.0, solids)
    return Surface(TWO, SQUARE[TWO], cloth, (Part("sheet", slice(0, 4), slice(0, 2)),), 30.0, solids)


def draw(surface: Surface, camera: Camera, ground: float = FAR_BELOW, light: Light | None = None, **more) -> np.ndarray:
    """Everything at rest, 320 x 240."""
    tracer = RayTracer(surface, 320, 240, more.pop("samples", 1), more.pop("device", "cpu"))
    return tracer.render(surface.rest, camera, ground, light, [s.rest for s in surface.solids], **more).astype(int)


def camera_at(*position: float, look_at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Camera:
    return Camera(np.array(position), np.array(look_at), 30.0)


def is_blue(image: np.ndarray) -> np.ndarray:
    """The front of the first cloth; nothing else is."""
    return image[..., 2] - image[..., 0] > 40


def light_of(image: np.ndarray) -> np.ndarray:
    """Linear light from the green of sRGB, by the formula of the standard."""
    s = image[..., 1] / 255.0
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


def stage(surface: Surface, frames: list[Frame] | None = None, **settings: object) -> Stage:
    frames = frames or [Frame(0, 0.0, surface.rest, surface.rest)]
    staging = Staging(surface)
    for frame in frames:
        staging.see(frame)
    shown = [(frame.positions, surface.solids_at(frame)) for frame in frames]
    return staging.stage(lambda: shown, Picture(**settings).camera)


# Drawing


@pytest.mark.parametrize("at", [(0.0, 0.0, 0.0), (0.5, 0.3, -0.25)])
def test_a_sphere_is_seen_where_rays_meet_it(at: tuple[float, float, float], device: str) -> None:
    """A ray o + t d meets a sphere when the distance of its line from the center is less than the radius. Off the
    middle of the picture that is an ellipse."""
    camera, radius = camera_at(0.0, -4.0, 0.0), 0.6
    with_it = draw(scene(None, solid(sphere(radius), at)), camera, device=device)
    without = draw(scene(None), camera, device=device)
    right, up, forward = camera.axes()
    slope = math.tan(math.radians(15.0))
    x = (2.0 * (np.arange(320) + 0.5) / 320 - 1.0) * slope * 320 / 240
    y = (1.0 - 2.0 * (np.arange(240) + 0.5) / 240) * slope
    rays = forward + x[None, :, None] * right + y[:, None, None] * up
    rays /= np.linalg.norm(rays, axis=2, keepdims=True)
    away = np.linalg.norm(np.cross(rays, np.array(at) - camera.position), axis=2)
    seen = np.any(with_it != without, axis=2)
    # 48 rings lie up to 0.2 % of the radius inside the sphere: half a pixel.
    wrong = seen != (away < radius)
    assert seen.sum() > 10000
    assert not np.any(wrong & (np.abs(away - radius) > 0.005 * radius))


def test_what_is_in_front_hides_what_is_behind(device: str) -> None:
    camera = camera_at(0.0, -4.0, 0.0)
    alone = is_blue(draw(scene(upright(0.0)), camera, device=device))
    in_front = is_blue(draw(scene(upright(0.0), square(upright(-1.0, 0.3))), camera, device=device))
    behind = is_blue(draw(scene(upright(0.0), square(upright(1.0, 0.3))), camera, device=device))
    pixel = 2.0 * 3.0 * math.tan(math.radians(15.0)) / 240.0  # [m] at the distance of the solid
    hidden = alone & ~in_front
    assert math.sqrt(hidden.sum()) == pytest.approx(0.3 / pixel, abs=1.0)  # sides end between pixels
    assert hidden[120, 160] and not np.any(in_front & ~alone)
    assert np.array_equal(behind, alone)


def test_a_solid_casts_a_shadow_on_the_ground(device: str) -> None:
    """Of a unit square at z = 1 under a point light at (6, 0, 4): on z = 0 a square of side 4/3 around (-2, 0)."""
    camera = camera_at(-2.0, 0.0, 8.0, look_at=(-2.0, 0.0, 0.0))
    light = Light(np.array([6.0, 0.0, 4.0]), 1e-3)
    image = light_of(draw(scene(None, square(flat(1.0))), camera, 0.0, light, device=device))
    share = image / light_of(draw(scene(None), camera, 0.0, light, device=device))
    pixel = 2.0 * 8.0 * math.tan(math.radians(15.0)) / 240.0
    x = -2.0 + (np.arange(320) - 159.5) * pixel
    dark = (share < 0.5 * (1.0 + share[120, 160])) & (np.abs(x + 2.0) < 1.0)
    assert share[120, 160] < 0.7
    assert math.sqrt(dark.sum()) * pixel == pytest.approx(4.0 / 3.0, abs=pixel)


def test_cloth_casts_a_shadow_on_a_solid(device: str) -> None:
    """The same shadow on a solid square at z = 0, and none where the light reaches it."""
    camera = camera_at(-2.0, 0.0, 8.0, look_at=(-2.0, 0.0, 0.0))
    light = Light(np.array([6.0, 0.0, 4.0]), 1e-3)
    floor = square(flat(0.0, 8.0))
    image = light_of(draw(scene(flat(1.0), floor), camera, FAR_BELOW, light, device=device))
    pixel = 2.0 * 8.0 * math.tan(math.radians(15.0)) / 240.0
    row = image[120]
    x = -2.0 + (np.arange(320) - 159.5) * pixel
    inside, outside = np.abs(x + 2.0) < 0.55, (np.abs(x + 2.0) > 0.8) & (np.abs(x + 2.0) < 1.2)
    assert row[inside].max() < 0.7 * row[outside].min()


def test_no_light_comes_through_a_solid(device: str) -> None:
    """Lit from behind, it looks the same wherever the light is; cloth does not."""
    camera = camera_at(0.0, -4.0, 0.0)
    lights = [Light(np.array([x, 3.0, 1.0]), 0.1) for x in (0.0, 6.0)]
    of_solid = [draw(scene(None, square(upright(0.0))), camera, FAR_BELOW, light, device=device) for light in lights]
    of_cloth = [draw(scene(upright(0.0)), camera, FAR_BELOW, light, device=device) for light in lights]
    assert np.array_equal(of_solid[0], of_solid[1])
    assert not np.array_equal(of_cloth[0], of_cloth[1])


def test_a_solid_is_grey_and_has_no_lines(device: str) -> None:
    image = draw(scene(None, square(upright(0.0, 3.0))), camera_at(0.0, -4.0, 0.0), device=device)
    assert np.ptp(image.mean(axis=(0, 1))) < 20
    assert np.abs(np.diff(image, axis=1)).max() <= 2


def test_a_solid_out_of_sight_changes_nothing() -> None:
    cloth, camera = flat(0.5), camera_at(1.0, -3.0, 1.5)
    without = draw(scene(cloth), camera, 0.0)
    assert np.array_equal(draw(scene(cloth, solid(sphere(0.3, 12), (0, -100, 100))), camera, 0.0), without)
    assert np.array_equal(draw(scene(cloth, solid(cube())), camera, 0.0, left_out={0}), without)


def test_a_cube_is_split_into_its_faces() -> None:
    points, triangles = cube()
    origin, split = split_sharp(points, triangles)
    assert len(origin) == 24
    np.testing.assert_array_equal(origin[split], triangles)
    normals = vertex_normals(points[origin], split)
    # Every normal is an axis, and the one of the face that the corner belongs to.
    np.testing.assert_array_equal(np.sort(np.abs(normals), axis=1), np.broadcast_to([0.0, 0.0, 1.0], (24, 3)))
    np.testing.assert_array_equal(np.sum(normals * points[origin], axis=1), 1.0)


def test_a_cylinder_is_split_at_its_rims_and_a_sphere_nowhere() -> None:
    points, triangles = cylinder(1.0, 2.0, segments=24)
    origin, split = split_sharp(points, triangles)
    assert len(origin) == len(points) + 2 * 24
    normals = vertex_normals(points[origin], split)
    upright = np.abs(normals[:, 2]) < 0.5
    # On the side they point away from the axis, but for the skew of quads cut in two: a third of half a segment.
    radial = points[origin[upright], :2]
    assert np.all(np.sum(normals[upright, :2] * radial, axis=1) > math.cos(math.radians(15.0 / 6.0 + 0.1)))
    np.testing.assert_allclose(np.abs(normals[~upright, 2]), 1.0, atol=1e-6)
    points, triangles = sphere(1.0)
    assert len(split_sharp(points, triangles)[0]) == len(points)


@pytest.mark.parametrize(("angle", "vertices"), [(39.0, 4), (41.0, 6)])
def test_faces_part_at_forty_degrees(angle: float, vertices: int) -> None:
    """Two triangles share an edge: one normal there, or two."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    points = np.array([[0, 0, 0], [0, 1, 0], [1, 0.5, 0], [-c, 0.5, s]])
    assert len(split_sharp(points, np.array([[0, 2, 1], [0, 1, 3]]))[0]) == vertices


def test_a_face_that_is_there_twice_is_smooth_with_itself() -> None:
    origin, split = split_sharp(flat(0.0), np.array([[0, 1, 2], [0, 1, 2]]))
    assert sorted(origin) == [0, 1, 2] and np.array_equal(split[0], split[1])


# Framing


def reach(points: np.ndarray, camera: Camera) -> float:
    """How far the points come towards the edge of a picture of 4 : 3, which is at 1."""
    right, up, forward = ((points - camera.position) @ camera.axes().T).T
    slope = math.tan(math.radians(15.0))
    return max(np.abs(right / (forward * slope * 4.0 / 3.0)).max(), np.abs(up / (forward * slope)).max())


def test_a_solid_like_the_cloth_is_framed_with_it() -> None:
    ball = solid(sphere(0.4, 12), (0.0, 0.0, 0.4))
    camera = stage(scene(flat(0.9), ball)).camera
    assert reach(np.concatenate([flat(0.9), ball.rest]), camera) == pytest.approx(MARGIN, rel=1e-6)


@pytest.mark.parametrize(
    "large",
    [square(flat(0.0, 4.0)), solid(sphere(50.0, 12), (0.0, 0.0, -50.0)), solid(sphere(0.3, 12), (40.0, 0.0, 0.3))],
    ids=["a floor", "a planet", "a ball far away"],
)
def test_what_is_much_larger_or_far_away_does_not_shrink_the_cloth(large: SolidSurface) -> None:
    """The camera is the one of the cloth alone."""
    alone, together = stage(scene(flat(0.5))).camera, stage(scene(flat(0.5), large)).camera
    np.testing.assert_array_equal(together.position, alone.position)
    np.testing.assert_array_equal(together.look_at, alone.look_at)


def test_a_ball_that_flies_past_is_framed_while_it_is_near() -> None:
    ball = solid(sphere(0.2, 12), moves=True)
    surface = scene(flat(0.5), ball)
    places = [ball.rest + np.array([0.0, y, 0.5]) for y in (-30.0, -1.0, 1.0, 30.0)]
    frames = [Frame(k, k / 30.0, surface.rest, surface.rest, solids=(p,)) for k, p in enumerate(places)]
    camera = stage(surface, frames).camera
    assert reach(np.concatenate([places[1], places[2], flat(0.5)]), camera) == pytest.approx(MARGIN, rel=1e-6)
    assert reach(places[3], camera) > 1.0


def test_solids_alone_are_framed() -> None:
    ball = solid(sphere(0.3, 12), (0.0, 0.0, 0.3))
    assert reach(ball.rest, stage(scene(None, ball, square(flat(0.0, 9.0)))).camera) == pytest.approx(MARGIN, rel=1e-6)


@pytest.mark.parametrize(
    ("solids", "ground"),
    [
        ([solid(cylinder(0.2, 0.5))], 0.0),
        ([solid(cylinder(0.2, 0.5), (0, 0, 0.2))], 0.0),
        ([solid(cylinder(0.2, 0.5), (0, 0, -0.2))], -0.2),
        ([solid(sphere(0.25, 12), (0, 0, 0.25))], 0.0),
        ([solid(cylinder(0.2, 0.5)), solid(sphere(0.1, 12), (0.3, 0, -0.4))], -0.5),
    ],
    ids=["stands on it", "hangs above it", "stands lower", "a ball lies on it", "the lowest counts"],
)
def test_the_ground_is_under_the_solids(solids: list[SolidSurface], ground: float) -> None:
    assert stage(scene(flat(0.6), *solids)).ground == pytest.approx(ground, abs=1e-12)


def test_the_ground_is_under_a_solid_wherever_it_goes() -> None:
    post = solid(cylinder(0.2, 0.5), moves=True)
    surface = scene(flat(0.6), post)
    frames = [Frame(k, k / 30.0, surface.rest, surface.rest, solids=(post.rest - [0, 0, z],)) for k, z in
              enumerate((0.0, 0.7, 0.1))]  # fmt: skip
    assert stage(surface, frames).ground == pytest.approx(-0.7)


def test_a_wide_flat_solid_under_everything_is_the_ground() -> None:
    surface = scene(flat(0.5), solid(cylinder(0.2, 0.4), (0, 0, 0.1)), square(flat(0.1, 4.0)))
    found = stage(surface)
    assert found.floor == {1}
    # lower by less than a pixel of the standard picture
    pixel = 2.0 * found.camera.distance * math.tan(math.radians(15.0)) / 768
    assert 0.1 - pixel < found.ground < 0.1 and found.ground == pytest.approx(0.1 - FLOOR_GAP * found.camera.distance)


@pytest.mark.parametrize(("size", "is_floor"), [(40.0, True), (1.0, False)], ids=["a wall", "a leg"])
def test_a_wall_may_go_on_under_the_floor(size: float, is_floor: bool) -> None:
    """What is about as large as the cloth and reaches under a level solid shows that one can look under it."""
    found = stage(scene(flat(0.5), square(flat(0.0, 4.0)), square(upright(0.7, size))))
    assert found.floor == ({0} if is_floor else set())


@pytest.mark.parametrize(
    ("cloth", "top"),
    [
        (flat(0.5), square(flat(0.0, 1.2))),
        (upright(0.0) + np.array([0.0, 0.0, 0.3]), square(flat(0.2, 4.0))),
        (flat(0.5), square(flat(0.0, 4.0)[::-1])),
        (flat(0.5), square(flat(0.0, 4.0), moves=True)),
        (flat(0.5), square(upright(0.5, 4.0))),
    ],
    ids=["as small as the cloth", "cloth hangs over its side", "faces down", "moves", "a wall"],
)
def test_other_flat_solids_are_drawn_above_the_ground(cloth: np.ndarray, top: SolidSurface) -> None:
    found = stage(scene(cloth, top))
    assert not found.floor
    lowest = min(cloth[:, 2].min(), top.rest[:, 2].min())
    assert found.ground <= lowest
    if np.ptp(top.rest[:, 2]) == 0.0 and top.rest[0, 1] < top.rest[2, 1]:  # seen from above: kept apart
        assert found.ground <= top.rest[0, 2] - 0.999 * GROUND_GAP * found.camera.distance


def test_a_large_solid_is_seen_from_outside_only(tmp_path: Path) -> None:
    """A wall between the camera and the cloth that faces the cloth; then one that faces the camera, which hides it."""
    towards_cloth = upright(-0.8, 40.0)[::-1]  # [m]  in front of the cloth; the camera stands at y < -2
    for wall, hidden in ((towards_cloth, False), (towards_cloth[::-1], True)):
        surface = scene(upright(0.0) + np.array([0.0, 0.0, 1.0]), square(wall))
        found = stage(surface, **SMALL)
        assert found.backdrop == {0} and found.camera.position[1] < -2.0
        image = RayTracer(surface, 64, 48, 1).draw((surface.rest, [wall]), found).astype(int)
        assert (is_blue(image).sum() == 0) == hidden


# The folder of a run


def run(folder: Path, surface: Surface, frames: list[Frame]) -> Path:
    writer = Pc2().writer(folder, "drop", surface)
    for frame in frames:
        writer.write(frame)
    writer.close()
    return folder


def two_solids() -> Surface:
    return scene(flat(0.6), square(flat(0.0, 4.1), "table"), solid(sphere(0.2, 6), (0, 0, 0.3), moves=True))


def rising(surface: Surface, count: int = 3) -> list[Frame]:
    frames = []
    for k in range(count):
        up = np.array([0.0, 0.1 * k, 0.1 * k])
        solids = tuple(s.rest + up if s.moves else s.rest for s in surface.solids)
        frames.append(Frame(k, k / 30.0, surface.rest, 0.0 * surface.rest, solids=solids))
    return frames


@given(
    rest=arrays(np.float64, (4, 3), elements=st.floats(allow_nan=False, allow_infinity=False)),
    name=st.text(),
    moves=st.booleans(),
)
def test_any_solid_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, rest: np.ndarray, name: str, moves: bool
) -> None:
    written = scene(flat(1.0), square(flat(0.0)), square(rest, name, moves))
    read = RunFolder(run(tmp_path_factory.mktemp("run"), written, [])).surface()
    assert [(s.name, s.moves) for s in read.solids] == [("square", False), (name, moves)]
    for a, b in zip(read.solids, written.solids, strict=True):
        assert a.rest.tobytes() == b.rest.tobytes()
        np.testing.assert_array_equal(a.triangles, b.triangles)


def test_frames_come_back_with_their_solids(tmp_path: Path) -> None:
    surface = two_solids()
    frames = rising(surface)
    read = RunFolder(run(tmp_path, surface, frames))
    for exact, frame in zip(frames, read.frames(), strict=True):
        table, ball = read.surface().solids_at(frame)
        np.testing.assert_array_equal(table, exact.solids[0])
        np.testing.assert_array_equal(ball, exact.solids[1].astype(np.float32))


def test_solids_at_rest_need_no_cache(tmp_path: Path) -> None:
    surface = scene(flat(1.0), solid(cube()))
    folder = run(tmp_path, surface, [Frame(0, 0.0, surface.rest, surface.rest)])
    assert sorted(path.name for path in folder.iterdir()) == ["cache.pc2", "rest.obj", "solids.obj"]
    read = RunFolder(folder)
    (frame,) = read.frames()
    np.testing.assert_array_equal(read.surface().solids_at(frame)[0], cube()[0])


def test_export_and_render_of_a_folder_show_its_solids(tmp_path: Path) -> None:
    """A picture of the folder is the one that the run itself would have drawn."""
    pytest.importorskip("pxr")
    from pxr import Usd, UsdGeom

    surface = two_solids()
    frames = rising(surface)
    folder = run(tmp_path / "run", surface, frames)
    usd, npz = export_run(folder, ["usd", "npz"])
    opened = Usd.Stage.Open(str(usd))  # its prims live as long as it does
    prims = opened.GetDefaultPrim().GetChildren()
    assert [prim.GetName() for prim in prims] == ["sheet", "table", "solid", "materials"]
    ball = UsdGeom.Mesh(prims[2]).GetPointsAttr()
    np.testing.assert_array_equal(np.array(ball.Get(2)), frames[2].solids[1].astype(np.float32))
    with np.load(npz) as data:
        np.testing.assert_array_equal(data["solid_positions"][2, 4:], frames[2].solids[1].astype(np.float32))
    writer = Picture(frame=2, **SMALL).writer(tmp_path / "direct", "drop", surface)
    for frame in frames:
        # as the cache holds it
        rounded = (frame.solids[0], frame.solids[1].astype(np.float32).astype(float))
        positions = frame.positions.astype(np.float32).astype(float)
        writer.write(replace(frame, positions=positions, solids=rounded))
    (direct,) = writer.close()
    assert render_run(folder, frame=2, **SMALL).read_bytes() == direct.read_bytes()
    assert render_run(folder, frame=0, **SMALL).read_bytes() != direct.read_bytes()


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("solids.pc2", None, r"has no solids\.pc2, but a solid moves"),
        ("solids.pc2", lambda data: data[:-1], r"solids\.pc2: damaged: 3 frames of"),
        ("solids.pc2", lambda data: data[:8], r"solids\.pc2: not a PC2 cache"),
        ("solids.pc2", lambda data: data[:16] + b"\7\0\0\0" + data[20:], r"holds 7 points, but solids\.obj holds \d+"),
        ("cache.pc2", lambda data: data[:28] + b"\2\0\0\0" + data[32:-48], r"holds 3 frames, but cache\.pc2 holds 2:"),
        ("solids.obj", lambda data: b"# toile {}\n", r"solids\.obj: not the solids of a run"),
        ("solids.obj", lambda data: data.replace(b"v -2.05", b"v two", 1), r"solids\.obj:4  cannot be read: could not"),
        ("solids.obj", lambda data: data.replace(b"f 1 2 3", b"f 1 2 9", 1), r"a vertex that is not of its solid"),
        ("solids.obj", lambda data: data.replace(b"f 1 2 3", b"f 1 2", 1), r"solids\.obj:8  cannot be read"),
    ],
)
def test_damaged_solids(tmp_path: Path, file: str, change: object, message: str) -> None:
    surface = two_solids()
    run(tmp_path, surface, rising(surface))
    path = tmp_path / file
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        RunFolder(tmp_path)
