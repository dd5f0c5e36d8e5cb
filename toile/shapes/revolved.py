"""A surface of revolution: a profile revolved about the z axis, closed where it ends on the axis.

    b = 2 r sin(pi/n),    a = r cos(pi/n),    H^2 = (change of a)^2 + (change of z)^2

Between two rings lie n cells. The chords of a cell are parallel, so that it is a planar trapezoid: in uv it has the
same lengths, its chords b along u and its height H along v. The surface is unstretched at the start. Neighboring cells
share edges but not uv, except on a cylinder, because no curved surface can be laid flat as a whole.

Symbols     r, z  distance of a ring from the axis, height [m]     n  vertices around     b  chord of a cell [m]
            a  distance of its middle from the axis [m]     H  height of a cell in its plane [m]
Deviations  none
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator
from scipy.interpolate import CubicSpline

from toile.model.mesh import Mesh
from toile.plugins import quantity
from toile.shapes._curve import arc_lengths, require_curve, segment_lengths
from toile.shapes._sheet import Count, Diagonals
from toile.shapes.base import Shape

Radius = Annotated[float, Field(ge=0)]
CountAround = Annotated[int, Field(ge=3)]

# Steps along a smooth profile, independent of the mesh.
STEPS = 4000


class Revolved(Shape):
    """Vertices are numbered ring by ring from the first point of the profile; an end at radius 0 is a single vertex.

    Regions `bottom` and `top` are the first and the last ring. A flat bottom is a profile that begins on the axis.
    """

    profile: tuple[tuple[Radius, float], ...] = quantity(
        unit="m", doc="[radius, height] of at least two points, from bottom to top: the front is outside then"
    )
    curve: Literal["straight", "smooth"] = quantity(
        "straight", doc="between points: straight, with a ring at each point; or smooth, also across the axis"
    )
    resolution: tuple[CountAround, Count] = quantity((48, 33), doc="vertices around the axis and along the profile")
    diagonals: Diagonals = quantity("alternating", doc="direction of the diagonals of the cells")

    @model_validator(mode="after")
    def _usable(self) -> Revolved:
        points = np.array(self.profile).reshape(-1, 2)
        require_curve(points, "profile")
        on_axis = np.flatnonzero(points[1:-1, 0] == 0.0)
        if len(on_axis) or not points[:, 0].any():
            i = int(on_axis[0]) + 1 if len(on_axis) else 0
            raise ValueError(f"profile: point {i} lies on the axis; only its ends may, to close the surface.")
        if self.curve == "straight" and self.resolution[1] < len(points):
            raise ValueError(
                f"resolution: {self.resolution[1]} rings cannot include all {len(points)} points of the profile. "
                "Use more rings, or set curve to smooth."
            )
        radii = self.rings()[:, 0]
        if not radii.any():
            raise ValueError("resolution: a surface closed at both ends needs at least 3 rings.")
        if not radii[1:-1].min(initial=1.0) > 0.0:
            raise ValueError("profile: the smooth curve through the points crosses the axis. Add points there.")
        return self

    def expected_vertex_count(self) -> int:
        return math.prod(self.resolution)

    def mesh(self, folder: Path, allow_outside: bool = False) -> Mesh:
        rings, n = self.rings(), self.resolution[0]
        sizes = np.where(rings[:, 0] > 0.0, n, 1)
        first = np.cumsum(sizes) - sizes
        radius, z = (np.repeat(of, sizes) for of in rings.T)
        around = np.arange(len(z)) - np.repeat(first, sizes)
        angle = 2.0 * np.pi * around / n
        positions = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), z])
        i, j = (of.ravel() for of in np.meshgrid(np.arange(n), np.arange(len(rings) - 1), indexing="xy"))
        # Corners around each cell; those at a pole are the same vertex.
        cells = np.stack(
            [first[j + up] + np.where(sizes[j + up] > 1, (i + right) % n, 0) for up, right in AROUND], axis=1
        )
        uv, v = _flatten_cells(rings, n, i, j)
        falls = (self.diagonals == "alternating") & ((i + j) % 2 == 1)
        corners = np.where(falls[:, None], FALLING, RISING).reshape(-1, 2, 3)
        of_cell = np.arange(len(cells))[:, None, None]
        triangles, flat = cells[of_cell, corners].reshape(-1, 3), uv[of_cell, corners].reshape(-1, 3, 2)
        # Next to a pole one of the two triangles of a cell is degenerate, and the other is the whole cell.
        whole = (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
        plane = np.column_stack([np.full(len(positions), np.nan), np.repeat(v, sizes)])
        return Mesh(
            positions,
            triangles[whole].astype(np.int32),
            flat[whole],
            {name: (first[end] + np.arange(sizes[end])).astype(np.int32) for name, end in (("bottom", 0), ("top", -1))},
            plane=plane,
            quads=cells[(sizes[j] > 1) & (sizes[j + 1] > 1)].astype(np.int32),
        )

    def rings(self) -> np.ndarray:
        """Returns radius and height of every ring [m] (resolution along, 2)."""
        points = np.array(self.profile)
        if self.curve == "smooth":
            return _smooth(points, self.resolution[1])
        lengths = segment_lengths(points)
        counts = np.ones(len(lengths), int)
        for _ in range(self.resolution[1] - len(points)):  # the next cell goes to the segment with the longest cells
            counts[np.argmax(lengths / counts)] += 1
        share = np.concatenate([k + np.arange(count) / count for k, count in enumerate(counts)] + [[len(counts)]])
        return np.column_stack([np.interp(share, np.arange(len(points)), of) for of in points.T])


# Corners of a cell: lower left, lower right, upper right, upper left, as (up, right); and its two triangles.
AROUND = ((0, 0), (0, 1), (1, 1), (1, 0))
RISING, FALLING = [0, 1, 2, 0, 2, 3], [0, 1, 3, 1, 2, 3]


def _flatten_cells(rings: np.ndarray, n: int, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns uv of the corners of cells (i, j), and v of the rings. Cells of a row lie side by side, centered."""
    b, a = 2.0 * rings[:, 0] * np.sin(np.pi / n), rings[:, 0] * np.cos(np.pi / n)
    v = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(a), np.diff(rings[:, 1])))])
    pitch = 0.5 * (b[:-1] + b[1:])[j]
    corners = []
    for up, right in AROUND:
        inwards = 0.5 * (pitch - b[j + up])  # exactly 0 on a cylinder, so that cells share their uv there
        corners.append(np.column_stack([(i + right) * pitch + (1 - 2 * right) * inwards, v[j + up]]))
    return np.stack(corners, axis=1), v


def _smooth(points: np.ndarray, count: int) -> np.ndarray:
    """Returns points at equal arc lengths along a cubic spline, which crosses the axis at a right angle."""
    knots = arc_lengths(points)
    free, ends = (2, np.zeros(2)), []
    for radius, outwards in ((points[0, 0], 1.0), (points[-1, 0], -1.0)):
        ends.append((1, np.array([outwards, 0.0])) if radius == 0.0 else free)
    dense = CubicSpline(knots, points, bc_type=tuple(ends))(np.linspace(0.0, knots[-1], STEPS + 1))
    length = arc_lengths(dense)
    rings = np.column_stack([np.interp(np.linspace(0.0, length[-1], count), length, of) for of in dense.T])
    rings[[0, -1]] = points[[0, -1]]  # a pole is exactly at radius 0
    return rings
