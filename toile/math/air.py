"""Pressure of the air on a triangle along its normal: the formula of drag and wind.

    f = A (c + q |s|) s n    on the triangle, a third to each corner,    s = n . (u - v)

Source      [BW98] sec. 4.4 (drag per triangle, along its normal), [Pro95] sec. 2.2 (viscous wind)
Symbols     n, A  current unit normal and area of the triangle [-, m^2]     v  mean velocity of its corners [m/s]
            u  velocity of the air [m/s]     c  linear [N s/m^3] and q  quadratic coefficient [kg/m^3]
Deviations  Per triangle where [Pro95] has it per particle, so that it does not depend on the mesh. The matrix contains
            df/dv; df/dx, which is not symmetric, is left out.
"""

import warp as wp

from toile.math.types import TINY, mat33, real, vec3


@wp.struct
class AirRest:
    linear: real
    quadratic: real


@wp.struct
class Air:
    u: vec3


@wp.struct
class AirLocal:
    f: vec3  # on each corner
    n: vec3
    slope: real  # -df/dv of one corner by another, along n


@wp.func
def air_prepare(rest: AirRest, air: Air, x: mat33, x_tension: mat33, v: mat33, v_at: mat33) -> AirLocal:
    N = wp.cross(x[1] - x[0], x[2] - x[0])
    twice_area = wp.length(N)
    area = real(0.5) * twice_area
    local = AirLocal()
    local.n = N / wp.max(twice_area, TINY)
    third = real(1.0) / real(3.0)
    s = wp.dot(local.n, air.u - third * (v[0] + v[1] + v[2]))
    s_at = wp.dot(local.n, air.u - third * (v_at[0] + v_at[1] + v_at[2]))
    slope = area * (rest.linear + real(2.0) * rest.quadratic * wp.abs(s))
    pressure_force = area * (rest.linear + rest.quadratic * wp.abs(s)) * s + slope * (s_at - s)
    local.f = third * pressure_force * local.n
    local.slope = third * third * slope
    return local


@wp.func
def air_energy(local: AirLocal) -> real:
    return real(0.0)


@wp.func
def air_force(local: AirLocal, a: int) -> vec3:
    return local.f


@wp.func
def air_block(local: AirLocal, alpha_x: real, alpha_v: real, a: int, b: int) -> mat33:
    return alpha_v * local.slope * wp.outer(local.n, local.n)
