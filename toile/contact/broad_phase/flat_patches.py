"""Flat parts of a sheet, in which nothing is close and nothing collides: pairs of patches in them need no search.

    W = (dx/du, dx/dv),    J = E^T W,    least eigenvalue of (J + J^T) / 2 >= m    for all triangles of a region
    implies                |x_a - x_b| >= |E^T (x_a - x_b)| >= m |uv_a - uv_b|     for all points of the region

The reason is that (uv_a - uv_b) . E^T (x_a - x_b) is the integral of (uv_a - uv_b) . J (uv_a - uv_b) along the line in
uv between them; so the region must be convex, and cloth must be there once (flat_regions.py). J changes linearly in a
step, and so does the bound: if it holds at both ends with the same E, it holds in between.

The region of two patches is the box in uv around both, without what lies beyond the border of the cloth. Each patch has
a frame E of its own and its own bound m, so that a step looks at every triangle once. In the frame F of another patch
the bound is

    m - |F^T E - I| |J| - |F^T n| |n^T W|

Ends that may still move by `slack` change W by at most slack times the sum of the triangle's |weights|.

Source      none; culling by the curvature of patches is from Volino and Magnenat-Thalmann 1994, "Efficient
            self-collision detection on smoothly discretized surface animations using geometrical shape regularity"
Symbols     E, n  orthonormal frame, 3 x 2, and its normal     W  images of the unit u, v directions [-]
            m  least stretch [-]
Deviations  The paper tests normals, and contours separately; one number of the deformation replaces both.
"""

import numpy as np
import warp as wp

from toile.contact.broad_phase.flat_regions import Boxes, find_regions
from toile.contact.broad_phase.patches import Patches
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.math.types import TINY, numpy_real, real, vec3, vec4

# Least stretch in a flat region where the step begins: no pair is closer there than this fraction of its distance at
# rest, which is more than the half of it that contact keeps (narrow_phase/contact_set.py). And at the end, where it
# must only be certain that nothing collides.
FLAT, FLAT_AT_END = 0.55, 0.2
# What a search leaves out should be flat where the next step begins, too, or it is searched then. So a search asks for
# a least stretch at the end, too, which is larger by LASTING; with IGNORED there is no such demand.
LASTING, IGNORED = 0.05, -1e30
LEAST_STRETCH, LEAST_STRETCH_AT_END = wp.constant(real(FLAT)), wp.constant(real(FLAT_AT_END))


@wp.struct
class Regions:
    """The patches around each patch: entries start[p] to start[p + 1]."""

    nearby_start: wp.array(dtype=wp.int32)
    nearby: wp.array(dtype=wp.int32)  # patches with triangles in its box, grown; none if that is not convex
    inside_start: wp.array(dtype=wp.int32)
    inside: wp.array(dtype=wp.int32)  # patches that lie in there as a whole
    box: wp.array(dtype=vec4)  # [m]  of each patch in uv: lower corner, upper corner
    triangles_box: wp.array(dtype=vec4)  # [m]  of its triangles
    per_uv: wp.array(dtype=vec4)  # [1/m]  per triangle: W from its edges from corner 0


@wp.struct
class Flatness:
    """How flat each patch is in a step."""

    u: wp.array(dtype=vec3)  # the frame E
    v: wp.array(dtype=vec3)
    least: wp.array(dtype=real)  # m at the start, and where the next step begins
    least_at_end: wp.array(dtype=real)
    size: wp.array(dtype=real)  # upper bound of |J|
    rise: wp.array(dtype=real)  # upper bound of |n^T W|
    # Per entry of `inside`: whether the pair has been left out since the last search of all.
    left_out: wp.array(dtype=wp.int32)


