"""Pictures against geometry: how large, how dark and of what color something is follows from where it stands."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toile.errors import ToileError
from toile.model.frame import Part, Surface
from toile.render.camera import GROUND_GAP, MARGIN, MIN_SIZE, NEAREST, Camera, frame_camera, ground_height
from toile.render.normals import VertexNormals
from toile.render.palette import CLOTH_COLORS
from toile.render.raytracer import Light, RayTracer

BEHIND_THE_CAMERA = np.array([0.0, -100.0, 100.0])  # [m]
FAR_BELOW = -1e4  # [m]  a ground that is not in the picture
SQUARE = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
coordinate = st.floats(-10.0, 10.0)


def squares(*corners: np.ndarray) -> Surface:
    """Cloths of two triangles each, with uv as large as a meter."""
    count = len(corners)
    triangles = np.concatenate([np.array([[0, 1, 2], [0, 2, 3]]) + 4 * i for i in range(count)])
    uv = np.concatenate([SQUARE[[[0, 1, 2], [0, 2, 3]]]] * count)
    parts = tuple(Part(str(i), slice(4 * i, 4 * i + 4), slice(2 * i, 2 * i + 2)) for i in range(count))
    return Surface(triangles.astype(np.int32), uv, np.concatenate(corners), parts, 30.0)


def upright(x: float = 0.0) -> np.ndarray:
    """A unit square in the plane y = 0 that faces -y."""
    return np.column_stack([SQUARE[:, 0] + x, np.zeros(4), SQUARE[:, 1]])


def flat(z: float) -> np.ndarray:
    """A unit square that faces up."""
    return np.column_stack([SQUARE, np.full(4, z)])


def camera_at(*position: float, look_at: tuple[float, float, float] = (0.0, 0.0, 0.0), fov: float = 30.0) -> Camera:
    return Camera(np.array(position), np.array(look_at), fov)


def luminance(image: np.ndarray) -> np.ndarray:
    """Linear light from sRGB values, by the formula of the standard."""
    s = image / 255.0
    linear = np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def test_a_square_covers_the_pixels_that_perspective_says(device: str) -> None:
    """Side in pixels: height / (2 d tan(fov / 2))."""
    surface, camera = squares(upright()), camera_at(0.0, -4.0, 0.0)
    tracer = RayTracer(surface, 400, 300, 1, device)
    drawn = tracer.render(surface.rest, camera, FAR_BELOW)
    without = tracer.render(surface.rest + BEHIND_THE_CAMERA, camera, FAR_BELOW)
    covered = np.any(drawn != without, axis=2)
    side = 300.0 / (2.0 * 4.0 * math.tan(math.radians(15.0)))
    assert covered.sum() == pytest.approx(side**2, rel=0.01)
    rows, columns = np.nonzero(covered)
    assert (rows.mean(), columns.mean()) == pytest.approx((149.5, 199.5), abs=0.5)


def test_more_samples_find_the_area_between_pixels(device: str) -> None:
    """With 64 samples the mean over the picture measures area far below a pixel's side."""
    surface, camera = squares(upright()), camera_at(0.0, -4.0, 0.0)
    side = 24.0 / (2.0 * 4.0 * math.tan(math.radians(15.0)))

    def area(samples: int) -> float:
        """Covered pixels, an edge pixel counting in proportion to its brightness between background and cloth."""
        tracer = RayTracer(surface, 32, 24, samples, device)
        drawn = luminance(tracer.render(surface.rest, camera, FAR_BELOW))
        without = luminance(tracer.render(surface.rest + BEHIND_THE_CAMERA, camera, FAR_BELOW))
        return float(np.sum((without - drawn) / (without - drawn)[12, 16]))

    assert abs(area(64) - side**2) < 0.05 * side**2
    assert abs(area(64) - side**2) < abs(area(1) - side**2)


def test_a_shadow_falls_where_the_light_sends_it(device: str) -> None:
    """A unit square at z = 1 under a point light at (6, 0, 4): every point p goes to p + (p - light) / 3, so the shadow
    on z = 0 is a square of side 4/3 around (-2, 0)."""
    surface = squares(flat(1.0))
    camera = camera_at(-2.0, 0.0, 8.0, look_at=(-2.0, 0.0, 0.0))
    tracer = RayTracer(surface, 800, 600, 1, device)
    light = Light(np.array([6.0, 0.0, 4.0]), 1e-3)
    image = luminance(tracer.render(surface.rest, camera, 0.0, light))
    lit = luminance(tracer.render(surface.rest + BEHIND_THE_CAMERA, camera, 0.0, light))
    pixel = 2.0 * 8.0 * math.tan(math.radians(15.0)) / 600.0  # [m] on the ground
    x = -2.0 + (np.arange(800) - 399.5) * pixel
    share = image / lit
    # Halfway between light and shadow; the square itself is at the right of the picture.
    dark = (share < 0.5 * (1.0 + share[300, 400])) & (np.abs(x + 2.0) < 1.0)
    assert share[300, 400] < 0.7
    assert dark.sum() * pixel**2 == pytest.approx((4.0 / 3.0) ** 2, rel=0.01)
    rows, columns = np.nonzero(dark)
    assert x[columns].mean() == pytest.approx(-2.0, abs=pixel)
    assert rows.mean() == pytest.approx(299.5, abs=1.0)


