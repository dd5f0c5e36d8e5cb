"""A cylinder with flat ends and sharp or rounded rims.

    q = (sqrt(x^2 + y^2) - r + b, |z| - l/2 + b),    distance = |max(q, 0)| + min(max(q_0, q_1), 0) - b

Outside a rim the closest point is on the rim; inside, it is on the side or the end, whichever is closer.

Symbols     r  radius [m]     l  height [m]     b  rounding [m]
Deviations  none
"""

from pathlib import Path

import warp as wp
from pydantic import model_validator

from toile.colliders.base import Collider, Solid, rigid_functions
from toile.math.solid import Closest
from toile.math.types import TINY, real, vec3
from toile.model import solid_shapes
from toile.plugins import quantity


@wp.struct
class CylinderShape:
    radius: real  # of the core cylinder, without the rounding
    half_height: real
    rounding: real


@wp.func
def closest(shape: CylinderShape, p: vec3, reach: real) -> Closest:
    found = Closest()
    zero = real(0.0)
    r = wp.sqrt(p[0] * p[0] + p[1] * p[1])
    across = vec3(real(1.0), zero, zero)  # arbitrary direction on the axis
    if r > TINY:
        across = vec3(p[0] / r, p[1] / r, zero)
    along = vec3(zero, zero, wp.where(p[2] < zero, real(-1.0), real(1.0)))
    beyond_side, beyond_end = r - shape.radius, wp.abs(p[2]) - shape.half_height
    if beyond_side > zero and beyond_end > zero:
        rim = wp.sqrt(beyond_side * beyond_side + beyond_end * beyond_end)
        found.distance = rim
        found.normal = (beyond_side * across + beyond_end * along) / rim
    elif beyond_side > beyond_end:
        found.distance = beyond_side
        found.normal = across
    else:
        found.distance = beyond_end
        found.normal = along
    found.distance -= shape.rounding
    return found


FUNCTIONS = rigid_functions(CylinderShape, closest)


class Cylinder(Collider):
    """A cylinder with its axis along z, centered on the origin."""

    radius: float = quantity(0.3, unit="m", doc="radius", gt=0)
    height: float = quantity(0.5, unit="m", doc="height, between its flat ends", gt=0)

    rounding: float = quantity(
        0.0, unit="m", doc="radius of its rims; cloth cuts through rims sharper than its triangles", ge=0
    )

    @model_validator(mode="after")
    def _fits(self) -> "Cylinder":
        if self.rounding >= min(self.radius, 0.5 * self.height):
            raise ValueError("rounding: must be less than the radius and half the height.")
        return self

    def smallest_radius(self) -> float:
        return self.rounding

    def contact_surface(self, tolerance: float) -> solid_shapes.Surface:
        return solid_shapes.cylinder_around(self.radius, self.height, self.rounding, tolerance)

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        shape = CylinderShape()
        shape.radius, shape.half_height = self.radius - self.rounding, 0.5 * self.height - self.rounding
        shape.rounding = self.rounding
        surface = solid_shapes.cylinder(self.radius, self.height, rounding=self.rounding)
        return Solid(self, FUNCTIONS, shape, surface)
