"""Penalty springs between close cloths: every vertex with every triangle, every edge with every edge.

The closest points are found among all candidates: the foot of the perpendicular where it lies within both elements, and
the points closest to each end or side. Springs follow the docstrings of toile/contact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from toile.model.model import Model


@dataclass
class Spring:
    particles: np.ndarray  # (4,)
    w: np.ndarray  # (4,)
    n: np.ndarray  # (3,)
    length: float  # [m]
    depth: float  # [m]
    k: float = 0.0  # [N/m]
    d: float = 0.0  # [N s/m]
    c: float = 0.0  # [N s/m]


def on_segment(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    return float(np.clip((p - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0))


def vertex_triangle(x: np.ndarray) -> np.ndarray:
    """Weights of a vertex and its closest point on a triangle."""
    p, a, b, c = x
    sides = np.stack([b - a, c - a], axis=1)
    s, t = np.linalg.lstsq(sides, p - a, rcond=None)[0]
    found = [np.array([1 - s - t, s, t])] if min(s, t, 1 - s - t) >= 0.0 else []
    for i, j in ((0, 1), (1, 2), (2, 0)):
        share = np.zeros(3)
        share[j] = on_segment(p, x[1 + i], x[1 + j])
        share[i] = 1.0 - share[j]
        found.append(share)
    nearest = min(found, key=lambda share: float(np.linalg.norm(p - share @ x[1:])))
    return np.concatenate([[1.0], -nearest])


def edge_edge(x: np.ndarray) -> np.ndarray:
    """Weights of the closest points of two edges."""
    p0, p1, q0, q1 = x
    s, t = np.linalg.lstsq(np.stack([p1 - p0, q0 - q1], axis=1), q0 - p0, rcond=None)[0]
    found = [(s, t)] if 0.0 <= s <= 1.0 and 0.0 <= t <= 1.0 else []
    found += [(0.0, on_segment(p0, q0, q1)), (1.0, on_segment(p1, q0, q1))]
    found += [(on_segment(q0, p0, p1), 0.0), (on_segment(q1, p0, p1), 1.0)]
    weights = [np.array([1.0 - s, s, t - 1.0, -t]) for s, t in found]
    return min(weights, key=lambda w: float(np.linalg.norm(w @ x)))


def pairs(model: Model) -> list[tuple[np.ndarray, bool]]:
    """Yields the four particles of each pair, and whether they are a vertex and a triangle."""
    found = [(np.array([v, *t]), True) for t in model.triangles for v in range(model.particle_count) if v not in t]
    edges = [(one, two) for one, two in combinations(model.edges, 2) if not set(one) & set(two)]
    return found + [(np.array([*one, *two]), False) for one, two in edges]


def is_nearest(model: Model, x: np.ndarray, at: np.ndarray, w: np.ndarray, n: np.ndarray, is_vertex: bool) -> bool:
    """Whether no neighbor of a closest point is closer by more than a slope of 0.1."""
    there = np.abs(w) > 1e-9
    if not is_vertex and not there.all():
        return False
    sides = [(slice(1, 4), n)] if is_vertex else [(slice(0, 2), -n), (slice(2, 4), n)]
    for side, toward in sides:
        corners = set(at[side][there[side]])
        foot = w[side] @ x[at[side]] / w[side].sum()
        around = {int(v) for t in model.triangles if corners <= set(t) for v in t} - corners
        for q in x[sorted(around)] if len(corners) < 3 else []:
            if (q - foot) @ toward > 0.1 * np.linalg.norm(q - foot):
                return False
    return True


def springs(
    model: Model, x: np.ndarray, v: np.ndarray, thickness: float, stiffness: float, damping: float, friction: float,
    slip_speed: float,
) -> list[Spring]:  # fmt: skip
    """The springs of a state, for a model whose cloths have no seams. A cloth may have its own thickness."""
    n = model.particle_count
    part, uv, area, normal = np.zeros(n, int), np.zeros((n, 2)), np.zeros(n), np.zeros((n, 3))
    for number, cloth in enumerate(model.parts):
        part[cloth.particles] = number
    own = [thickness if cloth.thickness is None else cloth.thickness for cloth in model.parts]
    for corners, flat, size in zip(model.triangles, model.uv, model.areas, strict=True):
        uv[corners] = flat
        area[corners] += size / 3.0
        normal[corners] += np.cross(x[corners[1]] - x[corners[0]], x[corners[2]] - x[corners[0]])
    found = []
    for at, is_vertex in pairs(model):
        w = vertex_triangle(x[at]) if is_vertex else edge_edge(x[at])
        r = w @ x[at]
        length = 0.5 * (own[part[at[0]]] + own[part[at[3]]])  # of the first element and of the second
        if len(set(part[at])) == 1:
            length = min(length, float(np.linalg.norm(w @ uv[at])))
        gap = float(np.linalg.norm(r))
        if gap < length and is_nearest(model, x, at, w, r / gap, is_vertex):
            found.append(Spring(at, w, r / gap, length, length - gap))
    sides = [[(int(i), bool(w * (s.n @ normal[i]) < 0)) for i, w in zip(s.particles, s.w, strict=True)] for s in found]
    deepest: dict[tuple[int, bool], float] = {}
    total: dict[tuple[int, bool], float] = {}
    for spring, keys in zip(found, sides, strict=True):
        for key, w in zip(keys, spring.w, strict=True):
            if w != 0.0:
                deepest[key] = max(deepest.get(key, 0.0), spring.depth)
    for spring, keys in zip(found, sides, strict=True):
        for key, w in zip(keys, spring.w, strict=True):
            if w != 0.0:
                total[key] = total.get(key, 0.0) + abs(w) * spring.depth / deepest[key]
    for spring, keys in zip(found, sides, strict=True):
        shares = [
            area[key[0]] * abs(w) * spring.depth / deepest[key] / max(1.0, total[key])
            for key, w in zip(keys, spring.w, strict=True)
            if w != 0.0
        ]
        velocity = spring.w @ v[spring.particles]
        speed = float(spring.n @ velocity)
        spring.k = stiffness * 0.5 * sum(shares)
        spring.d = spring.k * damping if speed < 0.0 else 0.0
        slip = float(np.linalg.norm(velocity - speed * spring.n))
        spring.c = friction * spring.k * spring.depth / max(slip, slip_speed)
    return found
