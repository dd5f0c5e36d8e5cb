"""A capsule: all points within a radius of a straight axis.

    distance = |p - a(p)| - r,    a(p) = (0, 0, clamp(z, -l/2, l/2))

Symbols     r  radius [m]     l  length of the axis [m]
Deviations  none
"""

from pathlib import Path

import warp as wp

from toile.colliders.base import Collider, Solid, rigid_functions
from toile.math.solid import Closest
from toile.math.types import TINY, real, vec3
from toile.model import solid_shapes
from toile.plugins import quantity


@wp.struct
class CapsuleShape:
    radius: real
    half_length: real


@wp.func
def closest(shape: CapsuleShape, p: vec3, reach: real) -> Closest:
    found = Closest()
    arm = p - vec3(real(0.0), real(0.0), wp.clamp(p[2], -shape.half_length, shape.half_length))
    r = wp.length(arm)
    found.distance = r - shape.radius
    found.normal = vec3(real(1.0), real(0.0), real(0.0))  # arbitrary direction on the axis
    if r > TINY:
        found.normal = arm / r
    return found


FUNCTIONS = rigid_functions(CapsuleShape, closest)


class Capsule(Collider):
    """A capsule with its axis along z, centered on the origin."""

    radius: float = quantity(0.1, unit="m", doc="radius", gt=0)
    length: float = quantity(0.4, unit="m", doc="length of the axis, between the centers of the two caps", gt=0)

    def smallest_radius(self) -> float:
        return self.radius

    def contact_surface(self, tolerance: float) -> solid_shapes.Surface:
        return solid_shapes.capsule_around(self.radius, self.length, tolerance)

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        shape = CapsuleShape()
        shape.radius, shape.half_length = self.radius, 0.5 * self.length
        return Solid(self, FUNCTIONS, shape, solid_shapes.capsule(self.radius, self.length))
