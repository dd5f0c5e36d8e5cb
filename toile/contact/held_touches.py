"""Touches inside the linear system of a step: springs that keep apart in the solve what would run together.

    f_a = w_a (k (target - n . r) n - c (r - n (n . r)))        r = sum of w_a (x_a - x_a(start))
    k = STIFF / (K h^2),    c = mu push / (h^2 slip),    at most k

Impulses alone move the particles that touch and not their neighbours: the solve before them lets folds collapse and
draws cloth in from around, and they would push it out again, step after step. So what touched in the step before is
part of the system from the start, and what touches anew is, in a second solve, where impulses stretched the cloth much.
A spring that pulls is taken out, and the step solved again. Friction is Coulomb's for the load that the touch had in
the step before, at the slip that velocities lead to.

Source      none; [BW98] sec. 6 has springs between cloths
Symbols     K  how far a unit impulse moves the nearest points against each other [1/kg]     h  step [s]
            w, n, target  as in toile/contact/touches.py     push  load times h^2 [kg m]     slip  across n [m]
Deviations  none
"""

from typing import Any

import numpy as np
import warp as wp

from toile.contact.bodies import Bodies
from toile.contact.meeting import answer_along, combine, meet
from toile.contact.touches import CLOSE, TOUCH_KINDS, Encounters, Touches, on_side, target_of
from toile.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.math.types import TINY, identity, mat33, numpy_real, real, vec3, vec4
from toile.model.memory import Memory

# Stiffness against the inertia of the four particles: what they have to stop is many times that. The solver's
# iterations grow with its root, because its factor does not know which particles are coupled.
STIFF = 1000.0
# Of the thickness: what moves apart by more than this in a step is let go.
PARTS = wp.constant(real(0.1))
# Of the thickness: what is drawn apart by more than this pulls. A solve is repeated when more than that share of all
# springs did, so often.
PULLS, PULLING_LEFT, MOST_SOLVES = wp.constant(real(0.02)), 0.02, 3
# Of the thickness: friction has its limit from this slip in a step on, and is proportional to it below.
SLIPS = wp.constant(real(0.002))