def test_a_larger_light_gives_a_wider_penumbra(device: str) -> None:
    """Light of radius r straight above an edge, height H over the cloth at h: the penumbra is 2 r h / (H - h) wide."""
    surface = squares(flat(1.0) * [4.0, 4.0, 1.0] + [2.0, 0.0, 0.0])  # covers x > 0
    camera = camera_at(-3.0, 0.0, 2.5, look_at=(0.0, 0.0, 0.0), fov=40.0)
    light = Light(np.array([0.0, 0.0, 5.0]), 0.8)
    tracer = RayTracer(surface, 160, 120, 64, device)
    image = luminance(tracer.render(surface.rest, camera, 0.0, light))
    lit = luminance(tracer.render(surface.rest + BEHIND_THE_CAMERA, camera, 0.0, light))
    axes = camera.axes()
    rows = np.arange(120)
    ray = axes[2] + (1.0 - (2.0 * rows + 1.0) / 120.0)[:, None] * math.tan(math.radians(20.0)) * axes[1]
    x = camera.position[0] - camera.position[2] * ray[:, 0] / ray[:, 2]  # where the middle column meets the ground
    share = (image / lit)[:, 80]
    # Full light left of -w/2 and none right of w/2; the sky's share of the light stays.
    width = 2.0 * 0.8 * 1.0 / 4.0
    seen = (ray[:, 2] < 0.0) & (x < 0.5)
    bright, dark = share[seen & (x < -0.8)].mean(), share[seen & (x > 0.3)].mean()
    level = (share - dark) / (bright - dark)
    assert dark < 0.6 * bright
    # The light is a disc cut by the edge: the covered part at distance s from the middle, in radii.
    s = np.clip(2.0 * x[seen] / width, -1.0, 1.0)
    disc = (np.arccos(s) - s * np.sqrt(1.0 - s * s)) / np.pi
    # 64 samples, 49 pixels smoothed over 3 rows of about 2 cm each side, and the sky's shadow under the cloth
    np.testing.assert_allclose(level[seen], disc, atol=0.15)


def test_front_and_back_have_their_colors(device: str) -> None:
    surface = squares(upright())
    tracer = RayTracer(surface, 32, 24, 4, device)
    for y, color in ((-4.0, CLOTH_COLORS[0][0]), (4.0, CLOTH_COLORS[0][1])):
        image = tracer.render(surface.rest, camera_at(0.0, y, 0.0), FAR_BELOW)
        middle = image[10:14, 14:18].reshape(-1, 3).mean(axis=0)
        expected = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
        assert np.argsort(middle).tolist() == np.argsort(expected).tolist()
        # hue as the two ratios of sRGB values, light and weave being nearly gray
        np.testing.assert_allclose(middle / middle.max(), expected / expected.max(), atol=0.08)


def test_each_cloth_has_its_own_color(device: str) -> None:
    surface = squares(upright(-0.6), upright(0.6))
    image = RayTracer(surface, 64, 24, 1, device).render(surface.rest, camera_at(0.0, -6.0, 0.0), FAR_BELOW).astype(int)
    pixel = 2.0 * 6.0 * math.tan(math.radians(15.0)) / 24.0  # [m]
    left, right = (image[12, round(31.5 + x / pixel)] for x in (-0.6, 0.6))
    assert left[2] > left[0] + 40 and right[0] > right[2] + 40


def test_woven_lines_follow_the_cloth(device: str) -> None:
    """A meter of cloth has a line each 5 cm; stretched to twice the width there are as many."""
    for width in (1.0, 2.0):
        surface = squares(upright() * [width, 1.0, 1.0])
        tracer = RayTracer(surface, 2000, 200, 1, device)
        image = luminance(tracer.render(surface.rest, camera_at(0.0, -4.0, 0.0, fov=8.0), FAR_BELOW))
        pixel = 2.0 * 4.0 * math.tan(math.radians(4.0)) / 200.0  # [m]
        row = image[100 - round(0.025 / pixel)]  # between two lines that run across
        inside = row[np.abs(np.arange(2000) - 999.5) * pixel < 0.49 * width]
        around = np.lib.stride_tricks.sliding_window_view(np.pad(inside, 8, mode="edge"), 17).max(axis=1)
        dark = inside < 0.9 * around
        assert np.sum(dark[1:] & ~dark[:-1]) == 19


