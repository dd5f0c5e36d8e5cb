"""Planes of solids for particles that impulses between layers have moved into a solid, found after the last solve.

    n . d >= n . (x_end - x) + allowed - distance

Contacts with solids are those that the linear system knows. Layers push a particle into a solid that it is not in
contact with: from then on this plane keeps it at the distance `allowed`, that of the candidate or half of the distance
at which cloth is held, whichever is less.

Source      none
Symbols     d  displacement of the step [m]     n  outward normal of the solid at x_end [-]
Deviations  A particle has at most one such plane, of the first solid that it is moved into.
"""

import warp as wp

from toile.math.types import real, vec3


@wp.struct
class AddedPlanes:
    """At most one plane for each particle."""

    solid: wp.array(dtype=wp.int32)  # -1 for none
    normal: wp.array(dtype=vec3)
    least_d: wp.array(dtype=real)  # [m]  the least displacement along the normal
    least_v: wp.array(dtype=real)  # [m/s]  the least velocity at the end of the step


def make_added_planes(particles: int, device: str) -> AddedPlanes:
    """Allocates the planes; there are none yet."""
    planes = AddedPlanes()
    planes.solid = wp.full(particles, -1, dtype=wp.int32, device=device)
    planes.normal = wp.zeros(particles, dtype=vec3, device=device)
    planes.least_d, planes.least_v = (wp.zeros(particles, dtype=real, device=device) for _ in range(2))
    return planes
