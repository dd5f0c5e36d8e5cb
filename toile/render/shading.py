"""Kernels that color pixels: `trace` collects the light of all samples, `compose` smooths it and writes sRGB.

    color = emitted + direct * V + ambient * O

V is the visible share of the light and O the unoccluded share of the surroundings. With few rays both are noisy and
the other terms are not. So `trace` stores V and O apart from the colors, and `compose` smooths them over neighboring
pixels of the same surface before it applies them.
"""

import warp as wp

from toile.render.ray_hits import (
    BACKGROUND,
    CLOTH,
    CameraView,
    RayHit,
    SceneArrays,
    camera_ray,
    closest_hit,
    is_occluded,
    r2_point,
)

# Judgments of taste. Colors are linear.
HORIZON, ZENITH = wp.constant(wp.vec3(0.78, 0.79, 0.80)), wp.constant(wp.vec3(0.45, 0.52, 0.60))
# Strength of the light, and of a weak one at the camera that shows folds in the shade
LIGHT, LAMP = 0.92, 0.14
# Light from above and from below
SKY, BOUNCE = wp.constant(wp.vec3(0.50, 0.54, 0.60)), wp.constant(wp.vec3(0.24, 0.23, 0.21))
# Cloth is a little brighter at its rim, and transmits a little of the light.
SHEEN, TRANSMISSION = 0.12, 0.22
# Distance up to which a surface occludes the sky [half heights]
OCCLUSION_RANGE = 0.6
# Side of the window that smooths V and O, odd [pixels]
WINDOW = 7


@wp.struct
class PixelShading:
    """Sums over the samples of a pixel, before V and O are applied."""

    emitted: wp.vec3
    direct: wp.vec3
    ambient: wp.vec3
    light: wp.float32  # V times its weights
    light_weight: wp.float32
    sky: wp.float32  # O times its weights
    sky_weight: wp.float32
    kind: wp.int32  # of the first surface that the pixel shows
    distance: wp.float32
    normal: wp.vec3


@wp.func
def luminance(color: wp.vec3):
    return 0.2126 * color[0] + 0.7152 * color[1] + 0.0722 * color[2]


@wp.func
def power_16(x: wp.float32):
    x2 = x * x
    x4 = x2 * x2
    return x4 * x4 * x4 * x4


@wp.func
def background(direction: wp.vec3):
    return wp.lerp(HORIZON, ZENITH, wp.smoothstep(0.0, 0.9, direction[2]))


@wp.func
def direct_light(view: CameraView, hit: RayHit, albedo: wp.vec3, direction: wp.vec3):
    """Reflected light of the lamp if nothing occludes it, and the start of the ray that tests this.

    Cloth transmits a little of the light from behind, solids none.
    """
    to_light = wp.normalize(view.light - hit.point)
    cosine = wp.dot(hit.normal, to_light)
    direct = LIGHT * albedo * wp.max(cosine, 0.0)
    start = hit.origin
    if hit.kind >= CLOTH:
        rim = 1.0 - wp.abs(wp.dot(hit.normal, direction))
        direct += wp.max(cosine, 0.0) * SHEEN * rim * rim * rim * wp.vec3(1.0, 1.0, 1.0)
        if cosine < 0.0:
            direct = -TRANSMISSION * cosine * albedo
            start = hit.point - 1.0e-3 * hit.normal
    return direct, start


@wp.func
def light_visibility(view: CameraView, mesh: wp.uint64, start: wp.vec3, on_disc: wp.vec2):
    """1 if a point of the light is visible, else 0; `on_disc` is in the unit square."""
    angle = 6.2831853 * on_disc[0]
    radius = wp.sqrt(on_disc[1])
    target = view.light + radius * (wp.cos(angle) * view.light_u + wp.sin(angle) * view.light_v)
    ray = target - start
    length = wp.length(ray)
    return wp.where(is_occluded(view, mesh, start, ray / length, length), 0.0, 1.0)


@wp.func
def ambient_light(hit: RayHit, albedo: wp.vec3, direction: wp.vec3):
    """Reflected light of the sky, of the ground and of the weak lamp at the camera, if nothing occludes them."""
    sky = wp.lerp(BOUNCE, SKY, 0.5 + 0.5 * hit.normal[2])
    return wp.cw_mul(sky, albedo) + LAMP * wp.max(-wp.dot(hit.normal, direction), 0.0) * albedo


