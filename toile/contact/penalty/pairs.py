"""Pairs of cloth elements that get a penalty spring in a step, and the rest length of each spring.

The closest points of a pair (narrow_phase/closest_points.py) give its weights and its normal: at the start of the step
if the pair is close there, else at its time of impact. They stay the same for the step:

    gap = n . r,    r = sum of w_a x_a,    a spring where  gap < length  at the start or at the end

A pair counts only if its points are the closest among those of their neighbors as well, up to a slope of MAX_SLOPE:
a vertex above one triangle is not held by the sides of the next, nor by an edge that is behind its own triangles.

Source      [BW98] sec. 6
Symbols     w_a  weights of four particles, sum 0 [-]     n  normal, to the first element     length  rest distance [m]
Deviations  The paper tests the motion that led to the start of the step; here it is the motion that leaves from it.
"""

import numpy as np
import warp as wp

from toile.contact.narrow_phase.closest_points import approach, closest_points, combine, impact
from toile.contact.narrow_phase.elements import EDGE_EDGE, MeshElements, pair_vertices
from toile.contact.narrow_phase.impact_time import NEVER
from toile.contact.narrow_phase.thickness import RestGeometry, pair_thickness
from toile.device.append_buffer import BufferRanges, next_slot, pair_key
from toile.math.types import real, vec3, vec4
from toile.model.model import Model

# A pair whose rest length is its distance in rest uv is below it only by rounding, as a fraction of the length.
ROUNDING = wp.constant(real(1e-9))
# Largest rest length of neighbors in one uv chart, as a fraction of their distance in rest uv.
MAX_REST_FRACTION = wp.constant(real(1.0))
# Slope by which neighbors of a closest point may come closer.
MAX_SLOPE = wp.constant(real(0.1))
# A closest point with weights below this lies on an edge or a corner.
ZERO_WEIGHT = wp.constant(real(1e-9))
# Depth of a spring that is not compressed yet, as a fraction of the rest length.
MIN_DEPTH = wp.constant(real(1e-6))


@wp.struct
class PenaltySpring:
    """A spring between the closest points of a pair, in one step."""

    n: vec3
    length: real  # [m]
    overlap: real  # [m]  length - gap at the start of the step
    depth: real  # [m]  the overlap, or that at the end of the step if it is larger; never 0
    k: real  # [N/m]
    d: real  # [N s/m]
    c: real  # [N s/m]
    active: wp.int32  # 1 if it is part of the linear system, else 0


@wp.struct
class FoundSpring:
    """A spring and its four particles."""

    particles: wp.vec4i
    weights: vec4
    spring: PenaltySpring


@wp.struct
class SurfaceTopology:
    """Connectivity of all cloths as one surface."""

    sides: wp.array(dtype=wp.vec3i)  # edges of a triangle, from each corner to the next
    flaps: wp.array(dtype=wp.vec2i)  # third corners of the triangles at an edge; -1 where there is none
    first: wp.array(dtype=wp.int32)  # neighbors of vertex i are first[i] .. first[i + 1]
    neighbors: wp.array(dtype=wp.int32)


