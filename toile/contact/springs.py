"""Damped springs between parts of cloth that meet: which pairs get one, how stiff it is, what it adds to the system.

    gap = n . r,    r = sum of w_a x_a,    r' = sum of w_a v_a
    f_a = w_a (k (length - gap) n - d (n . r') n - c (r' - n (n . r')))        while that pushes, else 0

The nearest points of a pair (toile/contact/meeting.py) give w and n, at the start of the step if it is near there, else
at the moment in which the pair would run together; they stay the same for the step. Then

    k = stiffness * area,    d = k * damping while the pair approaches,    c = friction * k (length - gap) / |r'|

A pair counts only if its points are nearest among those of their neighbours as well, give or take a slope of SLANT: a
vertex above one triangle is not held by the sides of the next, nor by an edge that its own triangles lie in front of.

`area` is shared out: a particle has its part of the cloth once on each side of it, and pairs divide it by their
weights and by how deep they are. So the stiffness is per area of touching cloth, however many pairs there are, and
whether particles, edges or both lie on each other.

Source      [BW98] sec. 6
Symbols     w_a  weights of four particles, sum 0 [-]     n  normal, to the first element     length  rest distance [m]
            k  [N/m]     d, c  [N s/m]
Deviations  The paper's slip force is proportional to the slip velocity. Here it is so up to `slip_speed`, and beyond it
            Coulomb's, with the normal force and the direction of the start of the step. Separation is not damped: a
            damper would glue. The second derivative of the distance is left out of the matrix: the rest is positive
            definite. Normal and slip act at both nearest points, not where they touch: a slip force leaves a torque
            of itself times the gap.
            Which springs push is settled with the solve, not before it: where one would pull, or one is missing, the
            system is corrected and solved again. Position alteration (sec. 6.2) takes out at once what overlaps by more
            than half its length, and leaves the centre of mass; the paper does not say how far it goes.
"""

from typing import Any, ClassVar

import numpy as np
import warp as wp

from toile.contact.broad_phase import BroadPhase
from toile.contact.flat_places import flat_places
from toile.contact.impact_time import NEVER
from toile.contact.meeting import EDGE_EDGE, VERTEX_TRIANGLE, approach, combine, impact, meet
from toile.launcher import Launcher
from toile.linear.block_matrix import BlockMatrix, Couplings
from toile.math.types import identity, mat33, numpy_real, real, vec3, vec4
from toile.model.model import Model

# Of the rest distance: a pair whose rest distance is that of its points in the flat cloth is nearer by rounding only.
ROUNDING = wp.constant(real(1e-9))
# Slope by which the neighbours of a nearest point may come nearer.
SLANT = wp.constant(real(0.1))
# Weights below this are those of a point on a side or a corner.
NONE = wp.constant(real(1e-9))
# Acceleration that pairs are looked for with, besides their velocities: gravity [m/s^2]
FALL = 10.0
# Of the rest distance: the depth of what does not push yet.
LITTLE = wp.constant(real(1e-6))
# Of the rest distance: what overlaps by more is moved apart at once.
ALTERED = wp.constant(real(0.5))

# Solves of one step with other springs pushing. They are repeated when more than this share of the springs pulled, or
# were missing, by more than this share of their length; and for each that was missing by more than half of it.
MOST_SOLVES = 6
WRONG_LEFT = 0.02
TOLERANCE, DEEP = wp.constant(real(1e-3)), wp.constant(real(0.5))
# Places of the counts.
WRONG, MISSING_DEEP, PUSHING, COUNTS = (wp.constant(place) for place in range(4))


vec2 = wp.types.vector(length=2, dtype=real)


@wp.struct
class Spring:
    """Between the nearest points of a pair, in one step."""

    n: vec3
    length: real  # [m]
    overlap: real  # [m]  how far below it the pair is at the start of the step
    depth: real  # [m]  the same, or what it would be at the end of the step if that is more; never 0
    k: real  # [N/m]
    d: real  # [N s/m]
    c: real  # [N s/m]
    pushes: wp.int32  # 1 or 0: whether it is part of the system that is solved


