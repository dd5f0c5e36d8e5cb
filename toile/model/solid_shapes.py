"""Triangle surfaces of simple solids, for drawing and for scenes: (positions, triangles).

    sphere              an icosahedron, each triangle subdivided into four recursively
    capsule, cylinder   a profile revolved about z, with a fan at either end
    box                 two triangles on each side
    plane, disc         open and flat, at z = 0, facing up

Those that end in `_around` contain the solid: their flat triangles touch it from outside, with a given tolerance.

All are centered on the origin, with z as their axis. Triangles are counterclockwise seen from outside.
"""

from __future__ import annotations

import numpy as np

from toile.model.mesh import face_sides

Surface = tuple[np.ndarray, np.ndarray]  # positions (vertices, 3) float64 [m], triangles (triangles, 3) int32


def sphere(radius: float, subdivisions: int = 3) -> Surface:
    """Makes a sphere of 10 * 4^n + 2 vertices, all on the sphere."""
    golden = 0.5 * (1.0 + np.sqrt(5.0))
    # Three golden rectangles at right angles; every triangle joins three corners at distance 2.
    corners = [(a, b * golden, 0.0) for b in (-1.0, 1.0) for a in (-1.0, 1.0)]
    positions = np.array([np.roll(corner, shift) for shift in range(3) for corner in corners])
    near = np.abs(np.linalg.norm(positions[:, None] - positions, axis=2) - 2.0) < 1e-9
    a, b, c = np.nonzero(near[:, :, None] & near[:, None, :] & near[None, :, :])
    first = (a < b) & (b < c)
    triangles = np.stack([a[first], b[first], c[first]], axis=1)
    inward = np.linalg.det(positions[triangles]) < 0.0
    triangles[inward] = triangles[inward][:, [0, 2, 1]]
    for _ in range(subdivisions):
        positions, triangles = _cut_in_four(positions, triangles)
    return radius * positions / np.linalg.norm(positions, axis=1, keepdims=True), triangles.astype(np.int32)


def capsule(radius: float, length: float, segments: int = 32, rings: int = 8) -> Surface:
    """Makes a capsule; `length` is the distance between the centers of the caps, each cap has `rings` circles."""
    angle = 0.5 * np.pi * np.arange(1, rings + 1) / rings
    r, z = radius * np.sin(angle), 0.5 * length + radius * np.cos(angle)
    return _turned(
        np.concatenate([r, r[::-1]]), np.concatenate([-z, z[::-1]]), (-0.5 * length - radius, 0.5 * length + radius),
        segments,
    )  # fmt: skip


def cylinder(radius: float, height: float, segments: int = 32, rings: int = 10, rounding: float = 0.0) -> Surface:
    """Makes a cylinder of segments * rings + 2 vertices: `rings` circles including both rims, and the end centers.

    With rounding, all circles lie on the two rims, half of them on each.
    """
    z = np.linspace(-0.5 * height, 0.5 * height, rings)
    r = np.full(rings, radius)
    if rounding > 0.0:
        angle = np.linspace(0.0, 0.5 * np.pi, (rings + 1) // 2)
        rise, out = 0.5 * height - rounding * (1.0 - np.sin(angle)), radius - rounding * (1.0 - np.cos(angle))
        z, r = np.concatenate([-rise[::-1], rise]), np.concatenate([out[::-1], out])
    return _turned(r, z, (-0.5 * height, 0.5 * height), segments)


def box(size: tuple[float, float, float], rounding: float = 0.0, steps: int = 6) -> Surface:
    """Makes a box of eight corners, numbered with their side along x, y and z as binary digits.

    With rounding, `steps` quads lie across each edge.
    """
    corners = np.array([[i & 1, i >> 1 & 1, i >> 2 & 1] for i in range(8)]) - 0.5
    quads = np.array([[0, 4, 6, 2], [1, 3, 7, 5], [0, 1, 5, 4], [2, 6, 7, 3], [0, 2, 3, 1], [4, 5, 7, 6]])
    if rounding > 0.0:
        return _rounded_box(np.asarray(size, float), rounding, corners[quads], steps)
    return corners * np.asarray(size, float), _halved(quads)


def plane(size: float | tuple[float, float]) -> Surface:
    """Makes a rectangle with sides along x and y."""
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]]) * np.asarray(size, float)
    return np.column_stack([corners, np.zeros(4)]), _halved(np.array([[0, 1, 2, 3]]))


def disc(radius: float, segments: int = 64) -> Surface:
    """Makes a fan around the center, which is the last vertex."""
    around = np.arange(segments)
    rim = _circle(radius, 0.0, segments)
    triangles = np.stack([around, (around + 1) % segments, np.full(segments, segments)], axis=1)
    return np.vstack([rim, np.zeros(3)]), triangles.astype(np.int32)


def sphere_around(radius: float, tolerance: float) -> Surface:
    """Makes a sphere whose triangles are outside the given one, and vertices at most `tolerance` in front of it."""
    for subdivisions in range(2, 6):
        positions, triangles = sphere(radius, subdivisions)
        corners = positions[triangles]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        inner = float((np.einsum("td,td->t", normals, corners[:, 0]) / np.linalg.norm(normals, axis=1)).min())
        if radius * (radius / inner - 1.0) <= tolerance:
            break
    return positions * (radius / inner), triangles


