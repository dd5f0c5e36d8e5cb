"""Impulses that keep touches apart, with friction: projected Gauss-Seidel, one touch after the other.

    along n     push >= 0,    n . sum of w_a d_a >= target,    one of the two with equality
    across n    |rub| <= mu push, against the relative motion; where that suffices there is none
    answer      d_a += w_a W_a (change of push n + change of rub)

What was pushed too much by one touch is taken back by another, because each remembers its push: so weights pass through
a stack of any height, and friction has the right limit in every layer of it. The same is then done to the velocities at
the end of the step, which must not approach where there was a push.

Source      [BFA02] secs. 5, 6, 7; projected Gauss-Seidel stands for its single impulses
Symbols     d  displacement in the step [m], or velocity [m/s]     W  answer to impulses [1/kg]     mu  friction
Deviations  The paper applies each impulse once and lets the next steps do the rest.
"""

import warp as wp

from toile.contact.bodies import MOST_PLANES
from toile.contact.meeting import answer_along, combine
from toile.contact.touches import Touches
from toile.math.types import TINY, mat33, real, vec3


@wp.kernel
def relax(
    # in
    touches: Touches, count: wp.array(dtype=wp.int32), W: wp.array(dtype=mat33), of_velocities: wp.bool,
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3), room: wp.array(dtype=real),
    tolerance: real, most: wp.int32,
    # in and out
    push_out: wp.array(dtype=real), rub_out: wp.array(dtype=vec3), d_out: wp.array(dtype=vec3),
    # out
    sweeps_out: wp.array(dtype=wp.int32),
):
    """Launched with one thread: each touch sees what the one before it has done. `room` is how far a particle may go
    against each plane that holds it."""
    worst = real(2.0) * tolerance
    sweep = int(0)
    while sweep < most and worst > tolerance:
        worst = real(0.0)
        for k in range(count[0]):
            if of_velocities and touches.push[k] == real(0.0):
                continue
            K = touches.answer[k]
            if K < TINY:
                continue  # nothing here can move
            at = touches.vertices[k]
            w = touches.weights[k]
            n = touches.normal[k]
            r = combine(w, d_out[at[0]], d_out[at[1]], d_out[at[2]], d_out[at[3]])
            target = wp.where(of_velocities, real(0.0), touches.target[k])
            old = push_out[k]
            push = wp.max(old + (target - wp.dot(n, r)) / K, real(0.0))
            if push == real(0.0) and old == real(0.0):
                continue
            impulse = (push - old) * n
            push_out[k] = push
            # Friction, for the relative motion across n as it will be
            slip = r - wp.dot(n, r) * n
            speed = wp.length(slip)
            rub = real(1.0) * rub_out[k]
            change = vec3()
            limit = touches.mu[k] * push
            if speed > TINY:
                K_across = wp.max(answer_along(w, slip / speed, W[at[0]], W[at[1]], W[at[2]], W[at[3]]), TINY)
                wanted = rub - slip / K_across
                size = wp.length(wanted)
                if size > limit:
                    wanted = wanted * (limit / size)
                change = wanted - rub
            elif wp.length(rub) > limit:
                change = rub * (limit / wp.length(rub)) - rub
            rub_out[k] = rub + change
            impulse += change
            if wp.length_sq(impulse) == real(0.0):
                continue
            worst = wp.max(worst, K * wp.length(impulse))
            for c in range(4):
                i = at[c]
                moved = (w[c] * W[i]) * impulse
                d_out[i] = d_out[i] + moved
                if i < plane_count.shape[0]:
                    for p in range(plane_count[i]):  # out of the solid it may go, but not in
                        q = MOST_PLANES * i + p
                        into = wp.dot(plane_normal[q], d_out[i]) - room[q]
                        if into < real(0.0):
                            d_out[i] = d_out[i] - into * plane_normal[q]
        sweep += 1
    sweeps_out[0] = sweeps_out[0] + sweep


@wp.kernel
def find_room(
    # in
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), v_end: wp.array(dtype=vec3),
    plane_count: wp.array(dtype=wp.int32), plane_normal: wp.array(dtype=vec3),
    # out
    room_out: wp.array(dtype=real), room_of_velocity_out: wp.array(dtype=real),
):
    """Particles on a solid are where it holds them: from there they go no farther towards it."""
    i = wp.tid()
    for p in range(plane_count[i]):
        q = MOST_PLANES * i + p
        room_out[q] = wp.dot(plane_normal[q], x_end[i] - x[i])
        room_of_velocity_out[q] = wp.dot(plane_normal[q], v_end[i])
