"""An infinite plane: the solid is everything below it.

    distance = z,    normal = (0, 0, 1)    in the solid's frame

Symbols     z  height above the plane [m]
Deviations  none
"""

from pathlib import Path
from typing import ClassVar

import warp as wp

from toile.colliders.base import Collider, Solid, rigid_functions
from toile.math.solid import Closest
from toile.math.types import real, vec3
from toile.model import solid_shapes
from toile.plugins import quantity


@wp.struct
class PlaneShape:
    """Empty: every plane is the same in its own frame."""

    unused: wp.int32


@wp.func
def closest(shape: PlaneShape, p: vec3, reach: real) -> Closest:
    found = Closest()
    found.distance = p[2]
    found.normal = vec3(real(0.0), real(0.0), real(1.0))
    return found


FUNCTIONS = rigid_functions(PlaneShape, closest)


class Plane(Collider):
    """A plane through the origin that faces up along z until it is rotated."""

    bounded: ClassVar[bool] = False

    size: float = quantity(4.0, unit="m", doc="side of the square that is drawn; the plane itself is infinite", gt=0)

    def smallest_radius(self) -> float:
        return float("inf")

    def build(self, folder: Path, allow_outside: bool, device: str) -> Solid:
        return Solid(self, FUNCTIONS, PlaneShape(), solid_shapes.plane(self.size))
