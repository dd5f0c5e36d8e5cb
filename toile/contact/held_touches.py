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
from toile.contact.meeting import combine, meet
from toile.contact.touches import CLOSE, TOUCH_KINDS, Encounters, Touches, on_side, target_of
from toile.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.math.types import TINY, identity, mat33, real, vec3, vec4

# Stiffness against the inertia of the four particles: what they have to stop is many times that. The solver's
# iterations grow with its root, because its factor does not know which particles are coupled.
STIFF = 1000.0
# Of the thickness: what moves apart by more than this in a step is let go.
PARTS = wp.constant(real(0.1))
# Of the thickness: what is drawn apart by more than this pulls. A solve is repeated when more than that share of all
# springs did, so often.
PULLS, PULLING_LEFT, MOST_SOLVES = wp.constant(real(0.02)), 0.02, 3
# Of the limit of friction: what rubs less than this sticks.
STICKS = wp.constant(real(0.99))


class HeldTouches:
    """The springs at work (assembly.Meetings): at first those of touches that last, then those that `hold` is told."""

    name = "self_contact"

    def __init__(self, bodies: Bodies, encounters: Encounters):
        self.bodies, self.encounters = bodies, encounters
        self.couplings = Couplings(bodies.device)
        self._lasting = Touches()
        self._lasting_count = wp.zeros(1, dtype=wp.int32, device=bodies.device)
        self._held, self._room, self._solves = False, 0, 0
        self._which, self._stiffness = wp.zeros(0, dtype=wp.int32), wp.zeros(0, dtype=real)
        self._counts = wp.zeros(2, dtype=wp.int32, device=bodies.device)
        self._x = self._start = bodies.x
        self._launch = Launcher(bodies.device)

    def hold(self) -> None:
        """From now on the touches that push are part of the system."""
        self._held = True

    def keep(self) -> None:
        """A step stands: its touches are what the next one begins with."""
        met = self.encounters
        if self._room < met.touch_count:
            self._make_room(2 * met.touch_count)
        self._lasting_count.zero_()
        self._launch(keep_pushing, met.touch_count, [met.touches, met.count, self._lasting, self._lasting_count])

    def find(self, x: wp.array, v: wp.array, h: float) -> None:
        """Where touches that pushed in the step before are now; those that separate are let go."""
        self._held, self._x = False, x
        self.couplings.count.zero_()
        count = int(self._lasting_count.numpy()[0])
        if count:
            self._launch(renew, count, [x, v, h, self.bodies.moving_count, self._lasting])

    def linearize(self, at: Any, f_out: wp.array, A_out: BlockMatrix) -> None:
        met, c = self.encounters, self.couplings
        touches, count = (met.touches, met.count) if self._held else (self._lasting, self._lasting_count)
        most = int(count.numpy()[0])
        if c.room < most:
            c.make_room(2 * most)
            self._launch = Launcher(self.bodies.device)
        if len(self._which) < c.room:
            self._which = wp.zeros(c.room, dtype=wp.int32, device=self.bodies.device)
            self._stiffness = wp.zeros(c.room, dtype=real, device=self.bodies.device)
        self._solves = 0
        c.count.zero_()
        self._start = self.bodies.x if self._held else self._x
        inputs = [touches, STIFF, self.bodies.W, self._start, self.bodies.x_end, self.bodies.moving_count]
        out = [A_out.diagonal, f_out, A_out.values, c.count, c.particles, c.weights, c.blocks, self._which,
               self._stiffness]  # fmt: skip
        self._launch(add_springs, most, [*inputs, at.x, at.h, *out])

    def fit(self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array) -> bool:
        """Takes out what pulled; False if that was so much that the step must be solved again."""
        c = self.couplings
        most = int(c.count.numpy()[0])
        if not most or self._solves >= MOST_SOLVES:
            return True
        self._solves += 1
        self._counts.zero_()
        touches = self.encounters.touches if self._held else self._lasting
        inputs = [touches, self._which, self._stiffness, self._start, self.bodies.x_end, self.bodies.moving_count, x, h]
        out = [A_out.diagonal, A_out.values, b_out, c.blocks, self._counts]
        self._launch(let_go_pulling, most, [*inputs, *out])
        pulled, held = self._counts.numpy()
        return bool(pulled <= PULLING_LEFT * held)

    def _make_room(self, room: int) -> None:
        self._room = room
        for name, kind in TOUCH_KINDS.items():
            setattr(self._lasting, name, wp.zeros(room, dtype=kind, device=self.bodies.device))
        self._launch = Launcher(self.bodies.device)


@wp.kernel
def keep_pushing(
    # in
    touches: Touches, count: wp.array(dtype=wp.int32),
    # out
    lasting_out: Touches, count_out: wp.array(dtype=wp.int32),
):
    k = wp.tid()
    if touches.push[k] == real(0.0):
        return
    n = wp.atomic_add(count_out, 0, 1)
    lasting_out.vertices[n] = touches.vertices[k]
    lasting_out.kind[n] = touches.kind[k]
    lasting_out.mu[n] = touches.mu[k]
    lasting_out.push[n] = touches.push[k]
    lasting_out.rub[n] = touches.rub[k]
    lasting_out.thickness[n] = touches.thickness[k]


