"""Element coloring: each element occurs once, and chunks of one color share no particle."""

import numpy as np
import pytest

from toile.device.element_coloring import _curve, color_elements
from toile.device.launcher import SHARE


def sheet(n, shuffled=False):
    """Triangles of a square of n x n particles, and their positions."""
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    triangles = np.concatenate([corner[:, None] + [0, 1, n + 1], corner[:, None] + [0, n + 1, n]])
    points = np.stack([np.tile(np.arange(n), n), np.repeat(np.arange(n), n), np.zeros(n * n)], axis=1)
    if not shuffled:
        return triangles, points
    random = np.random.default_rng(3)
    names = random.permutation(n * n)
    moved = np.empty_like(points)
    moved[names] = points
    return random.permutation(names[triangles]), moved


@pytest.mark.parametrize("shuffled", [False, True])
def test_every_element_occurs_once_and_chunks_of_a_color_share_no_particle(shuffled):
    triangles, points = sheet(120, shuffled)
    by_color = color_elements(triangles, points)
    assert np.array_equal(np.sort(by_color.order), np.arange(len(triangles)))
    assert by_color.ends[-1] == len(triangles)
    ordered, begin = triangles[by_color.order], 0
    for end in by_color.ends:
        pieces = [np.unique(ordered[first : min(first + SHARE, end)]) for first in range(begin, end, SHARE)]
        assert len(np.unique(np.concatenate(pieces))) == sum(map(len, pieces))
        begin = end
    assert len(by_color.ends) <= 8  # so every color has work for several threads


def test_few_elements_are_not_colored():
    triangles, points = sheet(20)
    by_color = color_elements(triangles, points)
    assert np.array_equal(by_color.order, np.arange(len(triangles)))
    assert by_color.ends == (len(triangles),)


def test_the_morton_curve_interleaves_bits():
    """In a cube of 2^k points the eight corners of each cell are consecutive."""
    axes = np.meshgrid(*3 * [np.arange(4.0)], indexing="ij")
    points = np.stack([axis.ravel() for axis in axes], axis=1)
    order = np.argsort(_curve(points / 4.0 * 4.0))
    for first in range(0, 64, 8):
        eight = points[order[first : first + 8]]
        assert np.all(np.ptp(eight, axis=0) == 1.0)
        assert np.all(eight.min(axis=0) % 2 == 0)