@wp.func
def sky_visibility(view: CameraView, mesh: wp.uint64, hit: RayHit, on_sphere: wp.vec2):
    """1 if nothing is near in a cosine-weighted random direction, else 0; `on_sphere` is in the unit square."""
    angle = 6.2831853 * on_sphere[0]
    height = 1.0 - 2.0 * on_sphere[1]
    flat = wp.sqrt(wp.max(1.0 - height * height, 0.0))
    sphere = wp.vec3(flat * wp.cos(angle), flat * wp.sin(angle), height)
    outward = wp.normalize(1.001 * hit.normal + sphere)
    return wp.where(is_occluded(view, mesh, hit.origin, outward, OCCLUSION_RANGE), 0.0, 1.0)


@wp.kernel
def trace(
    # in
    first_row: wp.int32,
    view: CameraView,
    scene: SceneArrays,
    # out
    shading_out: wp.array2d[PixelShading],
):
    band_row, column = wp.tid()
    row = first_row + band_row
    # Wherever the smoothing window lies in the picture, it holds each of these numbers once. So it averages over one
    # even set of points of the light, which random numbers would not give.
    first = (row % WINDOW) * WINDOW + column % WINDOW

    pixel = PixelShading()
    for s in range(view.samples):
        direction = camera_ray(view, row, column, r2_point(s))  # the first is the center of the pixel
        sample = r2_point(first + s * WINDOW * WINDOW)
        hit = closest_hit(view, scene, direction)
        if pixel.kind == BACKGROUND:
            pixel.kind = hit.kind
            pixel.distance = hit.distance
            pixel.normal = hit.normal
        if hit.kind == BACKGROUND:
            pixel.emitted += background(direction)
            continue
        pixel.emitted += hit.fade * background(direction)
        albedo = (1.0 - hit.fade) * hit.albedo

        direct, start = direct_light(view, hit, albedo, direction)
        weight = luminance(direct)
        if weight > 0.0:
            pixel.light += weight * light_visibility(view, scene.mesh, start, sample)
        pixel.direct += direct
        pixel.light_weight += weight

        ambient = ambient_light(hit, albedo, direction)
        pixel.ambient += ambient
        if s % 2 == 0:  # occlusion of the sky is smooth: every other sample is enough
            weight = luminance(ambient)
            pixel.sky += weight * sky_visibility(view, scene.mesh, hit, sample)
            pixel.sky_weight += weight

    shading_out[row, column] = pixel


@wp.kernel
def compose(
    # in
    first_row: wp.int32,
    shading: wp.array2d[PixelShading],
    samples: wp.int32,
    # out
    image_out: wp.array3d[wp.uint8],
):
    band_row, column = wp.tid()
    row = first_row + band_row
    here = shading[row, column]
    color = here.emitted
    if here.light_weight + here.sky_weight > 0.0:
        light, light_weight, sky, sky_weight = float(0.0), float(1.0e-12), float(0.0), float(1.0e-12)
        for i in range(wp.max(row - WINDOW // 2, 0), wp.min(row + WINDOW // 2 + 1, shading.shape[0])):
            for j in range(wp.max(column - WINDOW // 2, 0), wp.min(column + WINDOW // 2 + 1, shading.shape[1])):
                if shading[i, j].kind == here.kind:
                    # The distance jumps across a fold and the normal turns around it: both stop the smoothing.
                    apart = 30.0 * (shading[i, j].distance / here.distance - 1.0)
                    turned = wp.max(wp.dot(shading[i, j].normal, here.normal), 0.0)
                    similarity = power_16(turned) / (1.0 + apart * apart)
                    light += similarity * shading[i, j].light
                    light_weight += similarity * shading[i, j].light_weight
                    sky += similarity * shading[i, j].sky
                    sky_weight += similarity * shading[i, j].sky_weight
        color += here.direct * (light / light_weight) + here.ambient * (sky / sky_weight)
    color = color / wp.float32(samples)
    for channel in range(3):
        linear = wp.clamp(color[channel], 0.0, 1.0)
        encoded = wp.where(linear < 0.0031308, 12.92 * linear, 1.055 * wp.pow(linear, 1.0 / 2.4) - 0.055)
        image_out[row, column, channel] = wp.uint8(wp.int32(255.0 * encoded + 0.5))
