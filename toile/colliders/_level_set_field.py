"""A distance field on two grids and its evaluation: a coarse grid everywhere, a fine one near the surface.

    near    tiles of 8 x 8 x 8 cells within the band around the surface: the distance at every node, trilinear
    far     the distance at the corners of all tiles, trilinear, minus its error bound; at least the band
    beyond  the distance to the bounding box of the surface, or the lower bound from the far grid

So the distance has the correct sign everywhere, is continuous, and beyond the band never exceeds the true one. For a
surface that deforms, both grids also hold displacement and velocity of the closest point, which extend as constants
along normals to points off the surface.

Source      [BMF03] sec. 5.1; two levels replace its octree
Symbols     phi  distance [m]     c  corner of a tile     p  point in the field's frame     q  p in cells
Deviations  Values are stored in single precision, whose error is 4e-9 m at a distance of 4 cm, and evaluated in `real`.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp

from toile.math.types import TINY, real, vec3, vec4

BITS = 3
CELLS = 2**BITS  # cells along the side of a tile
STRIDE = 2  # cells between the nodes that store their closest point
FEET = CELLS // STRIDE + 1  # nodes between two tiles are stored in both
NODES = CELLS + 3  # with one cell beyond each side, so that slopes need only one tile

TILE_BITS, TILE_CELLS, TILE_SIDE = wp.constant(BITS), wp.constant(CELLS), wp.constant(real(CELLS))
TILE_SHARE = wp.constant(real(1.0 / CELLS))  # cells to tiles
FOOT_STRIDE = wp.constant(real(STRIDE))
FOOT_CELLS = wp.constant(CELLS // STRIDE)
# Error bound of trilinear interpolation of a distance, in sides of a cube: the mean distance to its corners, which is
# largest in the middle.
FAR_ERROR = wp.constant(real(0.8661))
# A shorter gradient has no direction: the point is equally far from two sides.
NO_GRADIENT = wp.constant(real(1e-6))


@dataclass(frozen=True)
class BakedField:
    """A distance field as plain arrays, the content of a cache file."""

    low: np.ndarray  # [m]  (3,) corner of the box
    cell: float  # [m]
    band: float  # [m]  all tiles within this distance of the surface are fine
    surface: np.ndarray  # [m]  (2, 3) corners of the bounding box of the surface
    slots: np.ndarray  # (tiles along x, y, z) int32: slot of the fine tile, -1 if there is none
    far: np.ndarray  # [m]  (tiles + 1 along x, y, z) float32
    near: np.ndarray  # [m]  (fine tiles, 11, 11, 11) float32: node 1, 1, 1 is the tile's corner
    # For a surface that deforms, the closest point of it to a node: its triangle, and s and t there. Empty otherwise.
    far_face: np.ndarray  # (tiles + 1 along x, y, z) int32
    far_place: np.ndarray  # (tiles + 1 along x, y, z, 2) float32
    near_face: np.ndarray  # (fine tiles, 5, 5, 5) int32
    near_place: np.ndarray  # (fine tiles, 5, 5, 5, 2) float32

    @property
    def deforms(self) -> bool:
        return self.far_face.size > 0

    def consistent(self) -> bool:
        """Returns whether the arrays match, so that no kernel reads outside of them."""
        corners, count = tuple(n + 1 for n in self.slots.shape), len(self.near)
        feet = (count, FEET, FEET, FEET)
        shapes: list[tuple[np.ndarray, tuple[int, ...]]] = [(self.low, (3,)), (self.surface, (2, 3))]
        shapes += [(self.far, corners), (self.near, (count, NODES, NODES, NODES))]
        if self.deforms:
            shapes += [(self.far_face, corners), (self.far_place, (*corners, 2))]
            shapes += [(self.near_face, feet), (self.near_place, (*feet, 2))]
        fits = all(array.shape == shape for array, shape in shapes)
        return fits and self.slots.ndim == 3 and bool((self.slots < count).all())


@wp.struct
class Field:
    """A distance field on a device."""

    low: vec3
    cell: real
    band: real
    surface_low: vec3
    surface_high: vec3
    slots: wp.array3d(dtype=wp.int32)
    far: wp.array3d(dtype=wp.float32)
    near: wp.array4d(dtype=wp.float32)
    # Displacement since the pose of the distances [m] and velocity [m/s] of the closest point, if the surface deforms.
    far_move: wp.array3d(dtype=wp.vec3f)
    near_move: wp.array4d(dtype=wp.vec3f)
    far_velocity: wp.array3d(dtype=wp.vec3f)
    near_velocity: wp.array4d(dtype=wp.vec3f)


@wp.struct
class FieldSample:
    """Values of a field at a point."""

    distance: real
    gradient: vec3  # not a unit vector
    near: wp.int32  # 1 within the band, where the distance is exact
    velocity: vec3  # [m/s]  of the closest point, if the surface deforms


def upload(baked: BakedField, device: str) -> Field:
    """Returns the field for kernels. The struct holds the arrays, so it must live as long as it is used."""
    field = Field()
    field.low, field.cell, field.band = vec3(*baked.low), baked.cell, baked.band
    field.surface_low, field.surface_high = vec3(*baked.surface[0]), vec3(*baked.surface[1])
    field.slots = wp.array(baked.slots, dtype=wp.int32, device=device)
    field.far = wp.array(baked.far, dtype=wp.float32, device=device)
    field.near = wp.array(baked.near, dtype=wp.float32, device=device)
    if baked.deforms:
        field.far_move, field.far_velocity = (wp.zeros(baked.far.shape, wp.vec3f, device) for _ in range(2))
        feet = baked.near_face.shape
        field.near_move, field.near_velocity = (wp.zeros(feet, wp.vec3f, device) for _ in range(2))
    return field


@wp.func
def box_distance(low: vec3, high: vec3, p: vec3) -> real:
    """Returns the distance to a box; 0 inside."""
    square = real(0.0)
    for k in range(3):
        beyond = wp.max(wp.max(low[k] - p[k], p[k] - high[k]), real(0.0))
        square += beyond * beyond
    return wp.sqrt(square)


@wp.func
def tile_of(fields: wp.array(dtype=Field), f: wp.int32, q: vec3) -> wp.vec3i:
    """Returns the tile that contains a point; the outermost one for a point outside."""
    tile = wp.vec3i()
    for k in range(3):
        tile[k] = wp.clamp(wp.int32(q[k]) >> TILE_BITS, 0, fields[f].slots.shape[k] - 1)
    return tile


@wp.func
def trilinear_slope(
    grid: wp.array3d(dtype=wp.float32), i: wp.int32, j: wp.int32, k: wp.int32, u: real, v: real, w: real
) -> vec4:
    """Returns the trilinear value between node (i, j, k) and the next along each axis, at fractions u, v and w, and its
    derivatives by these."""
    one = real(1.0)
    a0, a1 = real(grid[i, j, k]), real(grid[i, j, k + 1])
    b0, b1 = real(grid[i, j + 1, k]), real(grid[i, j + 1, k + 1])
    c0, c1 = real(grid[i + 1, j, k]), real(grid[i + 1, j, k + 1])
    d0, d1 = real(grid[i + 1, j + 1, k]), real(grid[i + 1, j + 1, k + 1])
    a, b, c, d = (one - w) * a0 + w * a1, (one - w) * b0 + w * b1, (one - w) * c0 + w * c1, (one - w) * d0 + w * d1
    lower, upper = (one - v) * a + v * b, (one - v) * c + v * d
    by_w = (one - u) * ((one - v) * (a1 - a0) + v * (b1 - b0)) + u * ((one - v) * (c1 - c0) + v * (d1 - d0))
    return vec4((one - u) * lower + u * upper, upper - lower, (one - u) * (b - a) + u * (d - c), by_w)


@wp.func
def bilinear(a: real, b: real, c: real, d: real, v: real, w: real) -> real:
    """Returns the bilinear value: a and b at w = 0 and 1 for v = 0, c and d for v = 1."""
    return (real(1.0) - v) * ((real(1.0) - w) * a + w * b) + v * ((real(1.0) - w) * c + w * d)


@wp.func
def cell_slope(lower: real, upper: real, beyond: real, u: real) -> real:
    """Returns the difference over a whole cell around u between two nodes; `beyond` is the next on the closer side."""
    outer = wp.where(u < real(0.5), lower - beyond, beyond - upper)
    share = wp.abs(u - real(0.5))
    return (real(1.0) - share) * (upper - lower) + share * outer


@wp.func
def fine_distance(grid: wp.array3d(dtype=wp.float32), q: vec3) -> vec4:
    """Returns the distance in a fine tile, with q in cells from its corner, and its slopes, taken over a whole cell,
    because slopes within cells would be discontinuous between them."""
    i, j, k = wp.int32(q[0]), wp.int32(q[1]), wp.int32(q[2])
    i, j, k = wp.min(i, TILE_CELLS - 1), wp.min(j, TILE_CELLS - 1), wp.min(k, TILE_CELLS - 1)
    u, v, w = q[0] - real(i), q[1] - real(j), q[2] - real(k)
    i, j, k = i + 1, j + 1, k + 1  # the first nodes are outside the tile
    half = real(0.5)
    a0, a1 = real(grid[i, j, k]), real(grid[i, j, k + 1])
    b0, b1 = real(grid[i, j + 1, k]), real(grid[i, j + 1, k + 1])
    c0, c1 = real(grid[i + 1, j, k]), real(grid[i + 1, j, k + 1])
    d0, d1 = real(grid[i + 1, j + 1, k]), real(grid[i + 1, j + 1, k + 1])
    x = wp.where(u < half, i - 1, i + 2)
    y = wp.where(v < half, j - 1, j + 2)
    z = wp.where(w < half, k - 1, k + 2)
    lower, upper = bilinear(a0, a1, b0, b1, v, w), bilinear(c0, c1, d0, d1, v, w)
    beyond_x = bilinear(
        real(grid[x, j, k]), real(grid[x, j, k + 1]), real(grid[x, j + 1, k]), real(grid[x, j + 1, k + 1]), v, w
    )
    beyond_y = bilinear(
        real(grid[i, y, k]), real(grid[i, y, k + 1]), real(grid[i + 1, y, k]), real(grid[i + 1, y, k + 1]), u, w
    )
    beyond_z = bilinear(
        real(grid[i, j, z]), real(grid[i, j + 1, z]), real(grid[i + 1, j, z]), real(grid[i + 1, j + 1, z]), u, v
    )
    return vec4(
        (real(1.0) - u) * lower + u * upper,
        cell_slope(lower, upper, beyond_x, u),
        cell_slope(bilinear(a0, a1, c0, c1, u, w), bilinear(b0, b1, d0, d1, u, w), beyond_y, v),
        cell_slope(bilinear(a0, b0, c0, d0, u, v), bilinear(a1, b1, c1, d1, u, v), beyond_z, w),
    )


@wp.func
def distance_bound(fields: wp.array(dtype=Field), f: wp.int32, q: vec3) -> real:
    """Returns a lower bound of the distance, on either side, at a point of the box, from the far grid."""
    tile = tile_of(fields, f, q)
    share = q / TILE_SIDE - vec3(real(tile[0]), real(tile[1]), real(tile[2]))
    far = trilinear_slope(fields[f].far, tile[0], tile[1], tile[2], share[0], share[1], share[2])
    return wp.abs(far[0]) - FAR_ERROR * TILE_SIDE * fields[f].cell


@wp.func
def evaluate(fields: wp.array(dtype=Field), f: wp.int32, p: vec3) -> FieldSample:
    """Evaluates distance and gradient at any point."""
    sample = FieldSample()
    cell = fields[f].cell
    band = fields[f].band
    inner, arm = vec3(), vec3()  # closest point of the grid in cells, and vector from the surface's box to p
    per_cell = real(1.0) / cell
    q = per_cell * (p - fields[f].low)
    for k in range(3):
        inner[k] = wp.clamp(q[k], real(0.0), TILE_SIDE * real(fields[f].slots.shape[k]))
        arm[k] = p[k] - wp.clamp(p[k], fields[f].surface_low[k], fields[f].surface_high[k])
    outside = cell * wp.length(q - inner)
    if outside > real(0.0):
        away = wp.length(arm)
        sample.distance = wp.max(away, distance_bound(fields, f, inner) - outside)
        sample.gradient = arm / wp.max(away, TINY)
        return sample
    tile = tile_of(fields, f, q)
    local = q - TILE_SIDE * vec3(real(tile[0]), real(tile[1]), real(tile[2]))
    slot = fields[f].slots[tile[0], tile[1], tile[2]]
    if slot < 0:
        share = TILE_SHARE * local
        far = trilinear_slope(fields[f].far, tile[0], tile[1], tile[2], share[0], share[1], share[2])
        sample.gradient = (TILE_SHARE * per_cell) * vec3(far[1], far[2], far[3])
        sure = wp.abs(far[0]) - FAR_ERROR * TILE_SIDE * cell
        if far[0] > real(0.0):
            sample.distance = wp.max(wp.max(band, wp.length(arm)), sure)
        else:
            sample.distance = -wp.max(band, sure)
        return sample
    near = fine_distance(fields[f].near[slot], local)
    sample.distance = near[0]
    sample.gradient = per_cell * vec3(near[1], near[2], near[3])
    if wp.abs(sample.distance) <= band:
        sample.near = 1
    elif sample.distance > real(0.0):
        sample.distance = wp.max(wp.max(band, wp.length(arm)), distance_bound(fields, f, q))
    else:
        sample.distance = -wp.max(band, distance_bound(fields, f, q))
    return sample


@wp.func
def trilinear_vector(
    grid: wp.array3d(dtype=wp.vec3f), i: wp.int32, j: wp.int32, k: wp.int32, u: real, v: real, w: real
) -> vec3:
    one = real(1.0)
    a = (one - w) * vec3(grid[i, j, k]) + w * vec3(grid[i, j, k + 1])
    b = (one - w) * vec3(grid[i, j + 1, k]) + w * vec3(grid[i, j + 1, k + 1])
    c = (one - w) * vec3(grid[i + 1, j, k]) + w * vec3(grid[i + 1, j, k + 1])
    d = (one - w) * vec3(grid[i + 1, j + 1, k]) + w * vec3(grid[i + 1, j + 1, k + 1])
    return (one - u) * ((one - v) * a + v * b) + u * ((one - v) * c + v * d)


@wp.func
def evaluate_vector(
    fields: wp.array(dtype=Field), f: wp.int32, far: wp.array3d(dtype=wp.vec3f), near: wp.array4d(dtype=wp.vec3f),
    p: vec3,
) -> vec3:  # fmt: skip
    """Evaluates vectors at the nodes of a field trilinearly; constant beyond the grid."""
    q = (p - fields[f].low) / fields[f].cell
    for k in range(3):
        q[k] = wp.clamp(q[k], real(0.0), TILE_SIDE * real(fields[f].slots.shape[k]))
    tile = tile_of(fields, f, q)
    local = q - TILE_SIDE * vec3(real(tile[0]), real(tile[1]), real(tile[2]))
    slot = fields[f].slots[tile[0], tile[1], tile[2]]
    if slot < 0:
        local /= TILE_SIDE
        return trilinear_vector(far, tile[0], tile[1], tile[2], local[0], local[1], local[2])
    local /= FOOT_STRIDE
    i = wp.min(wp.int32(local[0]), FOOT_CELLS - 1)
    j = wp.min(wp.int32(local[1]), FOOT_CELLS - 1)
    k = wp.min(wp.int32(local[2]), FOOT_CELLS - 1)
    return trilinear_vector(near[slot], i, j, k, local[0] - real(i), local[1] - real(j), local[2] - real(k))


@wp.kernel
def carry_nodes(
    # in
    corners: wp.array(dtype=wp.int32), moves: wp.array(dtype=vec3), velocities: wp.array(dtype=vec3),
    face: wp.array(dtype=wp.int32), place: wp.array(dtype=wp.vec2f),
    # out
    move_out: wp.array(dtype=wp.vec3f), velocity_out: wp.array(dtype=wp.vec3f),
):  # fmt: skip
    """Computes displacement and velocity of the closest point of each node from those of the vertices."""
    n = wp.tid()
    i, j, k = corners[3 * face[n]], corners[3 * face[n] + 1], corners[3 * face[n] + 2]
    s, t = real(place[n][0]), real(place[n][1])
    r = real(1.0) - s - t
    move_out[n] = wp.vec3f(r * moves[i] + s * moves[j] + t * moves[k])
    velocity_out[n] = wp.vec3f(r * velocities[i] + s * velocities[j] + t * velocities[k])


class FieldKeyframe:
    """Field of one pose of a surface that deforms, with the motion of the surface since then."""

    def __init__(self, baked: BakedField, positions: np.ndarray, device: str):
        self.field, self.positions, self.device = upload(baked, device), positions, device
        self._far = [wp.array(baked.far_face.ravel(), dtype=wp.int32, device=device),
                     wp.array(baked.far_place.reshape(-1, 2), dtype=wp.vec2f, device=device)]  # fmt: skip
        self._near = [wp.array(baked.near_face.ravel(), dtype=wp.int32, device=device),
                      wp.array(baked.near_place.reshape(-1, 2), dtype=wp.vec2f, device=device)]  # fmt: skip

    def carry(self, positions: np.ndarray, velocities: np.ndarray, corners: wp.array) -> float:
        """Moves the surface to these positions; returns the largest displacement of a vertex since the keyframe [m]."""
        moves = positions - self.positions
        vertices = [wp.array(array, dtype=vec3, device=self.device) for array in (moves, velocities)]
        field = self.field
        for feet, move, velocity in (
            (self._far, field.far_move, field.far_velocity),
            (self._near, field.near_move, field.near_velocity),
        ):
            out = [move.flatten(), velocity.flatten()]
            wp.launch(carry_nodes, len(feet[0]), [corners, *vertices, *feet], out, device=self.device)
        return float(np.sqrt(np.max(np.sum(moves**2, axis=1))))