def capsule_around(radius: float, length: float, tolerance: float) -> Surface:
    """Makes a capsule whose triangles are outside the given one."""
    segments = segments_within(radius, 0.5 * tolerance)
    rings = -(-segments // 4)
    grown = radius / (np.cos(np.pi / segments) * np.cos(0.25 * np.pi / rings))
    return capsule(grown, length, segments, rings)


def cylinder_around(radius: float, height: float, rounding: float, tolerance: float) -> Surface:
    """Makes a cylinder whose triangles are outside the given one."""
    segments = segments_within(radius, tolerance)
    grown = radius / np.cos(np.pi / segments)
    if rounding == 0.0:
        return cylinder(grown, height, segments, 2)
    steps = -(-segments_within(rounding, tolerance) // 4)
    more = rounding * (1.0 / np.cos(0.25 * np.pi / steps) - 1.0)
    return cylinder(grown + more, height + 2.0 * more, segments, 2 * (steps + 1), rounding + more)


def box_around(size: tuple[float, float, float], rounding: float, tolerance: float) -> Surface:
    """Makes a box whose triangles are outside the given one."""
    if rounding == 0.0:
        return box(size)
    steps = -(-segments_within(rounding, 0.5 * tolerance) // 8) * 2
    # Half the diagonal of a quad, and a little more where three roundings meet.
    angle = 1.15 * 0.25 * np.pi * np.sqrt(2.0) / steps
    more = rounding * (1.0 / np.cos(angle) - 1.0)
    return box(tuple(length + 2.0 * more for length in size), rounding + more, steps)


def segments_within(radius: float, tolerance: float) -> int:
    """Returns the sides of a polygon around a circle whose corners are at most `tolerance` [m] outside it: 16 to 128,
    a multiple of four."""
    angle = np.arccos(radius / (radius + tolerance))
    return int(np.clip(4 * np.ceil(0.25 * np.pi / angle), 16, 128))


def _rounded_box(size: np.ndarray, rounding: float, faces: np.ndarray, steps: int) -> Surface:
    """Makes each face of a box as a grid that is fine near its edges, projected onto the rounded surface."""
    bend = np.tan(np.linspace(0.0, 0.25 * np.pi, steps // 2 + 1))  # equal angles across the rounding
    positions, quads, count = [], [], 0
    for corners in faces * size:
        along, across = corners[1] - corners[0], corners[3] - corners[0]
        a, b = (_near_ends(float(np.linalg.norm(edge)), rounding, bend) for edge in (along, across))
        points = corners[0] + a[None, :, None] * along + b[:, None, None] * across
        inner = np.clip(points, rounding - 0.5 * size, 0.5 * size - rounding)
        arm = points - inner
        positions.append((inner + rounding * arm / np.linalg.norm(arm, axis=2, keepdims=True)).reshape(-1, 3))
        here = count + (np.arange(len(b) - 1)[:, None] * len(a) + np.arange(len(a) - 1)[None, :]).ravel()
        quads.append(np.stack([here, here + 1, here + len(a) + 1, here + len(a)], axis=1))
        count += len(positions[-1])
    every = np.concatenate(positions)
    # Faces share their outermost points, which are equal up to rounding errors.
    _, first, place = np.unique(np.round(every / size.max(), 9), axis=0, return_index=True, return_inverse=True)
    return every[first], _halved(place.ravel()[np.concatenate(quads)])


def _near_ends(length: float, rounding: float, bend: np.ndarray) -> np.ndarray:
    """Returns parameters along an edge from 0 to 1: fine within the rounding at both ends, one step between."""
    end = (rounding - rounding * bend[::-1]) / length
    return np.unique(np.concatenate([end, 1.0 - end]))


def _turned(r: np.ndarray, z: np.ndarray, ends: tuple[float, float], segments: int) -> Surface:
    """Revolves a profile that rises along z about it, and closes it by a fan to a point on the axis at both ends."""
    rings = len(r)
    circles = [_circle(radius, height, segments) for radius, height in zip(r, z, strict=True)]
    positions = np.concatenate([*circles, [[0.0, 0.0, ends[0]], [0.0, 0.0, ends[1]]]])
    here = np.arange(segments)
    beside = (here + 1) % segments
    low = segments * np.arange(rings - 1)[:, None]
    quads = np.stack([low + here, low + beside, low + beside + segments, low + here + segments], axis=2).reshape(-1, 4)
    bottom, top, last = rings * segments, rings * segments + 1, segments * (rings - 1)
    fans = [
        np.stack([beside, here, np.full(segments, bottom)], axis=1),
        np.stack([last + here, last + beside, np.full(segments, top)], axis=1),
    ]
    return positions, np.concatenate([_halved(quads), *fans]).astype(np.int32)


def _circle(radius: float, height: float, segments: int) -> np.ndarray:
    angle = 2.0 * np.pi * np.arange(segments) / segments
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), np.full(segments, height)])


def _halved(quads: np.ndarray) -> np.ndarray:
    return quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3).astype(np.int32)


def _cut_in_four(positions: np.ndarray, triangles: np.ndarray) -> Surface:
    """Subdivides triangles at the middles of their edges, projected onto the sphere around the origin."""
    ends = np.sort(face_sides(triangles), axis=1)
    edges, edge = np.unique(ends, axis=0, return_inverse=True)
    middles = positions[edges].mean(axis=1)
    middles *= np.linalg.norm(positions[0]) / np.linalg.norm(middles, axis=1, keepdims=True)
    a, b, c = triangles.T
    ab, bc, ca = (edge.reshape(-1, 3) + len(positions)).T
    quarters = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    cut = np.stack([np.stack(corners, axis=1) for corners in quarters], axis=1)
    return np.concatenate([positions, middles]), cut.reshape(-1, 3)
