"""Pairs that are near each other in a step, and those of them that touch: by where they begin, or by running together.

    near      the distance at the start, less what the motion can take away, is within reach
    touch     n . sum of w_a d_a >= target    for the displacements d of the step
    target    tau - gap: the pair may come as near as its thickness tau; where it begins nearer than that, a tenth of
              what is missing is asked for

A touch is made of a pair that begins nearer than 2 tau, with its nearest points there; and of one that the continuous
test finds running together, with the nearest points at that moment.

Source      [BFA02] secs. 6, 7
Symbols     tau  thickness of the pair [m]     gap  its distance at the start along n [m]     d  displacement [m]
Deviations  The paper stops what approaches at once, wherever it is. Here a pair may use up its gap first.
"""

from typing import Any

import numpy as np
import warp as wp

from toile.contact.bodies import Bodies
from toile.contact.broad_phase import Pairs
from toile.contact.impact_time import NEVER
from toile.contact.meeting import EDGE_EDGE, VERTEX_TRIANGLE, answer_along, approach, combine, impact, meet
from toile.launcher import Launcher
from toile.math.types import mat33, real, vec3, vec4

# Of the thickness: what the continuous test leaves between elements that meet.
MARGIN = wp.constant(real(0.1))
# Of the overlap: what one step removes ([BFA02] sec. 6).
RECOVERY = wp.constant(real(0.1))
# Of the thickness: pairs that begin nearer than this are kept apart without asking whether they will meet.
CLOSE = wp.constant(real(2.0))
INFINITE = wp.constant(real(1e30))  # [m]
# Of the distance in the flat cloth: neighbours in it are not thicker than they are apart.
OF_FLAT = wp.constant(real(0.5))


@wp.struct
class Near:
    """Pairs that may touch in this step."""

    vertices: wp.array(dtype=wp.vec4i)
    kind: wp.array(dtype=wp.int32)
    distance: wp.array(dtype=real)  # [m]  at the start
    thickness: wp.array(dtype=real)  # [m]


@wp.struct
class Touches:
    """What the displacements of a step must satisfy."""

    vertices: wp.array(dtype=wp.vec4i)
    kind: wp.array(dtype=wp.int32)
    weights: wp.array(dtype=vec4)
    normal: wp.array(dtype=vec3)
    target: wp.array(dtype=real)  # [m]
    mu: wp.array(dtype=real)
    answer: wp.array(dtype=real)  # [1/kg]  of the nearest points against each other, to a unit impulse along the normal
    push: wp.array(dtype=real)  # [kg m]  along the normal, so far
    rub: wp.array(dtype=vec3)  # [kg m]  across it
    thickness: wp.array(dtype=real)  # [m]


NEAR_KINDS = {"vertices": wp.vec4i, "kind": wp.int32, "distance": real, "thickness": real}
TOUCH_KINDS = {
    "vertices": wp.vec4i, "kind": wp.int32, "weights": vec4, "normal": vec3, "target": real, "mu": real,
    "answer": real, "push": real, "rub": vec3, "thickness": real,
}  # fmt: skip