@wp.struct
class Surface:
    """All cloths as one surface."""

    triangles: wp.array(dtype=wp.vec3i)
    edges: wp.array(dtype=wp.vec2i)
    sides: wp.array(dtype=wp.vec3i)  # edges of a triangle, from each corner to the next
    flaps: wp.array(dtype=wp.vec2i)  # for each edge the third corners of its triangles; -1 where there is none
    first: wp.array(dtype=wp.int32)  # neighbours of vertex i are first[i] .. first[i + 1]
    neighbours: wp.array(dtype=wp.int32)


@wp.struct
class Law:
    """What is the same for all springs."""

    thickness: real
    stiffness: real
    damping: real
    friction: real
    slip_speed: real


class Springs:
    """The springs of a scene at work (assembly.Meetings)."""

    name: ClassVar[str] = "penalty"

    def __init__(self, model: Model, law: Law, thickness: float, device: str):
        self.device, self.law, n = device, law, model.particle_count
        self.broad_phase = BroadPhase(model.edges, model.triangles, n, n, device)
        self.couplings = Couplings(device)
        self.springs, self._energies = self._make_room(0)
        area = np.bincount(model.triangles.ravel(), np.repeat(model.areas / 3.0, 3), n)
        self._area = wp.array(area.astype(numpy_real), dtype=real, device=device)
        self.thickness = thickness
        self._reach = wp.zeros(n, dtype=real, device=device)
        place, chart = flat_places(model)
        self._place = wp.array(place.astype(numpy_real), dtype=vec3, device=device)
        self._chart = wp.array(chart.astype(np.int32), dtype=wp.int32, device=device)
        self._surface = _surface(model, device)
        self._x_end, self._normal = (wp.zeros(n, dtype=vec3, device=device) for _ in range(2))
        self._deepest, self._sum = (wp.zeros(2 * n, dtype=real, device=device) for _ in range(2))
        self._counts = wp.zeros(int(COUNTS), dtype=wp.int32, device=device)
        self._solves = 0
        self._launch = Launcher(device)

    @property
    def count(self) -> int:
        """Springs of this step."""
        return int(self.couplings.count.numpy()[0])

    def _make_room(self, room: int) -> tuple[wp.array, wp.array]:
        self.couplings.make_room(room)
        self._launch = Launcher(self.device)  # the old one remembers the old arrays
        springs = wp.zeros(room, dtype=Spring, device=self.device)
        return springs, wp.zeros(room, dtype=real, device=self.device)

    def move(self, time: float) -> None:
        """Nothing depends on time."""

    def find(self, x: wp.array, v: wp.array, h: float) -> None:
        """The springs of a step of h that begins with x and v."""
        broad, n = self.broad_phase, len(x)
        # What is not looked at may fall to half its thickness in this step, and is found in the next.
        slack = max(FALL * h * h - 0.5 * self.thickness, 0.0)
        # Boxes of both elements are grown: together they reach as far as the thickness.
        self._reach.fill_(0.5 * (self.thickness + slack))
        self._launch(go_on, n, [x, v, h, self._x_end])
        pairs = broad.find(x, self._x_end, self._reach)
        elements = [self._surface, self._place, self._chart, self.law]
        while True:
            c = self.couplings
            c.count.zero_()
            for kind, found, count in (
                (VERTEX_TRIANGLE, pairs.vertex_triangle, pairs.vertex_triangle_count),
                (EDGE_EDGE, pairs.edge_edge, pairs.edge_edge_count),
            ):
                if count:
                    inputs = [*elements, int(kind), found, x, self._x_end, slack]
                    out = [c.count, c.particles, c.weights, self.springs]
                    wp.launch(put_springs, count, [*inputs, *out], device=self.device)
            if self.count <= c.room:
                break
            self.springs, self._energies = self._make_room(2 * self.count)
        for array in (self._normal, self._deepest, self._sum):
            array.zero_()
        groups = [c.count, c.particles, c.weights]
        self._launch(add_normals, len(broad.triangles), [broad.triangles, x, self._normal])
        self._launch(find_deepest, c.room, [*groups, self.springs, self._normal, self._deepest])
        self._launch(sum_weights, c.room, [*groups, self.springs, self._normal, self._deepest, self._sum])
        at_start = [self._area, self.law, *groups, self._normal, self._deepest, self._sum, v]
        self._launch(set_strength, c.room, [*at_start, self.springs])

    def alter(self, masses: wp.array, y_out: wp.array) -> None:
        """Adds what moves apart at once what is nearer than half its length; the centre of mass stays."""
        c = self.couplings
        groups = [c.count, c.particles, c.weights, self.springs]
        self._launch(alter, c.room, [self._area, masses, self.law, *groups, y_out])

    def linearize(self, at: Any, f_out: wp.array, A_out: BlockMatrix) -> None:
        """Adds to the force and to the diagonal of A; the rest of the matrix goes to the couplings."""
        c = self.couplings
        self._solves = 0
        state = [c.count, c.particles, c.weights, self.springs, at.x, at.v_at, at.h * at.h, at.h]
        self._launch(linearize, c.room, [A_out.diagonal, *state, f_out, A_out.values, c.blocks])

    def fit(self, x: wp.array, v: wp.array, h: float, A_out: BlockMatrix, b_out: wp.array) -> bool:
        """Whether those springs push that should, at x and v that a solve has found.

        If not, A and the residual b are corrected, and the system must be solved again.
        """
        c = self.couplings
        self._solves += 1
        self._counts.zero_()
        self._launch(judge, c.room, [c.count, c.particles, c.weights, self.springs, x, v, self._counts])
        wrong, deep, pushing = self._counts.numpy()
        if self._solves >= MOST_SOLVES or not (wrong > WRONG_LEFT * pushing or deep):
            return True
        state = [c.count, c.particles, c.weights, x, v, h * h, h]
        self._launch(correct, c.room, [A_out.diagonal, *state, self.springs, b_out, A_out.values, c.blocks])
        return False

    def add_forces(self, x: wp.array, v: wp.array, f_out: wp.array) -> None:
        c = self.couplings
        self._launch(add_forces, c.room, [c.count, c.particles, c.weights, self.springs, x, v, f_out])

    def measure(self, x: wp.array, v: wp.array) -> float:
        """Energy in the springs of the last step [J]."""
        c = self.couplings
        self._launch(measure, c.room, [c.count, c.particles, c.weights, self.springs, x, self._energies])
        return float(np.sum(self._energies.numpy()[: self.count], dtype=np.float64))