class FlatPatches:
    """Finds the patches whose regions are flat."""

    def __init__(
        self, patches: Patches, of_vertex: np.ndarray, edges: np.ndarray, triangles: np.ndarray, uv: np.ndarray,
        chart: np.ndarray, device: str,
    ):  # fmt: skip
        """`uv` [m] and `chart` are the rest position and the chart of each vertex, -1 where it has none."""
        count = int(of_vertex.max(initial=-1)) + 1
        self._patches, self._patch_count = patches, count
        boxes = Boxes.of(count, of_vertex, edges, triangles, uv)
        nearby, inside = find_regions(boxes, of_vertex, triangles, uv, chart)
        self.regions, self.flatness = Regions(), Flatness()
        for name, rows in (("nearby", nearby), ("inside", inside)):
            setattr(self.regions, f"{name}_start", wp.array(rows.indptr, dtype=wp.int32, device=device))
            setattr(self.regions, name, wp.array(rows.indices, dtype=wp.int32, device=device))
        for name, corners in (
            ("box", (boxes.lower, boxes.upper)),
            ("triangles_box", (boxes.triangles_lower, boxes.triangles_upper)),
        ):
            box = np.concatenate(corners, axis=1).astype(numpy_real)
            setattr(self.regions, name, wp.array(box, dtype=vec4, device=device))
        per_uv = inverse_of_uv(triangles, uv).astype(numpy_real)
        self.regions.per_uv = wp.array(per_uv, dtype=vec4, device=device)
        self.flatness.u, self.flatness.v = (wp.zeros(count, dtype=vec3, device=device) for _ in range(2))
        for name in ("least", "least_at_end", "size", "rise"):
            setattr(self.flatness, name, wp.zeros(count, dtype=real, device=device))
        self.flatness.left_out = wp.zeros(len(inside.indices), dtype=wp.int32, device=device)
        self.any = len(inside.indices) > 0
        self._bent_count = wp.zeros(1, dtype=wp.int32, device=device)
        self._readback = Readback(self._bent_count)
        self._launch = Launcher(device)

    def measure(self, active: wp.array, x: wp.array, x_end: wp.array, slack: float, all_again: bool) -> None:
        """Measures the `active` patches for a search; with `all_again` no pairs have been left out before."""
        if not self.any:
            return
        if all_again:
            self.flatness.left_out.zero_()
        self._measure(active, x, x_end, slack, LASTING)

    def find_bent(self, active: wp.array, x: wp.array, x_end: wp.array, slack: float, bent_out: wp.array) -> int:
        """Marks the vertices of patches whose pairs have been left out, and are not flat in a step that begins at x;
        returns the number of vertices that it marked."""
        if not self.any:
            return 0
        self._measure(active, x, x_end, slack, IGNORED)
        self._bent_count.zero_()
        inputs = [self._patches, self.regions, self.flatness, bent_out, self._bent_count]
        self._launch(mark_bent, self._patch_count, inputs)
        return int(self._readback()[0])

    def _measure(self, active: wp.array, x: wp.array, x_end: wp.array, slack: float, lasting: float) -> None:
        inputs = [self._patches, self.regions.per_uv, active, x, x_end, slack, lasting, self.flatness]
        self._launch.split(measure, self._patch_count, inputs, 64)


