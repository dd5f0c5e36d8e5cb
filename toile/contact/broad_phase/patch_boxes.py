"""Moving boxes of all patches and of their elements, for one search of the broad phase.

Source      none
Symbols     x, x_end  positions at the start and end of a step [m]     reach  margin of a vertex around its motion [m]
Deviations  none
"""

from itertools import pairwise

import warp as wp

from toile.contact.broad_phase.boxes import MovingBox, hull, inflated, point_box, rounded_down, rounded_up
from toile.contact.broad_phase.patches import Patches
from toile.math.types import real, vec3


@wp.struct
class PatchBoxes:
    """Boxes of patches and elements, and the hulls of the patches for the tree; entries are those of the patches."""

    patch: wp.array(dtype=MovingBox)
    vertex: wp.array(dtype=MovingBox)
    edge: wp.array(dtype=MovingBox)
    triangle: wp.array(dtype=MovingBox)
    elements: wp.array(dtype=MovingBox)  # vertices, then edges, then triangles: the same memory
    lower: wp.array(dtype=wp.vec3f)  # of the motion of a patch, rounded outwards
    upper: wp.array(dtype=wp.vec3f)


def allocate_boxes(patch_count: int, ends: list[int], device: str) -> PatchBoxes:
    """`ends` are those of vertices, edges and triangles in `elements`, after a 0."""
    boxes = PatchBoxes()
    boxes.patch = wp.empty(patch_count, dtype=MovingBox, device=device)
    boxes.elements = elements = wp.empty(ends[-1], dtype=MovingBox, device=device)
    none = wp.empty(0, dtype=MovingBox, device=device)
    boxes.vertex, boxes.edge, boxes.triangle = (
        elements[begin:end] if end > begin else none for begin, end in pairwise(ends)
    )
    boxes.lower, boxes.upper = (wp.zeros(patch_count, dtype=wp.vec3f, device=device) for _ in range(2))
    return boxes


@wp.kernel
def make_boxes(
    # model
    first: wp.int32, patches: Patches,
    # in
    selected: wp.array(dtype=wp.int32), x: wp.array(dtype=vec3), x_end: wp.array(dtype=vec3),
    reach: wp.array(dtype=real), reach_end: wp.array(dtype=real),
    # out
    active_out: wp.array(dtype=wp.int32), boxes_out: PatchBoxes,
):  # fmt: skip
    """Updates the boxes of patches with selected vertices, and of the elements in them."""
    p = first + wp.tid()
    active = int(0)
    for entry in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        active += selected[patches.vertex[entry]]
    for entry in range(patches.edge_start[p], patches.edge_start[p + 1]):
        e = patches.edges[patches.edge[entry]]
        active += selected[e[0]] + selected[e[1]]
    for entry in range(patches.triangle_start[p], patches.triangle_start[p + 1]):
        t = patches.triangles[patches.triangle[entry]]
        active += selected[t[0]] + selected[t[1]] + selected[t[2]]
    active_out[p] = active
    if active == 0:
        return
    inside = patches.vertex[patches.vertex_start[p]]
    patch = point_box(x[inside], x_end[inside])
    for entry in range(patches.vertex_start[p], patches.vertex_start[p + 1]):
        i = patches.vertex[entry]
        box = inflated(point_box(x[i], x_end[i]), reach[i], reach_end[i])
        boxes_out.vertex[entry] = box
        patch = hull(patch, box)
    for entry in range(patches.edge_start[p], patches.edge_start[p + 1]):
        e = patches.edges[patches.edge[entry]]
        i, j = e[0], e[1]
        ends = hull(point_box(x[i], x_end[i]), point_box(x[j], x_end[j]))
        box = inflated(ends, wp.max(reach[i], reach[j]), wp.max(reach_end[i], reach_end[j]))
        boxes_out.edge[entry] = box
        patch = hull(patch, box)
    for entry in range(patches.triangle_start[p], patches.triangle_start[p + 1]):
        t = patches.triangles[patches.triangle[entry]]
        i, j, k = t[0], t[1], t[2]
        corners = hull(point_box(x[i], x_end[i]), hull(point_box(x[j], x_end[j]), point_box(x[k], x_end[k])))
        box = inflated(
            corners,
            wp.max(reach[i], wp.max(reach[j], reach[k])),
            wp.max(reach_end[i], wp.max(reach_end[j], reach_end[k])),
        )
        boxes_out.triangle[entry] = box
        patch = hull(patch, box)
    boxes_out.patch[p] = patch
    boxes_out.lower[p] = rounded_down(wp.min(patch.lower, patch.lower_end))
    boxes_out.upper[p] = rounded_up(wp.max(patch.upper, patch.upper_end))
