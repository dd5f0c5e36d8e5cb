"""A solid of revolution: a profile revolved about the z axis, as needles, cones, funnels, bowls.

    r = sqrt(x^2 + y^2),    |distance| = that of (r, z) to the closest side of the polygon, negative inside of it

The profile is a closed polygon of points (r, z) with r >= 0. Sides that lie on the axis are not surface.

Symbols     r, z  distance from the axis, height [m]     e  a side of the polygon     n  the normal, as (r, z)
Deviations  none
"""

from itertools import combinations
from pathlib import Path
from typing import Annotated

import numpy as np
import warp as wp
from pydantic import Field, model_validator

from toile.colliders.base import Collider, Solid, rigid_functions
from toile.math.solid import Closest
from toile.math.types import TINY, numpy_real, real, vec3
from toile.model.solid_shapes import Surface, segments_within
from toile.plugins import quantity

vec2 = wp.types.vector(length=2, dtype=real)  # (r, z)

Radius = Annotated[float, Field(ge=0)]


@wp.struct
class Profile:
    """Sides of the polygon, which has its inside on the left; sides on the axis are left out."""

    a: wp.array(dtype=vec2)
    b: wp.array(dtype=vec2)


@wp.func
def closest(shape: Profile, p: vec3, reach: real) -> Closest:
    zero = real(0.0)
    r = wp.sqrt(p[0] * p[0] + p[1] * p[1])
    q = vec2(r, p[2])
    squared = real(1.0e30)
    arm = vec2()
    facing = vec2()
    intersections = int(0)
    for i in range(shape.a.shape[0]):
        a, e = shape.a[i], shape.b[i] - shape.a[i]
        t = wp.clamp(wp.dot(q - a, e) / wp.dot(e, e), zero, real(1.0))
        away = q - a - t * e
        if wp.dot(away, away) < squared:
            squared = wp.dot(away, away)
            arm = away
            facing = vec2(e[1], -e[0]) / wp.length(e)
        # Count intersections of a ray from q away from the axis; sides left out on the axis do not matter.
        if (a[1] > q[1]) != (shape.b[i][1] > q[1]) and a[0] + (q[1] - a[1]) / e[1] * e[0] > q[0]:
            intersections += 1
    found = Closest()
    distance = wp.sqrt(squared)
    sign = wp.where(intersections % 2 == 1, real(-1.0), real(1.0))
    n = facing  # normal on the surface itself
    if distance > TINY:
        n = sign * arm / distance
    found.distance = sign * distance
    across = vec3(real(1.0), zero, zero)  # arbitrary direction on the axis
    if r > TINY:
        across = vec3(p[0] / r, p[1] / r, zero)
    found.normal = n[0] * across + vec3(zero, zero, n[1])
    return found


FUNCTIONS = rigid_functions(Profile, closest)


class Turned(Collider):
    """A solid of revolution with its axis along z."""

    profile: tuple[tuple[Radius, float], ...] = quantity(
        unit="m", doc="corners [distance from the axis, height] of a closed polygon, in order around it"
    )
    segments: int = quantity(48, doc="sides of the drawn polygon", ge=3)

    @model_validator(mode="after")
    def _usable(self) -> "Turned":
        points = np.array(self.profile).reshape(-1, 2)
        if len(points) < 3:
            raise ValueError(f"profile: {len(points)} corners given; a polygon needs at least three.")
        sides = list(zip(points, np.roll(points, -1, axis=0), strict=True))
        size = np.ptp(points, axis=0).max()
        for i, (a, b) in enumerate(sides):
            if np.linalg.norm(b - a) <= 1e-9 * size:
                raise ValueError(f"profile: corners {i} and {(i + 1) % len(sides)} are the same. Remove one.")
        for (i, one), (j, two) in combinations(enumerate(sides), 2):
            beside = j - i in (1, len(sides) - 1)
            if not beside and _cross(one, two):
                raise ValueError(f"profile: the sides after corners {i} and {j} intersect.")
        if abs(_area(points)) <= 1e-9 * size**2:
            raise ValueError("profile: the polygon has no area.")
        return self

    def contact_surface(self, tolerance: float) -> Surface:
        points = _counterclockwise(np.array(self.profile))
        return _around(points, max(self.segments, segments_within(float(points[:, 0].max()), tolerance)))

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        points = _counterclockwise(np.array(self.profile))
        ends = np.roll(points, -1, axis=0)
        surface = (points[:, 0] > 0.0) | (ends[:, 0] > 0.0)
        shape = Profile()
        shape.a, shape.b = (
            wp.array(corners[surface].astype(numpy_real), dtype=vec2, device=device) for corners in (points, ends)
        )
        return Solid(self, FUNCTIONS, shape, _surface(points, self.segments))


def _surface(points: np.ndarray, segments: int) -> Surface:
    """Returns a circle for every corner, one vertex for those on the axis; counterclockwise seen from outside."""
    angle = 2.0 * np.pi * np.arange(segments) / segments
    positions, rings, count = [], [], 0
    for r, z in points:
        around = angle if r > 0.0 else angle[:1]
        positions.append(np.column_stack([r * np.cos(around), r * np.sin(around), np.full(len(around), z)]))
        rings.append(count + np.arange(segments) % len(around))
        count += len(around)
    triangles = []
    for a, b in zip(rings, rings[1:] + rings[:1], strict=True):
        a_next, b_next = np.roll(a, -1), np.roll(b, -1)
        if a[0] != a[1]:
            triangles.append(np.stack([a, a_next, b], axis=1))
        if b[0] != b[1]:
            triangles.append(np.stack([a_next, b_next, b], axis=1))
    return np.concatenate(positions), np.concatenate(triangles).astype(np.int32)


def _around(points: np.ndarray, segments: int) -> Surface:
    """Returns circles around the solid: corners of sides that face away from the axis move out, so that the middles of
    the segments are on the solid. Where a side faces the axis its segments are inside the hole already."""
    outward = np.roll(points, -1, axis=0)[:, 1] > points[:, 1]
    grown = np.where(outward | np.roll(outward, 1), 1.0 / np.cos(np.pi / segments), 1.0)
    return _surface(points * np.stack([grown, np.ones(len(points))], axis=1), segments)


def _counterclockwise(points: np.ndarray) -> np.ndarray:
    return points[::-1] if _area(points) < 0.0 else points


def _area(points: np.ndarray) -> float:
    """Returns the signed area of a polygon, positive if it is counterclockwise."""
    r, z = points.T
    return 0.5 * float(np.sum(r * np.roll(z, -1) - np.roll(r, -1) * z))


def _cross(one: tuple[np.ndarray, np.ndarray], two: tuple[np.ndarray, np.ndarray]) -> bool:
    """Returns whether two segments in the plane intersect."""

    def turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
        return float(np.sign((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])))

    (a, b), (c, d) = one, two
    turns = turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b)
    if not any(turns):  # collinear: disjoint unless their boxes overlap
        low, high = np.maximum(np.minimum(a, b), np.minimum(c, d)), np.minimum(np.maximum(a, b), np.maximum(c, d))
        return bool(np.all(low <= high))
    return turns[0] * turns[1] <= 0.0 and turns[2] * turns[3] <= 0.0
