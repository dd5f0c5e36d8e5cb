"""Queries of level sets in kernels: distance, normal, velocity and material points of the union of all parts.

The formulas are in toile/colliders/level_set.py, the fields of single parts in toile/colliders/_level_set_field.py.
"""

import warp as wp

from toile.colliders._level_set_field import NO_GRADIENT, Field, FieldSample, box_distance, evaluate, evaluate_vector
from toile.colliders.base import Functions, sweep_by_distance
from toile.math.solid import Closest, MaterialPoint
from toile.math.types import mat33, real, vec3

# Fixed-point iterations for the material point in the pose of a field.
TRACES = wp.constant(2)
BEYOND = wp.constant(real(1e30))


@wp.struct
class PartShape:
    """One part: its frame within the solid at both ends of the step, and its interpolation between two fields."""

    R_start: mat33
    R: mat33
    o: vec3
    v: vec3  # [m/s]
    w: vec3  # [rad/s]
    moves: wp.int32  # 1: v, w or velocities in its frame are not zero
    deforms: wp.int32
    share: real  # weight of the second field
    drift: real  # [m]  largest displacement of the surface since the pose of the first field
    next_drift: real  # [m]  the same for the second field


@wp.struct
class LevelSetShape:
    """Part k has the fields 2 k and 2 k + 1: those of the keyframes around the current time, or twice the same."""

    parts: wp.array(dtype=PartShape)
    fields: wp.array(dtype=Field)
    pinch_margin: real


@wp.func
def reference_position(fields: wp.array(dtype=Field), f: wp.int32, p: vec3) -> vec3:
    """Returns the position of the material at p in the pose of the field."""
    y = vec3(p)
    for _ in range(TRACES):
        y = p - evaluate_vector(fields, f, fields[f].far_move, fields[f].near_move, y)
    return y


@wp.func
def velocity_at(fields: wp.array(dtype=Field), f: wp.int32, y: vec3) -> vec3:
    """Returns the velocity of the material that was at y in the pose of the field."""
    return evaluate_vector(fields, f, fields[f].far_velocity, fields[f].near_velocity, y)


@wp.func
def evaluate_deforming(shape: LevelSetShape, k: wp.int32, p: vec3) -> FieldSample:
    """Evaluates distance, gradient and velocity in the frame of a part that deforms."""
    one, two = 2 * k, 2 * k + 1
    y = reference_position(shape.fields, one, p)
    sample = evaluate(shape.fields, one, y)
    sample.velocity = velocity_at(shape.fields, one, y)
    s = shape.parts[k].share
    following = sample
    if s > real(0.0):
        y = reference_position(shape.fields, two, p)
        following = evaluate(shape.fields, two, y)
        following.velocity = velocity_at(shape.fields, two, y)
    sure = sample.near * following.near
    nearer = wp.min(sample.distance, following.distance)
    sample.distance = (real(1.0) - s) * sample.distance + s * following.distance
    sample.gradient = (real(1.0) - s) * sample.gradient + s * following.gradient
    sample.velocity = (real(1.0) - s) * sample.velocity + s * following.velocity
    if sure == 0 and nearer > real(0.0):
        # Far away: the surface cannot be closer than it was, minus its displacement since.
        at_least = wp.max(
            evaluate(shape.fields, one, p).distance - shape.parts[k].drift,
            evaluate(shape.fields, two, p).distance - shape.parts[k].next_drift,
        )
        sample.distance = wp.where(at_least > real(0.0), at_least, nearer)
    return sample


@wp.func
def material_velocity(shape: LevelSetShape, k: wp.int32, p: vec3) -> vec3:
    """Returns the velocity of the material at p in the part's frame."""
    if shape.parts[k].deforms == 0:
        return vec3()
    f, s = shape.fields, shape.parts[k].share
    one, two = 2 * k, 2 * k + 1
    v = velocity_at(f, one, reference_position(f, one, p))
    if s > real(0.0):
        v = (real(1.0) - s) * v + s * velocity_at(f, two, reference_position(f, two, p))
    return v


