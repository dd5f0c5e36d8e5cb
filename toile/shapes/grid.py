"""A rectangular sheet of right triangles, with alternating or parallel diagonals.

Bent along its diagonals, a grid with alternating diagonals is up to 1.5 times as stiff as bent along its threads; a
grid with parallel diagonals is up to 3 times as stiff.
"""

from __future__ import annotations

import math
from pathlib import Path

from toile.model.mesh import Mesh
from toile.plugins import quantity
from toile.shapes._sheet import Count, Diagonals, Length, flat_sheet
from toile.shapes.base import Shape


class Grid(Shape):
    """A rectangle in the xy plane, centered on the origin, with u along x and v along y."""

    size: tuple[Length, Length] = quantity((1.0, 1.0), unit="m", doc="width along u and height along v")
    resolution: tuple[Count, Count] = quantity((51, 51), doc="vertices along u and along v")
    diagonals: Diagonals = quantity("alternating", doc="direction of the diagonals of the cells")

    def expected_vertex_count(self) -> int:
        return math.prod(self.resolution)

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        return flat_sheet(self.size, self.resolution, self.diagonals)
