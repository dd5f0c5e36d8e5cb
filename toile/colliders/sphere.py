"""A sphere around its origin.

    distance = |p| - r

Symbols     r  radius [m]
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
class SphereShape:
    radius: real


@wp.func
def closest(shape: SphereShape, p: vec3, reach: real) -> Closest:
    found = Closest()
    r = wp.length(p)
    found.distance = r - shape.radius
    found.normal = vec3(real(0.0), real(0.0), real(1.0))  # arbitrary direction at the center
    if r > TINY:
        found.normal = p / r
    return found


FUNCTIONS = rigid_functions(SphereShape, closest)


class Sphere(Collider):
    """A sphere centered on the origin."""

    radius: float = quantity(0.3, unit="m", doc="radius", gt=0)

    def smallest_radius(self) -> float:
        return self.radius

    def contact_surface(self, tolerance: float) -> solid_shapes.Surface:
        return solid_shapes.sphere_around(self.radius, tolerance)

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        shape = SphereShape()
        shape.radius = self.radius
        return Solid(self, FUNCTIONS, shape, solid_shapes.sphere(self.radius))