class Encounters:
    """The near pairs and touches of a step. Their arrays grow when they are full; nothing is dropped."""

    def __init__(self, bodies: Bodies, edges: wp.array, triangles: wp.array, friction: float, capacity: int = 4096):
        self.bodies, self.edges, self.triangles, self.friction = bodies, edges, triangles, friction
        self.device = bodies.device
        self.near, self.touches = Near(), Touches()
        self.near_count = self.touch_count = 0
        self._count = wp.zeros(1, dtype=wp.int32, device=self.device)
        self.count = wp.zeros(1, dtype=wp.int32, device=self.device)  # touch_count, for kernels
        self.changed = wp.zeros(bodies.count, dtype=wp.int32, device=self.device)  # in the last correction
        self.exempt = wp.zeros(bodies.count, dtype=wp.int32, device=self.device)  # left out of the guarantee
        self._near_capacity = self._touch_capacity = 0
        self._grow_near(capacity)
        self._grow_touches(capacity)
        self._launch = Launcher(self.device)

    def find_near(self, pairs: Pairs, x_seen: wp.array, slack: float, only: wp.array | None = None) -> None:
        """Of the pairs of the broad phase those that may touch while no end goes farther than `slack` from x_seen: all,
        or those of some vertices, which replace what there was of these."""
        before = 0 if only is None else self.near_count
        if only is not None:
            self._launch(forget, before, [only, self.near])
        while True:
            self._count.fill_(before)
            lists = (
                (VERTEX_TRIANGLE, pairs.vertex_triangle, pairs.vertex_triangle_count),
                (EDGE_EDGE, pairs.edge_edge, pairs.edge_edge_count),
            )
            for kind, array, count in lists:
                inputs = [int(kind), array, self.edges, self.triangles, *self._of_bodies(x_seen), self.exempt, slack]
                self._launch(find_near, count, [*inputs, self._near_capacity, self.near, self._count])
            self.near_count = int(self._count.numpy()[0])
            if self.near_count <= self._near_capacity:
                return
            self._grow_near(self.near_count + self.near_count // 2, before)

    def begin_touches(self) -> int:
        """Touches of what begins close to each other."""
        self.touch_count = 0
        return self._find(find_close, [])

    def find_impacts(self, only_changed: bool) -> int:
        """Adds touches for what runs together on the way to x_end; how many there are."""
        return self._find(find_impacts, [self.changed, only_changed])

    def _find(self, kernel: wp.Kernel, also: list[Any]) -> int:
        before = self.touch_count
        while True:
            self.count.fill_(before)
            bodies = self.bodies
            inputs = [self.near, bodies.x, bodies.x_end, bodies.W, bodies.solid_friction, float(self.friction), *also]
            self._launch(kernel, self.near_count, [*inputs, self._touch_capacity, self.touches, self.count])
            count = int(self.count.numpy()[0])
            if count <= self._touch_capacity:
                self.touch_count = count
                return count - before
            self._grow_touches(count + count // 2)

    def _of_bodies(self, x_seen: wp.array) -> list[wp.array]:
        bodies = self.bodies
        return [bodies.x, x_seen, bodies.thickness, bodies.place, bodies.chart]

    def _grow_near(self, capacity: int, kept: int = 0) -> None:
        self._near_capacity = capacity
        self._grow(self.near, NEAR_KINDS, capacity, kept)

    def _grow_touches(self, capacity: int) -> None:
        self._touch_capacity = capacity
        self._grow(self.touches, TOUCH_KINDS, capacity, self.touch_count)

    def _grow(self, lists: Any, kinds: dict[str, Any], capacity: int, kept: int) -> None:
        """Keeps what there is."""
        for name, kind in kinds.items():
            grown = wp.zeros(capacity, dtype=kind, device=self.device)
            if kept:
                wp.copy(grown, getattr(lists, name), count=kept)
            setattr(lists, name, grown)
        self._launch = Launcher(self.device)  # it remembers the arrays of before

    def vertices_of(self, begin: int) -> np.ndarray:
        """The vertices of the touches from `begin` on, four each."""
        return self.touches.vertices.numpy()[begin : self.touch_count]


@wp.func
def thickness_of(
    thickness: wp.array(dtype=real), place: wp.array(dtype=vec3), chart: wp.array(dtype=wp.int32), at: wp.vec4i,
    w: vec4, kind: wp.int32,
) -> real:
    """Of a pair: the mean of both, but less than their distance in the flat cloth if they are of one piece."""
    second = wp.where(kind == VERTEX_TRIANGLE, at[1], at[2])
    tau = real(0.5) * (thickness[at[0]] + thickness[second])
    piece = chart[at[0]]
    if piece >= 0 and chart[at[1]] == piece and chart[at[2]] == piece and chart[at[3]] == piece:
        apart = wp.length(combine(w, place[at[0]], place[at[1]], place[at[2]], place[at[3]]))
        tau = wp.min(tau, OF_FLAT * apart)
    return tau


@wp.kernel
def find_near(
    # in
    kind: wp.int32, pairs: wp.array(dtype=wp.vec2i), edges: wp.array(dtype=wp.vec2i),
    triangles: wp.array(dtype=wp.vec3i), x: wp.array(dtype=vec3), x_seen: wp.array(dtype=vec3),
    thickness: wp.array(dtype=real), place: wp.array(dtype=vec3), chart: wp.array(dtype=wp.int32),
    exempt: wp.array(dtype=wp.int32), slack: real, capacity: wp.int32,
    # out
    near_out: Near, count_out: wp.array(dtype=wp.int32),
):
    k = wp.tid()
    pair = pairs[k]
    at = wp.vec4i()
    if kind == VERTEX_TRIANGLE:
        t = triangles[pair[1]]
        at = wp.vec4i(pair[0], t[0], t[1], t[2])
    else:
        e, f = edges[pair[0]], edges[pair[1]]
        at = wp.vec4i(e[0], e[1], f[0], f[1])
    if exempt[at[0]] + exempt[at[1]] + exempt[at[2]] + exempt[at[3]] == 4:
        return
    a, b, c, d = x[at[0]], x[at[1]], x[at[2]], x[at[3]]
    found = meet(kind, a, b, c, d)
    tau = thickness_of(thickness, place, chart, at, found.weights, kind)
    nearer = approach(kind, x_seen[at[0]] - a, x_seen[at[1]] - b, x_seen[at[2]] - c, x_seen[at[3]] - d)
    if found.distance > CLOSE * tau and found.distance - nearer - real(2.0) * slack > MARGIN * tau:
        return
    n = wp.atomic_add(count_out, 0, 1)
    if n < capacity:
        near_out.vertices[n] = at
        near_out.kind[n] = kind
        near_out.distance[n] = found.distance
        near_out.thickness[n] = tau


@wp.kernel
def forget(
    # in
    chosen: wp.array(dtype=wp.int32),
    # in and out
    near_out: Near,
):
    """Pairs with one of these vertices."""
    k = wp.tid()
    at = near_out.vertices[k]
    if chosen[at[0]] + chosen[at[1]] + chosen[at[2]] + chosen[at[3]] > 0:
        near_out.distance[k] = INFINITE


@wp.func
def on_side(w: vec4) -> wp.bool:
    """Whether the nearest points are where an element ends: its neighbour is as near, and where layers slide over each
    other the normal would be askew and stop them."""
    return w[0] == real(0.0) or w[1] == real(0.0) or w[2] == real(0.0) or w[3] == real(0.0)


@wp.func
def target_of(gap: real, tau: real) -> real:
    return wp.where(gap > tau, tau - gap, RECOVERY * (tau - gap))


@wp.func
def add_touch(
    n: wp.int32, kind: wp.int32, at: wp.vec4i, w: vec4, normal: vec3, gap: real, tau: real,
    W: wp.array(dtype=mat33), solid_friction: wp.array(dtype=real), friction: real, touches: Touches,
):
    touches.vertices[n] = at
    touches.kind[n] = kind
    touches.weights[n] = w
    touches.normal[n] = normal
    touches.target[n] = target_of(gap, tau)
    touches.thickness[n] = tau
    # A negative figure stands for cloth.
    of_solid = wp.max(solid_friction[at[0]], solid_friction[at[3]])
    touches.mu[n] = wp.where(of_solid >= real(0.0), of_solid, friction)
    touches.answer[n] = answer_along(w, normal, W[at[0]], W[at[1]], W[at[2]], W[at[3]])
    touches.push[n] = real(0.0)
    touches.rub[n] = vec3()


@wp.kernel
def find_close(
    # in
    near: Near, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), W: wp.array(dtype=mat33),
    solid_friction: wp.array(dtype=real), friction: real, capacity: wp.int32,
    # out
    touches_out: Touches, count_out: wp.array(dtype=wp.int32),
):
    k = wp.tid()
    tau = near.thickness[k]
    if near.distance[k] > CLOSE * tau:
        return
    at = near.vertices[k]
    kind = near.kind[k]
    found = meet(kind, x[at[0]], x[at[1]], x[at[2]], x[at[3]])
    w = found.weights
    if on_side(w):
        return
    n = wp.atomic_add(count_out, 0, 1)
    if n < capacity:
        add_touch(n, kind, at, w, found.normal, found.distance, tau, W, solid_friction, friction, touches_out)


@wp.kernel
def find_impacts(
    # in
    near: Near, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), W: wp.array(dtype=mat33),
    solid_friction: wp.array(dtype=real), friction: real, changed: wp.array(dtype=wp.int32), only_changed: wp.bool,
    capacity: wp.int32,
    # out
    touches_out: Touches, count_out: wp.array(dtype=wp.int32),
):
    k = wp.tid()
    at = near.vertices[k]
    if only_changed and changed[at[0]] + changed[at[1]] + changed[at[2]] + changed[at[3]] == 0:
        return
    kind = near.kind[k]
    a, b, c, d = x[at[0]], x[at[1]], x[at[2]], x[at[3]]
    da, db, dc, dd = x_end[at[0]] - a, x_end[at[1]] - b, x_end[at[2]] - c, x_end[at[3]] - d
    tau = near.thickness[k]
    margin = MARGIN * tau
    if near.distance[k] - approach(kind, da, db, dc, dd) > margin:
        return
    t = impact(kind, a, b, c, d, x_end[at[0]], x_end[at[1]], x_end[at[2]], x_end[at[3]], margin)
    if t >= NEVER:
        return
    n = wp.atomic_add(count_out, 0, 1)
    if n < capacity:
        found = meet(kind, a + t * da, b + t * db, c + t * dc, d + t * dd)
        gap = wp.dot(found.normal, combine(found.weights, a, b, c, d))
        add_touch(n, kind, at, found.weights, found.normal, gap, tau, W, solid_friction, friction, touches_out)