@wp.kernel
def go_on(x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), h: real, x_end_out: wp.array(dtype=vec3)):
    i = wp.tid()
    x_end_out[i] = x[i] + h * v[i]


def _surface(model: Model, device: str) -> Surface:
    """The model's triangles and edges, and what is next to each."""
    flaps = np.full((len(model.edges), 2), -1, np.int32)
    for corner in range(3):  # the flap of an edge is the corner that is not on it
        opposite = model.triangles[:, (corner + 2) % 3]
        of = model.edge_triangles[:, corner]
        other = flaps[of, 0] >= 0
        flaps[of[~other], 0] = opposite[~other]
        flaps[of[other], 1] = opposite[other]
    ends = np.concatenate([model.edges, model.edges[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    surface = Surface()
    surface.triangles = wp.array(model.triangles, dtype=wp.vec3i, device=device)
    surface.edges = wp.array(model.edges, dtype=wp.vec2i, device=device)
    surface.sides = wp.array(model.edge_triangles, dtype=wp.vec3i, device=device)
    surface.flaps = wp.array(flaps, dtype=wp.vec2i, device=device)
    first = np.searchsorted(ends[:, 0], np.arange(model.particle_count + 1))
    surface.first = wp.array(first, dtype=wp.int32, device=device)
    surface.neighbours = wp.array(ends[:, 1].copy(), dtype=wp.int32, device=device)
    return surface


@wp.func
def on_the_way(i: wp.int32, t: real, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3)) -> vec3:
    return x[i] + t * (x_end[i] - x[i])


@wp.func
def comes_nearer(q: vec3, foot: vec3, toward: vec3) -> wp.bool:
    """Whether the surface rises from its nearest point to a neighbour, towards the other element."""
    return wp.dot(q - foot, toward) > SLANT * wp.length(q - foot)


@wp.func
def edge_is_nearest(
    surface: Surface, edge: wp.int32, foot: vec3, toward: vec3, t: real, x: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3),
) -> wp.bool:
    flaps = surface.flaps[edge]
    nearest = bool(True)
    for k in range(2):
        if flaps[k] >= 0 and comes_nearer(on_the_way(flaps[k], t, x, x_end), foot, toward):
            nearest = bool(False)
    return nearest


@wp.func
def corner_is_nearest(
    surface: Surface, corner: wp.int32, foot: vec3, toward: vec3, t: real, x: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3),
) -> wp.bool:
    nearest = bool(True)
    for k in range(surface.first[corner], surface.first[corner + 1]):
        if comes_nearer(on_the_way(surface.neighbours[k], t, x, x_end), foot, toward):
            nearest = bool(False)
    return nearest


