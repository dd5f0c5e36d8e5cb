"""A box with sharp or rounded edges.

    q = |p| - s/2 + b,    distance = |max(q, 0)| + min(max(q_0, q_1, q_2), 0) - b

Symbols     s  size along x, y, z [m]     b  rounding [m]
Deviations  none
"""

from pathlib import Path
from typing import Annotated

import warp as wp
from pydantic import Field, model_validator

from toile.colliders.base import Collider, Solid, rigid_functions
from toile.math.solid import Closest
from toile.math.types import real, vec3
from toile.model import solid_shapes
from toile.plugins import quantity

Length = Annotated[float, Field(gt=0)]


@wp.struct
class BoxShape:
    half_size: vec3  # of the core box, without the rounding
    rounding: real


@wp.func
def closest(shape: BoxShape, p: vec3, reach: real) -> Closest:
    found = Closest()
    zero = real(0.0)
    side = vec3()
    beyond = vec3()
    largest = int(0)
    q = vec3()
    for k in range(3):
        side[k] = wp.where(p[k] < zero, real(-1.0), real(1.0))
        q[k] = wp.abs(p[k]) - shape.half_size[k]
        beyond[k] = wp.max(q[k], zero)
        if q[k] > q[largest]:
            largest = k
    outside = wp.length(beyond)
    if outside > zero:
        found.distance = outside
        found.normal = wp.cw_mul(beyond, side) / outside
    else:
        found.distance = q[largest]
        normal = vec3()
        normal[largest] = side[largest]
        found.normal = normal
    found.distance -= shape.rounding
    return found


FUNCTIONS = rigid_functions(BoxShape, closest)


class Box(Collider):
    """A box with sides along x, y and z, centered on the origin."""

    size: tuple[Length, Length, Length] = quantity((0.5, 0.5, 0.5), unit="m", doc="size along x, y and z")

    rounding: float = quantity(
        0.0, unit="m", doc="radius of its edges; cloth cuts through edges sharper than its triangles", ge=0
    )

    @model_validator(mode="after")
    def _fits(self) -> "Box":
        if self.rounding >= 0.5 * min(self.size):
            raise ValueError("rounding: must be less than half the smallest size.")
        return self

    def smallest_radius(self) -> float:
        return self.rounding

    def contact_surface(self, tolerance: float) -> solid_shapes.Surface:
        return solid_shapes.box_around(self.size, self.rounding, tolerance)

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        shape = BoxShape()
        shape.half_size = vec3(*(0.5 * length - self.rounding for length in self.size))
        shape.rounding = self.rounding
        return Solid(self, FUNCTIONS, shape, solid_shapes.box(self.size, self.rounding))