class HeldTouches:
    """The springs at work (assembly.Meetings): at first those of touches that last, then those that `hold` adds."""

    name = "self_contact"

    def __init__(self, bodies: Bodies, encounters: Encounters):
        self.bodies, self.encounters = bodies, encounters
        self.couplings = Couplings(bodies.device)
        self._touches, self._count, self._room, self._solves, self._h = Touches(), 0, 0, 0, 0.0
        self._kept: dict[str, np.ndarray] = {}
        self._kept_h = 0.0
        self._stiffness, self._drag, self._load, self._slip = self._figures(0)
        self._counts = wp.zeros(2, dtype=wp.int32, device=bodies.device)
        self._start = bodies.x
        self._launch = Launcher(bodies.device)

    def hold(self) -> None:
        """What impulses pushed in this step becomes part of the system, for another solve."""
        self._take(self._gather())
        self._slip.zero_()  # what has been solved tells it
        self._start = self.bodies.x

    def keep(self) -> None:
        """The step stands: what it pushed is what the next one begins with."""
        self._kept, self._kept_h = self._gather(), self._h

    def memory(self) -> Memory:
        """What the last step pushed, and how vertices answered in it, which springs are made with before it is known
        anew."""
        return {"W": self.bodies.W.numpy(), "h": self._kept_h, **self._kept}

    def recall(self, memory: Memory) -> None:
        self.bodies.W.assign(memory["W"])
        self._kept_h = float(memory["h"])
        self._kept = {name: np.asarray(memory[name]) for name in TOUCH_KINDS if name in memory}

    def find(self, x: wp.array, v: wp.array, h: float) -> None:
        """Where touches of the step before are now; those that separate are let go."""
        self._start, self._h = x, h
        self._take(self._kept)
        ratio = (h / self._kept_h) ** 2 if self._kept_h else 1.0
        self._launch(renew, self._count, [x, v, h, ratio, self.bodies.moving_count, self._touches, self._slip])

    def linearize(self, at: Any, f_out: wp.array, A_out: BlockMatrix) -> None:
        c, bodies = self.couplings, self.bodies
        if c.room < self._count:
            c.make_room(self._room)
            self._launch = Launcher(bodies.device)
        self._solves = 0
        c.count.fill_(self._count)
        at_x = [self._start, bodies.x_end, bodies.moving_count, at.x, at.h]
        inputs = [self._touches, STIFF, bodies.W, self._slip, *at_x]
        out = [f_out, A_out.values, c.particles, c.weights, c.blocks, self._stiffness, self._drag, self._load]
        self._launch(add_springs, self._count, [*inputs, A_out.diagonal, *out])

    def fit(self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array) -> bool:
        """Takes out what pulled; False if that was so much that the step must be solved again."""
        if not self._count:
            return True
        self._solves += 1
        self._counts.zero_()
        springs = [self._touches, self._stiffness, self._drag]
        inputs = [*springs, self._start, self.bodies.x_end, self.bodies.moving_count, x, h]
        out = [A_out.values, b_out, self.couplings.blocks, self._load, self._counts]
        self._launch(let_go_pulling, self._count, [*inputs, A_out.diagonal, *out])
        pulled, held = self._counts.numpy()
        return bool(pulled <= PULLING_LEFT * held) or self._solves >= MOST_SOLVES

    def _gather(self) -> dict[str, np.ndarray]:
        """Springs that bear a load, and touches that impulses pushed. A pair that was found more than once is one."""
        met = self.encounters
        lists = (
            (self._touches, self._count, self._load.numpy()),
            (met.touches, met.touch_count, met.touches.push.numpy()),
        )
        found: dict[str, list[np.ndarray]] = {name: [] for name in TOUCH_KINDS}
        for touches, count, push in lists:
            if count:
                chosen = np.flatnonzero(push[:count] > 0.0)
                for name in TOUCH_KINDS:
                    values = push if name == "push" else getattr(touches, name).numpy()
                    found[name].append(values[:count][chosen])
        if not found["push"]:
            return {}
        touching = {name: np.concatenate(values) for name, values in found.items()}
        pairs = np.column_stack([touching["vertices"], touching["kind"]])
        _, first, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        touching["push"] = np.bincount(which.ravel(), touching["push"])[which.ravel()].astype(numpy_real)
        chosen = np.sort(first)  # in the order in which they were found, which sweeps depend on
        return {name: values[chosen] for name, values in touching.items()}

    def _take(self, touches: dict[str, np.ndarray]) -> None:
        """Makes springs of these."""
        self._count = len(touches.get("push", ()))
        if self._room < self._count:
            self._make_room(2 * self._count)
        for name, values in touches.items():
            if self._count:
                array = getattr(self._touches, name)
                wp.copy(array, wp.array(values, dtype=array.dtype, device=array.device), count=self._count)

    def _make_room(self, room: int) -> None:
        self._room = room
        for name, kind in TOUCH_KINDS.items():
            setattr(self._touches, name, wp.zeros(room, dtype=kind, device=self.bodies.device))
        self._stiffness, self._drag, self._load, self._slip = self._figures(room)
        self._launch = Launcher(self.bodies.device)

    def _figures(self, room: int) -> list[wp.array]:
        return [wp.zeros(room, dtype=real, device=self.bodies.device) for _ in range(4)]


@wp.kernel
def renew(
    # in
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, ratio: real, moving_count: wp.int32,
    # in and out
    touches_out: Touches,
    # out
    slip_out: wp.array(dtype=real),
):
    k = wp.tid()
    at = touches_out.vertices[k]
    touches_out.push[k] = ratio * touches_out.push[k]
    if at[0] >= moving_count or at[1] >= moving_count or at[2] >= moving_count or at[3] >= moving_count:
        touches_out.push[k] = real(0.0)
        return
    found = meet(touches_out.kind[k], x[at[0]], x[at[1]], x[at[2]], x[at[3]])
    w, tau = found.weights, touches_out.thickness[k]
    touches_out.weights[k] = w
    touches_out.normal[k] = found.normal
    # What is too near comes out by impulses, which its inertia does not feel.
    touches_out.target[k] = wp.min(target_of(found.distance, tau), real(0.0))
    moves = h * combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])
    parting = wp.dot(found.normal, moves)
    slip_out[k] = wp.length(moves - parting * found.normal)
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
def bond(touches: Touches, t: wp.int32, k: real, c: real, r: vec3) -> Bond:
    """The spring of a touch whose nearest points have moved by r against each other."""
    found = Bond()
    n = touches.normal[t]
    across = identity() - wp.outer(n, n)
    found.block = k * wp.outer(n, n) + c * across
    found.force = k * (touches.target[t] - wp.dot(n, r)) * n - c * (across * r)
    return found


