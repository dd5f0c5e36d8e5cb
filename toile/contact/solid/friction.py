"""Friction of particles that slide on solids, linearized in their velocity.

    f(u) = force - drag (u - v_drag)

Implicit integrators add it to the linear system (`add_friction`); explicit and mixed ones solve for it particle by
particle (toile/integrators/_damping_solve.py).

Source      [BW98] sec. 5.4
Symbols     u  velocity at the end of the step [m/s]     v_drag  the u that moves along with the solid [m/s]
Deviations  none
"""

import warp as wp

from toile.linear.block_matrix import add_external_block
from toile.math.types import mat33, real, vec3


@wp.struct
class SlidingFriction:
    """One entry per particle; those that do not slide have zero force and drag."""

    in_contact: wp.array(dtype=wp.int32)  # 1: contacts with solids hold the particle, or held it in this step
    force: wp.array(dtype=vec3)  # [N]
    drag: wp.array(dtype=mat33)  # [N s/m]
    v_drag: wp.array(dtype=vec3)  # [m/s]


def make_friction(particle_count: int, device: str) -> SlidingFriction:
    """Allocates the arrays: no contact anywhere."""
    friction = SlidingFriction()
    friction.in_contact = wp.zeros(particle_count, dtype=wp.int32, device=device)
    friction.force, friction.v_drag = (wp.zeros(particle_count, dtype=vec3, device=device) for _ in range(2))
    friction.drag = wp.zeros(particle_count, dtype=mat33, device=device)
    return friction


@wp.kernel
def add_friction(
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in
    friction: SlidingFriction, u: wp.array(dtype=vec3), h: real,
    # in and out
    A_out: wp.array(dtype=mat33), row_sum_out: wp.array(dtype=mat33), b_out: wp.array(dtype=vec3),
):  # fmt: skip
    """Adds the friction at u to A and b; with -h it is removed again."""
    i = wp.tid()
    if friction.in_contact[i] == 0:
        return
    add_external_block(diagonal, i, h * friction.drag[i], A_out, row_sum_out)
    b_out[i] = b_out[i] + h * (friction.force[i] - friction.drag[i] * (u[i] - friction.v_drag[i]))
