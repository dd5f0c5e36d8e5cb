"""A rectangular sheet folded in half repeatedly, with parallel layers and round folds between them.

    along u: layers of equal length, each joined to the next by half a circle of radius gap |level' - level| / 2

All folds run along v, so that the sheet is curved in one direction only and keeps its lengths: two folds at right
angles cannot be both round and unstretched. The distance between neighboring vertices in space is exactly that in uv,
also within a fold, which the mesh approximates by a polygon.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from toile.errors import InputError
from toile.model.mesh import Mesh
from toile.plugins import quantity
from toile.shapes._sheet import Count, Diagonals, Length, flat_sheet
from toile.shapes.base import Shape

# Points of a fold per half turn; the chords between them are off by 1e-5 of its radius.
POINTS_OF_A_FOLD = 360


class Folded(Shape):
    """A folded sheet, centered on the origin, with the lowest layer at z = 0; u is the folded direction."""

    size: tuple[Length, Length] = quantity((1.0, 1.0), unit="m", doc="flat width along u, which is folded, and height")
    resolution: tuple[Count, Count] = quantity((81, 81), doc="vertices along u and along v")
    folds: int = quantity(2, doc="number of times it is folded in half: 2 makes four layers", ge=1, le=6)
    gap: float = quantity(0.015, unit="m", doc="distance between layers; at least the edge length along u", gt=0)
    diagonals: Diagonals = quantity("alternating", doc="direction of the diagonals of the cells")

    def expected_vertex_count(self) -> int:
        return math.prod(self.resolution)

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        edge = self.size[0] / (self.resolution[0] - 1)
        if edge > self.gap:
            needed = int(np.ceil(self.size[0] / self.gap * (1.0 - 1e-9))) + 1
            raise InputError(
                f"edges of {1e3 * edge:.3g} mm along u are too long for folds with a gap of {1e3 * self.gap:.3g} mm. "
                f"Set resolution to at least {needed} along u, or gap to at least {edge:.3g} m."
            )
        flat = flat_sheet(self.size, self.resolution, self.diagonals)
        profile = equal_chords(self._profile(), edge, self.resolution[0])
        profile[:, 0] -= 0.5 * (profile[:, 0].min() + profile[:, 0].max())
        along, across = np.meshgrid(np.arange(len(profile)), np.unique(flat.positions[:, 1]), indexing="xy")
        x, z = profile[along.ravel()].T
        return replace(flat, positions=np.column_stack([x, across.ravel(), z]))

    def _profile(self) -> np.ndarray:
        """Returns the cross section of the sheet in the xz plane, densely; its last straight part is too long."""
        level = self.gap * np.argsort(layer_order(self.folds)).astype(float)
        radii = 0.5 * np.abs(np.diff(level))
        straight = (self.size[0] - np.pi * radii.sum()) / len(level)
        if straight <= 0.0:
            widest = self.size[0] / (np.pi * radii.sum() / self.gap)
            raise InputError(
                f"{self.folds} folds of a sheet {self.size[0]:.3g} m wide leave no straight parts at a gap of "
                f"{self.gap:.3g} m. Set gap to less than {widest:.2g} m, or use fewer folds."
            )
        angle = np.linspace(-0.5 * np.pi, 0.5 * np.pi, POINTS_OF_A_FOLD)
        points = [np.array([[0.0, level[0]]])]
        for i, radius in enumerate(radii):  # even layers run right to x = straight, odd ones back to 0
            end, out = (straight, 1.0) if i % 2 == 0 else (0.0, -1.0)
            up = np.sign(level[i + 1] - level[i])
            middle = 0.5 * (level[i] + level[i + 1])
            points.append(np.column_stack([end + out * radius * np.cos(angle), middle + up * radius * np.sin(angle)]))
        points.append(np.array([[-self.size[0], level[-1]]]))  # the last layer is odd: it runs to the left
        return np.concatenate(points)


def layer_order(folds: int) -> np.ndarray:
    """Returns the pieces of a strip from bottom to top after its right half is laid over its left one `folds` times."""
    columns = [[piece] for piece in range(2**folds)]
    while len(columns) > 1:
        half = len(columns) // 2
        columns = [columns[c] + columns[-1 - c][::-1] for c in range(half)]
    return np.array(columns[0])


def equal_chords(curve: np.ndarray, step: float, count: int) -> np.ndarray:
    """Returns points on a polyline, each at the same straight distance from the one before it."""
    points, piece = [curve[0]], 0
    while len(points) < count:
        here = points[-1]
        while np.linalg.norm(curve[piece + 1] - here) < step:  # find the first piece that ends far enough away
            piece += 1
        a = curve[piece]
        d, arm = curve[piece + 1] - a, a - here
        # |arm + t d| = step, the larger root: where the piece leaves the circle around the last point.
        half, constant = (arm @ d) / (d @ d), (arm @ arm - step**2) / (d @ d)
        points.append(a + (np.sqrt(max(0.0, half**2 - constant)) - half) * d)
    return np.array(points)