@wp.kernel
def add_springs(
    # in
    touches: Touches, stiff: real, W: wp.array(dtype=mat33), known_slip: wp.array(dtype=real),
    x_start: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), moving_count: wp.int32, x: wp.array(dtype=vec3),
    h: real,
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33),
    # out
    particles_out: wp.array(dtype=wp.vec4i), weights_out: wp.array(dtype=vec4), blocks_out: wp.array(dtype=mat33),
    stiffness_out: wp.array(dtype=real), drag_out: wp.array(dtype=real), load_out: wp.array(dtype=real),
):
    t = wp.tid()
    particles_out[t] = wp.vec4i()
    weights_out[t] = vec4()
    blocks_out[t] = mat33()
    load_out[t] = real(0.0)
    at = touches.vertices[t]
    w = touches.weights[t]
    n = touches.normal[t]
    K = answer_along(w, n, W[at[0]], W[at[1]], W[at[2]], W[at[3]])
    if touches.push[t] == real(0.0) or K < TINY:
        touches.push[t] = real(0.0)
        return
    k = stiff / (K * h * h)
    r = relative_motion(at, w, x_start, x_end, moving_count, x)
    slip = wp.max(wp.length(r - wp.dot(n, r) * n), wp.max(known_slip[t], SLIPS * touches.thickness[t]))
    c = wp.min(touches.mu[t] * touches.push[t] / (h * h * slip), k)
    spring = bond(touches, t, k, c, r)
    particles, weights = wp.vec4i(), vec4()
    for a in range(4):
        i = at[a]
        if i < moving_count:
            particles[a] = i
            weights[a] = w[a]
            wp.atomic_add(f_out, i, w[a] * spring.force)
            wp.atomic_add(A_out, diagonal[i], (h * h * w[a] * w[a]) * spring.block)
    particles_out[t] = particles
    weights_out[t] = weights
    blocks_out[t] = (h * h) * spring.block
    stiffness_out[t] = k
    drag_out[t] = c


@wp.kernel
def let_go_pulling(
    # in
    touches: Touches, stiffness: wp.array(dtype=real), drag: wp.array(dtype=real), x_start: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3), moving_count: wp.int32, x: wp.array(dtype=vec3), h: real,
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in and out
    A_out: wp.array(dtype=mat33), b_out: wp.array(dtype=vec3), blocks_out: wp.array(dtype=mat33),
    # out
    load_out: wp.array(dtype=real), counts_out: wp.array(dtype=wp.int32),
):
    """Takes springs that pull out of the system and of its residual b. Counts them, and all."""
    t = wp.tid()
    if touches.push[t] == real(0.0):
        return
    wp.atomic_add(counts_out, 1, 1)
    at = touches.vertices[t]
    w = touches.weights[t]
    r = relative_motion(at, w, x_start, x_end, moving_count, x)
    apart = wp.dot(touches.normal[t], r) - touches.target[t]
    load_out[t] = wp.max(-h * h * stiffness[t] * apart, real(0.0))
    if apart < PULLS * touches.thickness[t]:
        return
    wp.atomic_add(counts_out, 0, 1)
    spring = bond(touches, t, stiffness[t], drag[t], r)
    for a in range(4):
        i = at[a]
        if i < moving_count:
            wp.atomic_sub(b_out, i, (h * w[a]) * spring.force)
            wp.atomic_sub(A_out, diagonal[i], (h * h * w[a] * w[a]) * spring.block)
    blocks_out[t] = mat33()
    touches.push[t] = real(0.0)