@wp.func
def is_nearest(
    surface: Surface, kind: wp.int32, pair: wp.vec2i, at: wp.vec4i, w: vec4, n: vec3, t: real, x: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3),
) -> wp.bool:
    """Whether the points of a pair are nearest among those around them, at time t of the step."""
    p2, p3 = on_the_way(at[2], t, x, x_end), on_the_way(at[3], t, x, x_end)
    if kind == EDGE_EDGE:
        # At an end of an edge it is a vertex that is near, and that is near a triangle.
        if wp.abs(w[0]) < NONE or wp.abs(w[1]) < NONE or wp.abs(w[2]) < NONE or wp.abs(w[3]) < NONE:
            return bool(False)
        one = w[0] * on_the_way(at[0], t, x, x_end) + w[1] * on_the_way(at[1], t, x, x_end)
        two = -w[2] * p2 - w[3] * p3
        if not edge_is_nearest(surface, pair[0], one, -n, t, x, x_end):
            return bool(False)
        return edge_is_nearest(surface, pair[1], two, n, t, x, x_end)
    foot = -w[1] * on_the_way(at[1], t, x, x_end) - w[2] * p2 - w[3] * p3
    none = wp.vec3i(wp.where(-w[1] < NONE, 1, 0), wp.where(-w[2] < NONE, 1, 0), wp.where(-w[3] < NONE, 1, 0))
    missing = none[0] + none[1] + none[2]
    if missing == 0:
        return bool(True)
    if missing == 1:
        side = wp.where(none[2] == 1, 0, wp.where(none[0] == 1, 1, 2))
        return edge_is_nearest(surface, surface.sides[pair[1]][side], foot, n, t, x, x_end)
    corner = wp.where(none[0] == 0, at[1], wp.where(none[1] == 0, at[2], at[3]))
    return corner_is_nearest(surface, corner, foot, n, t, x, x_end)


@wp.func
def rest_length(
    thickness: real, place: wp.array(dtype=vec3), chart: wp.array(dtype=wp.int32), at: wp.vec4i, w: vec4
) -> real:
    """The thickness; less for neighbours in one piece of cloth, which are as near as they are by being woven so."""
    piece = chart[at[0]]
    if piece < 0 or chart[at[1]] != piece or chart[at[2]] != piece or chart[at[3]] != piece:
        return thickness
    apart = wp.length(combine(w, place[at[0]], place[at[1]], place[at[2]], place[at[3]]))
    return wp.min(thickness, apart)


