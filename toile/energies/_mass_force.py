"""Common part of gravity and push: the same acceleration for every particle.

    f = m g,    E = -m g . x

Source      [BW98] sec. 4.4
Symbols     m  mass of the particle [kg]     g  acceleration [m/s^2]
Deviations  none
"""

from typing import ClassVar

import numpy as np
import warp as wp

from toile.energies.base import Elements, Energy, Formulas
from toile.math.types import mat33, real, vec3
from toile.model.model import Model

point = wp.types.matrix(shape=(1, 3), dtype=real)


@wp.struct
class Rest:
    m: real


@wp.struct
class AccelerationField:
    g: vec3


@wp.struct
class Local:
    f: vec3
    E: real


@wp.func
def prepare(rest: Rest, field: AccelerationField, x: point, x_tension: point, v: point, v_at: point) -> Local:
    local = Local()
    local.f = rest.m * field.g
    local.E = -wp.dot(local.f, x[0])
    return local


@wp.func
def energy(local: Local) -> real:
    return local.E


@wp.func
def force(local: Local, a: int) -> vec3:
    return local.f


@wp.func
def block(local: Local, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
    return mat33()


class MassForce(Energy):
    """A force on all cloth, proportional to its mass."""

    formulas: ClassVar[Formulas] = Formulas(1, Rest, AccelerationField, Local, prepare, energy, force, block)

    def elements(self, model: Model, part: int | None) -> Elements:
        rest = np.zeros(model.particle_count, Rest.numpy_dtype())
        rest["m"] = model.masses
        return Elements(np.arange(model.particle_count, dtype=np.int32)[:, None], rest)


def acceleration_uniform(acceleration: tuple[float, float, float]) -> AccelerationField:
    field = AccelerationField()
    field.g = vec3(*acceleration)
    return field
