"""Element coloring: an order of elements in which threads can add their contributions to shared particles.

Elements are ordered along a space-filling curve and cut into pieces of SHARE elements. Pieces that have a particle in
common get different colors. No two pieces of a color add to the same number; the colors follow each other, and so do
the elements of a piece. Sums are therefore made in the same order whatever the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from toile.device.launcher import SHARE

# Bits of each coordinate on the curve: a million cells along each axis.
BITS = 20


@dataclass(frozen=True)
class ElementColoring:
    """Element `order[k]` is the k-th; those from ends[c - 1] to ends[c] have color c and are in pieces of SHARE."""

    order: np.ndarray
    ends: tuple[int, ...]


def color_elements(particles: np.ndarray, points: np.ndarray) -> ElementColoring:
    """Colors elements, given by their particles, near these points. Few elements keep their order and get one color."""
    count = len(particles)
    if count < 2 * SHARE:
        return ElementColoring(np.arange(count), (count,))
    along = np.argsort(_curve(points[particles].mean(axis=1)), kind="stable")
    piece = np.empty(count, np.int64)
    piece[along] = np.arange(count) // SHARE
    of_piece = _colors(piece, particles, len(points))
    # The last piece may be short. It stays at the end of its color, so that all others begin at multiples of SHARE.
    order = along[np.argsort(of_piece[piece[along]], kind="stable")]
    ends = np.cumsum(np.bincount(of_piece[piece]))
    return ElementColoring(order, tuple(int(end) for end in ends))


def _colors(piece: np.ndarray, particles: np.ndarray, n: int) -> np.ndarray:
    """Greedy coloring of the pieces: each gets the first color that none of its neighbors has."""
    rows = np.repeat(piece, particles.shape[1])
    uses = sparse.csr_array((np.ones(len(rows), np.int32), (rows, particles.ravel())), shape=(piece.max() + 1, n))
    adjacency = sparse.csr_array(uses @ uses.T)
    colors = np.full(adjacency.shape[0], -1)
    for p in range(len(colors)):
        taken = set(colors[adjacency.indices[adjacency.indptr[p] : adjacency.indptr[p + 1]]])
        colors[p] = next(color for color in range(len(colors)) if color not in taken)
    return colors


def _curve(points: np.ndarray) -> np.ndarray:
    """Position of each point on the Morton curve: the bits of its coordinates interleaved."""
    low, size = points.min(axis=0), np.ptp(points, axis=0).max()
    cells = ((points - low) / max(size, 1e-300) * (2**BITS - 1)).astype(np.int64)
    return _spread(cells[:, 0]) | _spread(cells[:, 1]) << 1 | _spread(cells[:, 2]) << 2


def _spread(numbers: np.ndarray) -> np.ndarray:
    """Inserts two zeros before each bit, by moving halves apart and then the halves of these."""
    for shift, kept in (
        (32, 0x1F00000000FFFF), (16, 0x1F0000FF0000FF), (8, 0x100F00F00F00F00F), (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):  # fmt: skip
        numbers = (numbers | numbers << shift) & kept
    return numbers
