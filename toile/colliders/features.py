"""Whether the faces and edges of a solid must take part in contact, or vertices of cloth in front of it are enough.

A solid that balls of radius R fill is the set of points within R of their centers. A corner of a triangle at least
`gap` in front of it is at least R + gap from all centers; and a point of a triangle whose points are all within rho of
a corner is then at least

    sqrt((R + gap)^2 - rho^2)

from them: the triangle is outside the solid if this is at least R. A plane has R infinite, a solid with an edge R = 0.
For a right angle rho is half the longest edge L, for equal edges L / sqrt(3), never more: triangles sag by at most
about L^2 / (6 R), and edges by L^2 / (8 R).

Source      none
Symbols     R  smallest radius of the solid [m]     gap  distance at which vertices are held [m]
            rho  covering radius of a triangle: no point of it is farther from the nearest corner [m]
Deviations  rho is that of the rest shape: cloth that is stretched sags more, by twice its strain.
"""

from collections.abc import Sequence

import numpy as np

from toile.colliders.base import Solid


def with_features(solids: Sequence[Solid], covering_radius: float, gap: float) -> tuple[Solid, ...]:
    """Returns the solids whose faces and edges take part."""
    return tuple(solid for solid in solids if _takes_part(solid, covering_radius, gap))


def _takes_part(solid: Solid, covering_radius: float, gap: float) -> bool:
    sharp, R = solid.settings.sharp, solid.settings.smallest_radius()
    if sharp != "auto":
        return bool(sharp)
    return bool(gap * (2.0 * R + gap) < covering_radius**2)


def largest_covering_radius(uv: np.ndarray) -> float:
    """Returns the largest covering radius of triangles (triangles, 3, 2): that of the circle through the corners, or,
    with an obtuse angle, half the longest edge, which is not less than the exact one."""
    if not len(uv):
        return 0.0
    lengths = np.sort(np.linalg.norm(np.roll(uv, -1, axis=1) - uv, axis=2), axis=1)
    a, b, c = lengths.T
    one, two = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
    twice_area = np.abs(one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0])
    acute = a**2 + b**2 > c**2
    around = a * b * c / (2.0 * np.where(acute, twice_area, 1.0))
    return float(np.where(acute, around, 0.5 * c).max())
