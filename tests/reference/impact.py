"""Distances of pairs by trying every case, moving pairs of all kinds, and their times of impact by ipctk.

A pair is four points: a vertex and the corners of a triangle, or the ends of two edges. Motion is linear over 0..1.
Each distance is the minimum over points that belong to both elements, so it is never too small.

Pairs that are built around a contact have an exactly known time of impact: contact points, velocities and the time are
multiples of 1/8, so that no position is rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ipctk
import numpy as np

VERTEX_TRIANGLE, EDGE_EDGE = "vertex_triangle", "edge_edge"


def length(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x, axis=-1)


def dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sum(x * y, axis=-1)


def ratio(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y, and 0 where y is 0."""
    return np.divide(x, y, out=np.zeros_like(x), where=y != 0.0)


def from_edge(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances of points from edges."""
    share = np.clip(ratio(dot(p - a, b - a), dot(b - a, b - a)), 0.0, 1.0)
    return length(p - a - share[..., None] * (b - a))


def vertex_triangle_distance(x: np.ndarray) -> np.ndarray:
    """(...) for x (..., 4, 3): from the interior of the triangle, or from one of its sides."""
    p, a, b, c = np.moveaxis(x, -2, 0)
    n = np.cross(b - a, c - a)
    shares = np.stack([dot(n, np.cross(v - u, p - u)) for u, v in ((b, c), (c, a), (a, b))], axis=-1)
    inside = (shares > 0.0).all(axis=-1)
    weights = ratio(shares, np.broadcast_to(shares.sum(axis=-1)[..., None], shares.shape))
    above = length(p - np.einsum("...k,...kd->...d", weights, x[..., 1:, :]))
    return np.min([np.where(inside, above, np.inf), from_edge(p, a, b), from_edge(p, b, c), from_edge(p, c, a)], axis=0)


def edge_edge_distance(x: np.ndarray) -> np.ndarray:
    """(...) for x (..., 4, 3): between the feet of the common perpendicular, or from one of the four ends."""
    p0, p1, q0, q1 = np.moveaxis(x, -2, 0)
    u, v, w = p1 - p0, q1 - q0, p0 - q0
    determinant = dot(u, u) * dot(v, v) - dot(u, v) ** 2
    s = ratio(dot(u, v) * dot(v, w) - dot(v, v) * dot(u, w), determinant)
    t = ratio(dot(u, u) * dot(v, w) - dot(u, v) * dot(u, w), determinant)
    inside = (np.abs(s - 0.5) <= 0.5) & (np.abs(t - 0.5) <= 0.5)
    across = length(w + s[..., None] * u - t[..., None] * v)
    ends = from_edge(p0, q0, q1), from_edge(p1, q0, q1), from_edge(q0, p0, p1), from_edge(q1, p0, p1)
    return np.min([np.where(inside, across, np.inf), *ends], axis=0)


DISTANCE = {VERTEX_TRIANGLE: vertex_triangle_distance, EDGE_EDGE: edge_edge_distance}


def relative(x: np.ndarray) -> np.ndarray:
    """The pair relative to its first point, so that pairs far from the origin lose no digits."""
    return x - x[..., :1, :]


def distance_at(kind: str, start: np.ndarray, end: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(pairs, times) for times (pairs, times)."""
    a, b = relative(start)[:, None], relative(end)[:, None]
    share = t[:, :, None, None]
    return DISTANCE[kind]((1.0 - share) * a + share * b)


def least_distance(kind: str, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Minimum over the motion: at 129 times, then twice at 129 times about the minimum."""
    t, width = np.full(len(start), 0.5), 0.5
    least = np.full(len(start), np.inf)
    for _ in range(3):
        times = np.clip(t[:, None] + width * np.linspace(-1.0, 1.0, 129), 0.0, 1.0)
        distances = distance_at(kind, start, end, times)
        at = distances.argmin(axis=1)
        t, width = times[np.arange(len(t)), at], width / 64.0
        least = np.minimum(least, distances.min(axis=1))
    return least


def judge(kind: str, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The time of impact by ipctk, or infinity. It is never late, and early where a minimum distance is kept.

    It is the additive advancement of ipctk, not its interval search, which takes minutes and gigabytes for some pairs
    in exact contact. A pair that is undecided after `max_iterations` counts as a collision.
    """
    ccd = ipctk.AdditiveCCD(max_iterations=10_000, conservative_rescaling=0.99999)
    find = ccd.point_triangle_ccd if kind == VERTEX_TRIANGLE else ccd.edge_edge_ccd
    ipctk.set_logger_level(ipctk.LoggerLevel.off)  # it warns of every pair in contact at the start
    found = [find(*a, *b) for a, b in zip(start, end, strict=True)]
    return np.array([time if hit else np.inf for hit, time in found])


# Generators: (start, end, time of contact or infinity), all of them (count, ...). Lengths are about 1.
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
Generator = Callable[[np.random.Generator, str, int], Pairs]


def contact(rng: np.random.Generator, kind: str, count: int, flat: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Pairs in exact contact, and the weights (count, 4) of the contact point: + on one side, - on the other.

    Every fourth is in contact at a corner or an end, so weights of 0 and 1 are as frequent as others. `flat` is the
    number of dimensions in which the pairs lie.
    """
    x = rng.integers(-8, 9, (count, 4, 3)) / 8.0
    x[:, :, flat:] = 0.0
    choice = np.array([0, 0, 1, 3, 4, 7, 8, 8]) / 8.0
    weights = np.zeros((count, 4))
    if kind == VERTEX_TRIANGLE:
        first = rng.choice(choice, count)
        second = np.floor(8.0 * (1.0 - first) * rng.choice([0.0, 0.3, 0.6, 1.0], count)) / 8.0
        weights = np.stack([np.ones(count), -first, -second, first + second - 1.0], axis=1)
        x[:, 0] = -np.einsum("nk,nkd->nd", weights[:, 1:], x[:, 1:])
    else:
        s, t = rng.choice(choice, (2, count))
        weights = np.stack([1.0 - s, s, t - 1.0, -t], axis=1)
        gap = np.einsum("nk,nkd->nd", weights, x)
        x[:, :2] -= gap[:, None]
    return x, weights


def through(x: np.ndarray, velocity: np.ndarray, time: np.ndarray) -> Pairs:
    return x - time[:, None, None] * velocity, x + (1.0 - time)[:, None, None] * velocity, time


def contact_times(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.choice(np.array([0, 1, 2, 4, 4, 6, 7, 8, 8, 8]) / 8.0, count)  # many of them exactly at the end


def anything(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    start, end = rng.uniform(-0.5, 0.5, (2, count, 4, 3))
    return start, end, np.full(count, np.inf)


def cloth_like(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    """Elements at a distance of up to a fifth of their size that move by about as much."""
    start = rng.uniform(-0.5, 0.5, (count, 4, 3)) * [1.0, 1.0, 0.05]
    start[:, : 1 if kind == VERTEX_TRIANGLE else 2, 2] += rng.uniform(0.0, 0.2, (count, 1))
    return start, start + rng.uniform(-0.1, 0.1, (count, 4, 3)), np.full(count, np.inf)


def colliding(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    x, _ = contact(rng, kind, count)
    return through(x, rng.integers(-8, 9, (count, 4, 3)) / 8.0, contact_times(rng, count))


def grazing(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    """The contact points slide along each other, within the triangle or along an edge."""
    x, weights = contact(rng, kind, count)
    velocity = rng.integers(-8, 9, (count, 4, 3)) / 8.0
    velocity[rng.random(count) < 0.3] = 0.0
    approach = np.einsum("nk,nkd->nd", weights, velocity)
    along = rng.integers(-8, 9, (count, 1)) / 8.0 * (x[:, 3] - x[:, 2])
    if kind == VERTEX_TRIANGLE:
        along += rng.integers(-8, 9, (count, 1)) / 8.0 * (x[:, 1] - x[:, 2])
        velocity[:, 0] += along - approach
    else:
        velocity[:, :2] += (along - approach)[:, None]
    return through(x, velocity, contact_times(rng, count))


def nearly_grazing(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    """As above, a little to either side, so that the exact result is unknown."""
    start, end, _ = grazing(rng, kind, count)
    off = rng.normal(size=(count, 3)) * 10.0 ** rng.uniform(-12.0, -2.0, (count, 1))
    moved = 1 if kind == VERTEX_TRIANGLE else 2
    start[:, :moved] += off[:, None]
    end[:, :moved] += off[:, None]
    return start, end, np.full(count, np.inf)


def parallel(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    """Edges that stay parallel, or a vertex that moves parallel to a side; also edges one behind the other."""
    start, end, _ = colliding(rng, kind, count)
    if kind == VERTEX_TRIANGLE:
        along = start[:, 2] - start[:, 1]
        end = start + rng.integers(-16, 17, (count, 1, 1)) / 8.0 * along[:, None] * [[1.0], [0.0], [0.0], [0.0]]
    else:
        for x in (start, end):
            x[:, 1] = x[:, 0] + rng.choice([-1.0, 0.5, 1.0], (count, 1)) * (x[:, 3] - x[:, 2])
    return start, end, np.full(count, np.inf)


def coplanar(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    """Positions and motion lie in a plane, which is oblique for half of the pairs."""
    x, _ = contact(rng, kind, count, flat=2)
    velocity = rng.integers(-8, 9, (count, 4, 3)) / 8.0
    velocity[:, :, 2] = 0.0
    start, end, time = through(x, velocity, contact_times(rng, count))
    tilt = np.where(rng.random(count) < 0.5, 0.0, 1.0)[:, None]  # z = x, exact
    for y in (start, end):
        y[:, :, 2] = tilt * y[:, :, 0]
    return start, end, time


def degenerate(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    """Edges and triangles without length or area, repeated points, and points that do not move."""
    start, end, _ = colliding(rng, kind, count)
    case = rng.integers(0, 7, count)
    for x in (start, end):
        x[case == 0, 3] = x[case == 0, 2]  # a side or an edge of zero length
        x[case == 1, 2:] = x[case == 1, 1:2]  # a triangle of one point; edges with a common end
        x[case == 2, 3] = 0.5 * (x[case == 2, 1] + x[case == 2, 2])  # a triangle without area
        x[case == 3, 1] = x[case == 3, 0]  # a vertex in a corner; an edge of zero length
        x[case == 4, 1], x[case == 4, 3] = x[case == 4, 0], x[case == 4, 2]
    end[case == 5] = start[case == 5]
    end[case == 6, 1:] = start[case == 6, 1:]
    return start, end, np.full(count, np.inf)


def tiny(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    start, end, time = colliding(rng, kind, count)
    return start * 2.0**-30, end * 2.0**-30, time


def huge(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    start, end, time = colliding(rng, kind, count)
    return start * 2.0**20, end * 2.0**20, time


def far_off(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    """A centimeter in size and a kilometer from the origin; half of them also move together by meters."""
    start, end, time = colliding(rng, kind, count)
    there = np.array([1024.0, -512.0, 2048.0])
    together = rng.integers(-64, 65, (count, 1, 3)) * rng.integers(0, 2, (count, 1, 1))
    return there + start / 128.0, there + together + end / 128.0, time


def fast(rng: np.random.Generator, kind: str, count: int) -> Pairs:
    """Elements that pass through each other by many times their size."""
    x, _ = contact(rng, kind, count)
    return through(x, rng.integers(-8, 9, (count, 4, 3)) * 16.0, contact_times(rng, count))


GENERATORS: list[Generator] = [
    anything, cloth_like, colliding, grazing, nearly_grazing, parallel, coplanar, degenerate, tiny, huge, far_off, fast,
]  # fmt: skip


@dataclass
class Motions:
    """Pairs of all kinds, as arrays with a row for each."""

    kind: str
    start: np.ndarray  # (count, 4, 3) [m]
    end: np.ndarray
    margin: np.ndarray  # [m]
    contact_time: np.ndarray  # the exact time of impact; infinity where it is unknown
    grazes: np.ndarray  # bool

    @property
    def distance(self) -> np.ndarray:
        """Distance at the start."""
        return distance_at(self.kind, self.start, self.end, np.zeros((len(self.start), 1)))[:, 0]

    @property
    def size(self) -> np.ndarray:
        """The largest difference of two positions at the same time; rounding is proportional to it."""
        pairs = [x[:, i] - x[:, j] for x in (self.start, self.end) for i in range(4) for j in range(i)]
        return np.max([length(pair) for pair in pairs], axis=0)

    @property
    def moves(self) -> np.ndarray:
        """Whether there is any relative motion."""
        return (relative(self.start) != relative(self.end)).any(axis=(1, 2))


def generate(kind: str, count: int) -> Motions:
    """At least `count` pairs, the same number from each generator."""
    each = -(-count // len(GENERATORS))
    parts = []
    for i, generator in enumerate(GENERATORS):
        rng = np.random.default_rng([i, len(kind)])
        start, end, time = generator(rng, kind, each)
        size = np.median(length(start[:, 3] - start[:, 2]))
        margin = size * 10.0 ** rng.uniform(-4.0, -1.0, each)
        parts.append((start, end, margin, time, np.full(each, generator in (grazing, nearly_grazing))))
    return Motions(kind, *(np.concatenate(columns) for columns in zip(*parts, strict=True)))
