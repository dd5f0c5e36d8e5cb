"""Intersecting triangles by linear programming in exact fractions: slow, and independent of the tested method.

Two triangles have a common point if there are weights with

    sum l_i p_i = sum m_j q_j,    sum l_i = sum m_j = 1,    l, m >= 0

Their common points are the convex hull of those of the basic solutions: weights that vanish except on a basis, a
maximal set of linearly independent columns. There are at most 20 bases, and all of them are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

Point = tuple[Fraction, ...]


def intersecting_pairs(triangles: np.ndarray, positions: np.ndarray, particle_count: int | None = None) -> np.ndarray:
    """All pairs except those with a common edge and those of two solids; a common vertex is no intersection."""
    points = [tuple(Fraction(c) for c in point) for point in np.asarray(positions, float).tolist()]
    corners = np.asarray(triangles).tolist()
    moving = len(points) if particle_count is None else particle_count
    low, high = (reduce(np.asarray(positions, float)[triangles], axis=1) for reduce in (np.min, np.max))
    found = []
    for i, j in itertools.combinations(range(len(corners)), 2):
        shared = set(corners[i]) & set(corners[j])
        if len(shared) > 1 or min(corners[i] + corners[j]) >= moving:
            continue
        if (low[i] > high[j]).any() or (low[j] > high[i]).any():
            continue
        first, second = ([points[k] for k in corners[t]] for t in (i, j))
        if intersect(first, second, [points[k] for k in shared]):
            found.append((i, j))
    return np.array(found, np.int64).reshape(-1, 2)


def intersect(first: list[Point], second: list[Point], but: Iterable[Point] = ()) -> bool:
    """Whether two triangles have a common point other than those in `but`."""
    columns = [[*p, Fraction(1), Fraction(0)] for p in first]
    columns += [[*(-c for c in q), Fraction(0), Fraction(1)] for q in second]
    right = [Fraction(0)] * 3 + [Fraction(1)] * 2
    excluded = set(but)
    for size in range(5, 1, -1):
        bases = 0
        for chosen in itertools.combinations(range(6), size):
            rows = reduced([columns[k] for k in chosen], right)
            if rows is None:
                continue
            bases += 1
            weights = [row[size] for row in rows]
            if any(weights[size:]) or min(weights) < 0:
                continue
            of_first = [(w, first[k]) for w, k in zip(weights, chosen, strict=False) if k < 3]
            point = tuple(sum((w * p[axis] for w, p in of_first), Fraction(0)) for axis in range(3))
            if point not in excluded:
                return True
        if bases:
            return False
    return False


def reduced(columns: list[list[Fraction]], right: list[Fraction]) -> list[list[Fraction]] | None:
    """The rows of (columns | right), reduced so that the columns are the identity; None if these are dependent."""
    rows = [[*entries, b] for *entries, b in zip(*columns, right, strict=True)]
    count = len(columns)
    for k in range(count):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k]
                rows[i] = [entry - factor * of_pivot for entry, of_pivot in zip(rows[i], rows[k], strict=True)]
    return rows