@wp.kernel
def put_springs(
    # model
    surface: Surface, place: wp.array(dtype=vec3), chart: wp.array(dtype=wp.int32), law: Law,
    # in
    kind: wp.int32, pairs: wp.array(dtype=wp.vec2i), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), slack: real,
    # out
    count_out: wp.array(dtype=wp.int32), particles_out: wp.array(dtype=wp.vec4i), weights_out: wp.array(dtype=vec4),
    springs_out: wp.array(dtype=Spring),
):
    pair = pairs[wp.tid()]
    at = wp.vec4i()
    if kind == VERTEX_TRIANGLE:
        corners = surface.triangles[pair[1]]
        at = wp.vec4i(pair[0], corners[0], corners[1], corners[2])
    else:
        one, two = surface.edges[pair[0]], surface.edges[pair[1]]
        at = wp.vec4i(one[0], one[1], two[0], two[1])
    x0, x1, x2, x3 = x[at[0]], x[at[1]], x[at[2]], x[at[3]]
    e0, e1, e2, e3 = x_end[at[0]], x_end[at[1]], x_end[at[2]], x_end[at[3]]
    met = meet(kind, x0, x1, x2, x3)
    length = rest_length(law.thickness, place, chart, at, met.weights)
    t = real(0.0)
    if met.distance >= length + slack:
        # Not near yet: where it would run together, if it does.
        if met.distance - approach(kind, e0 - x0, e1 - x1, e2 - x2, e3 - x3) > length:
            return
        t = impact(kind, x0, x1, x2, x3, e0, e1, e2, e3, length)
        if t >= NEVER:
            return
        met = meet(kind, x0 + t * (e0 - x0), x1 + t * (e1 - x1), x2 + t * (e2 - x2), x3 + t * (e3 - x3))
        length = rest_length(law.thickness, place, chart, at, met.weights)
    gap = wp.dot(met.normal, combine(met.weights, x0, x1, x2, x3))
    gap_end = wp.dot(met.normal, combine(met.weights, e0, e1, e2, e3))
    if wp.min(gap, gap_end) >= length + slack:
        return
    if not is_nearest(surface, kind, pair, at, met.weights, met.normal, t, x, x_end):
        return
    k = wp.atomic_add(count_out, 0, 1)
    if k >= springs_out.shape[0]:
        return  # counted, so that there will be room for it
    particles_out[k] = at
    weights_out[k] = met.weights
    spring = Spring()
    spring.n = met.normal
    spring.length = length
    spring.overlap = length - gap
    # What is not below its length yet, but may come there, gets a little: it counts among others that do not push.
    spring.depth = wp.clamp(length - wp.min(gap, gap_end), LITTLE * length, length)
    spring.pushes = wp.where(gap_end < (real(1.0) - ROUNDING) * length, 1, 0)
    springs_out[k] = spring


@wp.kernel
def add_normals(triangles: wp.array(dtype=wp.vec3i), x: wp.array(dtype=vec3), normal_out: wp.array(dtype=vec3)):
    corners = triangles[wp.tid()]
    a, b, c = x[corners[0]], x[corners[1]], x[corners[2]]
    n = wp.cross(b - a, c - a)
    for corner in range(3):
        wp.atomic_add(normal_out, corners[corner], n)


@wp.func
def side(i: wp.int32, w: real, n: vec3, normal: wp.array(dtype=vec3)) -> wp.int32:
    """Place of a particle's side that faces the other element."""
    return wp.where(w * wp.dot(n, normal[i]) < real(0.0), 2 * i, 2 * i + 1)


@wp.kernel
def find_deepest(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=Spring), normal: wp.array(dtype=vec3),
    # out
    deepest_out: wp.array(dtype=real),
):
    k = wp.tid()
    if k >= count[0]:
        return
    for a in range(4):
        if weights[k][a] != real(0.0):
            wp.atomic_max(deepest_out, side(particles[k][a], weights[k][a], springs[k].n, normal), springs[k].depth)


@wp.kernel
def sum_weights(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=Spring), normal: wp.array(dtype=vec3), deepest: wp.array(dtype=real),
    # out
    sum_out: wp.array(dtype=real),
):
    k = wp.tid()
    if k >= count[0]:
        return
    for a in range(4):
        if weights[k][a] != real(0.0):
            s = side(particles[k][a], weights[k][a], springs[k].n, normal)
            wp.atomic_add(sum_out, s, wp.abs(weights[k][a]) * springs[k].depth / deepest[s])


