"""Baking of distance fields: from a closed triangle mesh, or from a shape with a distance function.

1. The bounding box of the surface, enlarged by the band, is divided into tiles; the distance at their corners is the
   far grid.
2. Tiles close to the surface, by the distance at their center, get a fine grid.
3. For a mesh, Warp's BVH finds the closest triangle, and the distance to it is computed in `real`.
4. Its sign is that of the winding number, evaluated only if in doubt: two nodes are on the same side if either
   is farther from the surface than from the other.

The winding number of the surface around a point is robust: a small flaw does not turn the inside out.

Source      [BMF03] sec. 5.1, with exact distances where the paper uses fast marching from the interface
Symbols     phi  distance [m]     p  node
Deviations  none
"""

from functools import cache
from typing import Any

import numpy as np
import warp as wp

from toile.colliders._level_set_field import CELLS, FEET, NODES, STRIDE, BakedField
from toile.colliders.base import Functions
from toile.errors import InputError
from toile.math.solid import ANYWHERE
from toile.math.triangle import nearest_on_triangle
from toile.math.types import double, real, vec3
from toile.model.mesh_files import available_memory

# Extra search radius for Warp's BVH, relative to the lengths involved: the error of single precision.
ROUNDING = wp.constant(real(1e-5))
# Accuracy of Warp's winding numbers (its default), and the threshold for inside.
WINDING_ACCURACY, WINDING_INSIDE = wp.constant(wp.float32(2.0)), wp.constant(wp.float32(0.5))
# A node is on the same side as another if a distance exceeds this factor times their spacing: beyond rounding.
SURELY = wp.constant(wp.float32(1.001))

TILE_CELLS, FOOT_STRIDE = wp.constant(CELLS), wp.constant(STRIDE)

# Memory of a tile without and with a fine grid while it is made [bytes].
COARSE_BYTES, FINE_BYTES = 40, 12 * NODES**3


@wp.struct
class BakedSurface:
    """A closed mesh; `tree` and `x` are relative to the center of its box, where single precision is finest."""

    tree: wp.uint64
    x: wp.array(dtype=vec3)
    corners: wp.array(dtype=wp.int32)  # three for each triangle


@wp.struct
class BakedFoot:
    """Closest point of a surface to p."""

    distance: real  # unsigned
    face: wp.int32
    place: wp.vec2f  # s and t in the triangle


@wp.func
def foot_of(surface: BakedSurface, p: vec3, reach: real) -> BakedFoot:
    foot = BakedFoot()
    search = wp.float32(reach + ROUNDING * (reach + wp.length(p)))
    hit = wp.mesh_query_point_no_sign(surface.tree, wp.vec3f(p), search)
    foot.face = hit.face
    a = surface.x[surface.corners[3 * hit.face]]
    b = surface.x[surface.corners[3 * hit.face + 1]]
    c = surface.x[surface.corners[3 * hit.face + 2]]
    near = nearest_on_triangle(double(p), double(a), double(b), double(c))
    foot.distance = wp.length(p - a - real(near.s) * (b - a) - real(near.t) * (c - a))
    foot.place = wp.vec2f(wp.float32(near.s), wp.float32(near.t))
    return foot


@wp.func
def side_of(surface: BakedSurface, p: vec3, distance: real) -> real:
    """Returns -1 inside and 1 outside."""
    search = wp.float32(distance + ROUNDING * (real(1.0) + distance + wp.length(p)))
    hit = wp.mesh_query_point_sign_winding_number(surface.tree, wp.vec3f(p), search, WINDING_ACCURACY, WINDING_INSIDE)
    return wp.where(hit.sign < 0.0, real(-1.0), real(1.0))


@wp.func
def place(low: vec3, spacing: real, i: wp.int32, j: wp.int32, k: wp.int32) -> vec3:
    return low + spacing * vec3(real(i), real(j), real(k))


@wp.func
def node_of(low: vec3, cell: real, tile: wp.vec3i, i: wp.int32, j: wp.int32, k: wp.int32) -> vec3:
    """Returns the position of node i, j, k of a tile; the first nodes are one cell outside."""
    return place(low, cell, TILE_CELLS * tile[0] + i - 1, TILE_CELLS * tile[1] + j - 1, TILE_CELLS * tile[2] + k - 1)


@wp.kernel
def mesh_corners(
    # in
    surface: BakedSurface, low: vec3, side: real,
    # out
    far_out: wp.array3d(dtype=wp.float32), face_out: wp.array3d(dtype=wp.int32), place_out: wp.array3d(dtype=wp.vec2f),
):  # fmt: skip
    i, j, k = wp.tid()
    p = place(low, side, i, j, k)
    foot = foot_of(surface, p, ANYWHERE)
    far_out[i, j, k] = wp.float32(side_of(surface, p, foot.distance) * foot.distance)
    if face_out.shape[0] > 0:
        face_out[i, j, k] = foot.face
        place_out[i, j, k] = foot.place


