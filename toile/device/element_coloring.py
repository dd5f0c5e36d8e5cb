"""An order of elements in which threads can add what they contribute to particles they share.

Elements are ordered along a curve that fills the room and cut into pieces of SHARE elements. Pieces that have a
particle in common are of different rounds. Within a round no two pieces add to the same number; the rounds follow each
other, and so do the elements of a piece. So sums are made in the same order whatever the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from toile.device.launcher import SHARE

# Bits of each coordinate on the curve: a million places along each axis.
BITS = 20


@dataclass(frozen=True)
class ElementColoring:
    """Elements `order[k]` in places k; the places from ends[r - 1] to ends[r] are round r, in pieces of SHARE."""

    order: np.ndarray
    ends: tuple[int, ...]


def color_elements(particles: np.ndarray, points: np.ndarray) -> ElementColoring:
    """For elements of these particles, which are about at these points. Few elements stay as they are."""
    count = len(particles)
    if count < 2 * SHARE:
        return ElementColoring(np.arange(count), (count,))
    along = np.argsort(_curve(points[particles].mean(axis=1)), kind="stable")
    piece = np.empty(count, np.int64)
    piece[along] = np.arange(count) // SHARE
    of_piece = _colors(piece, particles, len(points))
    # The last piece may be short: it is put at the end of its round, so that all others begin at multiples of SHARE.
    order = along[np.argsort(of_piece[piece[along]], kind="stable")]
    ends = np.cumsum(np.bincount(of_piece[piece]))
    return ElementColoring(order, tuple(int(end) for end in ends))


def _colors(piece: np.ndarray, particles: np.ndarray, n: int) -> np.ndarray:
    """The round of each piece: the first in which none of its neighbors is."""
    rows = np.repeat(piece, particles.shape[1])
    uses = sparse.csr_array((np.ones(len(rows), np.int32), (rows, particles.ravel())), shape=(piece.max() + 1, n))
    adjacency = sparse.csr_array(uses @ uses.T)
    colors = np.full(adjacency.shape[0], -1)
    for p in range(len(colors)):
        taken = set(colors[adjacency.indices[adjacency.indptr[p] : adjacency.indptr[p + 1]]])
        colors[p] = next(color for color in range(len(colors)) if color not in taken)
    return colors


def _curve(points: np.ndarray) -> np.ndarray:
    """Place of each point on Morton's curve: the bits of its coordinates in turn."""
    low, size = points.min(axis=0), np.ptp(points, axis=0).max()
    cells = ((points - low) / max(size, 1e-300) * (2**BITS - 1)).astype(np.int64)
    return _spread(cells[:, 0]) | _spread(cells[:, 1]) << 1 | _spread(cells[:, 2]) << 2


def _spread(numbers: np.ndarray) -> np.ndarray:
    """Two zeros before each bit: halves are moved apart, then their halves."""
    for shift, kept in (
        (32, 0x1F00000000FFFF), (16, 0x1F0000FF0000FF), (8, 0x100F00F00F00F00F), (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):  # fmt: skip
        numbers = (numbers | numbers << shift) & kept
    return numbers