def make_surface(model: Model, device: str) -> SurfaceTopology:
    """The connectivity of a model."""
    flaps = np.full((len(model.edges), 2), -1, np.int32)
    for corner in range(3):  # the flap of an edge is the corner that is not on it
        opposite = model.triangles[:, (corner + 2) % 3]
        of = model.edge_triangles[:, corner]
        other = flaps[of, 0] >= 0
        flaps[of[~other], 0] = opposite[~other]
        flaps[of[other], 1] = opposite[other]
    ends = np.concatenate([model.edges, model.edges[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    surface = SurfaceTopology()
    surface.sides = wp.array(model.edge_triangles, dtype=wp.vec3i, device=device)
    surface.flaps = wp.array(flaps, dtype=wp.vec2i, device=device)
    first = np.searchsorted(ends[:, 0], np.arange(model.particle_count + 1))
    surface.first = wp.array(first, dtype=wp.int32, device=device)
    surface.neighbors = wp.array(ends[:, 1].copy(), dtype=wp.int32, device=device)
    return surface


@wp.func
def position_at(i: wp.int32, t: real, x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3)) -> vec3:
    """The position of vertex i at time t of the step."""
    return x[i] + t * (x_end[i] - x[i])


@wp.func
def rises_toward(q: vec3, foot: vec3, toward: vec3) -> wp.bool:
    """Whether the surface rises from its closest point to a neighbor q, toward the other element."""
    return wp.dot(q - foot, toward) > MAX_SLOPE * wp.length(q - foot)


@wp.func
def edge_is_closest(
    surface: SurfaceTopology, edge: wp.int32, foot: vec3, toward: vec3, t: real, x: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3),
) -> wp.bool:  # fmt: skip
    """Whether a point on an edge is the closest one of both triangles at the edge."""
    flaps = surface.flaps[edge]
    closest = bool(True)
    for k in range(2):
        if flaps[k] >= 0 and rises_toward(position_at(flaps[k], t, x, x_end), foot, toward):
            closest = bool(False)
    return closest


@wp.func
def corner_is_closest(
    surface: SurfaceTopology, corner: wp.int32, foot: vec3, toward: vec3, t: real, x: wp.array(dtype=vec3),
    x_end: wp.array(dtype=vec3),
) -> wp.bool:  # fmt: skip
    """Whether a vertex is closer than all its neighbors."""
    closest = bool(True)
    for k in range(surface.first[corner], surface.first[corner + 1]):
        if rises_toward(position_at(surface.neighbors[k], t, x, x_end), foot, toward):
            closest = bool(False)
    return closest


@wp.func
def is_closest(
    surface: SurfaceTopology, kind: wp.int32, pair: wp.vec2i, at: wp.vec4i, w: vec4, n: vec3, t: real,
    x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
) -> wp.bool:  # fmt: skip
    """Whether the points of a pair are the closest among their neighbors, at time t of the step."""
    p2, p3 = position_at(at[2], t, x, x_end), position_at(at[3], t, x, x_end)
    if kind == EDGE_EDGE:
        # At an end of an edge the close pair is that of a vertex and a triangle.
        if wp.min(wp.min(wp.abs(w[0]), wp.abs(w[1])), wp.min(wp.abs(w[2]), wp.abs(w[3]))) < ZERO_WEIGHT:
            return bool(False)
        one = w[0] * position_at(at[0], t, x, x_end) + w[1] * position_at(at[1], t, x, x_end)
        two = -w[2] * p2 - w[3] * p3
        if not edge_is_closest(surface, pair[0], one, -n, t, x, x_end):
            return bool(False)
        return edge_is_closest(surface, pair[1], two, n, t, x, x_end)
    foot = -w[1] * position_at(at[1], t, x, x_end) - w[2] * p2 - w[3] * p3
    none = wp.vec3i(
        wp.where(-w[1] < ZERO_WEIGHT, 1, 0), wp.where(-w[2] < ZERO_WEIGHT, 1, 0), wp.where(-w[3] < ZERO_WEIGHT, 1, 0)
    )  # fmt: skip
    missing = none[0] + none[1] + none[2]
    if missing == 0:
        return bool(True)
    if missing == 1:
        side = wp.where(none[2] == 1, 0, wp.where(none[0] == 1, 1, 2))
        return edge_is_closest(surface, surface.sides[pair[1]][side], foot, n, t, x, x_end)
    corner = wp.where(none[0] == 0, at[1], wp.where(none[1] == 0, at[2], at[3]))
    return corner_is_closest(surface, corner, foot, n, t, x, x_end)


@wp.kernel
def find_springs(
    # model
    first: wp.int32, kind: wp.int32, elements: MeshElements, surface: SurfaceTopology, rest: RestGeometry,
    # in
    pairs: wp.array(dtype=wp.vec2i), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), slack: real,
    # out
    ranges_out: BufferRanges, found_out: wp.array(dtype=FoundSpring),
):  # fmt: skip
    """Appends a spring for each pair that is compressed at the start or the end of the step."""
    pair = pairs[first + wp.tid()]
    at = pair_vertices(elements, kind, pair)
    x0, x1, x2, x3 = x[at[0]], x[at[1]], x[at[2]], x[at[3]]
    e0, e1, e2, e3 = x_end[at[0]], x_end[at[1]], x_end[at[2]], x_end[at[3]]
    closest = closest_points(kind, x0, x1, x2, x3)
    length = pair_thickness(rest, kind, at, closest.weights, MAX_REST_FRACTION)
    t = real(0.0)
    if closest.distance >= length + slack:
        # Not close yet: the pair is taken at its time of impact, if it has one.
        if closest.distance - approach(kind, e0 - x0, e1 - x1, e2 - x2, e3 - x3) > length:
            return
        t = impact(kind, x0, x1, x2, x3, e0, e1, e2, e3, length)
        if t >= NEVER:
            return
        closest = closest_points(kind, x0 + t * (e0 - x0), x1 + t * (e1 - x1), x2 + t * (e2 - x2), x3 + t * (e3 - x3))
        length = pair_thickness(rest, kind, at, closest.weights, MAX_REST_FRACTION)
    gap = wp.dot(closest.normal, combine(closest.weights, x0, x1, x2, x3))
    gap_end = wp.dot(closest.normal, combine(closest.weights, e0, e1, e2, e3))
    if wp.min(gap, gap_end) >= length + slack:
        return
    if not is_closest(surface, kind, pair, at, closest.weights, closest.normal, t, x, x_end):
        return
    n = next_slot(ranges_out, first)
    if n < 0:
        return
    ranges_out.keys[n] = pair_key(kind, pair)
    found = FoundSpring()
    found.particles = at
    found.weights = closest.weights
    spring = PenaltySpring()
    spring.n = closest.normal
    spring.length = length
    spring.overlap = length - gap
    # A pair that is not compressed yet, but may be, gets a small depth: it has a share of the area among pairs like it.
    spring.depth = wp.clamp(length - wp.min(gap, gap_end), MIN_DEPTH * length, length)
    spring.active = wp.where(gap_end < (real(1.0) - ROUNDING) * length, 1, 0)
    found.spring = spring
    found_out[n] = found


@wp.kernel
def write_springs(
    # in
    first: wp.int32, found: wp.array(dtype=FoundSpring), order: wp.array(dtype=wp.int32),
    # out
    particles_out: wp.array(dtype=wp.vec4i), weights_out: wp.array(dtype=vec4),
    springs_out: wp.array(dtype=PenaltySpring),
):  # fmt: skip
    """Writes the springs in the order of their elements: sums over springs depend on it."""
    k = first + wp.tid()
    one = found[order[k]]
    particles_out[k] = one.particles
    weights_out[k] = one.weights
    springs_out[k] = one.spring
