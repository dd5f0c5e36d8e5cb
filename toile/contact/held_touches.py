"""Touches inside the linear system of a step: springs that keep apart in the solve what would run together.

    f_a = w_a k (target - n . r) n - w_a k (r - n (n . r))    r = sum of w_a (x_a - x_a(start)),    k = STIFF / (K h^2)

Impulses alone move the particles that touch and not their neighbours, and in a large step cloth would be stretched
between them. So when touches have changed much, the step is solved once more with what pushed and stuck as springs,
stiff against inertia but not against the solver; the impulses after that have little left to do.

Source      none; [BW98] sec. 6 has springs between cloths
Symbols     K  how far a unit impulse moves the nearest points against each other [1/kg]     h  step [s]
            w, n, target, push, rub  as in toile/contact/touches.py
Deviations  Where friction has reached its limit it is the force that the impulses found, and not a spring.
"""

from typing import Any

import warp as wp

from toile.contact.bodies import Bodies
from toile.contact.impulses import answer_along
from toile.contact.touches import Encounters, Touches
from toile.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.math.types import TINY, identity, mat33, real, vec3, vec4

# Stiffness against the inertia of the four particles alone: what they have to stop is many times that.
STIFF = wp.constant(real(100.0))
# Of the limit of friction: what rubs less than this sticks.
STICKS = wp.constant(real(0.99))


class HeldTouches:
    """The springs at work (assembly.Meetings). There are none until `hold` is called, and none after `let_go`."""

    name = "self_contact"

    def __init__(self, bodies: Bodies, encounters: Encounters):
        self.bodies, self.encounters = bodies, encounters
        self.couplings = Couplings(bodies.device)
        self._launch = Launcher(bodies.device)
        self._holds = False

    def hold(self) -> None:
        """From now on the touches that push are part of the system."""
        if self.couplings.room < self.encounters.touch_count:
            self.couplings.make_room(2 * self.encounters.touch_count)
            self._launch = Launcher(self.bodies.device)
        self._holds = True

    def let_go(self) -> None:
        self._holds = False
        self.couplings.count.zero_()

    def find(self, x: wp.array, v: wp.array, h: float) -> None:
        """A new step begins without any."""
        self.let_go()

    def linearize(self, at: Any, f_out: wp.array, A_out: BlockMatrix) -> None:
        if not self._holds:
            return
        met, c = self.encounters, self.couplings
        c.count.zero_()
        inputs = [met.touches, met.count, self.bodies.W, self.bodies.x, self.bodies.x_end, self.bodies.moving_count]
        out = [A_out.diagonal, f_out, A_out.values, c.count, c.particles, c.weights, c.blocks]
        self._launch(add_springs, met.touch_count, [*inputs, at.x, at.h, *out])

    def fit(self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array) -> bool:
        return True


@wp.kernel
def add_springs(
    # in
    touches: Touches, count: wp.array(dtype=wp.int32), W: wp.array(dtype=mat33), x_start: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3), moving_count: wp.int32, x: wp.array(dtype=vec3), h: real,
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33),
    # out
    coupling_count_out: wp.array(dtype=wp.int32), particles_out: wp.array(dtype=wp.vec4i),
    weights_out: wp.array(dtype=vec4), blocks_out: wp.array(dtype=mat33),
):
    t = wp.tid()
    push = touches.push[t]
    if push == real(0.0):
        return
    at = touches.vertices[t]
    w = touches.weights[t]
    n = touches.normal[t]
    K = answer_along(w, n, W[at[0]], W[at[1]], W[at[2]], W[at[3]])
    if K < TINY:
        return
    k = STIFF / (K * h * h)
    r = vec3()
    particles, weights = wp.vec4i(), vec4()
    for a in range(4):
        i = at[a]
        if i < moving_count:
            r += w[a] * (x[i] - x_start[i])
            particles[a] = i
            weights[a] = w[a]
        else:  # a solid goes its own way, and is not in the system
            r += w[a] * (x_end[i] - x_start[i])
    rub = touches.rub[t]
    B = k * wp.outer(n, n)
    f = k * (touches.target[t] - wp.dot(n, r)) * n
    if wp.length(rub) < STICKS * touches.mu[t] * push:
        across = identity() - wp.outer(n, n)
        B += k * across
        f -= k * (across * r)
    else:
        f += rub / (h * h)
    c = wp.atomic_add(coupling_count_out, 0, 1)
    particles_out[c] = particles
    weights_out[c] = weights
    blocks_out[c] = (h * h) * B
    for a in range(4):
        if weights[a] != real(0.0):
            i = particles[a]
            wp.atomic_add(f_out, i, weights[a] * f)
            wp.atomic_add(A_out, diagonal[i], (h * h * weights[a] * weights[a]) * B)
