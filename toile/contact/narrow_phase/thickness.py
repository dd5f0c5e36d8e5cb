"""Thickness of a pair of elements: the distance that they keep in contact.

    tau = mean thickness of both, but at most a fraction of their distance in rest uv, if they share a uv chart
    tau = that of the solid, if one of them belongs to a solid

Vertices are held in front of a solid at a distance of their own. The thickness of a solid is a fraction of it, so that
triangles between held vertices are not in contact besides, unless they sag. Neighbors in one chart are close by
construction: without the limit cloth would be in contact with itself at rest.

Source      none
Symbols     tau  thickness of a pair [m]     w  weights of the closest points [-]
Deviations  none
"""

import numpy as np
import warp as wp

from toile.contact.narrow_phase.closest_points import combine
from toile.contact.narrow_phase.elements import VERTEX_TRIANGLE
from toile.contact.rest_uv import rest_uv_positions
from toile.math.types import numpy_real, real, vec3, vec4
from toile.model.model import Model

INFINITE = wp.constant(real(1e30))  # [m]


@wp.struct
class RestGeometry:
    """Thickness, rest uv position and uv chart of each vertex; the chart is -1 on seams and on solids."""

    first_solid: wp.int32  # vertices from here on belong to solids
    thickness: wp.array(dtype=real)  # [m]
    rest_uv: wp.array(dtype=vec3)  # [m]  the third component is 0
    uv_chart: wp.array(dtype=wp.int32)


def make_rest_geometry(model: Model, thickness: np.ndarray, device: str) -> RestGeometry:
    """The rest geometry of a model; `thickness` [m] has one value per vertex, and those of solids come last."""
    count, n = len(thickness), model.particle_count
    rest_uv, uv_chart = np.zeros((count, 3)), np.full(count, -1)
    rest_uv[:n], uv_chart[:n] = rest_uv_positions(model)
    rest = RestGeometry()
    rest.first_solid = n
    rest.thickness = wp.array(thickness.astype(numpy_real), dtype=real, device=device)
    rest.rest_uv = wp.array(rest_uv.astype(numpy_real), dtype=vec3, device=device)
    rest.uv_chart = wp.array(uv_chart.astype(np.int32), dtype=wp.int32, device=device)
    return rest


@wp.func
def mean_thickness(rest: RestGeometry, kind: wp.int32, at: wp.vec4i) -> real:
    """The mean thickness of both elements, or that of the solid: an upper bound of the thickness of the pair."""
    second = wp.where(kind == VERTEX_TRIANGLE, at[1], at[2])
    last = wp.max(at[0], second)
    if last >= rest.first_solid:
        return rest.thickness[last]
    return real(0.5) * (rest.thickness[at[0]] + rest.thickness[second])


@wp.func
def rest_distance(rest: RestGeometry, at: wp.vec4i, w: vec4) -> real:
    """The distance of the closest points of a pair in rest uv, if it is in one uv chart; infinite if not."""
    chart = rest.uv_chart[at[0]]
    if chart < 0 or rest.uv_chart[at[1]] != chart or rest.uv_chart[at[2]] != chart or rest.uv_chart[at[3]] != chart:
        return INFINITE
    uv = rest.rest_uv
    return wp.length(combine(w, uv[at[0]], uv[at[1]], uv[at[2]], uv[at[3]]))


@wp.func
def pair_thickness(rest: RestGeometry, kind: wp.int32, at: wp.vec4i, w: vec4, max_fraction: real) -> real:
    """The thickness of a pair, at most `max_fraction` of its distance in rest uv if it is in one uv chart."""
    return wp.min(mean_thickness(rest, kind, at), max_fraction * rest_distance(rest, at, w))
