"""The elimination order of nested dissection: a permutation with less fill-in than the natural order."""

from __future__ import annotations

import numpy as np
import pytest

from toile.linear.direct.nested_dissection import nested_dissection


def grid(side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A nine-point grid: couplings in both directions, and coordinates."""
    i, j = np.divmod(np.arange(side * side), side)
    near = (np.abs(i[:, None] - i) <= 1) & (np.abs(j[:, None] - j) <= 1)
    rows, columns = np.nonzero(near)
    return rows, columns, np.column_stack([i, j, np.zeros(side * side)]).astype(float)


def factor_size(rows: np.ndarray, columns: np.ndarray, order: np.ndarray) -> int:
    """Number of entries of the Cholesky factor, by symbolic elimination."""
    place = np.argsort(order)
    later: list[set[int]] = [set() for _ in order]
    for a, b in zip(place[rows], place[columns], strict=True):
        if b > a:
            later[a].add(int(b))
    for k in range(len(order)):
        if later[k]:
            first = min(later[k])
            later[first] |= later[k] - {first}
    return sum(map(len, later)) + len(order)


def test_nested_dissection_has_less_fill_in_than_the_natural_order() -> None:
    """A band of width m in n = m^2 rows has n m entries; nested dissection about n log n (George 1973)."""
    rows, columns, points = grid(40)
    order = nested_dissection(rows, columns, points)
    assert sorted(order) == list(range(len(points)))
    natural = factor_size(rows, columns, np.arange(len(points)))
    assert factor_size(rows, columns, order) < 0.6 * natural


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_coincident_particles_get_an_order(count: int) -> None:
    """Coincident coordinates also give a permutation."""
    rows, columns = np.nonzero(np.ones((count, count)))
    order = nested_dissection(rows, columns, np.zeros((count, 3)))
    assert sorted(order) == list(range(count))