@wp.kernel
def mesh_middles(surface: BakedSurface, low: vec3, side: real, middle_out: wp.array3d(dtype=real)):
    i, j, k = wp.tid()
    half = real(0.5) * side
    middle_out[i, j, k] = foot_of(surface, place(low, side, i, j, k) + vec3(half, half, half), ANYWHERE).distance


@wp.func
def foot_at(i: wp.int32) -> wp.int32:
    """Returns the index, among the nodes with a closest point, of node i along an axis, or -1."""
    if i == 0 or i > TILE_CELLS + 1 or (i - 1) % FOOT_STRIDE != 0:
        return -1
    return (i - 1) // FOOT_STRIDE


@wp.kernel
def mesh_nodes(
    # in
    surface: BakedSurface, low: vec3, cell: real, tiles: wp.array(dtype=wp.vec3i), reach: wp.array(dtype=real),
    # out
    near_out: wp.array4d(dtype=wp.float32), face_out: wp.array4d(dtype=wp.int32), place_out: wp.array4d(dtype=wp.vec2f),
):  # fmt: skip
    """Computes unsigned distances."""
    t, i, j, k = wp.tid()
    p = node_of(low, cell, tiles[t], i, j, k)
    foot = foot_of(surface, p, reach[t])
    near_out[t, i, j, k] = wp.float32(foot.distance)
    a, b, c = foot_at(i), foot_at(j), foot_at(k)
    if face_out.shape[0] > 0 and a >= 0 and b >= 0 and c >= 0:
        face_out[t, a, b, c] = foot.face
        place_out[t, a, b, c] = foot.place


@wp.kernel
def mesh_signs(
    # in
    surface: BakedSurface, low: vec3, cell: real, tiles: wp.array(dtype=wp.vec3i),
    # in and out
    near_out: wp.array4d(dtype=wp.float32),
):  # fmt: skip
    """Sets the signs, one tile per thread, because a node takes its sign from a previous one if it can."""
    t = wp.tid()
    side = near_out.shape[1]
    for n in range(side * side * side):
        i, j, k = n // (side * side), (n // side) % side, n % side
        phi = near_out[t, i, j, k]
        sign = wp.float32(0.0)
        for axis in range(3):
            a, b, c = wp.where(axis == 0, 1, 0), wp.where(axis == 1, 1, 0), wp.where(axis == 2, 1, 0)
            if sign == 0.0 and i >= a and j >= b and k >= c:
                before = near_out[t, i - a, j - b, k - c]
                if wp.max(wp.abs(before), phi) > SURELY * wp.float32(cell):
                    sign = wp.where(before < 0.0, wp.float32(-1.0), wp.float32(1.0))
        if sign == 0.0:
            p = node_of(low, cell, tiles[t], i, j, k)
            sign = wp.float32(side_of(surface, p, real(phi)))
        near_out[t, i, j, k] = sign * phi


def bake_mesh(
    positions: np.ndarray, triangles: np.ndarray, cell: float, band: float, device: str, deforms: bool = False
) -> BakedField:
    """Bakes the field of a closed mesh; `deforms` keeps closest points of nodes, for displacements and velocities."""
    box = np.stack([positions.min(axis=0), positions.max(axis=0)])
    center = box.mean(axis=0)
    low, tiles = _lay_out(box, cell, band)
    arms = positions - center
    surface = BakedSurface()
    surface.x = wp.array(arms, dtype=vec3, device=device)
    surface.corners = wp.array(triangles.ravel(), dtype=wp.int32, device=device)
    points = wp.array(arms, dtype=wp.vec3f, device=device)
    tree = wp.Mesh(points, surface.corners, support_winding_number=True)
    surface.tree = tree.id

    side, corners = CELLS * cell, tuple(n + 1 for n in tiles)
    start = vec3(*(low - center))
    far = wp.empty(corners, wp.float32, device)
    far_face, far_place = _feet(corners, deforms, device)
    wp.launch(mesh_corners, corners, [surface, start, side], [far, far_face, far_place], device=device)
    middles = wp.empty(tiles, real, device)
    wp.launch(mesh_middles, tiles, [surface, start, side], [middles], device=device)
    slots, chosen, reach = _choose(middles.numpy(), side, band)

    near = wp.empty((len(chosen), NODES, NODES, NODES), wp.float32, device)
    near_face, near_place = _feet((len(chosen), FEET, FEET, FEET), deforms, device)
    chosen_tiles = wp.array(chosen, dtype=wp.vec3i, device=device)
    reaches = wp.array(reach, dtype=real, device=device)
    inputs = [surface, start, cell, chosen_tiles]
    wp.launch(mesh_nodes, near.shape, [*inputs, reaches], [near, near_face, near_place], device=device)
    wp.launch(mesh_signs, len(chosen), inputs, [near], device=device)
    feet = [array.numpy() for array in (far_face, far_place, near_face, near_place)]
    return BakedField(low, cell, band, box, slots, far.numpy(), near.numpy(), *feet)


