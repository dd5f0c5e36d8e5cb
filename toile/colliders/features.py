"""How triangles of cloth are kept out of a solid: by vertices held in front of it, or by its faces and edges as well.

A solid that balls of radius R fill is the set of points within R of their centers. A corner of a triangle at least
`gap` in front of it is at least R + gap from all centers; and a point of a triangle whose points are all within rho of
a corner is then at least

    sqrt((R + gap)^2 - rho^2)

from them: the triangle is outside the solid if this is at least R, at every instant, so that nothing passes either. A
plane has R infinite, a solid with an edge R = 0. For a right angle rho is half the longest edge L, for equal edges
L / sqrt(3), never more: triangles sag by at most about L^2 / (6 R), and edges by L^2 / (8 R).

Vertices are held at the distance that this asks for, if it is not much larger than the thickness of solid_contact.
Otherwise the faces and edges of the solid take part in the contacts between cloths.

Source      none
Symbols     R  smallest radius of the solid [m]     gap  distance at which vertices are held [m]
            rho  covering radius of a triangle: no point of it is farther from the nearest corner [m]
Deviations  rho is that of the rest shape times STRETCHED: sheared cells have a longer diagonal. Where edges stretch by
            more, triangles may still cut in.
"""

import numpy as np

from toile.colliders.base import Collider

# Vertices are held at most so much farther away than the thickness [m]. A judgment: cloth must not seem to float.
MAX_LIFT = 1.5e-3
# Longest diagonal of a square cell, sheared by 26 degrees, over that of the square: more is rare.
STRETCHED = 1.2


def held_distance(settings: Collider, covering_radius: float, thickness: float) -> float:
    """Returns the distance at which solid_contact holds vertices in front of a solid [m]."""
    needed = distance_needed(settings.smallest_radius(), covering_radius)
    if settings.sharp != "auto" or needed > thickness + MAX_LIFT:
        return thickness
    return max(thickness, needed)


def takes_part(settings: Collider, covering_radius: float, gap: float) -> bool:
    """Returns whether the faces and edges of a solid take part."""
    if settings.sharp != "auto":
        return settings.sharp
    # Errors of a sampled distance may exceed what is left between triangle and solid.
    return not settings.exact or distance_needed(settings.smallest_radius(), covering_radius) > gap


def distance_needed(smallest_radius: float, covering_radius: float) -> float:
    """Returns the least distance of corners that keeps triangles out of a solid [m]: sqrt(R^2 + rho^2) - R."""
    rho = STRETCHED * covering_radius
    together = float(np.hypot(smallest_radius, rho)) + smallest_radius
    return rho**2 / together if together > 0.0 else 0.0


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