@wp.kernel
def set_strength(
    # model
    area: wp.array(dtype=real), law: Law,
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    normal: wp.array(dtype=vec3), deepest: wp.array(dtype=real), total: wp.array(dtype=real),
    v: wp.array(dtype=vec3),
    # in and out
    springs_out: wp.array(dtype=Spring),
):
    k = wp.tid()
    if k >= count[0]:
        return
    spring = springs_out[k]
    at, w = particles[k], weights[k]
    both = real(0.0)  # areas of the two elements that this pair has
    for a in range(4):
        if w[a] != real(0.0):
            s = side(at[a], w[a], spring.n, normal)
            share = wp.abs(w[a]) * spring.depth / deepest[s]
            both += area[at[a]] * share / wp.max(total[s], real(1.0))
    spring.k = law.stiffness * real(0.5) * both
    velocity = combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])
    speed = wp.dot(spring.n, velocity)
    spring.d = wp.where(speed < real(0.0), spring.k * law.damping, real(0.0))
    push = spring.k * wp.max(spring.overlap, real(0.0))
    slip = wp.length(velocity - speed * spring.n)
    spring.c = law.friction * push / wp.max(slip, law.slip_speed)
    springs_out[k] = spring


@wp.kernel
def alter(
    # model
    area: wp.array(dtype=real), masses: wp.array(dtype=real), law: Law,
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=Spring),
    # in and out
    y_out: wp.array(dtype=vec3),
):
    k = wp.tid()
    if k >= count[0]:
        return
    at, w, spring = particles[k], weights[k], springs[k]
    missing = spring.overlap - ALTERED * spring.length
    if missing <= real(0.0):
        return
    # Densities of both elements, whose two sides are those with positive and negative weights
    mass = vec2()
    size = vec2()
    for a in range(4):
        s = wp.where(w[a] > real(0.0), 0, 1)
        mass[s] = mass[s] + wp.abs(w[a]) * masses[at[a]]
        size[s] = size[s] + wp.abs(w[a]) * area[at[a]]
    one, two = mass[0] / size[0], mass[1] / size[1]
    # Each moves in inverse proportion to its density; a particle by the part of its area that the pair has.
    moved = spring.k / law.stiffness * one * two / (one + two) * missing
    for a in range(4):
        wp.atomic_add(y_out, at[a], moved * w[a] / masses[at[a]] * spring.n)


@wp.struct
class Answer:
    """What a spring does at some positions and velocities."""

    f: vec3  # [N]  the force on a particle is w_a times this
    K: mat33  # -df/dx between particles is w_a w_b times this
    D: mat33  # -df/dv likewise
    E: real


@wp.func
def answer(spring: Spring, overlap: real, velocity: vec3) -> Answer:
    """As if it pushed, whether it does or not."""
    found = Answer()
    across = wp.outer(spring.n, spring.n)
    found.K = spring.k * across
    found.D = spring.d * across + spring.c * (identity() - across)
    found.f = spring.k * overlap * spring.n - found.D * velocity
    found.E = real(0.5) * spring.k * overlap * overlap
    return found


@wp.func
def overlap_of(spring: Spring, at: wp.vec4i, w: vec4, x: wp.array(dtype=vec3)) -> real:
    return spring.length - wp.dot(spring.n, combine(w, x[at[0]], x[at[1]], x[at[2]], x[at[3]]))


@wp.func
def should_change(spring: Spring, overlap: real, velocity: vec3) -> wp.bool:
    """Whether a spring with its damper pulls, or ought to push, by more than the tolerance."""
    push = spring.k * overlap - spring.d * wp.dot(spring.n, velocity)
    least = TOLERANCE * spring.k * spring.length
    return wp.where(spring.pushes == 1, push < -least, push > least)