def bake_shape(
    functions: Functions, shape: Any, surface: tuple[np.ndarray, np.ndarray], cell: float, band: float, device: str
) -> BakedField:
    """Bakes the field of a shape; its drawn surface only gives its extent."""
    at_points, at_nodes = shape_kernels(functions)
    positions, triangles = surface

    def distances(points: np.ndarray) -> np.ndarray:
        out = wp.empty(len(points), real, device)
        wp.launch(at_points, len(points), [shape, wp.array(points, dtype=vec3, device=device)], [out], device=device)
        return out.numpy()

    # Flat triangles cut corners: the true surface is at most about as far from them as from their centers.
    sag = 1.5 * np.abs(distances(positions[triangles].mean(axis=1))).max()
    box = np.stack([positions.min(axis=0) - sag, positions.max(axis=0) + sag])
    low, tiles = _lay_out(box, cell, band)
    side = CELLS * cell
    far = distances(low + side * _grid(tuple(n + 1 for n in tiles)))
    middles = distances(low + side * (_grid(tiles) + 0.5)).reshape(tiles)
    slots, chosen, _ = _choose(np.abs(middles), side, band)
    near = wp.empty((len(chosen), NODES, NODES, NODES), wp.float32, device)
    chosen_tiles = wp.array(chosen, dtype=wp.vec3i, device=device)
    wp.launch(at_nodes, near.shape, [shape, vec3(*low), cell, chosen_tiles], [near], device=device)
    far = far.reshape(tuple(n + 1 for n in tiles)).astype(np.float32)
    none = [np.zeros(0, np.int32), np.zeros(0, np.float32)]
    return BakedField(low, cell, band, box, slots, far, near.numpy(), *none, *none)


@cache
def shape_kernels(functions: Functions) -> tuple[wp.Kernel, ...]:
    """Returns kernels for the distance of a shape at points and at the nodes of tiles."""
    shape_type, closest = functions.shape, functions.closest

    def at_points(shape: shape_type, x: wp.array(dtype=vec3), distance_out: wp.array(dtype=real)):
        i = wp.tid()
        distance_out[i] = closest(shape, x[i], ANYWHERE).distance

    def at_nodes(
        # in
        shape: shape_type, low: vec3, cell: real, tiles: wp.array(dtype=wp.vec3i),
        # out
        near_out: wp.array4d(dtype=wp.float32),
    ):  # fmt: skip
        t, i, j, k = wp.tid()
        p = node_of(low, cell, tiles[t], i, j, k)
        near_out[t, i, j, k] = wp.float32(closest(shape, p, ANYWHERE).distance)

    module = wp.get_module(f"toile.level_set.{functions.kind}")
    return tuple(wp.Kernel(function, module=module) for function in (at_points, at_nodes))


def _lay_out(box: np.ndarray, cell: float, band: float) -> tuple[np.ndarray, tuple[int, int, int]]:
    """Returns the low corner of the tiles and their number along x, y, z; the surface is at least the band inside."""
    counts = np.ceil((np.ptp(box, axis=0) + 2.0 * band) / (CELLS * cell))
    _require_memory(float(np.prod(counts)), COARSE_BYTES, cell)
    tiles = tuple(int(max(n, 1)) for n in counts)
    return box.mean(axis=0) - 0.5 * CELLS * cell * np.array(tiles), tiles  # type: ignore[return-value]


def _choose(middles: np.ndarray, side: float, band: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns slots of the tiles with a fine grid (-1: none), their indices, and the search radius of each."""
    to_corner = 0.5 * np.sqrt(3.0) * side
    fine = middles <= to_corner + band
    _require_memory(float(np.count_nonzero(fine)), FINE_BYTES, side / CELLS)
    slots = np.where(fine, np.cumsum(fine).reshape(fine.shape) - 1, -1).astype(np.int32)
    farthest = (1.0 + 2.0 / CELLS) * to_corner  # up to one cell beyond the corner
    return slots, np.argwhere(fine).astype(np.int32), middles[fine] + farthest


def _require_memory(tiles: float, size: int, cell: float) -> None:
    needed, available = tiles * size, available_memory()
    if tiles > np.iinfo(np.int32).max or (available is not None and needed > available):
        raise InputError(
            f"a level set with cell = {cell:g} m needs {tiles:.3g} tiles, about {needed / 1e9:.3g} GB of memory. "
            "Use a larger cell, or a mesh collider."
        )


def _grid(counts: tuple[int, ...]) -> np.ndarray:
    return np.indices(counts).reshape(3, -1).T.astype(float)


def _feet(shape: tuple[int, ...], deforms: bool, device: str) -> tuple[wp.array, wp.array]:
    shape = shape if deforms else tuple(0 for _ in shape)
    return wp.empty(shape, wp.int32, device), wp.empty(shape, wp.vec2f, device)
