"""What kernels know of a solid: where it is at both ends of a step, and what they find when they ask for its surface.

A solid's shape is described in its own frame, whatever its motion:

    x = R p + o,    v = v_o + w x (x - o) + R (velocity of the material in its own frame)

Every collider gives four functions in that frame (toile/colliders/base.py lists them); the rest is written once.

Symbols     p  a point in the solid's frame [m]     R, o  rotation, origin of the frame     w  angular velocity [rad/s]
"""

import warp as wp

from toile.math.types import mat33, real, vec3

# Far enough for any surface [m].
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
    drift: real  # [m]  the farthest that any point of its surface moves in its own frame during the step


@wp.struct
class Closest:
    """The nearest point of a surface, as seen from a point in the solid's frame."""

    distance: real  # [m]  negative inside; not more than the distance that was searched
    normal: vec3  # outward
    face: wp.int32  # which triangle or part; 0 where there is but one
    velocity: vec3  # [m/s]  of the material there, in the solid's frame
    pinched: wp.int32  # 1 where two parts of the solid hold the point between them


@wp.struct
class MaterialPoint:
    """A point that moves with the material of a solid, at the end of a step, in the solid's frame."""

    point: vec3
    normal: vec3
    velocity: vec3


@wp.func
def start_frame(pose: Pose, x: vec3) -> vec3:
    """World to the solid's frame at the start of the step."""
    return wp.transpose(pose.R_start) * (x - pose.o_start)


@wp.func
def end_frame(pose: Pose, x: vec3) -> vec3:
    """World to the solid's frame at the end of the step."""
    return wp.transpose(pose.R) * (x - pose.o)


@wp.func
def end_world(pose: Pose, p: vec3) -> vec3:
    """The solid's frame at the end of the step to the world."""
    return pose.R * p + pose.o


@wp.func
def end_velocity(pose: Pose, p: vec3, velocity: vec3) -> vec3:
    """Velocity in the world, at the end of the step, of material at p that moves so in the solid's frame."""
    return pose.v + wp.cross(pose.w, pose.R * p) + pose.R * velocity