def inverse_of_uv(triangles: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """Returns a, b, c, d of each triangle: dx/du = a e_1 + b e_2 and dx/dv = c e_1 + d e_2 for its edges e_1, e_2 from
    corner 0; zeros for triangles without an area."""
    first, second = (uv[triangles[:, k]] - uv[triangles[:, 0]] for k in (1, 2))
    twice_area = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    safe = np.where(twice_area == 0.0, np.inf, twice_area)
    return np.stack([second[:, 1], -first[:, 1], -second[:, 0], first[:, 0]], axis=1) / safe[:, None]


@wp.func
def least_stretch(e_u: vec3, e_v: vec3, w_u: vec3, w_v: vec3) -> real:
    """The least eigenvalue of (J + J^T) / 2."""
    a, d = wp.dot(e_u, w_u), wp.dot(e_v, w_v)
    b = real(0.5) * (wp.dot(e_u, w_v) + wp.dot(e_v, w_u))
    half = real(0.5) * (a - d)
    return real(0.5) * (a + d) - wp.sqrt(half * half + b * b)


@wp.func
def squared(e: vec3, w_u: vec3, w_v: vec3) -> real:
    """|e^T W|^2."""
    u, v = wp.dot(e, w_u), wp.dot(e, w_v)
    return u * u + v * v


@wp.func
def squared_norm(a: real, b: real, d: real) -> real:
    """The largest eigenvalue of a symmetric matrix: for A^T A the square of the norm of A."""
    half = real(0.5) * (a - d)
    return real(0.5) * (a + d) + wp.sqrt(half * half + b * b)


@wp.func
def squared_stretch(w_u: vec3, w_v: vec3) -> real:
    """|W|^2, which is no less than |J|^2."""
    return squared_norm(wp.length_sq(w_u), wp.dot(w_u, w_v), wp.length_sq(w_v))


@wp.func
def loss_in_frame(p: wp.int32, q: wp.int32, flatness: Flatness) -> real:
    """How much less than its own bound that of patch q is in the frame of patch p."""
    p_u, p_v, q_u, q_v = flatness.u[p], flatness.v[p], flatness.u[q], flatness.v[q]
    n = wp.cross(q_u, q_v)
    a, b = wp.dot(p_u, q_u) - real(1.0), wp.dot(p_u, q_v)
    c, d = wp.dot(p_v, q_u), wp.dot(p_v, q_v) - real(1.0)
    turned = wp.sqrt(squared_norm(a * a + c * c, a * b + c * d, b * b + d * d))
    up = wp.sqrt(squared(n, p_u, p_v))
    return turned * flatness.size[q] + up * flatness.rise[q]


@wp.kernel
def measure(
    # model
    first: wp.int32, patches: Patches, per_uv: wp.array(dtype=vec4),
    # in
    active: wp.array(dtype=wp.int32), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3), slack: real, lasting: real,
    # in and out
    flatness_out: Flatness,
):  # fmt: skip
    """Finds the frame of each active patch at the start, and its least stretch at both ends."""
    p = first + wp.tid()
    if active[p] == 0:
        return
    begin, end = patches.triangle_start[p], patches.triangle_start[p + 1]
    sum_u, sum_v = vec3(), vec3()
    for entry in range(begin, end):
        t = patches.triangle[entry]
        c = patches.triangles[t]
        k = per_uv[t]
        e_1, e_2 = x[c[1]] - x[c[0]], x[c[2]] - x[c[0]]
        sum_u += k[0] * e_1 + k[1] * e_2
        sum_v += k[2] * e_1 + k[3] * e_2
    # The frame closest to the mean directions: both are rotated by the same angle until they are perpendicular.
    mean_u, mean_v = wp.normalize(sum_u), wp.normalize(sum_v)
    half, other = wp.normalize(mean_u + mean_v), wp.normalize(mean_u - mean_v)
    e_u, e_v = wp.normalize(half + other), wp.normalize(half - other)
    n = wp.cross(e_u, e_v)
    least, least_at_end, size, rise = real(1e30), real(1e30), real(0.0), real(0.0)
    for entry in range(begin, end):
        t = patches.triangle[entry]
        c = patches.triangles[t]
        k = per_uv[t]
        e_1, e_2 = x[c[1]] - x[c[0]], x[c[2]] - x[c[0]]
        w_u, w_v = k[0] * e_1 + k[1] * e_2, k[2] * e_1 + k[3] * e_2
        least = wp.min(least, least_stretch(e_u, e_v, w_u, w_v))
        rise = wp.max(rise, squared(n, w_u, w_v))
        size = wp.max(size, squared_stretch(w_u, w_v))
        e_1, e_2 = x_end[c[1]] - x_end[c[0]], x_end[c[2]] - x_end[c[0]]
        w_u, w_v = k[0] * e_1 + k[1] * e_2, k[2] * e_1 + k[3] * e_2
        sum_of_u = wp.abs(k[0]) + wp.abs(k[1]) + wp.abs(k[0] + k[1])
        sum_of_v = wp.abs(k[2]) + wp.abs(k[3]) + wp.abs(k[2] + k[3])
        change = slack * wp.sqrt(sum_of_u * sum_of_u + sum_of_v * sum_of_v)
        found = least_stretch(e_u, e_v, w_u, w_v)
        least = wp.min(least, found - lasting)
        least_at_end = wp.min(least_at_end, found - change)
        rise = wp.max(rise, squared(n, w_u, w_v))
        size = wp.max(size, squared_stretch(w_u, w_v))
    flatness_out.u[p] = e_u
    flatness_out.v[p] = e_v
    flatness_out.least[p] = least
    flatness_out.least_at_end[p] = least_at_end
    flatness_out.size[p] = wp.sqrt(size)
    flatness_out.rise[p] = wp.sqrt(rise)


