"""A rectangular sheet of right triangles, with alternating or single diagonals.

Bent along its diagonals, a grid whose diagonals alternate is up to 1.5 times as stiff as bent along its threads; one
with single diagonals 3 times.
"""

from __future__ import annotations

from pathlib import Path

from toile.model.mesh import Mesh
from toile.plugins import quantity
from toile.shapes._sheet import Count, Diagonals, Length, flat_sheet
from toile.shapes.base import Shape


class Grid(Shape):
    """size = width along u (x) and height along v (y); centered on the origin."""

    size: tuple[Length, Length] = quantity((1.0, 1.0), unit="m", doc="width along u and height along v")
    resolution: tuple[Count, Count] = quantity((51, 51), doc="vertices along u and along v")
    diagonals: Diagonals = quantity("alternating", doc="how each cell is cut in two")

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        return flat_sheet(self.size, self.resolution, self.diagonals)