def test_the_same_picture_every_time_and_on_any_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    surface, camera = squares(flat(0.5)), camera_at(1.0, -3.0, 1.5)
    images = []
    for cores in (1, 1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        images.append(RayTracer(surface, 70, 50, 2).render(surface.rest, camera, 0.0))
    assert np.array_equal(images[0], images[1]) and np.array_equal(images[0], images[2])


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 1e6), (1e-4, 0.0), (1e4, 0.0)])
def test_a_picture_does_not_depend_on_where_and_how_large_the_cloth_is(scale: float, offset: float) -> None:
    def draw(scale: float, offset: np.ndarray) -> np.ndarray:
        rest = scale * flat(0.5) + offset
        surface = squares(flat(0.5))
        placed = Surface(surface.triangles, scale * surface.uv, rest, surface.parts, 30.0)
        camera = Camera(scale * np.array([1.0, -3.0, 1.5]) + offset, offset + scale * np.array([0.0, 0.0, 0.3]), 30.0)
        return RayTracer(placed, 64, 48, 1).render(rest, camera, offset[2]).astype(int)

    difference = np.abs(draw(scale, np.array([offset, -2.0 * offset, offset])) - draw(1.0, np.zeros(3))).max(axis=2)
    # Rounding moves an edge or a random ray across a corner now and then; elsewhere it stays below two gray levels.
    assert np.mean(difference > 2) < 0.01


@given(points=arrays(np.float64, (7, 3), elements=coordinate), fov=st.floats(5.0, 120.0), aspect=st.floats(0.3, 3.0))
def test_the_automatic_frame_is_as_tight_as_its_margin(points: np.ndarray, fov: float, aspect: float) -> None:
    camera = frame_camera([points[:3], points[3:]], aspect, fov)
    size = np.linalg.norm(np.ptp(points, axis=0))
    right, up, forward = ((points - camera.position) @ camera.axes().T).T
    slope = math.tan(math.radians(fov) / 2.0)
    across, along = right / (forward * slope * aspect), up / (forward * slope)
    reach = max(np.abs(across).max(), np.abs(along).max())
    assert reach <= MARGIN * (1.0 + 1e-6)
    # The camera comes nearer until the margin is reached or a point is half the size away.
    assert forward.min() >= (NEAREST - 1e-6) * size
    if size >= MIN_SIZE and forward.min() > (NEAREST + 1e-6) * size:
        assert reach == pytest.approx(MARGIN, rel=1e-6)


def test_a_given_camera_is_taken() -> None:
    points = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    camera = frame_camera([points], 1.0, 30.0, look_from=(5.0, 5.0, 5.0))
    assert camera.position.tolist() == [5.0, 5.0, 5.0] and camera.look_at.tolist() == [1.0, 0.0, 0.0]
    camera = frame_camera([points], 1.0, 30.0, look_at=(0.0, 0.0, 1.0))
    assert camera.look_at.tolist() == [0.0, 0.0, 1.0]
    right, up, forward = ((points - camera.position) @ camera.axes().T).T
    slope = math.tan(math.radians(15.0))
    assert max(np.abs(right / forward).max(), np.abs(up / forward).max()) == pytest.approx(MARGIN * slope)


def test_positions_that_are_not_finite_cannot_be_framed() -> None:
    with pytest.raises(ToileError, match="not finite"):
        frame_camera([np.array([[0.0, 0.0, np.nan]])], 1.0, 30.0)


@pytest.mark.parametrize(("lowest", "ground"), [(0.3, 0.0), (0.0, -2.0 * GROUND_GAP), (-1.5, -1.5 - 2.0 * GROUND_GAP)])
def test_the_ground_never_cuts_the_cloth(lowest: float, ground: float) -> None:
    assert ground_height(lowest, 2.0) == pytest.approx(ground, abs=1e-15)


def test_vertex_normals_of_a_tent() -> None:
    """Two flaps of equal area at 45 degrees: straight up on the ridge, the flap's own normal elsewhere."""
    points = np.array([[0, 0, 1], [0, 1, 1], [1, 0.5, 0], [-1, 0.5, 0], [9, 9, 9]], float)
    normals = VertexNormals(np.array([[0, 2, 1], [0, 1, 3]]), len(points)).at(points)
    r = math.sqrt(0.5)
    expected = [[0, 0, 1], [0, 0, 1], [r, 0, r], [-r, 0, r], [0, 0, 1]]  # the last belongs to no triangle
    np.testing.assert_allclose(normals, expected, atol=1e-7)
