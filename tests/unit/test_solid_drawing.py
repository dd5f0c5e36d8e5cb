"""Solids in pictures: where they are, which shadows they cast and where their edges are sharp follows from geometry."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.reference.solid_scenes import (
    camera_at,
    cube,
    cylinder,
    flat,
    is_blue,
    scene,
    solid,
    sphere,
    square,
    upright,
)
from toile.model.frame import Surface
from toile.render.camera import Camera
from toile.render.normals import VertexNormals
from toile.render.raytracer import Light, RayTracer
from toile.render.solid_mesh import split_sharp

FAR_BELOW = -1e4  # [m]  a ground that is not in the picture


def draw(surface: Surface, camera: Camera, ground: float = FAR_BELOW, light: Light | None = None, **more) -> np.ndarray:
    """Everything at rest, 320 x 240."""
    tracer = RayTracer(surface, 320, 240, more.pop("samples", 1), more.pop("device", "cpu"))
    return tracer.render(surface.rest, camera, ground, light, [s.rest for s in surface.solids], **more).astype(int)


def light_of(image: np.ndarray) -> np.ndarray:
    """Linear light from the green of sRGB, by the formula of the standard."""
    s = image[..., 1] / 255.0
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


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
    normals = VertexNormals(split, len(origin)).at(points[origin])
    # Every normal is an axis, and the one of the face that the corner belongs to.
    np.testing.assert_array_equal(np.sort(np.abs(normals), axis=1), np.broadcast_to([0.0, 0.0, 1.0], (24, 3)))
    np.testing.assert_array_equal(np.sum(normals * points[origin], axis=1), 1.0)


def test_a_cylinder_is_split_at_its_rims_and_a_sphere_nowhere() -> None:
    points, triangles = cylinder(1.0, 2.0, segments=24)
    origin, split = split_sharp(points, triangles)
    assert len(origin) == len(points) + 2 * 24
    normals = VertexNormals(split, len(origin)).at(points[origin])
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