@wp.func
def velocity_in_solid(shape: LevelSetShape, k: wp.int32, p: vec3, velocity: vec3) -> vec3:
    """Returns the velocity in the solid's frame of material at p with a velocity in the part's frame."""
    R = shape.parts[k].R
    return shape.parts[k].v + wp.cross(shape.parts[k].w, R * p) + R * velocity


@wp.func
def outward_direction(shape: LevelSetShape, k: wp.int32, p: vec3) -> vec3:
    """Returns the direction away from the center of the part: the normal where the gradient vanishes."""
    arm = p - real(0.5) * (shape.fields[2 * k].surface_low + shape.fields[2 * k].surface_high)
    length = wp.length(arm)
    if length > NO_GRADIENT:
        return arm / length
    return vec3(real(0.0), real(0.0), real(1.0))


@wp.func
def attach(shape: LevelSetShape, p: vec3, face: wp.int32) -> vec3:
    """Returns p in the frame of its part."""
    return wp.transpose(shape.parts[face].R) * (p - shape.parts[face].o)


@wp.func
def closest(shape: LevelSetShape, p: vec3, reach: real) -> Closest:
    found = Closest()
    found.distance = BEYOND
    other = real(found.distance)
    other_normal = vec3()
    for k in range(shape.parts.shape[0]):
        R = shape.parts[k].R
        q = wp.transpose(R) * (p - shape.parts[k].o)
        low, high = shape.fields[2 * k].surface_low, shape.fields[2 * k].surface_high
        if k > 0 and box_distance(low, high, q) - shape.parts[k].drift > wp.max(found.distance, shape.pinch_margin):
            continue
        sample = FieldSample()
        if shape.parts[k].deforms == 0:  # noqa: SIM108  in a kernel the conditional expression evaluates both
            sample = evaluate(shape.fields, 2 * k, q)
        else:
            sample = evaluate_deforming(shape, k, q)
        length = wp.length(sample.gradient)
        normal = (real(1.0) / wp.max(length, NO_GRADIENT)) * (R * sample.gradient)
        if length <= NO_GRADIENT:
            normal = R * outward_direction(shape, k, q)
        if sample.distance < found.distance:
            other = found.distance
            other_normal = found.normal
            found.distance = sample.distance
            found.normal = normal
            found.face = k
            found.velocity = sample.velocity
        elif sample.distance < other:
            other = sample.distance
            other_normal = normal
    if other < real(0.0) or (
        wp.max(found.distance, other) < shape.pinch_margin and wp.dot(found.normal, other_normal) < real(0.0)
    ):
        found.pinched = 1
    if shape.parts[found.face].moves != 0:
        surface = attach(shape, p - found.distance * found.normal, found.face)
        found.velocity = velocity_in_solid(shape, found.face, surface, found.velocity)
    return found


@wp.func
def material(shape: LevelSetShape, anchor: vec3, face: wp.int32, normal: vec3, h: real) -> MaterialPoint:
    """Moves with the part, and with its surface if that deforms: by the velocity of the material on arrival."""
    found = MaterialPoint()
    velocity = material_velocity(shape, face, anchor)
    velocity = material_velocity(shape, face, anchor + h * velocity)
    q = anchor + h * velocity
    R = shape.parts[face].R
    found.point = R * q + shape.parts[face].o
    found.velocity = velocity_in_solid(shape, face, q, velocity)
    found.normal = R * (wp.transpose(shape.parts[face].R_start) * normal)
    if shape.parts[face].deforms != 0:
        gradient = evaluate_deforming(shape, face, q).gradient
        if wp.length(gradient) > NO_GRADIENT:
            found.normal = R * wp.normalize(gradient)
    return found


FUNCTIONS = Functions(LevelSetShape, closest, attach, material, sweep_by_distance(LevelSetShape, closest))
