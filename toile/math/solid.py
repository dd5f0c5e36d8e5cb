"""Data of solids in kernels: the pose at both ends of a step, and the result of a closest point query.

A solid's shape is described in its own frame, whatever its motion:

    x = R p + o,    v = v_o + w x (x - o) + R (velocity of the material in its own frame)

Every collider provides four functions in that frame (listed in toile/colliders/base.py).

Symbols     p  a point in the solid's frame [m]     R, o  rotation, origin of the frame     w  angular velocity [rad/s]
"""

import warp as wp

from toile.math.types import mat33, real, vec3

# Search distance that reaches any surface [m].
ANYWHERE = wp.constant(real(1.0e6))


@wp.struct
class Pose:
    """A solid's frame at the start and at the end of a step."""

    R_start: mat33
    o_start: vec3
    R: mat33
    o: vec3
    v: vec3  # [m/s]  of the origin at the end
    w: vec3  # [rad/s]  at the end
    drift: real  # [m]  largest displacement of its surface in its own frame during the step


@wp.struct
class Closest:
    """Closest point of a surface to a query point in the solid's frame."""

    distance: real  # [m]  negative inside; at most the search distance
    normal: vec3  # outward
    face: wp.int32  # triangle or part; 0 if there is only one
    velocity: vec3  # [m/s]  of the material there, in the solid's frame
    pinched: wp.int32  # 1 if the point is pinched between two parts of the solid


@wp.struct
class MaterialPoint:
    """A point that moves with the material of a solid: its state at the end of a step, in the solid's frame."""

    point: vec3
    normal: vec3
    velocity: vec3


@wp.func
def start_frame(pose: Pose, x: vec3) -> vec3:
    """Converts world coordinates to the solid's frame at the start of the step."""
    return wp.transpose(pose.R_start) * (x - pose.o_start)


@wp.func
def end_frame(pose: Pose, x: vec3) -> vec3:
    """Converts world coordinates to the solid's frame at the end of the step."""
    return wp.transpose(pose.R) * (x - pose.o)


@wp.func
def end_world(pose: Pose, p: vec3) -> vec3:
    """Converts coordinates in the solid's frame at the end of the step to world coordinates."""
    return pose.R * p + pose.o


@wp.func
def end_velocity(pose: Pose, p: vec3, velocity: vec3) -> vec3:
    """Returns the world velocity, at the end of the step, of material at p with a velocity in the solid's frame."""
    return pose.v + wp.cross(pose.w, pose.R * p) + pose.R * velocity
