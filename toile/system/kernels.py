"""Kernels of energies: gathering elements, scattering their forces and matrix blocks, written once for all of them.

An energy gives formulas for one element (toile/energies/base.py). Here they become kernels: total force, force with
matrix, energy, and the product of its damping matrix with a vector. Each energy is a module of its own, compiled once
and cached; so is its damping, which only some integrators need.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from toile.energies.base import Formulas
from toile.math.types import mat33, precision, real, vec3


@wp.struct
class SystemArrays:
    """The arrays that linearization adds to, made once per system."""

    f: wp.array(dtype=vec3)  # [N]
    A: wp.array(dtype=mat33)  # blocks of the matrix
    row_sum: wp.array(dtype=mat33)  # of A, from external forces and masses (toile/linear/block_matrix.py)


@dataclass(frozen=True)
class Kernels:
    """The kernels of one energy."""

    linearize: wp.Kernel
    add_forces: wp.Kernel
    measure: wp.Kernel
    add_damping: wp.Kernel


@cache
def make_kernels(name: str, formulas: Formulas) -> Kernels:
    """Makes the kernels of an energy's formulas; `name` becomes the name of the compiled module."""
    points = wp.constant(formulas.points)
    is_external = formulas.external and precision == "single"
    stencil = wp.types.matrix(shape=(formulas.points, 3), dtype=real)
    Rest, Uniform = formulas.Rest, formulas.Uniform
    prepare, energy, force, block = formulas.prepare, formulas.energy, formulas.force, formulas.block

    def kernel(function: Any, part: str = "energy") -> wp.Kernel:
        module = wp.get_module(f"toile.{part}.{name}")
        return wp.Kernel(function, key=f"{name}_{function.__name__}", module=module)

    @wp.func
    def gather(particles: wp.array2d(dtype=wp.int32), e: int, values: wp.array(dtype=vec3)) -> stencil:
        rows = stencil()
        for a in range(points):
            rows[a] = values[particles[e, a]]
        return rows

    def linearize(
        first: wp.int32,
        # model
        particles: wp.array2d(dtype=wp.int32), slots: wp.array2d(dtype=wp.int32), rest: wp.array(dtype=Rest),
        # in
        uniform: Uniform, x: wp.array(dtype=vec3), x_tension: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
        v_at: wp.array(dtype=vec3), alpha_x: real, alpha_v: real,
        # in and out
        system_out: SystemArrays,
    ):  # fmt: skip
        e = first + wp.tid()
        x_e, x_tension_e = gather(particles, e, x), gather(particles, e, x_tension)
        local = prepare(rest[e], uniform, x_e, x_tension_e, gather(particles, e, v), gather(particles, e, v_at))
        for a in range(points):
            wp.atomic_add(system_out.f, particles[e, a], force(local, a))
            for b in range(points):
                if b == a:
                    wp.atomic_add(system_out.A, slots[e, a * points + a], block(local, alpha_x, alpha_v, a, a))
                    if wp.static(is_external):
                        wp.atomic_add(system_out.row_sum, particles[e, a], block(local, alpha_x, alpha_v, a, a))
                if b > a:
                    upper = block(local, alpha_x, alpha_v, a, b)
                    wp.atomic_add(system_out.A, slots[e, a * points + b], upper)
                    wp.atomic_add(system_out.A, slots[e, b * points + a], wp.transpose(upper))
                    if wp.static(is_external):
                        wp.atomic_add(system_out.row_sum, particles[e, a], upper)
                        wp.atomic_add(system_out.row_sum, particles[e, b], wp.transpose(upper))

    def add_forces(
        first: wp.int32,
        # model
        particles: wp.array2d(dtype=wp.int32), rest: wp.array(dtype=Rest),
        # in
        uniform: Uniform, x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
        # out
        f_out: wp.array(dtype=vec3),
    ):  # fmt: skip
        e = first + wp.tid()
        v_e = gather(particles, e, v)
        x_e = gather(particles, e, x)
        local = prepare(rest[e], uniform, x_e, x_e, v_e, v_e)
        for a in range(points):
            wp.atomic_add(f_out, particles[e, a], force(local, a))

    def measure(
        first: wp.int32,
        # model
        particles: wp.array2d(dtype=wp.int32), rest: wp.array(dtype=Rest),
        # in
        uniform: Uniform, x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
        # out
        E_out: wp.array(dtype=real),
    ):  # fmt: skip
        e = first + wp.tid()
        v_e = gather(particles, e, v)
        x_e = gather(particles, e, x)
        E_out[e] = energy(prepare(rest[e], uniform, x_e, x_e, v_e, v_e))

    def add_damping(
        first: wp.int32,
        # model
        particles: wp.array2d(dtype=wp.int32), rest: wp.array(dtype=Rest),
        # in
        uniform: Uniform, x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), u: wp.array(dtype=vec3),
        # out
        y_out: wp.array(dtype=vec3),
    ):  # fmt: skip
        e = first + wp.tid()
        x_e, v_e, u_e = gather(particles, e, x), gather(particles, e, v), gather(particles, e, u)
        local = prepare(rest[e], uniform, x_e, x_e, v_e, v_e)
        for a in range(points):
            y = block(local, real(0.0), real(1.0), a, a) * u_e[a]
            for b in range(points):
                if b > a:
                    y += block(local, real(0.0), real(1.0), a, b) * u_e[b]
                if b < a:
                    y += wp.transpose(block(local, real(0.0), real(1.0), b, a)) * u_e[b]
            wp.atomic_add(y_out, particles[e, a], y)

    return Kernels(kernel(linearize), kernel(add_forces), kernel(measure), kernel(add_damping, "damping"))