@wp.kernel
def renew(
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, moving_count: wp.int32,
    # in and out
    touches_out: Touches,
):
    k = wp.tid()
    at = touches_out.vertices[k]
    if at[0] >= moving_count or at[1] >= moving_count or at[2] >= moving_count or at[3] >= moving_count:
        touches_out.push[k] = real(0.0)
        return
    found = meet(touches_out.kind[k], x[at[0]], x[at[1]], x[at[2]], x[at[3]])
    w, tau = found.weights, touches_out.thickness[k]
    touches_out.weights[k] = w
    touches_out.normal[k] = found.normal
    # What is too near comes out by impulses, which its inertia does not feel.
    touches_out.target[k] = wp.min(target_of(found.distance, tau), real(0.0))
    parting = h * wp.dot(found.normal, combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]]))
    if found.distance > CLOSE * tau or parting > PARTS * tau or on_side(w):
        touches_out.push[k] = real(0.0)


@wp.func
def relative_motion(
    at: wp.vec4i, w: vec4, x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), moving_count: wp.int32,
    x: wp.array(dtype=vec3),
) -> vec3:  # fmt: skip
    """Of the nearest points, when the particles are at x."""
    r = vec3()
    for a in range(4):
        i = at[a]
        if i < moving_count:
            r += w[a] * (x[i] - x_start[i])
        else:  # a solid goes its own way, and is not in the system
            r += w[a] * (x_end[i] - x_start[i])
    return r


@wp.struct
class Bond:
    force: vec3  # [N]  on the first element
    block: mat33  # [N/m]  - d force / d r


@wp.func
def bond(touches: Touches, t: wp.int32, k: real, r: vec3, h: real) -> Bond:
    """The spring of a touch whose nearest points have moved by r against each other."""
    found = Bond()
    n, rub = touches.normal[t], touches.rub[t]
    found.block = k * wp.outer(n, n)
    found.force = k * (touches.target[t] - wp.dot(n, r)) * n
    if wp.length(rub) < STICKS * touches.mu[t] * touches.push[t]:
        across = identity() - wp.outer(n, n)
        found.block += k * across
        found.force -= k * (across * r)
    else:
        found.force += rub / (h * h)
    return found


@wp.kernel
def add_springs(
    # in
    touches: Touches, stiff: real, W: wp.array(dtype=mat33), x_start: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3), moving_count: wp.int32, x: wp.array(dtype=vec3), h: real,
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33),
    # out
    coupling_count_out: wp.array(dtype=wp.int32), particles_out: wp.array(dtype=wp.vec4i),
    weights_out: wp.array(dtype=vec4), blocks_out: wp.array(dtype=mat33), which_out: wp.array(dtype=wp.int32),
    stiffness_out: wp.array(dtype=real),
):
    t = wp.tid()
    if touches.push[t] == real(0.0):
        return
    at = touches.vertices[t]
    w = touches.weights[t]
    n = touches.normal[t]
    K = answer_along(w, n, W[at[0]], W[at[1]], W[at[2]], W[at[3]])
    if K < TINY:
        return
    k = stiff / (K * h * h)
    spring = bond(touches, t, k, relative_motion(at, w, x_start, x_end, moving_count, x), h)
    c = wp.atomic_add(coupling_count_out, 0, 1)
    particles, weights = wp.vec4i(), vec4()
    for a in range(4):
        i = at[a]
        if i < moving_count:
            particles[a] = i
            weights[a] = w[a]
            wp.atomic_add(f_out, i, w[a] * spring.force)
            wp.atomic_add(A_out, diagonal[i], (h * h * w[a] * w[a]) * spring.block)
    particles_out[c] = particles
    weights_out[c] = weights
    blocks_out[c] = (h * h) * spring.block
    which_out[c] = t
    stiffness_out[c] = k


@wp.kernel
def let_go_pulling(
    # in
    touches: Touches, which: wp.array(dtype=wp.int32), stiffness: wp.array(dtype=real), x_start: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3), moving_count: wp.int32, x: wp.array(dtype=vec3), h: real,
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in and out
    A_out: wp.array(dtype=mat33), b_out: wp.array(dtype=vec3), blocks_out: wp.array(dtype=mat33),
    # out
    counts_out: wp.array(dtype=wp.int32),
):
    """Takes springs that pull out of the system and of its residual b. Counts them, and all."""
    c = wp.tid()
    t = which[c]
    if touches.push[t] == real(0.0):
        return
    wp.atomic_add(counts_out, 1, 1)
    at = touches.vertices[t]
    w = touches.weights[t]
    r = relative_motion(at, w, x_start, x_end, moving_count, x)
    if wp.dot(touches.normal[t], r) - touches.target[t] < PULLS * touches.thickness[t]:
        return
    wp.atomic_add(counts_out, 0, 1)
    spring = bond(touches, t, stiffness[c], r, h)
    for a in range(4):
        i = at[a]
        if i < moving_count:
            wp.atomic_sub(b_out, i, (h * w[a]) * spring.force)
            wp.atomic_sub(A_out, diagonal[i], (h * h * w[a] * w[a]) * spring.block)
    blocks_out[c] = mat33()
    touches.push[t] = real(0.0)