@wp.kernel
def linearize(
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=Spring), x: wp.array(dtype=vec3), v_at: wp.array(dtype=vec3), alpha_x: real, alpha_v: real,
    # in and out
    f_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33),
    # out
    blocks_out: wp.array(dtype=mat33),
):
    k = wp.tid()
    if k >= count[0]:
        return
    blocks_out[k] = mat33()
    at, w, spring = particles[k], weights[k], springs[k]
    if spring.pushes == 0:
        return
    # Forces are linear in velocity: they are what they are at v_at, wherever they are linearised.
    velocity = combine(w, v_at[at[0]], v_at[at[1]], v_at[at[2]], v_at[at[3]])
    found = answer(spring, overlap_of(spring, at, w, x), velocity)
    B = alpha_x * found.K + alpha_v * found.D
    blocks_out[k] = B
    for a in range(4):
        wp.atomic_add(f_out, at[a], w[a] * found.f)
        wp.atomic_add(A_out, diagonal[at[a]], w[a] * w[a] * B)


@wp.kernel
def judge(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=Spring), x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
    # out
    counts_out: wp.array(dtype=wp.int32),
):
    k = wp.tid()
    if k >= count[0]:
        return
    spring = springs[k]
    at, w = particles[k], weights[k]
    overlap = overlap_of(spring, at, w, x)
    wp.atomic_add(counts_out, PUSHING, spring.pushes)
    if should_change(spring, overlap, combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])):
        wp.atomic_add(counts_out, WRONG, 1)
        if overlap > DEEP * spring.length:
            wp.atomic_add(counts_out, MISSING_DEEP, 1)


@wp.kernel
def correct(
    # model
    diagonal: wp.array(dtype=wp.int32),
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    x: wp.array(dtype=vec3), v: wp.array(dtype=vec3), alpha_x: real, alpha_v: real,
    # in and out
    springs_out: wp.array(dtype=Spring), b_out: wp.array(dtype=vec3), A_out: wp.array(dtype=mat33),
    blocks_out: wp.array(dtype=mat33),
):
    """Puts in what should push and takes out what pulls: from the matrix, and with the force now from the residual."""
    k = wp.tid()
    if k >= count[0]:
        return
    at, w, spring = particles[k], weights[k], springs_out[k]
    overlap = overlap_of(spring, at, w, x)
    velocity = combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]])
    if not should_change(spring, overlap, velocity):
        return
    found = answer(spring, overlap, velocity)
    B = alpha_x * found.K + alpha_v * found.D
    sign = real(1.0)
    blocks_out[k] = B
    if spring.pushes == 1:
        sign = real(-1.0)
        blocks_out[k] = mat33()
    for a in range(4):
        wp.atomic_add(b_out, at[a], sign * alpha_v * w[a] * found.f)
        wp.atomic_add(A_out, diagonal[at[a]], sign * w[a] * w[a] * B)
    spring.pushes = 1 - spring.pushes
    springs_out[k] = spring


@wp.kernel
def add_forces(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=Spring), x: wp.array(dtype=vec3), v: wp.array(dtype=vec3),
    # in and out
    f_out: wp.array(dtype=vec3),
):
    k = wp.tid()
    if k >= count[0]:
        return
    at, w, spring = particles[k], weights[k], springs[k]
    if spring.pushes == 1:
        overlap = overlap_of(spring, at, w, x)
        found = answer(spring, overlap, combine(w, v[at[0]], v[at[1]], v[at[2]], v[at[3]]))
        for a in range(4):
            wp.atomic_add(f_out, at[a], w[a] * found.f)


@wp.kernel
def measure(
    # in
    count: wp.array(dtype=wp.int32), particles: wp.array(dtype=wp.vec4i), weights: wp.array(dtype=vec4),
    springs: wp.array(dtype=Spring), x: wp.array(dtype=vec3),
    # out
    E_out: wp.array(dtype=real),
):
    k = wp.tid()
    if k >= count[0]:
        return
    E_out[k] = real(0.0)
    if springs[k].pushes == 1:
        E_out[k] = answer(springs[k], overlap_of(springs[k], particles[k], weights[k], x), vec3()).E
