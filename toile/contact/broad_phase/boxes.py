"""Bounding boxes of elements that move during a step, and a test whether two of them overlap at some instant.

    box at the start = hull of x of the element's vertices, grown by the largest reach of these; at the end, of x_end
    in between it moves linearly: lower(t) = (1 - t) lower(0) + t lower(1), and likewise upper(t)

Each vertex moves along a straight line, so that at every instant the box holds its element. Two boxes overlap for those
t in 0..1 that satisfy six linear inequalities. Trees are in single precision; their boxes are rounded outwards.

Source      [BFA02] sec. 6: boxes over the motion of a step, grown by the thickness
Symbols     x, x_end  positions at the start and end of a step [m]     reach  margin of a vertex around its motion [m]
Deviations  Boxes move, where the paper has hulls of the motion.
"""

import warp as wp

from toile.math.types import precision, real, vec3

# Instants that differ by less count as one, so that rounding separates no boxes.
TIME_TOLERANCE = wp.constant(real(1e-12 if precision == "double" else 1e-6))
# Relative and absolute margin for rounding to single precision: more than half a unit in the last place, and more than
# the smallest normal number.
RELATIVE, ABSOLUTE = wp.constant(real(2.0**-23)), wp.constant(real(1e-37))


@wp.struct
class MovingBox:
    """An axis-aligned box at the start of a step and at its end."""

    lower: vec3
    upper: vec3
    lower_end: vec3
    upper_end: vec3


@wp.func
def rounded_down(p: vec3) -> wp.vec3f:
    """A point in single precision that is certainly not above p."""
    return wp.vec3f(p - RELATIVE * wp.abs(p) - vec3(ABSOLUTE, ABSOLUTE, ABSOLUTE))


@wp.func
def rounded_up(p: vec3) -> wp.vec3f:
    """A point in single precision that is certainly not below p."""
    return wp.vec3f(p + RELATIVE * wp.abs(p) + vec3(ABSOLUTE, ABSOLUTE, ABSOLUTE))


@wp.func
def point_box(x: vec3, x_end: vec3) -> MovingBox:
    """The box of a single vertex."""
    box = MovingBox()
    box.lower = x
    box.upper = x
    box.lower_end = x_end
    box.upper_end = x_end
    return box


@wp.func
def hull(a: MovingBox, b: MovingBox) -> MovingBox:
    """The smallest moving box around two."""
    box = MovingBox()
    box.lower = wp.min(a.lower, b.lower)
    box.upper = wp.max(a.upper, b.upper)
    box.lower_end = wp.min(a.lower_end, b.lower_end)
    box.upper_end = wp.max(a.upper_end, b.upper_end)
    return box


@wp.func
def inflated(a: MovingBox, reach: real, reach_end: real) -> MovingBox:
    """A box grown on all sides by `reach` at the start and `reach_end` at the end."""
    box = MovingBox()
    r, r_end = vec3(reach, reach, reach), vec3(reach_end, reach_end, reach_end)
    box.lower = a.lower - r
    box.upper = a.upper + r
    box.lower_end = a.lower_end - r_end
    box.upper_end = a.upper_end + r_end
    return box


@wp.func
def overlap(a: MovingBox, b: MovingBox) -> bool:
    """Whether two boxes overlap at some instant: the last axis to close does so before the first to open."""
    zero = real(0.0)
    from_t, to_t = real(0.0), real(1.0)
    for k in range(3):
        apart, apart_end = a.lower[k] - b.upper[k], a.lower_end[k] - b.upper_end[k]
        if apart > zero:
            if apart_end > zero:
                return False
            from_t = wp.max(from_t, apart / (apart - apart_end))
        elif apart_end > zero:
            to_t = wp.min(to_t, apart / (apart - apart_end))
        apart, apart_end = b.lower[k] - a.upper[k], b.lower_end[k] - a.upper_end[k]
        if apart > zero:
            if apart_end > zero:
                return False
            from_t = wp.max(from_t, apart / (apart - apart_end))
        elif apart_end > zero:
            to_t = wp.min(to_t, apart / (apart - apart_end))
    return from_t <= to_t + TIME_TOLERANCE


@wp.func
def overlap_at(boxes: wp.array(dtype=MovingBox), i: wp.int32, j: wp.int32) -> bool:
    """The same test as `overlap`, for boxes i and j of an array, on a GPU.

    It reads the boxes number by number: most pairs are separated along the first axis, and with whole boxes the kernel
    takes 255 registers, so that only an eighth of the threads of a multiprocessor are resident. On the CPU `overlap` is
    faster, because one of the boxes is read once for many tests.
    """
    zero = real(0.0)
    from_t, to_t = real(0.0), real(1.0)
    k = int(0)
    while k < 6:  # both directions of each axis
        axis = k >> 1
        a, b = wp.where(k & 1 == 0, i, j), wp.where(k & 1 == 0, j, i)
        apart = boxes[a].lower[axis] - boxes[b].upper[axis]
        apart_end = boxes[a].lower_end[axis] - boxes[b].upper_end[axis]
        if apart > zero:
            if apart_end > zero:
                return False
            from_t = wp.max(from_t, apart / (apart - apart_end))
        elif apart_end > zero:
            to_t = wp.min(to_t, apart / (apart - apart_end))
        k += 1
    return from_t <= to_t + TIME_TOLERANCE