@wp.func
def is_flat(p: wp.int32, q: wp.int32, regions: Regions, flatness: Flatness) -> wp.bool:
    """Whether the region of the patches p and q, which lies inside that of p, is flat in the frame of p."""
    a, b = regions.box[p], regions.box[q]
    flat = flatness.size[p] > TINY
    entry, end = int(0) + regions.nearby_start[p], regions.nearby_start[p + 1]
    while flat and entry < end:
        r = regions.nearby[entry]
        c = regions.triangles_box[r]
        along = c[0] <= wp.max(a[2], b[2]) and c[2] >= wp.min(a[0], b[0])
        if along and c[1] <= wp.max(a[3], b[3]) and c[3] >= wp.min(a[1], b[1]):
            loss = loss_in_frame(p, r, flatness)
            at_end = flatness.least_at_end[r] - loss >= LEAST_STRETCH_AT_END
            flat = at_end and flatness.least[r] - loss >= LEAST_STRETCH  # not, if a number is not finite
        entry += 1
    return flat


@wp.func
def entry_of(p: wp.int32, q: wp.int32, regions: Regions) -> wp.int32:
    """The entry of patch q among those inside the region of p; -1 if it is none of them."""
    found = int(-1)
    for entry in range(regions.inside_start[p], regions.inside_start[p + 1]):
        if regions.inside[entry] == q:
            found = entry
    return found


@wp.func
def leave_out(p: wp.int32, q: wp.int32, regions: Regions, flatness: Flatness) -> wp.bool:
    """Whether two patches lie in a flat part of the sheet, seen from the first one that has the other in its region;
    remembers that."""
    entry = entry_of(p, q, regions)
    flat = bool(False)
    if entry >= 0:
        flat = is_flat(p, q, regions, flatness)
    else:
        entry = entry_of(q, p, regions)
        if entry >= 0:
            flat = is_flat(q, p, regions, flatness)
    if flat:
        flatness.left_out[entry] = 1
    return flat


@wp.func
def mark_patch(p: wp.int32, patches: Patches, bent_out: wp.array(dtype=wp.int32)) -> wp.int32:
    """Marks the vertices of a patch, and returns the number of those that were not marked."""
    count = int(0)
    for entry in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        if wp.atomic_max(bent_out, patches.vertex[entry], 1) == 0:
            count += 1
    return count


@wp.kernel
def mark_bent(
    # model
    patches: Patches, regions: Regions,
    # in
    flatness: Flatness,
    # out
    bent_out: wp.array(dtype=wp.int32), count_out: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Marks the vertices of pairs of patches that have been left out and are not flat any more."""
    p = wp.tid()
    for entry in range(regions.inside_start[p], regions.inside_start[p + 1]):
        q = regions.inside[entry]
        if flatness.left_out[entry] != 0 and not is_flat(p, q, regions, flatness):
            wp.atomic_add(count_out, 0, mark_patch(p, patches, bent_out) + mark_patch(q, patches, bent_out))
